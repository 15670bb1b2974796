"""What each command does, once its arguments are read: judge, join the farm, order, follow. Exit codes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from random import SystemRandom

import click

from broker.errors import EXIT_OK, UsageError
from broker.freezes import SearchedSource, load_freezes
from broker.requester import name_requester
from broker.settings import Settings, load_settings
from broker.store.progress import read_boxes, read_progress
from broker.store.sweeps import IMPORT_PLAN, SweepRow, create_sweep, find_sweep, list_sweeps, order, refuse_nameless
from scheduler import listing
from scheduler.admission import admit_frozen, preview_frozen, search_hosts
from scheduler.breaches import clear_breaches, refuse_breaches
from scheduler.course import Wishes, close_course, print_answer, run_course
from scheduler.errors import InterruptError
from scheduler.farm import Farm, has_store, join_farm, join_store, refuse_foreign_boxes
from scheduler.freeze_listing import standing_document, standing_lines
from scheduler.freezing import Standing, is_guarded
from scheduler.interrupts import Interrupts
from scheduler.launcher import call
from scheduler.listing import count
from scheduler.request import Prepared, Request, prepare, split
from scheduler.results import refuse_unwritable
from scheduler.series import run_series
from scheduler.verified import refuse_unverified


def start_plan(request: Request, wishes: Wishes, *, detach: bool, dry_run: bool) -> int:
    """The sweeps that the request means are planned, all or none, and unless detached followed to their ends.

    A bad request starts and writes nothing.
    """
    settings = load_settings()
    refuse_foreign_boxes(settings, request.boxes)
    _refuse_gate_without_end(wishes, detach=detach)
    now, random, name = datetime.now(UTC), SystemRandom(), name_requester()
    planned = [prepare(part, now, random, name) for part in split(request)]
    sources = [search_hosts(prepared.suite, request.source) for prepared in planned]
    # before a farm is started for it; judged again in the very transaction that plans
    standings = [_look_at_freezes(settings, prepared) for prepared in planned]
    if dry_run:
        return _show_planned(planned, [*zip(standings, sources, strict=True)], wishes)
    if not detach:
        refuse_unwritable(wishes.out)
    sweep_ids = [prepared.sweep.id for prepared in planned]
    with _join(settings, request.boxes, undone="nothing was planned") as (farm, interrupts):
        with farm.begin() as connection:
            for prepared, source in zip(planned, sources, strict=True):
                if not request.unverified:
                    refuse_unverified(read_boxes(connection), prepared.sweep.mode)
                create_sweep(connection, prepared.sweep)
                _tell(standing_lines(admit_frozen(connection, prepared.sweep, prepared.suite, source), source))
        for sweep in (prepared.sweep for prepared in planned):
            runs = count(len(sweep.runs), "site-run")
            _note(f"{sweep.id}: {sweep.suite} suite x {sweep.trials}, {sweep.mode}, {runs}")
        if detach:
            return _leave(farm, sweep_ids, wishes)
        if len(sweep_ids) > 1:
            return run_series(farm, sweep_ids, wishes, interrupts)
        return run_course(farm, sweep_ids[0], wishes, interrupts, may_pause=True, known_verdict=0)


def _show_planned(
    planned: Sequence[Prepared],
    found: Sequence[tuple[Sequence[Standing], SearchedSource | None]],
    wishes: Wishes,
) -> int:
    pairs = [*zip(planned, found, strict=True)]
    lines = [line for one, frozen in pairs for line in (*listing.plan_lines(one), *standing_lines(*frozen))]
    documents = [listing.plan_document(one, standing_document(*frozen)) for one, frozen in pairs]
    document = documents[0] if len(documents) == 1 else listing.series_document(documents)
    return print_answer([*lines, "nothing was written"], document, as_json=wishes.as_json)


def _look_at_freezes(settings: Settings, prepared: Prepared) -> tuple[Standing, ...]:
    """The groups of a frozen suite as the plan would find them now; of another suite, none. Nothing is written."""
    # no store is joined for a suite that file and freezes call unfrozen: planning it looks into the record all the same
    if not is_guarded(prepared.suite, load_freezes()) or not has_store(settings):
        return preview_frozen(None, prepared.sweep, prepared.suite)
    with join_store(settings) as store, store.begin() as connection:
        return preview_frozen(connection, prepared.sweep, prepared.suite)


def show_list(limit: int, *, as_json: bool) -> int:
    """The sweeps are printed, newest first."""
    settings = load_settings()
    if not has_store(settings):
        return print_answer(listing.list_lines(()), [], as_json=as_json)
    with join_store(settings) as farm, farm.begin() as connection:
        sweeps = list_sweeps(connection, limit)
    return print_answer(
        listing.list_lines(sweeps), [listing.sweep_document(sweep) for sweep in sweeps], as_json=as_json
    )


def show_status(reference: str, *, as_json: bool) -> int:
    """How far the sweep is, printed."""
    with _store_with(load_settings(), reference) as (farm, sweep):
        with farm.begin() as connection:
            progress = read_progress(connection, sweep.id, 0)
        lines, document = listing.status_lines(sweep, progress), listing.status_document(sweep, progress)
    return print_answer(lines, document, as_json=as_json)


def follow_sweep(reference: str, wishes: Wishes) -> int:
    """The sweep is watched to its end, and its results are printed; one that is over already, at once."""
    settings = load_settings()
    with _store_with(settings, reference) as (store, sweep):
        refuse_unwritable(wishes.out)
        if not _is_moving(sweep):
            return _close_still(store, sweep, wishes)
        with _join(settings, _boxes_of(settings, sweep), undone="nothing was changed") as (farm, interrupts):
            return run_course(farm, sweep.id, wishes, interrupts, may_pause=False)


def resume_sweep(reference: str, boxes: int | None, wishes: Wishes, *, detach: bool, after_breach: bool) -> int:
    """The sweep may start runs again and, unless detached, is followed to its end.

    A sweep with a false success that nobody has lifted stays as it is, and so does the box, without `after_breach`.
    """
    settings = load_settings()
    refuse_foreign_boxes(settings, boxes)
    _refuse_gate_without_end(wishes, detach=detach)
    with _store_with(settings, reference) as (store, sweep):
        if not detach:
            refuse_unwritable(wishes.out)
        if sweep.plan == IMPORT_PLAN:
            raise UsageError(f"sweep {sweep.id} was imported: no box can go on with it")
        if sweep.state in {"finished", "cancelled"}:
            return _close_over(store, sweep, wishes, after_breach=after_breach)
        if not after_breach:
            # before a farm is started for it; asked again in the very transaction that orders
            with store.begin() as connection:
                refuse_breaches(connection, sweep.id)
        wanted = _boxes_of(settings, sweep) if boxes is None else boxes
        with _join(settings, wanted, undone=f"{sweep.id} was not resumed") as (farm, interrupts):
            with farm.begin() as connection:
                lifted = clear_breaches(connection, sweep.id, after_breach=after_breach)
                order(connection, sweep.id, "resume", "resumed")
                given = read_progress(connection, sweep.id, 0).fresh
            known = max((run.verdict_id for run in given), default=0)
            _tell(lifted)
            _note(f"{sweep.id}: goes on, {sweep.counts.closed} of {sweep.counts.total} runs are over")
            if detach:
                return _leave(farm, [sweep.id], wishes)
            return run_course(farm, sweep.id, wishes, interrupts, may_pause=True, known_verdict=known)


def _close_over(store: Farm, sweep: SweepRow, wishes: Wishes, *, after_breach: bool) -> int:
    """A false success in a sweep's last run holds its box, and nothing of the sweep is left to go on with."""
    with store.begin() as connection:
        lifted = clear_breaches(connection, sweep.id, after_breach=after_breach)
    _tell(lifted)
    if sweep.state == "finished" or lifted:
        return _close_still(store, sweep, wishes)
    raise UsageError(f"sweep {sweep.id} was cancelled: it can't be resumed", hint=f"plan another: {call('c7')}")


def cancel_sweep(reference: str, wishes: Wishes, *, detach: bool) -> int:
    """No further run of the sweep starts; unless detached, those under way have finished."""
    settings = load_settings()
    with _store_with(settings, reference) as (store, found):
        if not detach:
            refuse_unwritable(wishes.out)
        with store.begin() as connection:
            sweep = order(connection, found.id, "cancel", f"cancelled by {name_requester()}")
        _note(f"{sweep.id}: {listing.cancel_line(sweep)}")
        if detach:
            return _leave(store, [sweep.id], wishes)
        wishes = replace(wishes, expects_cancel=True)
        if not sweep.counts.started:
            return close_course(store, sweep.id, wishes)
        undone = f"{sweep.id} stays cancelled"
        with _join(settings, _boxes_of(settings, sweep), undone=undone) as (farm, interrupts):
            return run_course(farm, sweep.id, wishes, interrupts, may_pause=False)


@contextmanager
def _join(settings: Settings, boxes: int | None, *, undone: str) -> Iterator[tuple[Farm, Interrupts]]:
    """The farm, and signals as requests. Ctrl-C before it is there raises InterruptError with what is `undone`."""
    with ExitStack() as stack:
        try:
            farm = stack.enter_context(join_farm(settings, boxes=boxes))
        except KeyboardInterrupt as error:
            raise InterruptError(f"interrupted; {undone}") from error
        yield farm, stack.enter_context(Interrupts())


@contextmanager
def _store_with(settings: Settings, reference: str) -> Iterator[tuple[Farm, SweepRow]]:
    refuse_nameless(reference)
    if not has_store(settings):
        raise UsageError(f"there is no sweep {reference!r}: none was planned yet", hint=f"plan one: {call('c7')}")
    with join_store(settings) as farm:
        with farm.begin() as connection:
            sweep = find_sweep(connection, reference)
        yield farm, sweep


def _boxes_of(settings: Settings, sweep: SweepRow) -> int | None:
    """As many boxes as the sweep was planned with; None on a farm that has its own."""
    return sweep.params.get("boxes") if settings.is_embedded else None


def _is_moving(sweep: SweepRow) -> bool:
    return sweep.state == "active" or sweep.counts.started > 0


def _close_still(farm: Farm, sweep: SweepRow, wishes: Wishes) -> int:
    _note(f"{sweep.id} is {sweep.state}")
    return close_course(farm, sweep.id, wishes)


def _refuse_gate_without_end(wishes: Wishes, *, detach: bool) -> None:
    if wishes.gate and detach:
        raise UsageError("--gate needs the sweep's end, and --detach does not wait for it")


def _leave(farm: Farm, sweep_ids: Sequence[str], wishes: Wishes) -> int:
    if wishes.as_json:
        with farm.begin() as connection:
            documents = [
                listing.status_document(find_sweep(connection, sweep_id), read_progress(connection, sweep_id, 0))
                for sweep_id in sweep_ids
            ]
        document = documents[0] if len(documents) == 1 else listing.series_document(documents)
        return print_answer([], document, as_json=True)
    print_answer(sweep_ids, None, as_json=False)
    for sweep_id in sweep_ids:
        _note(f"follow it: {call('follow', sweep_id)}")
    return EXIT_OK


def _tell(lines: Sequence[str]) -> None:
    for line in lines:
        _note(line)


def _note(message: str) -> None:
    click.echo(message, err=True)
