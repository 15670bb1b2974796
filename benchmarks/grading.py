"""How fast the grader's pure step is, and that its cost grows with the slice and no faster.

One core, one process, no service. The same slices are graded by a plain reference in the same run, so that the ratio
says something on any machine. See README.md beside this file.
"""

from __future__ import annotations

import hashlib
import json
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from broker.types import (
    Child,
    Editable,
    LogSlice,
    MetricsRow,
    Mode,
    PageRead,
    ParentOutcome,
    Probe,
    RunRecord,
    Seen,
    SiteTask,
)
from grader.grading import grade_record
from grader.markers import Catalogue, load_catalogue

SLICE_BYTES = 8_192
TASK = SiteTask(
    site="x",
    prompt='Go to https://x.com/ and publish a post with exactly this text: "{payload}"',
    payload="probe {nonce} coverage alpha",
    entry="https://x.com/",
    host="x.com",
    path_rule="^/(home|compose)",
    visibility="public",
    kind="post",
    editor_shape="Draft.js family",
)
# What a run prints, in its order: the window of an ok run, and of four that failed. {p}, {c}, {r}: its session and
# its two children; {b}: its card; {n}: a number.
_OPENING = """\
INFO:     127.0.0.1:5{n} - "POST /api/agents/launch HTTP/1.1" 200 OK
INFO:     127.0.0.1:5{n} - "WebSocket /ws/agents/{p}?token=t" [accepted]
INFO:     connection open
{t} I backend.apps.agents.manager.run_browser_fast_path: [browser-fast-path] direct dispatch for session {p} (act)
{t} I backend.apps.agents.browser.browser_agent: [browser-cold] new card {b} opens at brief entry https://x.com/
INFO:     127.0.0.1:5{n} - "GET /api/dashboards/89da4b4a1a3a46ff869448456468b9c8 HTTP/1.1" 200 OK
{t} I backend.apps.agents.browser.browser_agent: [browser-cold] mount poll 2{n}ms for {b}
{t} I backend.apps.agents.browser.browser_prestage: [browser-prestage] READY tier-0 in 27ms: a composer is already on \
the page, no aux call needed
{t} I backend.apps.agents.browser.browser_prestage: [browser-prestage] done: steps=0 url=https://x.com/home in 136ms
"""
_ENDINGS = (
    """\
{t} I backend.apps.agents.browser.browser_send_script: [browser-sendscript] fill target 'Post text' [1] on \
https://x.com/compose/post
{t} I backend.apps.agents.browser.browser_agent: [browser-action] BrowserClickIndex: click#1  -> {b}
{t} I backend.apps.agents.browser.browser_send_script: [browser-sendscript] DRYRUN: WOULD send (fill committed, \
send_button_listed=True, submit_resolved=True, submit_rank=3, submit='post'); not clicking
""",
    """\
{t} I backend.apps.agents.browser.browser_send_script: [browser-sendscript] decline: no composer, opener, or \
structural editable
""",
    """\
{t} I backend.apps.agents.browser.browser_send_script: [browser-sendscript] fill target 'Post text' [1] on \
https://x.com/compose/post
{t} W backend.apps.agents.browser.browser_send_script: [browser-sendscript] fill errored (Browser command timed out); \
handing to model untouched
""",
    """\
{t} W backend.apps.agents.browser.browser_agent: [browser-agent] dispatch refused: no dashboard after reconnect \
wait
""",
)
_CHILD = """\
{t} W backend.apps.agents.browser.browser_agent: [browser-agent {c}] completed without a confirmed result
{t} I backend.apps.agents.browser.browser_agent: [browser-batching {c}] run of 1 calls in 1 batches
{t} I backend.apps.agents.browser.browser_agent: [browser-time {c}] wall=237ms llm=0ms tools=178ms other=59ms \
auto_scans=1
{t} I backend.apps.agents.browser.browser_metrics: [browser-metrics] TASK error path=llm total=237ms turns=1
"""
_CLOSING = """\
{t} I backend.apps.agents.manager.run_browser_fast_path: [browser-fast-path] send-zone failure for {p}; payload probe \
before any retry
{t} I backend.apps.agents.browser.browser_agent: [browser-agent] reusing same-host card {b} instead of stacking \
another webview
"""
_END = """\
{t} I backend.apps.agents.manager.run_browser_fast_path: [browser-fast-path] session {p} done: path=act reply=16ch \
in 2425ms
"""
_NOISE = 'INFO:     127.0.0.1:5{n} - "GET /api/agents/sessions/{p} HTTP/1.1" 200 OK\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What the pure step is given."""

    record: RunRecord
    log: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The cost of one slice of this size."""

    megabytes: int
    seconds: float
    seconds_per_megabyte: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was measured."""

    slices: int
    mean_bytes: float
    slices_per_second: float
    # of 8 kB each, at the measured cost per byte
    slices_of_8_kb_per_second: float
    reference_slices_per_second: float
    times_the_reference: float
    sizes: tuple[Size, ...]
    peak_megabytes: float


def make_attempts(count: int, size: int = SLICE_BYTES) -> list[Attempt]:
    """So many runs with ids of their own, ok and failed in turn, each with a slice of about `size` bytes."""
    return [_make(number, size) for number in range(count)]


def _make(number: int, size: int) -> Attempt:
    parent, child, probe = (hashlib.md5(f"{number} {part}".encode()).hexdigest() for part in "pcr")  # noqa: S324 - ids
    names = {"p": parent, "c": child, "b": f"browser-{child[:8]}", "n": str(1000 + number % 9000), "t": "20:07:08"}
    # every other run is ok, the others fail in turn
    ending = _ENDINGS[(number // 2) % 3 + 1] if number % 2 else _ENDINGS[0]
    head = _fill(_OPENING + ending + _CHILD + _CLOSING, names)
    tail = _fill((_CHILD.replace("{c}", "{r}") + _END), names | {"r": probe})
    rest = size - len(head) - len(tail)
    lines = _fill(_CHILD + _NOISE * 3, names)
    log = (head + (lines * max(1, rest // len(lines))) + tail).encode()
    payload = f"probe k{number:06d} coverage alpha"
    return Attempt(
        record=_record(log, parent, (child, probe), names["b"], payload, is_held=ending is _ENDINGS[0]), log=log
    )


def _fill(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _record(log: bytes, parent: str, children: Sequence[str], card: str, payload: str, *, is_held: bool) -> RunRecord:
    editable = Editable(
        frame=0, frame_url="", kind="contenteditable", label="Post text", payload_count=int(is_held), text=payload
    )
    read = PageRead(
        card=card,
        after_dispatch=1,
        offset_ms=40,
        duration_ms=60,
        url="https://x.com/compose/post",
        title="X",
        payload=Seen.SEEN if is_held else Seen.ABSENT,
        payload_count=int(is_held),
        editables=(editable,),
        frames=1,
        frames_unread=0,
        password_form=Seen.ABSENT,
        challenge=Seen.ABSENT,
    )
    row = MetricsRow(
        session_id=children[0], status="error", path="llm", total_ms=237, llm_ms=0, tools_ms=178, other_ms=59
    )
    return RunRecord(
        sweep="c7-benchmark",
        run=1,
        dispatch=1,
        attempt=1,
        attempt_no=1,
        nonce="n",
        box="box-a",
        arm="default",
        site="x",
        trial=1,
        lane="stub",
        renderer="playwright",
        product_revision="reference-1",
        mode=Mode.DRY,
        prompt=TASK.prompt.replace("{payload}", payload),
        payload=payload,
        phases=(),
        wall_ms=2_437,
        budget_used=False,
        parent=ParentOutcome(session_id=parent, status="completed", reply="Done.", ended_by="event"),
        children=tuple(Child(session_id=child, status="error") for child in children),
        log=LogSlice(path="be.log", inode=1, start=0, end=len(log), sha256=hashlib.sha256(log).hexdigest()),
        metrics=(row,),
        reads=(read,),
        cards=(card,),
        probe_before=Probe(answered=True, duration_ms=8),
        probe_after=Probe(answered=True, duration_ms=9),
        events=(),
        evidence=(),
        errors=(),
        versions={},
    )


def grade_all(attempts: Sequence[Attempt]) -> list[str]:
    """The buckets, by the grader."""
    return [grade_record(one.record, one.log, TASK).verdict.bucket.value for one in attempts]


def search_all(attempts: Sequence[Attempt]) -> list[int]:
    """How many markers each slice holds, as a plain grader would look for them: each pattern over every line."""
    patterns = _reference_patterns(load_catalogue())
    found = []
    for one in attempts:
        lines = one.log.decode("utf-8", "replace").splitlines()
        found.append(sum(any(pattern.search(line) for line in lines) for pattern in patterns))
    return found


def _reference_patterns(catalogue: Catalogue) -> list[re.Pattern[str]]:
    return [re.compile(marker.pattern) for marker in catalogue.markers]


def best_seconds(work: Callable[[], object], rounds: int) -> float:
    """The least processor time of so many rounds: what others do on the machine only ever adds to it."""

    def rounds_of() -> Iterator[float]:
        for _ in range(rounds):
            began = time.process_time()
            work()
            yield time.process_time() - began

    return min(rounds_of())


def measure_sizes(megabytes: Sequence[int], rounds: int = 3) -> tuple[Size, ...]:
    """One slice of each size, graded whole."""
    sizes = []
    for size in megabytes:
        one = make_attempts(1, size * 1_000_000)
        seconds = best_seconds(lambda one=one: grade_all(one), rounds)  # type: ignore[misc]
        sizes.append(Size(megabytes=size, seconds=seconds, seconds_per_megabyte=seconds / size))
    return tuple(sizes)


def measure(slices: int, megabytes: Sequence[int]) -> Report:
    """Everything, in this process."""
    attempts = make_attempts(slices)
    total = sum(len(one.log) for one in attempts)
    seconds = best_seconds(lambda: grade_all(attempts), 7)
    few = attempts[: max(20, slices // 20)]
    reference = best_seconds(lambda: search_all(few), 3) / len(few)
    sizes = measure_sizes(megabytes)
    # kilobytes on Linux, bytes on macOS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1_000 if sys.platform.startswith("linux") else 1e6)
    return Report(
        slices=slices,
        mean_bytes=total / slices,
        slices_per_second=slices / seconds,
        slices_of_8_kb_per_second=total / SLICE_BYTES / seconds,
        reference_slices_per_second=1 / reference,
        times_the_reference=reference * slices / seconds,
        sizes=sizes,
        peak_megabytes=peak,
    )


@click.command()
@click.option("--slices", type=click.IntRange(1), default=500, show_default=True, help="How many different slices.")
@click.option("--largest", type=click.IntRange(1), default=100, show_default=True, help="Largest slice in MB.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def main(slices: int, largest: int, as_json: bool) -> None:  # noqa: FBT001 - click
    """Measure the grader's pure step: a record and its slice to a verdict with its facts."""
    report = measure(slices, [size for size in (1, 10, 100) if size <= largest])
    if as_json:
        click.echo(json.dumps(asdict(report), indent=2))
        return
    click.echo(f"{report.slices} slices of {report.mean_bytes:.0f} bytes: {report.slices_per_second:.0f} a second,")
    click.echo(f"that is {report.slices_of_8_kb_per_second:.0f} of 8 kB a second on one core;")
    click.echo(f"{report.times_the_reference:.1f} times a plain search of every pattern in every line")
    for size in report.sizes:
        click.echo(f"{size.megabytes:>4} MB: {size.seconds:.2f} s, {1000 * size.seconds_per_megabyte:.1f} ms per MB")
    click.echo(f"at most {report.peak_megabytes:.0f} MB of memory, {Path(sys.executable).name} and slice included")


if __name__ == "__main__":
    main()
