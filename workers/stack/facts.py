"""What is true of a booted stack: written by the supervisor, read by the worker."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from broker.errors import StackError


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFacts:
    """Addresses and files of the running stack."""

    backend_url: str
    backend_port: int
    # what the listening process must be
    backend_executable: str
    router_url: str
    foreign_port: int | None
    token_file: str
    dashboard_id: str
    # bv3's own card: never reused, never closed by the product
    audit_card: str
    log_file: str
    metrics_file: str
    # None: this stack does not tell the truth
    truth_file: str | None
    revision: str
    renderer: str

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
        return StackFacts(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise StackError(f"no booted stack: {path} can't be read: {error}", hint="is bv3-box work running?") from error
