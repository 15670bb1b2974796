"""A calibration as lines for a terminal of 80 columns, and as the page of tables that the docs hold. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from broker.types import Bucket
from grader.calibration import NO_FAULT, Calibration, Misgraded
from grader.render import Line, printable

_MAX_LISTED = 40
# of a line that is indented
_WIDTH = 78


def render_calibration(done: Calibration) -> tuple[Line, ...]:
    """Counts, faults, confusion, and each attempt that is misgraded or has no truth."""
    return tuple(_lines(done))


def _lines(done: Calibration) -> Iterator[Line]:
    yield Line(text=f"{_sweeps(done)} of {done.product_revision}, grader {done.grader_version}", style="bold")
    for mix, attempts in done.mixes.items():
        yield Line(text=f"faults {mix}: {attempts} attempts")
    yield Line(text=f"leash scale {_scales(done)}")
    yield Line(
        text=f"{done.attempts} attempts: {done.compared} set against their truth, {len(done.untold)} without one;"
        f" {done.ungraded} not graded yet"
    )
    yield Line(text=_result(done), style="bold red" if done.misgraded else "green")
    yield Line()
    yield Line(text=f"{'fault':<24} attempts  misgraded")
    for one in done.faults:
        yield Line(text=f"{printable(one.fault):<24} {one.attempts:>8} {one.misgraded:>10}")
    yield from _natures(done)
    yield Line()
    yield Line(text=f"{'truth':<24} {'verdict':<24} attempts")
    for (truth, verdict), attempts in done.confusion.items():
        is_wrong = truth is not verdict
        yield Line(
            text=f"{truth.value:<24} {verdict.value:<24} {attempts:>8}{'  MISGRADED' if is_wrong else ''}",
            style="red" if is_wrong else "",
        )
    yield from _listed(done)


def _natures(done: Calibration) -> Iterator[Line]:
    """Per nature a line, and under it one for each bucket that was true; nothing where none was set."""
    if not done.natures:
        return
    yield Line()
    yield Line(text=f"{'nature':<24} attempts  misgraded")
    for one in done.natures:
        yield Line(text=f"{printable(one.nature):<24} {one.attempts:>8} {one.misgraded:>10}")
        for bucket, (attempts, agreed) in one.buckets.items():
            yield Line(
                text=f"  {bucket.value:<25} agreed {agreed} of {attempts}", style="" if agreed == attempts else "red"
            )


def _listed(done: Calibration) -> Iterator[Line]:
    for one in done.misgraded[:_MAX_LISTED]:
        yield Line()
        yield from _misgraded(one)
    if len(done.misgraded) > _MAX_LISTED:
        yield Line(text=f"and {len(done.misgraded) - _MAX_LISTED} more; --json has all")
    if done.untold:
        yield Line()
        yield Line(text="without a truth, counted neither as right nor as wrong:")
    for untold in done.untold[:_MAX_LISTED]:
        row = untold.row
        yield Line(text=f"  {untold.sweep} {row.name}, attempt {row.attempt_no}: {row.bucket.value}, {untold.why}")
    if len(done.untold) > _MAX_LISTED:
        yield Line(text=f"  and {len(done.untold) - _MAX_LISTED} more; --json has all")


def _misgraded(one: Misgraded) -> Iterator[Line]:
    row, truth = one.row, one.truth
    fault = f"fault {truth.fault}" if truth.fault else "no fault"
    yield Line(text=f"MISGRADED {one.sweep} {row.name}, attempt {row.attempt_no}, {fault}", style="red")
    verdict = {
        "bucket": (truth.bucket.value, row.bucket.value),
        "evidence": (truth.evidence, row.facts.evidence),
        "total_ms": (truth.total_ms, row.facts.timing.total_ms),
    }
    for name in one.differs:
        yield Line(text=f"  {name}: {verdict[name][0]} is true, {verdict[name][1]} was judged, rule {row.rule}")
    if truth.why:
        yield Line(text=f"  {truth.why}")
    for line in textwrap.wrap(f"natures {' '.join(map(printable, truth.natures))}", _WIDTH) if truth.natures else ():
        yield Line(text=f"  {line}")
    yield Line(text=f"  {one.command}")


def _sweeps(done: Calibration) -> str:
    return f"{len(done.sweeps)} sweep{'' if len(done.sweeps) == 1 else 's'}"


def _scales(done: Calibration) -> str:
    return ", ".join(f"{scale:g}" for scale in done.leash_scales)


def _result(done: Calibration) -> str:
    bound = f", at most {done.bound.high:.2%} at 95%" if done.bound else ""
    return f"misgraded {len(done.misgraded)} of {done.compared}{bound}"


def write_markdown(done: Calibration) -> str:
    """The page: on what it was measured, the faults, and the confusion table with a row and a column per bucket."""
    return (
        "\n".join(
            [
                *_page_head(done),
                *_page_faults(done),
                *_page_confusion(done),
                *_page_natures(done),
                *_page_misgraded(done),
            ]
        )
        + "\n"
    )


def _page_head(done: Calibration) -> Iterator[str]:
    yield "# Verdicts against the truth"
    yield ""
    yield "Written by `bv3-grade calibrate ... --markdown`; [what it means](calibration.md)."
    yield ""
    yield "| measured on | |"
    yield "| --- | --- |"
    yield f"| reference stack | `{done.product_revision}` |"
    yield f"| grader version | {done.grader_version} |"
    yield f"| sweeps | {len(done.sweeps)}: {', '.join(f'`{sweep}`' for sweep in done.sweeps)} |"
    for mix, attempts in done.mixes.items():
        yield f"| faults `{mix}` | {attempts} attempts |"
    yield f"| leash scale | {_scales(done)} |"
    yield f"| attempts | {done.attempts} |"
    yield f"| set against their truth | {done.compared} |"
    yield f"| without a truth | {len(done.untold)} |"
    yield f"| misgraded | {len(done.misgraded)} |"
    yield ""
    yield f"{_result(done).capitalize()} (Clopper-Pearson, one-sided)."
    yield ""


def _page_faults(done: Calibration) -> Iterator[str]:
    yield "## Faults"
    yield ""
    yield "| fault | attempts | misgraded |"
    yield "| --- | ---: | ---: |"
    for one in done.faults:
        yield f"| `{one.fault}` | {one.attempts} | {one.misgraded} |"
    yield ""


def _page_natures(done: Calibration) -> Iterator[str]:
    if not done.natures:
        return
    yield ""
    yield "## Natures"
    yield ""
    yield "A run meets several at a time and counts for each."
    yield ""
    yield "| nature | attempts | misgraded | agreed per true bucket |"
    yield "| --- | ---: | ---: | --- |"
    for one in done.natures:
        cells = (f"`{bucket.value}` {agreed} of {attempts}" for bucket, (attempts, agreed) in one.buckets.items())
        yield f"| `{one.nature}` | {one.attempts} | {one.misgraded} | {', '.join(cells)} |"


def _page_confusion(done: Calibration) -> Iterator[str]:
    """Truths down, verdicts across; a verdict that is not the truth stands beside the diagonal."""
    used = {bucket for pair in done.confusion for bucket in pair}
    buckets = [bucket for bucket in Bucket if bucket in used]
    yield "## Confusion"
    yield ""
    yield "Down: the truth. Across: the verdict."
    yield ""
    yield "| truth | " + " | ".join(f"`{bucket.value}`" for bucket in buckets) + " |"
    yield "| --- |" + " ---: |" * len(buckets)
    for truth in buckets:
        counts = (str(done.confusion.get((truth, verdict), "")) for verdict in buckets)
        yield f"| `{truth.value}` | " + " | ".join(counts) + " |"


def _page_misgraded(done: Calibration) -> Iterator[str]:
    if not done.misgraded:
        return
    yield ""
    yield "## Misgraded"
    yield ""
    yield "| attempt | fault | truth | verdict | rule | differs |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for one in done.misgraded:
        cells = (one.truth.fault or NO_FAULT, one.truth.bucket.value, one.row.bucket.value, one.row.rule)
        values = " | ".join(f"`{cell}`" for cell in cells)
        yield f"| `{one.command}`, attempt {one.row.attempt_no} | {values} | {', '.join(one.differs)} |"
