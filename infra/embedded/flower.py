"""Flower: the view on Celery in a browser, read-only, behind a password, on loopback."""

from __future__ import annotations

import http.client
import signal
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from infra.embedded.credentials import Credentials
from infra.embedded.documents import write_private
from infra.embedded.files import FarmFiles
from infra.embedded.ports import HOST, PortBook, configured_port, is_free
from infra.embedded.processes import Launch
from infra.embedded.services import REPOSITORY, USUAL_ATTEMPTS, plain_environment

USER = "bv3"
USUAL_PORT = 5555

# Flower executes this file; on the command line `ps` would show the password to everybody.
_CONFIGURATION = """\
address = {host!r}
port = {port!r}
basic_auth = [{login!r}]
read_only = True
persistent = True
db = {db!r}
state_save_interval = 10_000
max_tasks = 10_000
# sweep and run stand in the uuid, the box is the worker, the phase is the result
tasks_columns = "name,uuid,state,result,received,runtime,worker"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flower:
    """The farm's one Flower."""

    files: FarmFiles
    credentials: Credentials
    ports: PortBook
    addresses: Callable[[], Mapping[str, str]]
    # The configuration file's path is put in the place of `{configuration}`, the port in that of `{port}`.
    argv: tuple[str, ...]

    name: str = "flower"
    needs: tuple[str, ...] = ("valkey",)
    start_timeout_s: float = 30.0
    attempts: int = USUAL_ATTEMPTS
    stop_signal: int = signal.SIGTERM
    stop_timeout_s: float = 5.0
    came_up: str = "ready"

    @property
    def remark(self) -> str:
        """Where it is, when it is not where a person looks for it."""
        port = self.ports.kept(self.name)
        if port == USUAL_PORT or configured_port(self.name) is not None:
            return ""
        return f"on port {port}" + ("" if is_free(USUAL_PORT) else f" ({USUAL_PORT} is taken)")

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://{HOST}:{self.ports.kept(self.name)}"

    def prepare(self, *, may_move: bool) -> Launch:
        """A private configuration file is there."""
        port = self.ports.assign(self.name, preferred=USUAL_PORT) if may_move else self.ports.kept(self.name)
        folder = self.files.data(self.name)
        folder.mkdir(mode=0o700, exist_ok=True)
        configuration = folder / "flowerconfig.py"
        login = f"{USER}:{self.credentials.flower}"
        write_private(
            configuration,
            _CONFIGURATION.format(host=HOST, port=port, login=login, db=str(folder / "tasks")),
        )
        return Launch(
            argv=tuple(
                word.replace("{configuration}", str(configuration)).replace("{port}", str(port)) for word in self.argv
            ),
            environment={**plain_environment(), **self.addresses()},
            folder=REPOSITORY,
        )

    def is_ready(self) -> bool:
        """Whether it answers to this farm's own login: another farm's Flower may have taken the port."""
        connection = http.client.HTTPConnection(HOST, self.ports.kept(self.name) or 0, timeout=1.0)
        login = b64encode(f"{USER}:{self.credentials.flower}".encode()).decode("ascii")
        try:
            connection.request("GET", "/api/tasks?limit=1", headers={"Authorization": f"Basic {login}"})
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
