"""The page shapes of the contract, each served on a port of its own, through a whole run and its verdict.

The bucket is what is true of the page, also where the harness before bv3 said something else.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from broker.codec import decode
from broker.store.box_client import StartAnswer
from broker.suites import load_suite
from broker.types import Mode, RunOrder, RunRecord, SiteTask
from grader.grading import Graded, grade_record
from infra.reference.faults import choose, parse
from workers.attempt import Bench
from workers.journal import Journal
from workers.preflight import Refusal
from workers.record import BoxFacts
from workers.runner import Runner
from workers.workplace import evidence_store, journal_path, make_preflight

FILLER = "<p>" + "A page on loopback for one measurement, with words enough to count as mounted. " * 4 + "</p>"
STYLE = "<style>textarea,[contenteditable]{display:block;width:400px;min-height:60px}</style>"
POST = "<button type='button'>Post</button>"


def _page(title: str, body: str) -> str:
    return f"<!doctype html><meta charset=utf-8><title>{title}</title>{STYLE}<h1>{title}</h1>{FILLER}{body}"


LAZY = """<button type="button" id="open">Start a post</button><div id="place"></div><script>
document.getElementById("open").onclick = (event) => {
  event.target.remove();
  setTimeout(() => {
    place.innerHTML = '<textarea aria-label="Write a post"></textarea><button type="button">Post</button>';
  }, 300);
};
</script>"""
DISABLED = """<textarea aria-label="Write a post"></textarea><input aria-label="Title">
<button type="button" disabled>Post</button>"""
LOGIN = """<form><label>Email <input type="email"></label><label>Password <input type="password"></label>
<button>Log in</button></form>"""
REJECT = """<div contenteditable="true" role="textbox" aria-label="Write a post" id="box"></div>
<button type="button">Post</button><script>
box.addEventListener("beforeinput", (event) => event.preventDefault());
new MutationObserver(() => { if (box.textContent) box.textContent = ""; }).observe(
  box, {childList: true, subtree: true, characterData: true});
</script>"""
TWO = f"""<textarea aria-label="Write a reply"></textarea>{POST}
<section><textarea aria-label="Write a comment"></textarea>{POST}</section>"""
FRAME = """<iframe src="/inside" width="500" height="200"></iframe>"""
INSIDE = f"<!doctype html><meta charset=utf-8>{STYLE}<textarea aria-label='Write a post'></textarea>{POST}"
MESSAGE_BOX = """<div role="textbox" contenteditable="true" aria-label="Direct message"></div>
<button type="button">Send message</button>"""
SIGNED_OUT = '<nav><a href="/login">Sign in</a></nav><p>Posts of people you follow show up here.</p>'
CAPTCHA = "<p>Verify you are human. Complete the CAPTCHA to continue.</p>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A page, and what is true of a run on it."""

    name: str
    body: str
    bucket: str
    # what an exclusion rests on
    evidence: str | None = None
    path: str = "/box"
    more: tuple[tuple[str, str], ...] = ()


SHAPES = [
    Shape(name="textarea", body=f'<textarea aria-label="Write a post"></textarea>{POST}', bucket="ok"),
    Shape(
        name="contenteditable",
        body=f'<div contenteditable="true" role="textbox" aria-label="Post text"></div>{POST}',
        bucket="ok",
    ),
    Shape(name="unnamed", body=f"<textarea></textarea>{POST}", bucket="ok"),
    Shape(name="lazy", body=LAZY, bucket="ok"),
    Shape(name="disabled", body=DISABLED, bucket="ok"),
    Shape(name="login", body=LOGIN, path="/login", bucket="not_measurable", evidence="PROVEN"),
    Shape(name="empty", body="<p>Nothing to write in.</p>", bucket="product_no_composer"),
    Shape(name="reject", body=REJECT, bucket="product_fill_died"),
    Shape(name="two", body=TWO, bucket="ok"),
    Shape(name="frame", body=FRAME, more=(("/inside", INSIDE),), bucket="ok"),
    # the old table has it as ok: a private box on a public task is a wrong surface
    Shape(name="message_box", body=MESSAGE_BOX, bucket="product_wrong_surface"),
    Shape(name="signed_out", body=SIGNED_OUT, bucket="not_measurable", evidence="UNVERIFIED"),
    # the old exclusion never fired, since no page words reach the log; bv3 reads the page itself
    Shape(name="captcha", body=CAPTCHA, bucket="not_measurable", evidence="PROVEN"),
]


class FarmOfOne:
    """Grants every start, with a payload that the test has chosen."""

    def __init__(self) -> None:
        self.payload = ""
        self.attempts = 0
        self.released: list[str] = []

    def start(self, _order: RunOrder, _nonce: str) -> StartAnswer:
        self.attempts += 1
        return StartAnswer(won=True, attempt=self.attempts, attempt_no=1, payload=self.payload)

    def tell_phase(self, _attempt: int, _phase: str) -> None:
        """Nobody follows."""

    def finish(self, _attempt: int) -> bool:
        return True

    def release(self, _order: RunOrder, reason: str, _facts: Any = None) -> None:
        self.released.append(reason)


class Workbench:
    """Runs tasks on a booted stack as a box's worker does, and grades what came of them."""

    def __init__(self, stack: Any) -> None:
        self.stack = stack
        self.farm = FarmOfOne()
        self.orders = 0
        box = stack.box
        self.journal = Journal(journal_path(box))
        self.preflight = make_preflight(box, stack.facts)
        bench = Bench(preflight=self.preflight, journal=self.journal, evidence=evidence_store(box))
        self.bench = bench
        facts = BoxFacts(
            box=box.name,
            lane=box.lane,
            renderer=stack.facts.renderer,
            product_revision=stack.facts.revision,
            versions={},
            faults=box.reference.told,
            leash_scale=box.reference.leash_scale,
        )
        farm: Any = self.farm
        self.runner = Runner(
            bench=bench,
            farm=farm,
            box=facts,
            announce=lambda _: None,
            make_nonce=lambda: uuid.uuid4().hex,
            read_drained=lambda: None,
        )

    def close(self) -> None:
        self.journal.close()
        self.preflight.product.close()
        self.preflight.router.close()

    def run(self, task: SiteTask, payload: str, *, wait_until: Callable[..., None]) -> tuple[RunRecord, Graded]:
        """The record and the verdict of one run; a box that is not fit yet is waited for."""
        self.farm.payload = payload

        def is_done() -> bool:
            self.orders += 1
            order = RunOrder(
                sweep="c7-20261129T220003Z-0001",
                run=self.orders,
                dispatch=self.orders,
                arm="default",
                trial=1,
                mode=Mode.DRY,
                task=task,
            )
            return not isinstance(self.runner.run(order), Refusal)

        wait_until(is_done, "a box that is fit", 120.0)
        [kept] = [kept for kept in self.journal.list_kept() if kept.attempt == self.farm.attempts]
        record = decode(RunRecord, kept.record)
        logs = [item.sha256 for item in record.evidence if item.name == "log"]
        log = self.bench.evidence.read(kept.attempt, logs[0]) if logs else b""
        return record, grade_record(record, log or b"", task)


@pytest.fixture(scope="module")
def bench(stack: Any) -> Iterator[Workbench]:
    """A worker at the reference stack."""
    made = Workbench(stack)
    yield made
    made.close()


def _make_task(shape: Shape, url: str) -> SiteTask:
    return SiteTask(
        site=shape.name,
        prompt=f'Go to {url} and create a post with exactly this text: "{{payload}}"',
        payload="probe {nonce} shape alpha",
        entry=url,
        host=str(urlsplit(url).hostname),
        path_rule=f"^{shape.path}$",
        visibility="public",
        kind="post",
        editor_shape=shape.name,
    )


# One stack for all of them.
@pytest.mark.xdist_group("page_shapes")
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape.name))
def test_page_shape_comes_to_its_true_bucket_each_time(
    shape: Shape, bench: Workbench, serve_pages: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    pages = serve_pages({shape.path: _page(shape.name, shape.body), **dict(shape.more)})
    task = _make_task(shape, pages.url + shape.path)
    for repeat in ("k3f9x", "p7w2q"):
        record, graded = bench.run(task, f"probe {repeat} shape alpha", wait_until=wait_until)
        verdict = graded.verdict
        assert (verdict.bucket, verdict.evidence) == (shape.bucket, shape.evidence), (graded, record)
        assert [error for error in record.errors if error.phase == "teardown"] == []
        _assert_nothing_is_left(bench, record)


def _assert_nothing_is_left(bench: Workbench, record: RunRecord) -> None:
    assert record.parent is not None
    product, facts = bench.bench.product, bench.bench.facts
    sessions = [record.parent.session_id, *(child.session_id for child in record.children)]
    assert product.list_left(sessions=sessions, cards=sorted({read.card for read in record.reads})) == ()
    assert product.list_sessions() == ()
    assert set(product.list_cards()) == {facts.audit_card, facts.raw_card}


@pytest.mark.xdist_group("page_shapes")
def test_after_real_runs_the_renderer_s_is_the_one_dashboard_connection_there_ever_was(
    bench: Workbench, serve_pages: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    shape = SHAPES[0]
    pages = serve_pages({shape.path: _page(shape.name, shape.body)})
    task = _make_task(shape, pages.url + shape.path)
    for repeat in ("a1b2c", "d3e4f"):
        bench.run(task, f"probe {repeat} shape alpha", wait_until=wait_until)
    renderer = psutil.Process(bench.stack.find_part("renderer").pid)
    told = bench.stack.ask("/reference/connections")
    assert told["dashboards_ever"] == 1
    ours = {line.laddr.port for line in renderer.net_connections("tcp")}
    assert set(told["dashboard_ports"]) <= ours


# -- The faults of the same table --------------------------------------------------------------------

FAULTS = {
    "command_hang": "product_command_timeout",
    "reads_hang": "product_command_timeout",
    "provider_overloaded": "infra_router",
    "no_provider": "infra_router",
    "no_router": "infra_router",
    # last: the renderer has to come up anew after it
    "renderer_killed": "infra_no_renderer",
}
MIX = ",".join(FAULTS)


@pytest.mark.xdist_group("page_shapes")
def test_faults_of_the_surroundings_come_to_their_true_buckets(
    boot: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    [task] = [task for task in load_suite("known").tasks if task.site == "x"]
    with ExitStack() as ending:
        faulty = Workbench(boot(reference=f'faults = "{MIX}"\nseed = 7\nleash_scale = 0.1'))
        ending.callback(faulty.close)
        found = {}
        for fault in FAULTS:
            payload = next(
                text
                for text in (f"probe {number:05} coverage alpha" for number in range(10_000))
                if (chosen := choose(7, text, parse(MIX))) is not None and chosen.name == fault
            )
            record, graded = faulty.run(task, payload, wait_until=wait_until)
            found[fault] = graded.verdict.bucket
            assert record.parent is None or record.parent.status != "running"
    assert found == FAULTS
