"""How long a scorecard takes over many attempts: the pure part, its two forms, and with a database before it.

The attempts are made up with a fixed seed: 9 sites, 8 boxes, every bucket, times in all of them.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from broker.suites import load_suite
from broker.types import Bucket, Claim, Evidence, Mode, Seen
from grader.criteria import Sample, SweepFacts
from grader.evidence import Timing
from grader.facts import AttemptRow, VerdictFacts
from grader.render import render_scorecard, write_lines
from grader.scorecard import build_scorecard, to_json

LIMIT_S = 1.0
SHARES = {
    Bucket.OK: 60,
    Bucket.NOT_MEASURABLE: 30,
    Bucket.PRODUCT_NO_COMPOSER: 5,
    Bucket.PRODUCT_UNCONFIRMED: 2,
    Bucket.PRODUCT_FILL_DIED: 2,
    Bucket.INFRA_ROUTER: 1,
}


def make_rows(count: int) -> list[AttemptRow]:
    """So many attempts of the known suite."""
    source = Random(1)  # noqa: S311 - made-up figures
    shapes = [(task.site, task.editor_shape) for task in load_suite("known").tasks]
    buckets = source.choices(list(SHARES), weights=list(SHARES.values()), k=count)
    return [_make_row(number, bucket, shapes[number % len(shapes)], source) for number, bucket in enumerate(buckets)]


def _make_row(number: int, bucket: Bucket, task: tuple[str, str], source: Random) -> AttemptRow:
    site, shape = task
    is_ok = bucket is Bucket.OK
    timing = Timing(
        total_ms=source.randrange(400, 4_000),
        llm_ms=0,
        tools_ms=source.randrange(200, 3_000),
        other_ms=source.randrange(10, 900),
        prestage_ms=source.randrange(100, 3_000),
        tier=source.choice((None, 0, 1)),
    )
    facts = VerdictFacts(
        claim=Claim.FILLED if is_ok else Claim.NONE,
        page=Seen.SEEN if is_ok else Seen.ABSENT,
        evidence=Evidence.PROVEN if bucket is Bucket.NOT_MEASURABLE else None,
        wall_ms=source.randrange(5_000, 30_000),
        timing=timing,
        mode=Mode.DRY,
        lane="stub",
        renderer="playwright",
        product_revision="reference-1",
    )
    return AttemptRow(
        run_id=number,
        attempt_id=number,
        attempt_no=1,
        arm="main",
        site=site,
        trial=number // 9 + 1,
        box=f"box-{number % 8}",
        editor_shape=shape,
        bucket=bucket,
        rule="reached" if is_ok else "declined",
        detail="'post' <- 'Post text' on https://x.com/compose/post",
        grader_version=1,
        started_at=None,
        finished_at=None,
        facts=facts,
    )


def make_sample(name: str, count: int) -> Sample:
    """A finished sweep of so many runs, in no order."""
    rows = make_rows(count)
    Random(2).shuffle(rows)  # noqa: S311
    sites = tuple(sorted({row.site for row in rows}))
    facts = SweepFacts(
        sweep=name,
        plan="c7",
        suite="known",
        mode=Mode.DRY,
        trials=count // 9,
        runs=count,
        runs_closed=count,
        sites=sites,
        suite_sites=sites,
        state="finished",
        started_at=None,
        finished_at=None,
    )
    return Sample(sweep=facts, rows=rows)


def measure(times: int, work: Callable[[], object]) -> float:
    """The median of so many runs, in seconds of this process's own CPU."""
    spent = []
    for _ in range(times):
        gc.collect()
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return statistics.median(spent)


def main() -> int:
    """Prints the figures; 1 when the scorecard takes a second or more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=5, help="runs of each; the median is printed  [default: 5]")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    sample, before = (make_sample(name, options.attempts) for name in ("c7-after", "c7-before"))
    card = build_scorecard(sample.sweep, sample.rows)
    figures: dict[str, Any] = {
        "attempts": options.attempts,
        "limit_s": LIMIT_S,
        "scorecard_s": measure(options.times, lambda: build_scorecard(sample.sweep, sample.rows)),
        "against_a_baseline_s": measure(
            options.times,
            lambda: build_scorecard(sample.sweep, sample.rows, baseline=Sample(sweep=before.sweep, rows=before.rows)),
        ),
        "screen_s": measure(
            options.times, lambda: write_lines(render_scorecard(card, width=120, markers=1), io.StringIO(), width=120)
        ),
        "json_s": measure(options.times, lambda: json.dumps(to_json(card))),
    }
    if options.as_json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name.replace('_', ' '):<22} {value:,.3f}" if isinstance(value, float) else f"{name:<22} {value:,}")
    return 1 if figures["scorecard_s"] >= LIMIT_S else 0


if __name__ == "__main__":
    sys.exit(main())
