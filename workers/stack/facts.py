"""What is true of a booted stack: written by the supervisor, read by the worker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from broker.errors import StackError
from broker.types import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFacts:
    """Addresses and files of the running stack, and what it was when it was booted."""

    # as it was asked for at `up`; what the backend really runs is read from the running process
    mode: Mode
    lane: str
    renderer: str
    revision: str
    # whether the checkout has no change of its own; None: there is none, or nobody could tell
    tree_clean: bool | None
    # the product's checkout; None: a stand-in
    checkout: str | None

    backend_url: str
    backend_port: int
    # what the listening process must be: its executable (resolved), its working folder
    backend_executable: str
    backend_folder: str
    # the arguments behind the executable, whole and in order: a backend is told from other programs by them
    backend_words: tuple[str, ...]
    router_url: str
    # whether the router was there before us: then it is not ours to end or to heal
    router_adopted: bool
    foreign_ports: tuple[int, ...]
    token_file: str
    dashboard_id: str
    # bv3's own cards, never reused and never closed by the product: one for probes, one for a person
    audit_card: str
    raw_card: str
    log_file: str
    metrics_file: str
    # None: this stack does not tell the truth
    truth_file: str | None
    # each part that was started, in order of starting, with the port it serves on
    parts: Mapping[str, int | None]
    # as the box file had them at the boot: the file may be another by now
    model: str = ""
    faults: str = ""
    leash_scale: float = 1.0

    def read_token(self) -> str:
        """The backend's token. Raises StackError when the file can't be read."""
        try:
            return Path(self.token_file).read_text("ascii").strip()
        except OSError as error:
            raise StackError(f"can't read the backend's token: {error}") from error


def write_facts(path: Path, facts: StackFacts) -> None:
    """The file holds these facts, whole."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(facts), indent=1), encoding="utf-8")
    fresh.replace(path)


def read_facts(path: Path) -> StackFacts:
    """The facts in the file. Raises StackError when the stack has not been booted."""
    try:
        plain = json.loads(path.read_text("utf-8"))
        lists = {name: tuple(plain[name]) for name in ("backend_words", "foreign_ports")}
        return StackFacts(**{**plain, **lists, "mode": Mode(plain["mode"])})
    except FileNotFoundError as error:
        raise StackError(f"no booted stack: {path} is not there", hint="bv3-box up dry boots it") from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StackError(f"no booted stack: {path} can't be read: {error}", hint="bv3-box up dry boots it") from error
