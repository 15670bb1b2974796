"""bv3-box probe and health-check on real stacks: what they find, what they leave, and whom they wait for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from broker.errors import UsageError
from workers.healthpage import serve_page
from workers.journal import Journal
from workers.processes import ProcessBook
from workers.trial_commands import refuse_live

PROMPT = 'Go to https://x.com/ and publish a post with exactly this text: "probe k3f9x coverage alpha"'


@pytest.fixture(autouse=True)
def nothing_is_left(box: Any) -> Iterator[None]:
    yield
    with box.product() as product:
        assert product.list_sessions() == ()
        assert set(product.list_cards()) == {box.facts.audit_card, box.facts.raw_card}
        assert product.count_active() == 0


def test_probe_shows_where_a_pages_text_surfaces(box: Any) -> None:
    done = box.run("probe", PROMPT, "First light tonight", "--json")
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    counts = {place["name"]: place["count"] for place in plain["places"]}
    pages = {name: count for name, count in counts.items() if name.startswith("live page ")}
    assert sum(pages.values()) == 1
    assert len(pages) == 2, "a page's text, and its text fields"
    assert all(count == 0 for name, count in counts.items() if name not in pages), counts
    assert {"parent: assistant", "parent: tool_result browser_trace", "child 1: assistant", "log slice"} <= set(counts)
    assert (plain["mode"], plain["status"], plain["stayed"]) == ("dry", "completed", "")


def test_probe_tells_an_echo_from_what_was_found_and_ends_with_1_when_nowhere(box: Any) -> None:
    done = box.run("probe", PROMPT, "and publish a post with")
    assert done.returncode == 1, done.stdout
    lines = done.stdout.decode().splitlines()
    [asked] = [line for line in lines if line.startswith("parent: user ")]
    assert "  1  (said to the product) ..." in asked or "  1  (said to the product) Go to" in asked
    assert [line.split()[-1] for line in lines if line.startswith("log slice")] == ["0"]


def test_health_check_passes_on_a_well_box(box: Any) -> None:
    done = box.run("health-check", "--json")
    assert done.returncode == 0, (done.stdout, done.stderr)
    plain = json.loads(done.stdout)
    assert set(plain) == {"passed", "detail", "duration_ms"}
    assert plain["passed"] is True
    assert box.run("health-check").stdout.decode().startswith("passed in ")


@contextmanager
def stopped(box: Any, part: str) -> Iterator[None]:
    """The part and all its processes stand still within the block."""
    process = psutil.Process(box.find_part(part).pid)
    family = [process, *process.children(recursive=True)]
    for one in family:
        os.kill(one.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in family:
            os.kill(one.pid, signal.SIGCONT)


@pytest.mark.parametrize(("part", "said"), [("renderer", "renderer"), ("router", "router"), ("backend", "backend")])
def test_health_check_fails_in_time_and_names_the_part_that_stands_still(
    box: Any, wait_until: Any, part: str, said: str
) -> None:
    begun = time.monotonic()
    with stopped(box, part):
        done = box.run("health-check", "--json")
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert time.monotonic() - begun < 60
    plain = json.loads(done.stdout)
    assert plain["passed"] is False
    assert said in plain["detail"]
    wait_until(lambda: box.run("health-check").returncode == 0, "the box is well again", 90)


def test_renderer_that_stops_in_the_middle_fails_the_check_in_time(box: Any, wait_until: Any) -> None:
    begun = time.monotonic()
    with box.start("health-check", "--budget", "5", "--json") as check:
        with box.product() as product:
            wait_until(product.list_sessions, "the check's session")
        with stopped(box, "renderer"):
            out, _ = check.communicate(timeout=120)
    assert time.monotonic() - begun < 100
    assert check.returncode == 1, out
    assert json.loads(out)["passed"] is False
    # the next one removes what this one could not
    wait_until(lambda: box.run("health-check").returncode == 0, "the box is well again", 90)


def test_neither_begins_while_a_run_is_in_progress_or_somebody_else_is_at_it(box: Any, tmp_path: Path) -> None:
    journal = Journal(box.folder / "journal.sqlite")
    journal.intend(1, 1, nonce="n", sweep="c7-1", name="x#1", since_s=time.monotonic(), wall_limit_s=300)
    journal.mark_started(1, 1, attempt=1, attempt_no=1)
    try:
        for words in (("probe", PROMPT, "text"), ("health-check",)):
            done = box.run(*words)
            assert done.returncode == 3
            assert b"a run is in progress: c7-1 x#1" in done.stderr
    finally:
        journal.settle()
        journal.close()
    with box.start("probe", PROMPT, "text") as other:
        assert other.stderr is not None
        assert b"one session on hand, dry" in other.stderr.readline()
        done = box.run("health-check")
        assert done.returncode == 3
        assert b"a probe works on this box's product" in done.stderr
        refused = box.run("preflight")
        assert refused.returncode == 1
        assert f"the product is in use: a probe by hand (pid {other.pid})".encode() in refused.stdout
        other.communicate(timeout=60)


def test_probe_leaves_a_box_alone_that_works_its_queue_but_a_health_check_does_not_mind(box: Any) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as worker:
        ProcessBook(folder=box.folder).record("worker", worker.pid)
        try:
            done = box.run("probe", PROMPT, "text")
            assert done.returncode == 3
            assert b"works its queue" in done.stderr
            assert box.run("health-check").returncode == 0
        finally:
            worker.kill()


def test_interrupted_probe_removes_what_it_made(box: Any, wait_until: Any) -> None:
    with box.start("probe", PROMPT, "text") as probe:
        with box.product() as product:
            wait_until(product.list_sessions, "the probe's session")
        probe.send_signal(signal.SIGINT)
        probe.communicate(timeout=60)
    assert probe.returncode == 130


def test_empty_needle_is_a_usage_error(box: Any) -> None:
    assert box.run("probe", PROMPT, " ").returncode == 2


def test_live_stack_needs_a_word() -> None:
    # no stand-in runs live, and the real product does so on real accounts
    with pytest.raises(UsageError, match="may really post"):
        refuse_live("live", live=False)
    refuse_live("live", live=True)
    refuse_live("dry", live=False)


def test_checks_page_takes_a_post_shows_it_and_has_an_empty_composer_again(box: Any) -> None:
    press = """new Promise((done) => {
        const area = document.querySelector('textarea');
        area.value = 'check k3f9x of this box';
        document.querySelector('button').click();
        setTimeout(() => done([area.value, document.getElementById('posted').innerText]), 1500);
    })"""
    with serve_page("k3f9x") as page:
        done = box.run("eval", page.url, press)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == ["", "check k3f9x of this box"]
        assert page.posts == ["check k3f9x of this box"]
