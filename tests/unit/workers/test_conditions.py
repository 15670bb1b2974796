"""What refuses a run, judged from what was read."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from broker.types import Mode, Seen
from workers import conditions
from workers.clock import Offset
from workers.conditions import (
    REASONS,
    Answer,
    BackendView,
    BackendWanted,
    Program,
    ProgramWords,
    choose_others,
)
from workers.preflight_report import format_json, format_lines, list_refusals

ROOT = Path(__file__).parents[3]
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
REFERENCE = ProgramWords(executable="/usr/bin/python3.11", words=("-m", "infra.reference", "backend"))
PRODUCT = ProgramWords(
    executable="/opt/python3.13/bin/python3.13",
    words=("-m", "uvicorn", "backend.main:app", "--port", "8326", "--host", "127.0.0.1"),
)


@pytest.mark.parametrize(
    ("executable", "arguments"),
    [
        ("/usr/bin/python3.11", "python -m uvicorn backend.main:app --port 8326 --host 127.0.0.1"),
        # a person's own, on another port, with another interpreter and other options
        ("/usr/bin/python3.13", "python3 -m uvicorn backend.main:app --host 127.0.0.1 --port 8324 --reload"),
        ("/usr/bin/python3", "python3 -m uvicorn backend.main:app"),
        ("/usr/bin/python3.13 (deleted)", "python -m uvicorn backend.main:app --port 8326"),
        # the module's own script
        ("/usr/bin/python3.13", "/opt/x/bin/python /opt/x/bin/uvicorn backend.main:app --port 8324"),
    ],
)
def test_backend_on_whatever_port_is_one(executable: str, arguments: str) -> None:
    assert PRODUCT.match(executable, arguments.split())


@pytest.mark.parametrize(
    ("executable", "arguments"),
    [
        ("/bin/dash", ["sh", "-c", "python -m uvicorn backend.main:app --port 8326 --host 127.0.0.1"]),
        ("/bin/dash", ["python", "-m", "uvicorn", "backend.main:app"]),
        ("/usr/bin/python3.13", ["python", "-m uvicorn backend.main:app"]),
        ("/usr/bin/python3.13", ["python", "-c", "import x", "-m", "uvicorn", "backend.main:app"]),
        ("/usr/bin/python3.13", ["python", "-m", "supervisor.supervisord", "-n", "uvicorn", "backend.main:app"]),
        ("/usr/bin/python3.13", ["python", "-m", "uvicorn", "other.main:app", "--port", "8326"]),
        ("/usr/bin/pgrep", ["pgrep", "-f", "uvicorn backend.main:app"]),
        ("/usr/bin/node", ["node", "-m", "uvicorn", "backend.main:app"]),
        ("/usr/bin/python3.13", ["python"]),
        ("/usr/bin/python3.13", []),
        # webpack gives itself another title: one argument with blanks in it
        ("/usr/bin/node", ["webpack serve --port 3026"]),
    ],
)
def test_what_quotes_a_backend_or_is_another_program_is_none(executable: str, arguments: list[str]) -> None:
    assert not PRODUCT.match(executable, arguments)


def test_other_parts_of_the_same_stack_are_no_backends() -> None:
    assert REFERENCE.match("/usr/bin/python3.11", ["python", "-m", "infra.reference", "backend"])
    assert not REFERENCE.match("/usr/bin/python3.11", ["python", "-m", "infra.reference", "router", "--port", "1"])
    assert not REFERENCE.match("/usr/bin/python3.11", ["python", "-m", "infra.reference"])


def program(pid: int, *, parent: int = 1, group: int = 0, box_folder: str | None = None) -> Program:
    return Program(pid=pid, parent=parent, group=group or pid, box_folder=box_folder)


def test_own_backend_and_its_children_are_no_others() -> None:
    found = [program(10), program(11, parent=10), program(12, parent=11, group=10), program(20)]
    others = choose_others(found, ours=10, folder="/box", is_alone_in_namespace=True)
    assert [item.pid for item in others] == [20]


def test_where_boxes_share_a_namespace_only_a_backend_with_this_box_s_mark_is_another() -> None:
    found = [
        program(10, box_folder="/box"),
        program(20, box_folder="/other"),
        program(30),
        program(40, box_folder="/box"),
    ]
    others = choose_others(found, ours=10, folder="/box", is_alone_in_namespace=False)
    assert [item.pid for item in others] == [40]


def test_without_a_backend_of_its_own_every_one_is_another() -> None:
    others = choose_others([program(20)], ours=None, folder="/box", is_alone_in_namespace=True)
    assert [item.pid for item in others] == [20]


@pytest.mark.parametrize(
    ("have", "least", "answer"),
    [
        (64, 64, Answer.OK),
        (63, 64, Answer.REFUSED),
        (None, 64, Answer.COULD_NOT_LOOK),
        (0, None, Answer.NOT_LOOKED_AT),
    ],
)
def test_what_is_left_is_enough_at_the_limit(have: int | None, least: int | None, answer: Answer) -> None:
    found = conditions.judge_least("space", have, least, "MB are free")
    assert found.answer is answer
    if answer is Answer.REFUSED:
        assert found.said == "63 MB are free, 64 are needed"


@pytest.mark.parametrize(
    ("have", "most", "answer"),
    [(2.0, 2.0, Answer.OK), (2.01, 2.0, Answer.REFUSED), (99.0, None, Answer.NOT_LOOKED_AT)],
)
def test_what_may_be_is_allowed_up_to_the_limit(have: float, most: float | None, answer: Answer) -> None:
    assert conditions.judge_most("load", have, most, "is the load").answer is answer


@pytest.mark.parametrize(
    ("offset_s", "uncertainty_s", "age_s", "answer"),
    [
        (2.0, 0.0, 1, Answer.OK),
        (-2.1, 0.01, 1, Answer.REFUSED),
        (3600.0, 0.1, 1, Answer.REFUSED),
        # they may agree: the answer took eight seconds
        (5.0, 4.0, 1, Answer.OK),
        (3600.0, 0.1, 61, Answer.COULD_NOT_LOOK),
        # noted before this machine's clock was set back
        (3600.0, 0.1, -3600, Answer.COULD_NOT_LOOK),
    ],
)
def test_clock_refuses_only_what_is_certain_and_fresh(
    offset_s: float, uncertainty_s: float, age_s: float, answer: Answer
) -> None:
    offset = Offset(offset_s=offset_s, uncertainty_s=uncertainty_s, noted_at=NOON - timedelta(seconds=age_s))
    assert conditions.judge_clock(offset, 2.0, now=NOON, has_farm=True).answer is answer


def test_box_without_an_offset_is_not_refused() -> None:
    assert conditions.judge_clock(None, 2.0, now=NOON, has_farm=True).answer is Answer.COULD_NOT_LOOK
    assert conditions.judge_clock(None, 2.0, now=NOON, has_farm=False).answer is Answer.NOT_LOOKED_AT


VIEW = BackendView(pid=7, executable="/usr/bin/python3.13", folder="/src", words=("-m", "x"), mode=Mode.DRY)
WANTED = BackendWanted(executable="/usr/bin/python3.13", folder="/src", words=("-m", "x"))


def test_backend_as_booted_holds() -> None:
    assert conditions.judge_build(VIEW, WANTED).answer is Answer.OK


@pytest.mark.parametrize(
    ("view", "answer"),
    [
        ({"executable": "/usr/bin/python3.12"}, Answer.REFUSED),
        ({"folder": "/elsewhere"}, Answer.REFUSED),
        ({"words": ("-m", "y")}, Answer.REFUSED),
        ({"words": ("-m", "x", "--reload")}, Answer.REFUSED),
        ({"executable": None}, Answer.COULD_NOT_LOOK),
        ({"folder": None}, Answer.COULD_NOT_LOOK),
        ({"executable": None, "words": ()}, Answer.REFUSED),
    ],
)
def test_backend_that_differs_is_another_build(view: dict[str, object], answer: Answer) -> None:
    plain = {name: getattr(VIEW, name) for name in ("pid", "executable", "folder", "words", "mode")}
    assert conditions.judge_build(BackendView(**{**plain, **view}), WANTED).answer is answer


@pytest.mark.parametrize(
    ("head", "revision", "answer"),
    [
        ("21a08c23aa", "21a08c23aa", Answer.OK),
        ("21a08c23aa", "21a08c23", Answer.OK),
        ("21a08c23aa", "21a08c23aa+changed", Answer.OK),
        ("21a08c23aa", "31a08c23aa", Answer.REFUSED),
        (None, "21a08c23aa", Answer.COULD_NOT_LOOK),
        ("21a08c23aa", "", Answer.COULD_NOT_LOOK),
    ],
)
def test_checkout_that_moved_on_is_another_build(head: str | None, revision: str, answer: Answer) -> None:
    assert conditions.judge_revision(head, revision).answer is answer


def test_mode_log_others_and_foreign_ports_say_what_was_seen() -> None:
    found = [
        conditions.judge_mode(Mode.LIVE, Mode.DRY),
        conditions.judge_log(Seen.ABSENT, "/log"),
        conditions.judge_alone(["pid 5 (python)"], "", port=8326, count=3),
        conditions.judge_alone([], "pid 6 (nc)", port=8326, count=0),
        conditions.judge_foreign({8324: "pid 9 (nc)"}, {8324, 3000}),
    ]
    assert {item.answer for item in found} == {Answer.REFUSED}
    assert [item.said for item in found] == [
        "the backend runs live, the order wants dry",
        "the backend does not write /log: it was moved, removed or replaced",
        "3 backends run beside ours: pid 5 (python) and 2 more",
        "port 8326 is also listened on by pid 6 (nc)",
        "pid 9 (nc) listens on port 8324",
    ]
    assert conditions.judge_log(Seen.COULD_NOT_LOOK, "/log").answer is Answer.COULD_NOT_LOOK
    assert conditions.judge_foreign({}, ()).answer is Answer.NOT_LOOKED_AT
    assert conditions.judge_foreign({}, {8324}).answer is Answer.OK


def test_report_names_all_that_refuse_each_once() -> None:
    found = [
        conditions.hold("space", "enough"),
        conditions.refuse("foreign", "pid 9 listens"),
        conditions.refuse("router", "away"),
        conditions.refuse("router", "away"),
        conditions.could_not_look("log", "not here"),
    ]
    assert list_refusals(found) == ("foreign", "router")
    plain = json.loads(format_json("box-a", found, duration_ms=7))
    assert (plain["fit"], plain["refused"], plain["duration_ms"]) == (False, ["foreign", "router"], 7)
    assert plain["conditions"][4] == {"reason": "log", "answer": "could not look", "said": "not here"}
    assert list(format_lines("box-a", found, duration_ms=7))[-1] == "box-a: refused: foreign, router (looked for 7 ms)"
    assert list(format_lines("box-a", found[:1], duration_ms=7))[-1] == "box-a: fit (looked for 7 ms)"


def test_page_names_every_reason_in_the_order_of_looking_with_the_same_words() -> None:
    page = (ROOT / "docs/reference/preflight.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.MULTILINE)
    assert rows == list(REASONS.items())


def test_answers_of_the_page_are_the_code_s() -> None:
    page = (ROOT / "docs/reference/preflight.md").read_text("utf-8")
    assert re.findall(r"^- `([a-z ]+)`:", page, re.MULTILINE) == [answer.value for answer in Answer]
