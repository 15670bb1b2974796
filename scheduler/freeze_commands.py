"""What `freeze` and `freezes` do, once their arguments are read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from broker.errors import EXIT_OK, UsageError
from broker.freezes import FreezeUse, load_freezes, write_entry
from broker.requester import name_requester
from broker.settings import Settings, load_settings
from broker.store.freezes import read_freezes, read_uses, save_freeze
from broker.suites import load_suite
from broker.terminal import print_inert
from scheduler.admission import read_known, search_hosts
from scheduler.farm import join_store
from scheduler.freeze_listing import (
    freezes_document,
    freezes_lines,
    frozen_document,
    frozen_lines,
    say_source,
)
from scheduler.freezing import group_tasks, plan_freezes

_REVISION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+-]{3,63}")
_REASON_LENGTH = 500


def freeze_suite(name: str, *, reason: str | None, revision: str | None, source: Path | None, as_json: bool) -> int:
    """Every group of the suite is frozen as it stands, with what was written printed and how to commit it."""
    suite = load_suite(name)
    group_tasks(suite)
    _refuse_empty(reason, revision)
    if source is not None and revision is not None:
        raise UsageError("--source tells the product revision: leave --product-revision out")
    searched = search_hosts(suite, source)
    with join_store(load_settings()) as store, store.begin() as connection:
        known = read_known(connection, suite)
        at = searched.revision if searched else revision
        done = plan_freezes(suite, known, reason=reason, revision=at, by=name_requester())
        for freeze in (freeze for one in done for freeze in one.writes):
            save_freeze(connection, freeze)
    new = [one.freeze for one in done if one.is_new]
    block = "\n".join(write_entry(freeze) for freeze in new)
    lines = frozen_lines(done)
    if searched is not None:
        lines.append(say_source(searched, suite.name))
    if new:
        lines += ["commit this in broker/freezes.toml, behind what stands there:", "", block.rstrip("\n")]
    return _print(lines, frozen_document(done, searched, block), as_json=as_json)


def _refuse_empty(reason: str | None, revision: str | None) -> None:
    if reason is not None:
        if not reason.strip() or not reason.isprintable():
            raise UsageError("--reason must say something, on one line: it is on record for good")
        if len(reason) > _REASON_LENGTH:
            raise UsageError(f"--reason must have at most {_REASON_LENGTH} characters")
    if revision is not None and not _REVISION.fullmatch(revision):
        raise UsageError(f"{revision!r} is no revision of the product", hint="as its commits are called: 21a08c23")


def show_freezes(name: str | None, *, as_json: bool) -> int:
    """The freezes are printed with their uses, those that are committed and on no record among them."""
    if name is not None:
        load_suite(name)
    with _connect_if_any(load_settings()) as connection:
        rows = read_freezes(connection, name) if connection is not None else ()
        uses: Sequence[FreezeUse] = read_uses(connection, suite=name) if connection is not None else ()
    on_record = {(row.freeze.suite, row.freeze.group) for row in rows}
    unrecorded = [
        freeze
        for freeze in load_freezes()
        if name in {None, freeze.suite} and (freeze.suite, freeze.group) not in on_record
    ]
    return _print(freezes_lines(rows, unrecorded, uses), freezes_document(rows, unrecorded, uses), as_json=as_json)


@contextmanager
def _connect_if_any(settings: Settings) -> Iterator[sa.Connection | None]:
    """None where there can be no record: an embedded farm that never ran is not started to say so."""
    if settings.is_embedded and not settings.farm_home.farm.exists():
        yield None
        return
    with join_store(settings) as store, store.begin() as connection:
        yield connection


def _print(lines: Sequence[str], document: Any, *, as_json: bool) -> int:
    print_inert(json.dumps(document, indent=2) if as_json else "\n".join(lines))
    return EXIT_OK
