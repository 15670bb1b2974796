"""A new box file: every key, what it means, and a value that fits this machine."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticUndefined

from broker.errors import ServiceError, UsageError
from workers.boxfile import FOLDER_VARIABLE, BoxFile, find_problems
from workers.boxkeys import EXAMPLE_ACCOUNTS, EXAMPLES, WORDS
from workers.boxrules import USUAL_FOREIGN_PORTS

# By which a farm that admits a box hands its logins on: a command line can be read by anybody on the machine.
DATABASE_VARIABLE = "BV3_BOX_DATABASE_URL"
BROKER_VARIABLE = "BV3_BOX_BROKER_URL"

_WIDTH = 112
_NAME_CHARS = 41
# Below the range from which kernels give ports to outgoing connections, above the product's own.
_LOWEST_PORT, _HIGHEST_PORT = 21_000, 29_999


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was said on the command line; None: bv3 chooses."""

    name: str | None = None
    stack: str | None = None
    isolation: str | None = None
    netns: str | None = None
    renderer: str | None = None
    lane: str | None = None
    pages: str | None = None
    checkout: Path | None = None
    folder: Path | None = None


def is_checkout(folder: Path) -> bool:
    """Whether the product's backend lies there."""
    return (folder / "backend" / "main.py").is_file()


def choose_words(wish: Wish, *, here: Path, host: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The values of a box file, as in its TOML, that `wish` means. Those that are not in it have their defaults."""
    checkout = wish.checkout or (here if wish.stack != "reference" and is_checkout(here) else None)
    stack = wish.stack or ("openswarm" if checkout else "reference")
    name = wish.name or make_name(host)
    isolation = wish.isolation or ("netns" if wish.netns else "ports" if stack == "reference" else "host")
    told = environment.get(FOLDER_VARIABLE)
    folder = wish.folder or (Path(told) if told else Path(environment.get("HOME") or "/srv") / "bv3-boxes" / name)
    words: dict[str, Any] = {
        "name": name,
        "stack": stack,
        "isolation": isolation,
        "renderer": wish.renderer or "playwright",
        "lane": wish.lane or ("stub" if stack == "reference" else "default"),
        "folder": str(here / folder),
    }
    if wish.netns:
        words["netns"] = wish.netns
    if checkout:
        words["checkout"] = str(here / checkout)
    if wish.renderer == "electron":
        words |= {"pages": "web", "profile": {"policy": "persistent"}}
    if wish.pages:
        words["pages"] = wish.pages
    for key, variable in (("database_url", DATABASE_VARIABLE), ("broker_url", BROKER_VARIABLE)):
        if environment.get(variable):
            words[key] = environment[variable]
    return words


def make_name(host: str) -> str:
    """The host's name as a box may have it."""
    plain = re.sub(r"[^a-z0-9]+", "-", host.partition(".")[0].lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"box-{plain}")[:_NAME_CHARS].rstrip("-")


def choose_ports() -> dict[str, int]:
    """A block of ports in a row on which nobody listens now. Raises ServiceError when there is none."""
    names = ("backend", "router", "https", "http")
    starts = list(range(_LOWEST_PORT, _HIGHEST_PORT - len(names), len(names)))
    # from a random place: two boxes that are made at the same moment must not get the same block
    random.SystemRandom().shuffle(starts)
    for start in starts:
        block = range(start, start + len(names))
        if all(map(is_free, block)):
            return dict(zip(names, block, strict=True))
    raise ServiceError(f"no {len(names)} free loopback ports in a row between {_LOWEST_PORT} and {_HIGHEST_PORT}")


def is_free(port: int) -> bool:
    """Whether nobody listens on the loopback `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As a server does: connections of an earlier one that linger in TIME_WAIT are no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError:
            return False
    return True


def make_box_text(wish: Wish) -> str:
    """The text of a box file that `load_box` accepts. Raises UsageError for a wish that contradicts itself."""
    words = choose_words(wish, here=Path.cwd(), host=socket.gethostname(), environment=os.environ)
    if words["isolation"] == "ports":
        words["ports"] = choose_ports()
    try:
        box = BoxFile.model_validate(words)
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(where)}: {said}" for where, said in find_problems(error))
        raise UsageError(said, hint="bv3-box init --help") from error
    for where, said in box.find_bad_places():
        raise UsageError(f"{where}: {said}", hint="bv3-box init --help")
    return render(words)


def write_box(out: Path, text: str) -> None:
    """`out` holds the text and is readable by its owner alone. Raises UsageError for a file that is there."""
    try:
        # Made private from the first byte, and never in the place of another.
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise UsageError(f"{out} is there already", hint="move it away, or name another --out") from error
    except OSError as error:
        raise UsageError(f"{out} can't be written: {error.strerror}", hint="name another --out") from error
    with ExitStack() as opened:
        opened.enter_context(os.fdopen(descriptor, "w", encoding="utf-8")).write(text)


def render(words: Mapping[str, Any]) -> str:
    """TOML of these values, in which every other key stands as a comment, with its default or an example."""
    lines = ["# A box of bv3. `bv3-box check --box FILE` judges it; docs/reference/box-file.md says more.", ""]
    for name, field in BoxFile.model_fields.items():
        table = field.annotation
        if not (isinstance(table, type) and issubclass(table, BaseModel)) and name != "accounts":
            lines += _say(name)
            lines += [_assign(name, words.get(name), field.default), ""]
    usual = USUAL_FOREIGN_PORTS if words.get("stack") == "openswarm" else ()
    for name, field in BoxFile.model_fields.items():
        table = field.annotation
        if name == "accounts":
            lines += _render_accounts(words.get(name, {}))
        elif isinstance(table, type) and issubclass(table, BaseModel):
            lines += _render_table(name, table, words.get(name, {}), {"ports.foreign": usual})
    text = "\n".join(lines).rstrip() + "\n"
    tomllib.loads(text)
    return text


def _render_table(
    name: str, table: type[BaseModel], words: Mapping[str, Any], defaults: Mapping[str, Any]
) -> Iterator[str]:
    # A table that is there says that it is meant for this stack, even when it is empty.
    yield f"[{name}]" if words else f"# [{name}]"
    for key, field in table.model_fields.items():
        dotted = f"{name}.{key}"
        yield from _say(dotted)
        yield _assign(dotted, words.get(key), defaults.get(dotted, field.default))
    yield ""


def _render_accounts(words: Mapping[str, str]) -> Iterator[str]:
    yield from _say("accounts")
    yield "[accounts]" if words else "# [accounts]"
    yield from (f"{site} = {_as_toml(variable)}" for site, variable in words.items())
    if not words:
        yield from (f"# {site} = {_as_toml(variable)}" for site, variable in EXAMPLE_ACCOUNTS.items())
    yield ""


def _say(key: str) -> list[str]:
    return textwrap.wrap(WORDS[key], _WIDTH, initial_indent="# ", subsequent_indent="# ")


def _assign(key: str, value: Any, default: Any) -> str:
    name = key.rpartition(".")[2]
    if value is not None:
        return f"{name} = {_as_toml(value)}"
    if default is None or default is PydanticUndefined:
        return f"# {name} = {_as_toml(EXAMPLES[key])}"
    return f"# {name} = {_as_toml(default)}  # the default"


def _as_toml(value: Any) -> str:
    # A JSON string without escapes beyond ASCII is a TOML basic string, and so are JSON's numbers and lists.
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
