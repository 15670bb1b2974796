"""A whole calibration: sweeps of the reference stack with every fault in the mix, until each has come often enough.

One farm of its own is kept up, so that its store holds nothing else. Stopped and started again it goes on: what
counts is what the farm's store holds. See README.md beside this file.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
# The known suite's sites with a composer: elsewhere the sweep-halting fault never comes.
OPEN_SITES = ("instagram", "linkedin", "reddit", "twitch", "x", "youtube")
HALTING = "claims_sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """How much is enough."""

    runs: int
    each: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The farm's home and how its commands are run."""

    home: Path
    seed: int
    leash_scale: float
    boxes: int
    log: Path

    def environment(self, faults: str) -> dict[str, str]:
        """Of every command; the farm takes it on when it starts."""
        own = {
            "BV3_HOME": str(self.home),
            "BV3_REFERENCE_FAULTS": faults,
            "BV3_REFERENCE_SEED": str(self.seed),
            "BV3_LEASH_SCALE": str(self.leash_scale),
        }
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("BV3_") or name == "BV3_RUNTIME"
        }
        return kept | own

    def run(self, faults: str, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command's end; what it says on stderr goes to the log."""
        with self.log.open("a") as log:
            log.write(f"$ {module} {' '.join(arguments)}\n")
            log.flush()
            return subprocess.run(
                [sys.executable, "-P", "-m", module, *arguments],
                cwd=self.home,
                env=self.environment(faults),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                check=False,
            )

    def must(self, faults: str, module: str, *arguments: str) -> str:
        """What the command printed; one that fails ends the calibration."""
        done = self.run(faults, module, *arguments)
        if done.returncode:
            sys.exit(f"{module} {' '.join(arguments)} ended with {done.returncode}; see {self.log}")
        return done.stdout

    @contextmanager
    def farm(self, faults: str) -> Iterator[None]:
        """Within the block a farm stands whose boxes inject these faults."""
        self.run(faults, "infra.cli", "down", "--force")
        self.must(faults, "infra.cli", "up", "--boxes", str(self.boxes))
        try:
            yield
        finally:
            self.run(faults, "infra.cli", "down", "--force")

    def sweeps(self, faults: str) -> list[dict[str, Any]]:
        """All sweeps of this home, oldest first."""
        listed: list[dict[str, Any]] = json.loads(
            self.must(faults, "scheduler.cli", "list", "--json", "--limit", "100000")
        )
        return listed[::-1]

    def calibrate(self, faults: str, *more: str) -> tuple[int, dict[str, Any]]:
        """Exit code and document over all sweeps so far."""
        names = [sweep["id"] for sweep in self.sweeps(faults)]
        if not names:
            return 0, {"compared": 0, "faults": [], "misgraded": [], "untold": []}
        done = self.run(faults, "grader.cli", "calibrate", *names, "--json", *more)
        if done.returncode not in {0, 1}:
            sys.exit(f"the sweeps can't be calibrated; see {self.log}. Other code than before? take another --home")
        return done.returncode, json.loads(done.stdout)


def known_faults() -> list[str]:
    """The names of all faults that the stack can inject."""
    command = [sys.executable, "-P", "-m", "infra.reference", "faults"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.strip()]


def missing(document: dict[str, Any], names: list[str], each: int) -> dict[str, int]:
    """How many attempts each fault still lacks."""
    counts = {one["fault"]: one["attempts"] for one in document["faults"]}
    return {name: each - counts.get(name, 0) for name in names if counts.get(name, 0) < each}


def say(document: dict[str, Any], lacking: dict[str, int], began: float) -> None:
    """One line on stderr."""
    worst = ", ".join(f"{name} {count}" for name, count in sorted(lacking.items(), key=lambda one: -one[1])[:5])
    click.echo(
        f"{time.monotonic() - began:6.0f} s  {document['compared']} compared, {len(document['misgraded'])} misgraded,"
        f" {len(document['untold'])} without a truth" + (f"; missing: {worst}" if worst else ""),
        err=True,
    )


def run_mixed(bench: Bench, goal: Goal, trials: int, began: float) -> None:
    """Sweeps with all faults that let a sweep go on, until there are enough runs and enough of each."""
    names = [name for name in known_faults() if name != HALTING]
    with bench.farm("all"):
        # what a stop left open is finished first
        for sweep in bench.sweeps("all"):
            if sweep["state"] in {"active", "paused"}:
                bench.run("all", "scheduler.cli", "resume", sweep["id"])
        while True:
            _, document = bench.calibrate("all")
            lacking = missing(document, names, goal.each)
            say(document, lacking, began)
            if document["compared"] >= goal.runs and not lacking:
                return
            bench.must("all", "scheduler.cli", "c7", "--n", str(trials), "--boxes", str(bench.boxes))


def run_halting(bench: Bench, goal: Goal, began: float) -> None:
    """One sweep that each breach halts; each was asked for, so it is resumed until there were enough of them."""
    sites = [word for site in OPEN_SITES for word in ("--site", site)]
    with bench.farm(HALTING):
        while True:
            _, document = bench.calibrate(HALTING)
            lacking = missing(document, [HALTING], goal.each)
            say(document, lacking, began)
            # only what was planned here: no breach of the mixed sweeps is lifted unseen
            halted = [
                sweep["id"]
                for sweep in bench.sweeps(HALTING)
                if sweep["state"] in {"halted", "paused", "active"} and set(sweep["sites"]) == set(OPEN_SITES)
            ]
            if not lacking:
                # the held box is let go; what the sweep has left is then dropped
                for sweep in halted:
                    bench.run(HALTING, "scheduler.cli", "resume", sweep, "--detach", "--after-breach")
                    bench.run(HALTING, "scheduler.cli", "cancel", sweep)
                return
            if halted:
                bench.run(HALTING, "scheduler.cli", "resume", halted[-1], "--after-breach")
            else:
                trials = -(-goal.each // len(OPEN_SITES)) + 1
                bench.run(HALTING, "scheduler.cli", "c7", "--n", str(trials), *sites)


@click.command()
@click.option("--home", type=click.Path(path_type=Path), required=True, help="The calibration's own farm; kept.")
@click.option(
    "--runs", type=click.IntRange(1), default=2_000, show_default=True, help="Attempts with a truth, at least."
)
@click.option("--each", type=click.IntRange(1), default=20, show_default=True, help="Attempts of each fault, at least.")
@click.option("--trials", type=click.IntRange(1), default=25, show_default=True, help="Trials per site and sweep.")
@click.option("--boxes", type=click.IntRange(1), default=2, show_default=True)
@click.option("--seed", type=int, default=7, show_default=True)
@click.option("--leash-scale", type=click.FloatRange(0, 1, min_open=True), default=0.1, show_default=True)
@click.option(
    "--table",
    type=click.Path(path_type=Path, dir_okay=False),
    default=ROOT / "docs" / "reference" / "calibration-table.md",
    help="Page of tables to write.  [default: docs/reference/calibration-table.md]",
)
def main(  # noqa: PLR0917 - click passes all by name
    home: Path, runs: int, each: int, trials: int, boxes: int, seed: int, leash_scale: float, table: Path
) -> None:
    """Measure the grader against the truth and write the table; exit 1 when anything is misgraded."""
    home = home.expanduser().resolve()
    home.mkdir(parents=True, exist_ok=True)
    # a terminal that hangs up must not leave a farm behind
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    bench = Bench(home=home, seed=seed, leash_scale=leash_scale, boxes=boxes, log=home / "calibration.log")
    goal, began = Goal(runs=runs, each=each), time.monotonic()
    run_mixed(bench, goal, trials, began)
    run_halting(bench, goal, began)
    code, document = bench.calibrate("none", "--markdown", str(table.resolve()))
    say(document, missing(document, known_faults(), each), began)
    for wrong in document["misgraded"]:
        click.echo(f"misgraded: {wrong['command']}  fault {wrong['fault']}: {wrong['truth']} / {wrong['verdict']}")
    click.echo(f"table: {table}")
    sys.exit(code)


if __name__ == "__main__":
    main()
