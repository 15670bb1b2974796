"""The processes on the other end of the dashboard socket: they can be killed and stopped, and nobody else can."""

import contextlib
import os
import signal

import psutil


class NoPeerError(Exception):
    """There is no process that may be signalled; the text says why."""


def find_peer(*, own_port: int, peer_port: int) -> psutil.Process:
    """The process whose end of a loopback connection to our port has the peer's port.

    Raises:
        NoPeerError: there is none, or it must not be signalled: it leads no group of its own, or it is this
            process, its group or one of its ancestors.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if any(
                line.raddr and (line.laddr.port, line.raddr.port) == (peer_port, own_port)
                for line in process.net_connections("tcp")
            ):
                return _check(process)
    raise NoPeerError(f"no process has port {peer_port} connected to port {own_port}")


def _check(process: psutil.Process) -> psutil.Process:
    if os.getpgid(process.pid) != process.pid:
        raise NoPeerError(f"process {process.pid} leads no group of its own")
    if process.pid == os.getpgid(0) or process.pid in {parent.pid for parent in psutil.Process().parents()}:
        raise NoPeerError(f"process {process.pid} is one of our own")
    return process


def signal_group(process: psutil.Process, number: signal.Signals) -> None:
    """The group that the process leads has got the signal."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def kill_engine(process: psutil.Process) -> int:
    """Every group that the process's children have made for themselves (a browser's) is killed; how many.

    Raises:
        NoPeerError: it has no such children.
    """
    groups = set()
    for child in process.children(recursive=True):
        with contextlib.suppress(ProcessLookupError):
            groups.add(os.getpgid(child.pid))
    groups -= {process.pid, os.getpgid(0)}
    if not groups:
        raise NoPeerError(f"process {process.pid} has no browser")
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    return len(groups)
