"""The passwords of one farm: made once, kept in one private file, never on a command line."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from infra.embedded.documents import read_document, write_document


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Random, URL-safe, so that they can stand in an address as they are."""

    # Names this farm among others that had the same folder: marks its processes and its data.
    farm_id: str
    postgres: str
    valkey: str
    flower: str


def load_credentials(path: Path) -> Credentials:
    """The farm's credentials; made and on disk when they were not there."""
    if (document := read_document(path)) is not None:
        return Credentials(**document)
    fresh = Credentials(
        farm_id=secrets.token_hex(6),
        postgres=secrets.token_urlsafe(24),
        valkey=secrets.token_urlsafe(24),
        flower=secrets.token_urlsafe(12),
    )
    write_document(path, asdict(fresh), durable=True)
    return fresh
