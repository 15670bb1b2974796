"""Valkey (or Redis) as Celery's transport: on loopback and a socket, with a password, append-only, never evicting."""

from __future__ import annotations

import shutil
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from infra.embedded.binaries import find_valkey
from infra.embedded.credentials import Credentials
from infra.embedded.documents import write_private
from infra.embedded.files import FarmFiles
from infra.embedded.logs import read_tail
from infra.embedded.ports import HOST, PortBook
from infra.embedded.processes import Launch
from infra.embedded.services import USUAL_ATTEMPTS, plain_environment
from infra.embedded.sockets import choose_folder, make_folder

# Valkey's and Redis's last words over data that they can't load.
_BROKEN = "Bad file format reading the append only file"

_CONFIGURATION = """\
bind {host}
port {port}
requirepass {password}
dir {folder}
daemonize no
# Its title would be written over its environment, and with it over the farm's mark.
set-proc-title no
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
tcp-keepalive 60
unixsocket {socket}
unixsocketperm 700
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Valkey:
    """The farm's one Valkey."""

    files: FarmFiles
    credentials: Credentials
    ports: PortBook

    name: str = "valkey"
    needs: tuple[str, ...] = ()
    start_timeout_s: float = 20.0
    attempts: int = USUAL_ATTEMPTS
    stop_signal: int = signal.SIGTERM
    stop_timeout_s: float = 20.0
    came_up: str = "ready"
    remark: str = ""

    @property
    def url(self) -> str:
        """The address with the password in it."""
        return f"redis://:{self.credentials.valkey}@{HOST}:{self.ports.kept(self.name)}/0"

    @property
    def socket_url(self) -> str:
        """The address for whoever is in another network namespace of this machine, as Celery writes it."""
        return f"redis+socket://:{self.credentials.valkey}@{quote(str(self._socket))}?virtual_host=0"

    @property
    def _socket(self) -> Path:
        return choose_folder(self.files) / "valkey.sock"

    def prepare(self, *, may_move: bool) -> Launch:
        """The data folder and a private configuration file are there."""
        port = self.ports.assign(self.name) if may_move else self.ports.kept(self.name)
        folder = self.files.data(self.name)
        folder.mkdir(mode=0o700, exist_ok=True)
        self._put_broken_data_aside(folder)
        make_folder(self.files)
        configuration = folder / "valkey.conf"
        words = {"folder": _quote(str(folder)), "socket": _quote(str(self._socket))}
        write_private(
            configuration, _CONFIGURATION.format(host=HOST, port=port, password=self.credentials.valkey, **words)
        )
        argv = (str(find_valkey()), str(configuration))
        return Launch(argv=argv, environment=plain_environment(), folder=folder)

    def _put_broken_data_aside(self, folder: Path) -> None:
        # What it holds may vanish at any moment, so that a farm without it is better than no farm.
        last_words = " ".join(read_tail(self.files.log(self.name)))
        if _BROKEN in last_words:
            aside = folder / "appendonlydir.broken"
            shutil.rmtree(aside, ignore_errors=True)
            with suppress(FileNotFoundError):
                (folder / "appendonlydir").rename(aside)

    def is_ready(self) -> bool:
        """Whether it answers a PING, with its data loaded."""
        return self.ask("PING") == "+PONG"

    def count_waiting(self, queue: str) -> int | None:
        """How many messages wait in `queue`; None when Valkey does not say."""
        answer = self.ask(f"LLEN {queue}")
        return int(answer[1:]) if answer and answer.startswith(":") else None

    def ask(self, command: str) -> str | None:
        """The first line of the answer to one inline command; None when none comes, or not from our server."""
        port = self.ports.kept(self.name)
        request = f"AUTH {self.credentials.valkey}\r\n{command}\r\n".encode()
        try:
            with socket.create_connection((HOST, port or 0), timeout=1.0) as connection:
                connection.sendall(request)
                with connection.makefile("rb") as answers:
                    if answers.readline().strip() != b"+OK":
                        return None
                    return answers.readline().decode("utf-8", errors="replace").strip()
        except OSError:
            return None


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
