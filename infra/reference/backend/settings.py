"""What the double reads from its environment: the product's own names, and those of the reference stack."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.reference import faults, natures
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
    # The site server; None: there is none, so that no page's nature can be changed.
    sites_url: str | None = None
    mix: faults.Mix = ()
    chances: natures.Chances = ()
    seed: int = 0
    # Every wait and leash is so much of the product's.
    leash_scale: float = 1.0


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
        sites_url=(environment.get("REFERENCE_SITES_URL") or "").rstrip("/") or None,
        mix=faults.parse(environment.get("REFERENCE_FAULTS") or "none"),
        chances=natures.parse(environment.get("REFERENCE_NATURES") or "none"),
        seed=_read_seed(environment.get("REFERENCE_SEED") or "0"),
        leash_scale=_read_scale(environment.get("REFERENCE_LEASH_SCALE") or "1"),
    )


def _read_port(text: str) -> int:
    if text.isdecimal() and 0 < int(text) < 65536:  # noqa: PLR2004  # the range of TCP ports
        return int(text)
    raise ReferenceFailure(f"OPENSWARM_PORT is {text!r}", hint="set it to a number from 1 to 65535")


def _read_seed(text: str) -> int:
    if text.isdecimal():
        return int(text)
    raise ReferenceFailure(f"REFERENCE_SEED is {text!r}", hint="set it to a whole number from 0 on")


def _read_scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if 0 < scale <= 1:
        return scale
    raise ReferenceFailure(f"REFERENCE_LEASH_SCALE is {text!r}", hint="set it to a number above 0 and up to 1")
