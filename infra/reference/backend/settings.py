"""What the double reads from its environment: the product's own names."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.reference.failure import ReferenceFailure

DEFAULT_PORT = 8326
DEFAULT_ROUTER_URL = "http://127.0.0.1:20128"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the double listens, writes and asks; always dry."""

    port: int
    data_root: Path
    router_url: str
    mode: str


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The settings that an environment asks for.

    Raises:
        ReferenceFailure: a variable is missing or malformed, or asks for live mode. A missing
            OSW_SENDSCRIPT_DRYRUN means live, as it does for the product.
    """
    if environment.get("OSW_SENDSCRIPT_DRYRUN") != "1":
        raise ReferenceFailure(
            "OSW_SENDSCRIPT_DRYRUN is not 1, so it would run live, and the reference backend only runs dry",
            hint="set OSW_SENDSCRIPT_DRYRUN=1",
        )
    root = environment.get("OPENSWARM_DATA_ROOT")
    if not root:
        raise ReferenceFailure("OPENSWARM_DATA_ROOT is not set", hint="set it to a folder of this box alone")
    return Settings(
        port=_read_port(environment.get("OPENSWARM_PORT") or str(DEFAULT_PORT)),
        data_root=Path(root),
        router_url=(environment.get("REFERENCE_ROUTER_URL") or DEFAULT_ROUTER_URL).rstrip("/"),
        mode="dry",
    )


def _read_port(text: str) -> int:
    if text.isdecimal() and 0 < int(text) < 65536:  # noqa: PLR2004  # the range of TCP ports
        return int(text)
    raise ReferenceFailure(f"OPENSWARM_PORT is {text!r}", hint="set it to a number from 1 to 65535")
