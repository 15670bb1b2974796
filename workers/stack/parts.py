"""The parts of a stack under supervisord: made known, started, asked after, stopped.

supervisord starts each part in a group of its own, starts it again with back-off when it ends, and leaves
open what lies above its `minfds`: so the parts hold the host lock. Each part's script first records itself and
then becomes the part; it writes the log itself, since a pipe through supervisord would lag behind the product.
"""

from __future__ import annotations

import http.client
import os
import shlex
import socket
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.errors import StackError
from workers.processes import MARK, ProcessBook, kill_group
from workers.sockets import choose_socket, drop_sockets

MINFDS = 256
_KEPT = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LD_LIBRARY_PATH"}
    | {"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "SSL_CERT_FILE", "SSL_CERT_DIR"}
    | {"OPENBLAS_CORETYPE"}
)
_KEPT_PREFIXES = ("LC_", "XDG_", "FONTCONFIG_", "PLAYWRIGHT_")
# pages of the web may be reached by them alone
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
REPOSITORY = Path(__file__).resolve().parent.parent.parent
_RPC_TIMEOUT_S = 10.0
_COME_UP_TIMEOUT_S = 15.0
_POLL_S = 0.02
SOCKET = "control"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One process of a stack."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    # the name under which a restart is written into the part's log; empty: it is not
    restart_line: str = ""
    # its working folder; None: the repository
    folder: Path | None = None
    # its environment is `environment` and the box's mark, and nothing else of ours
    is_bare: bool = False


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_RPC_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(_RPC_TIMEOUT_S)
        try:
            line.connect(self._path)
        except OSError:
            line.close()
            raise
        self.sock = line


class _UnixTransport(xmlrpc.client.Transport):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._socket_path = path

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        made = _UnixConnection(self._socket_path)
        # what the base class closes at its end
        self._connection = (host, made)
        return made


class PartsTable:
    """supervisord with a stack's parts. `folder` holds its configuration, the parts' scripts and their logs."""

    def __init__(self, folder: Path, book: ProcessBook) -> None:
        self._folder = folder
        self._book = book
        self._daemon: subprocess.Popen[bytes] | None = None
        self._socket = choose_socket(folder, SOCKET)

    def log_of(self, name: str) -> Path:
        """The part's log."""
        return self._folder / f"{name}.log"

    def _script_of(self, name: str) -> Path:
        return self._folder / f"{name}.sh"

    def open(self, parts: tuple[Part, ...], *, lock_fd: int) -> None:
        """Supervisord answers and knows the parts. Raises StackError when it does not come up."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in parts:
            self.rewrite(part)
        config = self._folder / "supervisord.conf"
        config.write_text(self._render(parts), encoding="utf-8")
        with self.log_of("supervisord").open("ab") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**_clean_environment(), MARK: str(self._book.folder)},
                pass_fds=[lock_fd] if lock_fd >= 0 else [],
                start_new_session=True,
                cwd=REPOSITORY,
            )
        self._book.record("supervisord", self._daemon.pid)
        self._wait(lambda: self._try_call("getState") is not None)

    def rewrite(self, part: Part) -> None:
        """The part is started with this command line from now on."""
        self._script_of(part.name).write_text(self._write_script(part), encoding="utf-8")

    def start(self, name: str) -> None:
        """The part has been started; whether it is healthy is for its driver to find out."""
        self._call("startProcess", name, False)  # noqa: FBT003  # XML-RPC has no names

    def restart(self, name: str) -> None:
        """The part has ended, asked first and killed where that did not help, and was started again."""
        # Either is refused when supervisord is just starting it again by itself.
        self._try_call("stopProcess", name)
        self._try_call("startProcess", name, False)  # noqa: FBT003  # XML-RPC has no names

    @property
    def is_open(self) -> bool:
        """Whether supervisord was started and not yet closed."""
        return self._daemon is not None

    def is_alive(self) -> bool:
        """Whether supervisord itself lives."""
        return self._daemon is not None and self._daemon.poll() is None

    def describe(self) -> dict[str, str]:
        """The state of each part, in supervisord's words."""
        told = self._try_call("getAllProcessInfo") or []
        return {str(item["name"]): str(item["statename"]) for item in told}

    def read_tail(self, name: str, chars: int = 300) -> str:
        """The last words of a part's log."""
        try:
            text = self.log_of(name).read_text("utf-8", errors="replace").strip()
        except FileNotFoundError:
            return ""
        last = text[-chars:]
        # a line that is cut in two reads as another word; one that is longer than all of it is shown all the same
        return last if last == text else last.partition("\n")[2] or last

    def close(self) -> None:
        """Every part and supervisord itself have ended."""
        if self._daemon is None:
            return
        if self.is_alive():
            self._try_call("stopAllProcesses", True)  # noqa: FBT003  # XML-RPC has no names
        # It looks at its signals once a second only, and has nothing left to do.
        kill_group(self._daemon.pid)
        self._daemon.wait()
        self._daemon = None
        drop_sockets(self._folder, SOCKET)

    def _write_script(self, part: Part) -> str:
        log = shlex.quote(str(self.log_of(part.name)))
        lines = [
            f"cd {shlex.quote(str(part.folder or REPOSITORY))} 2>>{log} || exit 1",
            self._book.say_in_shell(part.name, part.argv, self._script_of(part.name)),
            # not by `env`, whose own command line would be another one for a moment
            *(f"export {name}={shlex.quote(value)}" for name, value in part.environment.items()),
            # what a shell adds by itself
            *(["unset PWD OLDPWD SHLVL _"] if part.is_bare else []),
            f"exec {shlex.join(part.argv)} >>{log} 2>&1",
        ]
        if part.restart_line:
            said = f'echo "[stack] {part.restart_line} RESTARTED at $(date +%H:%M:%S)" >>{log}'
            lines.insert(0, f"if {self._book.tells_in_shell(part.name)}; then {said}; fi")
        return "\n".join(["#!/bin/sh", *lines]) + "\n"

    def _describe_shell(self, part: Part) -> tuple[str, ...]:
        """What runs the part's script: before it has recorded itself it is nothing's process but supervisord's."""
        shell = ("/bin/sh", str(self._script_of(part.name)))
        if not part.is_bare:
            return shell
        return ("/usr/bin/env", "-i", f"PATH={os.defpath}", f"{MARK}={self._book.folder}", *shell)

    def _render(self, parts: tuple[Part, ...]) -> str:
        lines = [
            "[supervisord]",
            "nodaemon=true",
            f"logfile={_escape(self.log_of('supervisord-events'))}",
            "logfile_backups=1",
            f"pidfile={_escape(self._folder / 'supervisord.pid')}",
            f"minfds={MINFDS}",
            "user=root" if os.geteuid() == 0 else "",
            "[unix_http_server]",
            f"file={_escape(self._socket)}",
            "chmod=0600",
            "[rpcinterface:supervisor]",
            "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface",
        ]
        for part in parts:
            lines += [
                f"[program:{part.name}]",
                f"command={_escape(shlex.join(self._describe_shell(part)))}",
                f"directory={_escape(REPOSITORY)}",
                "autostart=false",
                "autorestart=true",
                "startsecs=2",
                # Its back-off grows by a second with each try; it never gives up.
                "startretries=1000000",
                "stopwaitsecs=5",
                "stopasgroup=true",
                "killasgroup=true",
                "stdout_logfile=NONE",
                "stderr_logfile=NONE",
            ]
        return "\n".join(lines) + "\n"

    def _wait(self, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _COME_UP_TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline_s or not self.is_alive():
                raise StackError("supervisord does not come up", hint=f"see {self.log_of('supervisord')}")
            time.sleep(_POLL_S)

    def _try_call(self, method: str, *arguments: Any) -> Any:
        try:
            return self._call(method, *arguments)
        except StackError:
            return None

    def _call(self, method: str, *arguments: Any) -> Any:
        # A transport each: one whose connection was refused can't be used again.
        transport = _UnixTransport(str(self._socket))
        try:
            with xmlrpc.client.ServerProxy("http://localhost", transport=transport) as proxy:
                return getattr(proxy.supervisor, method)(*arguments)
        except (OSError, http.client.HTTPException, xmlrpc.client.Error) as error:
            raise StackError(f"supervisord did not {method}: {error}") from error


def _clean_environment() -> dict[str, str]:
    """What a program needs of the environment, and nothing else.

    The stack renders pages that nobody here has written: no key, account or login of the operator is among it.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or name.lower() in _PROXIES or name.startswith(_KEPT_PREFIXES)
    }


def _escape(value: object) -> str:
    # supervisord expands %(name)s in every value
    return str(value).replace("%", "%%")
