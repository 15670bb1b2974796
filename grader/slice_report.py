"""`bv3-grade slice`: reading the file, and what is printed of it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from broker.errors import EXIT_OK, UsageError
from broker.suites.loader import load_suite, suite_names
from broker.types import Bucket, Claim, SiteTask
from grader.render import Line, write_lines
from grader.slicing import Explanation, explain_slice

STDIN = "-"
_WIDTH = 120


def show_slice(path: str, *, site: str | None, as_json: bool) -> int:
    """Prints what the slice in this file (`-`: stdin) says. Raises UsageError when it can't be read."""
    task = None if site is None else find_task(site)
    explanation = explain_slice(_read(path), task)
    if as_json:
        click.echo(json.dumps(asdict(explanation), indent=2, allow_nan=False))
    else:
        write_lines(render_explanation(explanation), sys.stdout, width=_WIDTH)
    return EXIT_OK


def find_task(site: str) -> SiteTask:
    """The task of this site in the shipped suites. Raises UsageError naming the sites there are."""
    tasks = {task.site: task for name in suite_names() for task in load_suite(name).tasks}
    if site not in tasks:
        raise UsageError(f"no suite has the site {site!r}", hint=f"sites: {', '.join(sorted(tasks))}")
    return tasks[site]


def render_explanation(found: Explanation) -> tuple[Line, ...]:
    """The explanation in words: the verdict, the claim, the lines that decided, where the window ends."""
    evidence = f" {found.evidence.value}" if found.evidence else ""
    return (
        Line(text=f"{found.bucket.value}{evidence}: {found.detail}", style="bold"),
        Line(text=f"rule {found.rule}, grader {found.grader_version} (docs/reference/buckets.md)"),
        Line(),
        Line(text=_claim(found)),
        *(Line(text=f"  {line.start:>8} - {line.end:<8} {line.text}") for line in found.lines),
        Line(text=_window(found)),
        Line(),
        Line(text=_limits(found)),
    )


def _claim(found: Explanation) -> str:
    parts = [f"the product claims {found.claim.value}"]
    if found.target:
        parts.append(f"into '{found.target}' on {found.url or '?'}")
    if found.submit is not None:
        parts.append("submit found" if found.submit else "submit not found, or disabled")
    return ", ".join(parts)


def _window(found: Explanation) -> str:
    if found.window_end is None:
        return f"  the window is the whole slice, {found.size} bytes"
    return f"  the window ends at byte {found.window_end} of {found.size}, where the next dispatch begins"


def _limits(found: Explanation) -> str:
    """What the slice alone could not tell."""
    limits = ["the product's side alone: bv3's own page read, probes and events are not in a log"]
    if found.site is None:
        limits.append("no surface was judged (--site)")
    if found.claim is Claim.SENT and found.bucket is Bucket.PRODUCT_UNCONFIRMED:
        limits.append("a false success if the run was dry, which this slice does not show")
    return "; ".join(limits)


def _read(path: str) -> bytes:
    if path == STDIN:
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path of any bytes, as typed
            return file.read()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{path}: {why}", hint="FILE is a log slice; - reads it from standard input") from error
