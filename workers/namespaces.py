"""Making and deleting network namespaces: with iproute2's `ip`, by root."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from broker.errors import BoxHeldError, ServiceError, UsageError
from workers.netns import NAMES, is_namespace, refuse_elsewhere, refuse_unprivileged

_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_IP_TIMEOUT_S = 10.0
# Within the namespace; its other end has a name of its own, since all of them lie side by side on the host.
_INNER = "eth0"
_SHOWN_PROCESSES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Veth:
    """A pair of virtual network cards: one end on the host, the other in the namespace."""

    outer: str
    network: ipaddress.IPv4Network

    @property
    def host_address(self) -> str:
        """Of the host's end, as `ip` takes it."""
        return f"{self.network[1]}/{self.network.prefixlen}"

    @property
    def box_address(self) -> str:
        """Of the box's end, as `ip` takes it."""
        return f"{self.network[2]}/{self.network.prefixlen}"

    @property
    def masquerading(self) -> str:
        """What an administrator types so that the box reaches beyond this machine."""
        rule = f"iptables -t nat -A POSTROUTING -s {self.network} ! -o {self.outer} -j MASQUERADE"
        return f"sudo sh -c 'sysctl -w net.ipv4.ip_forward=1 && {rule}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A network namespace as it is now. None: could not be read."""

    name: str
    addresses: tuple[str, ...] | None
    processes: tuple[int, ...]


def make_veth(name: str, cidr: str) -> Veth:
    """The pair of the namespace `name`. Raises UsageError for a network without two addresses to give."""
    try:
        network = ipaddress.IPv4Network(cidr, strict=False)
    except ValueError as error:
        raise UsageError(f"--veth: {cidr!r} is no network: {error}", hint="a free one, as 10.77.0.0/30") from error
    if network.prefixlen > 30:  # noqa: PLR2004  # the smallest network with two addresses for hosts
        raise UsageError(f"--veth: {network} has no two addresses", hint="a /30 or a wider one, as 10.77.0.0/30")
    # 15 characters at most: a name of a namespace is longer
    return Veth(outer=f"bv3-{hashlib.sha256(name.encode()).hexdigest()[:8]}", network=network)


def create(name: str, veth: Veth | None) -> bool:
    """The namespace is there, with its own loopback up and, if wanted, the pair; whether it was made just now.

    Raises UsageError when it is there and other than wanted, ServiceError when `ip` is away or fails; nothing of a
    namespace that could not be made whole is left.
    """
    _refuse_unfit(name, "creating a network namespace")
    if is_namespace(name):
        _refuse_other(name, veth)
        return False
    if (NAMES / name).exists():
        # a name that its namespace did not outlive a reboot under
        _call("netns", "delete", name)
    _call("netns", "add", name)
    try:
        _call("-n", name, "link", "set", "lo", "up")
        if veth is not None:
            _connect(name, veth)
    except BaseException:
        with suppress(ServiceError):
            _call("netns", "delete", name)
        raise
    return True


def delete(name: str) -> bool:
    """The namespace is gone; whether there was one. Raises BoxHeldError, naming them, while processes live in it."""
    _refuse_unfit(name, "deleting a network namespace")
    if not (NAMES / name).exists():
        return False
    if living := find_processes(name):
        named = [_describe(pid) for pid in living[:_SHOWN_PROCESSES]]
        more = f", and {len(living) - len(named)} more" if len(living) > len(named) else ""
        raise BoxHeldError(
            f"processes live in {name}: {', '.join(named)}{more}",
            holder={"pids": list(living)},
            hint="end the box first: bv3-box down --box FILE",
        )
    _call("netns", "delete", name)
    return True


def list_namespaces() -> tuple[Namespace, ...]:
    """Those that have a name on this machine, whoever made them."""
    refuse_elsewhere()
    names = sorted(path.name for path in NAMES.iterdir()) if NAMES.is_dir() else []
    return tuple(
        Namespace(name=name, addresses=_read_addresses(name), processes=find_processes(name)) for name in names
    )


def find_processes(name: str) -> tuple[int, ...]:
    """The processes in the namespace, as far as this user can see them."""
    return tuple(sorted(_find_in_proc(name)))


def _find_in_proc(name: str) -> Iterator[int]:
    with suppress(OSError):
        wanted = (NAMES / name).stat()
        for folder in Path("/proc").iterdir():
            if not folder.name.isdecimal():
                continue
            with suppress(OSError):
                seen = (folder / "ns" / "net").stat()
                if (seen.st_dev, seen.st_ino) == (wanted.st_dev, wanted.st_ino):
                    yield int(folder.name)


def _refuse_unfit(name: str, doing: str) -> None:
    refuse_elsewhere()
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} can't be a namespace's name",
            hint="small letters, digits and hyphens, a letter first, 31 at most",
        )
    refuse_unprivileged(doing)


def _refuse_other(name: str, veth: Veth | None) -> None:
    """Raises UsageError when the namespace that is there has another way out than the one that is wanted."""
    addresses = _read_addresses(name) or ()
    wanted = {veth.box_address} if veth else set()
    if set(addresses) != wanted and (veth is not None or addresses):
        has = f"has {', '.join(addresses)}" if addresses else "has no veth pair"
        raise UsageError(
            f"the network namespace {name} is there already and {has}",
            hint=f"bv3-box netns delete {name}, then create it anew",
        )


def _connect(name: str, veth: Veth) -> None:
    _call("link", "add", veth.outer, "type", "veth", "peer", "name", _INNER, "netns", name)
    _call("address", "add", veth.host_address, "dev", veth.outer)
    _call("link", "set", veth.outer, "up")
    _call("-n", name, "address", "add", veth.box_address, "dev", _INNER)
    _call("-n", name, "link", "set", _INNER, "up")
    _call("-n", name, "route", "add", "default", "via", str(veth.network[1]))


def _read_addresses(name: str) -> tuple[str, ...] | None:
    try:
        said = _call("-n", name, "-4", "-o", "address", "show", "scope", "global")
    except ServiceError:
        return None
    return tuple(re.findall(r" inet (\S+)", said))


def _call(*words: str) -> str:
    program = shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise ServiceError("the program ip is not installed", hint="apt-get install iproute2 (Debian, Ubuntu)")
    try:
        done = subprocess.run(
            [program, *words], capture_output=True, text=True, timeout=_IP_TIMEOUT_S, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceError(f"`ip {' '.join(words)}` did not end within {_IP_TIMEOUT_S:g} s") from error
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no message"]
        raise ServiceError(
            f"`ip {' '.join(words)}` failed: {said[0]}", hint="in a container it needs the capability SYS_ADMIN"
        )
    return done.stdout


def _describe(pid: int) -> str:
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        words = []
    return f"pid {pid} ({' '.join(words)[:60]})" if words else f"pid {pid}"
