"""One table of calls, three products: the real one's replies, replies written from its contract, the reference stack.

Whatever the client makes of a reply of the real product it must make of the stand-in's, and the stand-in's replies have
the fields and kinds of values that the real one's have. So neither can drift from what was recorded.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.errors import Bv3Error
from workers.client.errors import (
    BackendRefusedError,
    CommandFailedError,
    NoAnswerError,
    NoCardError,
    NoRendererError,
    NotFoundError,
    NotLetInError,
)
from workers.client.product import ProductAddress, ProductClient
from workers.client.views import DashboardView

Frame = dict[str, Any]
PAGE = (
    '<!doctype html><meta charset="utf-8"><title>Box</title><h1>Write</h1><p>A page with one box for one line.</p>'
    '<div><div contenteditable="true" role="textbox" aria-label="Post text" style="width:400px;min-height:60px"></div>'
    "<button>Post</button></div>"
)
CARD = "browser-c0ffee00"
SESSION = "5e55100000000000000000000000a001"
NOWHERE = "0" * 32
NEVER_RECORDED = {"health", "activity", "list_dashboards", "browser_agents", "stop", "cmd_timeout"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a call's path and body are filled with."""

    session: str
    dashboard: str
    card: str
    page: str = "http://127.0.0.1:9911/ce"

    def fill(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self.fill(item) for key, item in value.items()}
        if isinstance(value, str):
            return re.sub(r"<(session|dashboard|card|page)>", lambda found: str(getattr(self, found[1])), value)
        return value


Act = Callable[[ProductClient, Setting], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A call of the client, the request that it must make, and what must come of its reply."""

    # of the reply's file
    name: str
    method: str = "POST"
    path: str = "/api/browser/command"
    body: Frame | None = None
    # None: the client has no method that would ask this, so only the replies are compared
    act: Act | None
    check: Callable[[Any], None] = lambda _: None
    # cases that come before it on a stack that has a state
    before: tuple[str, ...] = ()
    session: str = ""
    dashboard: str = ""
    # the reference stack that it needs: whole, or without router and renderer
    is_bare: bool = False
    # whether the stand-in can be brought to answer so in a moment
    is_quick: bool = True

    @property
    def is_recorded(self) -> bool:
        """Whether there is a reply of the real product."""
        return self.name not in NEVER_RECORDED


def _command(name: str, action: str, check: Callable[[Any], None], *, card: str = "<card>", **more: Any) -> Case:
    params = more.pop("params", {})
    return Case(
        name=name,
        body={"action": action, "browser_id": card, "params": params},
        act=lambda client, setting: client.command(action, setting.fill(card), setting.fill(params)),
        check=check,
        **more,
    )


def _fails(kind: type[Bv3Error], *, text: str = "", status: int | None = None) -> Callable[[Any], None]:
    def check(outcome: Any) -> None:
        assert type(outcome) is kind, repr(outcome)
        assert text in outcome.message
        assert getattr(outcome, "status", None) == status

    return check


def _holds(**fields: object) -> Callable[[Any], None]:
    """The reply has these values; a pattern must be found in the text."""

    def check(reply: Any) -> None:
        assert isinstance(reply, dict), repr(reply)
        for name, wanted in fields.items():
            if isinstance(wanted, re.Pattern):
                assert wanted.search(reply[name]), reply[name]
            else:
                assert reply[name] == wanted, reply
        assert isinstance(reply["request_id"], str)
        assert {type(reply["gate_ms"]), type(reply["total_ms"])} <= {int, float}

    return check


def _is_nothing(outcome: Any) -> None:
    assert outcome is None


def _is_id(outcome: Any) -> None:
    assert re.fullmatch(r"[0-9a-f]{32}", outcome)


def _is_dashboard(outcome: Any) -> None:
    assert isinstance(outcome, DashboardView)
    assert re.fullmatch(r"[0-9a-f]{32}", outcome.dashboard_id)
    layers = {"cards", "view_cards", "browser_cards", "workflow_cards", "workflows_hub", "expanded_session_ids"}
    assert layers <= set(outcome.layout)


def _is_picture(outcome: Any) -> None:
    assert base64.b64decode(outcome["image"]).startswith(b"\x89PNG")


def _is_new_session(outcome: Any) -> None:
    assert (outcome.status, outcome.reply, outcome.receipt, outcome.approvals) == ("running", "", "", ())
    assert outcome.event_seq >= 1


def _is_failed_session(outcome: Any) -> None:
    assert (outcome.status, outcome.receipt) == ("error", "")
    assert outcome.reply.startswith("Error: 9Router is not running")


def _are_sessions(outcome: Any) -> None:
    assert outcome
    assert all(line.session_id and line.mode in {"agent", "browser-agent"} for line in outcome)


def _is_listing(*, value: str = "") -> Callable[[Any], None]:
    def check(outcome: Any) -> None:
        head, *rows = outcome["text"].splitlines()
        assert head.startswith("2 interactive elements (* = new since your last look;")
        assert re.fullmatch(rf'\[1\]\*?<textbox "Post text"{value}>', rows[0])
        assert re.fullmatch(r'\[2\]\*?<button "Post">', rows[1])
        assert outcome["elements"][0] == {"index": 1, "role": "textbox", "name": "Post text"}

    return check


def _are_ids(outcome: Any) -> None:
    assert outcome
    assert all(re.fullmatch(r"[0-9a-f]{32}", item) for item in outcome)


def _are_children(outcome: Any) -> None:
    assert all(re.fullmatch(r"[0-9a-f]{32}", child.session_id) and child.status for child in outcome)


def _is_quiet(outcome: Any) -> None:
    assert outcome == 0


SESSIONS = "/api/agents/sessions"
HERE = "/api/dashboards/<dashboard>"
CASES = [
    Case(name="health", method="GET", path="/api/health/check", act=lambda c, _: c.check_health(), check=_is_nothing),
    Case(
        name="activity",
        method="GET",
        path="/api/agents/activity",
        act=lambda c, _: c.count_active(),
        check=_is_quiet,
    ),
    Case(
        name="list_dashboards",
        method="GET",
        path="/api/dashboards/list",
        act=lambda c, _: c.list_dashboards(),
        check=_are_ids,
    ),
    Case(name="get_dashboard", method="GET", path=HERE, act=lambda c, _: c.read_dashboard(), check=_is_dashboard),
    Case(
        name="get_dashboard_404",
        method="GET",
        path=HERE,
        dashboard=NOWHERE,
        act=lambda c, _: c.read_dashboard(),
        check=_fails(NotFoundError, text="Dashboard not found", status=404),
    ),
    Case(
        name="launch",
        path="/api/agents/launch",
        body={"name": "bv3 contract", "mode": "agent", "dashboard_id": "<dashboard>", "model": "opus-4-8"},
        act=lambda c, _: c.launch("contract"),
        check=_is_id,
    ),
    Case(name="launch_noname", path="/api/agents/launch", body={}, act=None),
    Case(
        name="session_initial",
        method="GET",
        path=f"{SESSIONS}/<session>",
        act=lambda c, s: c.read_session(s.session),
        check=_is_new_session,
    ),
    Case(
        name="session_after",
        method="GET",
        path=f"{SESSIONS}/<session>",
        act=lambda c, s: c.read_session(s.session),
        check=_is_failed_session,
        before=("message",),
        is_bare=True,
    ),
    Case(
        name="session_gone",
        method="GET",
        path=f"{SESSIONS}/<session>",
        session=NOWHERE,
        act=lambda c, s: c.read_session(s.session),
        check=_fails(NotFoundError, text="Session not found", status=404),
    ),
    Case(
        name="sessions",
        method="GET",
        path=SESSIONS,
        act=lambda c, _: c.list_sessions(),
        check=_are_sessions,
    ),
    Case(
        name="browser_agents",
        method="GET",
        path=f"{SESSIONS}/<session>/browser-agents",
        act=lambda c, s: c.list_children(s.session),
        check=_are_children,
    ),
    Case(
        name="message",
        path=f"{SESSIONS}/<session>/message",
        body={"prompt": "hello"},
        act=lambda c, s: c.send_message(s.session, "hello"),
        check=_is_nothing,
        is_bare=True,
    ),
    Case(
        name="msg_empty",
        path=f"{SESSIONS}/<session>/message",
        body={"prompt": ""},
        act=lambda c, s: c.send_message(s.session, ""),
        check=_fails(BackendRefusedError, text="prompt is required", status=400),
    ),
    Case(
        name="msg_404",
        path=f"{SESSIONS}/<session>/message",
        session=NOWHERE,
        body={"prompt": "hello"},
        act=lambda c, s: c.send_message(s.session, "hello"),
        check=_fails(BackendRefusedError, text="Internal Server Error", status=500),
    ),
    Case(
        name="stop",
        path=f"{SESSIONS}/<session>/stop",
        body={},
        act=lambda c, s: c.stop_session(s.session),
        check=_is_nothing,
    ),
    Case(
        name="del",
        method="DELETE",
        path=f"{SESSIONS}/<session>",
        act=lambda c, s: c.delete_session(s.session),
        check=_is_nothing,
    ),
    Case(
        name="del_again",
        method="DELETE",
        path=f"{SESSIONS}/<session>",
        session=NOWHERE,
        act=lambda c, s: c.delete_session(s.session),
        check=_is_nothing,
    ),
    _command("bad_browser_cmd", "", _fails(BackendRefusedError, text="action and browser_id", status=400), card=""),
    _command("cmd_eval1", "evaluate", _holds(text="1"), params={"expression": "1"}),
    _command(
        "cmd_evalobj",
        "evaluate",
        lambda reply: json.loads(reply["text"])["u"].startswith("http://127.0.0.1") or pytest.fail(reply["text"]),
        params={"expression": "({u: location.href, n: 2})"},
    ),
    _command(
        "cmd_evalthrow",
        "evaluate",
        _fails(CommandFailedError, text="JS evaluation error: Error: boom"),
        params={"expression": "throw new Error('boom')"},
    ),
    _command("cmd_nav", "navigate", _holds(text=re.compile("^Navigated to http")), params={"url": "<page>"}),
    _command("cmd_gettext", "get_text", _holds(text=re.compile(r"Post\Z"))),
    _command("cmd_li", "list_interactives", _is_listing(), params={"docOrder": True}, before=("cmd_nav",)),
    _command(
        "cmd_fill",
        "click_index",
        _holds(clickedRole="textbox", clickedName="Post text", text=re.compile("^Focused index 1")),
        params={"index": 1, "text": "hello there"},
        before=("cmd_nav", "cmd_li"),
    ),
    _command(
        "cmd_li2",
        "list_interactives",
        _is_listing(value=' value="hello there"'),
        params={"docOrder": True},
        before=("cmd_nav", "cmd_li", "cmd_fill"),
    ),
    _command(
        "cmd_find",
        "find_composer",
        _holds(found=True, filled=True, nearSubmit=True, tag="div", selector='[data-osw-composer="1"]', reveals=[]),
        params={"fill": "hello there", "reveal": True},
        before=("cmd_nav",),
    ),
    _command("cmd_shot", "screenshot", _is_picture, params={"annotate": False}),
    _command(
        "cmd_stale",
        "click_index",
        _fails(CommandFailedError, text="Index 99 is not in the cached element map."),
        params={"index": 99},
        before=("cmd_nav", "cmd_li"),
    ),
    _command("cmd_unknown", "frobnicate", _fails(CommandFailedError, text="Unknown browser action: frobnicate")),
    _command(
        "cmd_nocard",
        "evaluate",
        _fails(NoCardError, text="Browser card 'browser-none' not found"),
        params={"expression": "1"},
        card="browser-none",
    ),
    _command(
        "nodash_browser_cmd",
        "evaluate",
        _fails(NoRendererError, text="No dashboard is connected."),
        params={"expression": "1"},
        is_bare=True,
    ),
    _command(
        "cmd_timeout",
        "evaluate",
        _fails(NoAnswerError, text="evaluate on "),
        params={"expression": "while (true);"},
        is_quick=False,
    ),
]
BY_NAME = {case.name: case for case in CASES}
ACTING = [case for case in CASES if case.act is not None]


def _attempt(case: Case, address: ProductAddress, setting: Setting) -> object:
    assert case.act is not None
    with ProductClient(replace(address, dashboard_id=setting.dashboard, model="opus-4-8")) as client:
        try:
            return case.act(client, setting)
        except Bv3Error as error:
            return error


def _set(case: Case, setting: Setting) -> Setting:
    """The setting as the case wants it."""
    return replace(setting, session=case.session or setting.session, dashboard=case.dashboard or setting.dashboard)


# -- Replies played again ------------------------------------------------------------------------------


def _play(case: Case, reply: Any, play: Any) -> None:
    setting = _set(case, Setting(session=SESSION, dashboard="d" * 32, card=CARD))
    play.replies[case.method, setting.fill(case.path)] = reply
    outcome = _attempt(case, play.address, setting)
    case.check(outcome)
    [asked] = play.asked
    assert (asked.method, asked.path, asked.body) == (
        case.method,
        setting.fill(case.path),
        setting.fill(case.body) if case.body is not None else None,
    )
    assert asked.is_let_in


@pytest.mark.parametrize("case", ACTING, ids=lambda case: str(case.name))
def test_client_understands_the_reply_that_the_contract_tells(
    case: Case, play: Any, written: Path, load_reply: Callable[[Path], Any]
) -> None:
    _play(case, load_reply(written / f"{case.name}.txt"), play)


@pytest.mark.parametrize("case", [case for case in ACTING if case.is_recorded], ids=lambda case: str(case.name))
def test_client_understands_the_reply_of_the_real_product(
    case: Case, play: Any, recorded: Path, load_reply: Callable[[Path], Any]
) -> None:
    _play(case, load_reply(recorded / f"{case.name}.txt"), play)


def test_every_recorded_reply_has_its_case(recorded: Path) -> None:
    found = {path.stem for path in recorded.glob("*.txt")} - {"cmd_malformed"}
    assert found == {case.name for case in CASES if case.is_recorded}


def test_wrong_token_is_told_from_other_refusals(play: Any, written: Path, load_reply: Callable[[Path], Any]) -> None:
    play.replies["GET", "/api/dashboards/list"] = load_reply(written / "unauthorized.txt")
    with ProductClient(replace(play.address, token="x" * 43)) as client, pytest.raises(NotLetInError) as error:
        client.list_dashboards()
    assert error.value.status == 401
    assert [asked.is_let_in for asked in play.asked] == [False]


# -- The reference stack -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(stack: Any, serve_pages: Callable[..., Any]) -> Iterator[tuple[ProductAddress, Setting]]:
    """The reference stack with a session, and a card of ours on a page."""
    page = serve_pages({"/ce": PAGE}).url + "/ce"
    with ProductClient(stack.address) as product:
        # a renderer learns of a card that is put into the layout when it mounts, so the one of its own is used
        card = stack.facts.audit_card
        product.command("navigate", card, {"url": page})
        setting = Setting(session=product.launch("contract"), dashboard=stack.facts.dashboard_id, card=card, page=page)
        yield stack.address, setting
        product.command("navigate", card, {"url": "about:blank"})


def _prepare(case: Case, address: ProductAddress, setting: Setting) -> Setting:
    """A session that nobody else has, and what must have happened before."""
    with ProductClient(address) as product:
        setting = replace(setting, session=product.launch("contract"))
        for name in case.before:
            BY_NAME[name].check(_attempt(BY_NAME[name], address, setting))
        if case.name == "session_after":
            end_s = time.monotonic() + 30
            while product.read_session(setting.session).status == "running":
                assert time.monotonic() < end_s
    return _set(case, setting)


def _meet(case: Case, address: ProductAddress, setting: Setting, theirs: Any, *, exactly: bool) -> None:
    """The client makes of the stand-in's reply what it makes of the other, and both have the same shape."""
    prepared = _prepare(case, address, setting)
    if case.act is not None:
        case.check(_attempt(case, address, prepared))
        prepared = _prepare(case, address, setting)
    answer = httpx.request(
        case.method,
        f"{address.url}{prepared.fill(case.path)}",
        headers={"authorization": f"Bearer {address.token}"},
        json=prepared.fill(case.body) if case.body is not None else None,
        timeout=30,
        trust_env=False,
    )
    assert answer.status_code == theirs.status
    assert _differ(_shape(answer.text), _shape(theirs.body), exactly=exactly) == []


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.is_bare and case.is_quick], ids=lambda c: str(c.name)
)
def test_reference_stack_answers_as_the_product_does(
    case: Case,
    whole: tuple[ProductAddress, Setting],
    recorded_folder: Path | None,
    written: Path,
    load_reply: Callable[[Path], Any],
) -> None:
    address, setting = whole
    theirs, exactly = _choose(case, recorded_folder, written, load_reply)
    _meet(case, address, setting, theirs, exactly=exactly)


@pytest.mark.parametrize("case", [case for case in CASES if case.is_bare], ids=lambda case: str(case.name))
def test_reference_backend_alone_answers_as_the_product_does(
    case: Case, bare: Any, recorded_folder: Path | None, written: Path, load_reply: Callable[[Path], Any]
) -> None:
    setting = Setting(session="", dashboard=bare.dashboard, card=CARD)
    theirs, exactly = _choose(case, recorded_folder, written, load_reply)
    _meet(case, bare.address, setting, theirs, exactly=exactly)


def test_what_is_no_json_is_answered_as_the_product_does(
    stack: Any, written: Path, load_reply: Callable[[Path], Any]
) -> None:
    theirs = load_reply(written / "cmd_malformed.txt")
    headers = {"authorization": f"Bearer {stack.address.token}", "content-type": "application/json"}
    url = f"{stack.address.url}/api/browser/command"
    answer = httpx.post(url, headers=headers, content=b"{not json", trust_env=False)
    assert (answer.status_code, answer.text) == (theirs.status, theirs.body)


# -- Shapes --------------------------------------------------------------------------------------------

_KINDS = {bool: "truth", int: "number", float: "number", str: "text", type(None): "nothing"}
# What a reply of a browser command may have or not, by the contract: it depends on the page, not on who answers.
_OPTIONAL = {"routes_available", "text", "stages", "fillMode", "frameUrl", "frameSessionId", "clickX", "clickY"} | {
    "clickLanded",
    "clickHit",
    "clickEffect",
    "selfHealed",
}


def _shape(text: str) -> Any:
    try:
        return _shape_of(json.loads(text))
    except ValueError:
        return text


def _shape_of(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape_of(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shape_of(item) for item in value]
    return _KINDS[type(value)]


def _differ(ours: Any, theirs: Any, *, exactly: bool, where: str = "") -> list[str]:
    """Where two replies differ in fields or kinds of values; nothing fits any kind, an empty list any list."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if not theirs and where:
            # a map by id, and nothing was in it
            return []
        lost, new = theirs.keys() - ours.keys() - _OPTIONAL, ours.keys() - theirs.keys() - _OPTIONAL
        found = [f"{where}.{key} is not there" for key in lost]
        found += [f"{where}.{key} is new" for key in new if exactly]
        for key in ours.keys() & theirs.keys():
            found += _differ(ours[key], theirs[key], exactly=exactly, where=f"{where}.{key}")
        return found
    if isinstance(theirs, list) and isinstance(ours, list):
        return (
            [line for item in ours for line in _differ(item, theirs[0], exactly=exactly, where=f"{where}[]") if theirs]
            if theirs
            else []
        )
    return [] if ours == theirs or "nothing" in (ours, theirs) else [f"{where} is {ours} instead of {theirs}"]


@pytest.mark.parametrize(
    ("ours", "theirs", "exactly", "said"),
    [
        ({"a": 1}, {"a": 2.5}, True, []),
        ({"a": None}, {"a": "x"}, True, []),
        ({"a": "1"}, {"a": 1}, False, [".a is text instead of number"]),
        ({"a": 1}, {"a": True}, False, [".a is number instead of truth"]),
        ({"a": [{"b": 1}]}, {"a": [{"b": "x"}]}, False, [".a[].b is number instead of text"]),
        ({"a": [{"b": 1}]}, {"a": []}, True, []),
        ({}, {"a": 1}, False, [".a is not there"]),
        ({"a": 1}, {}, False, []),
        ({"a": 1}, {}, True, [".a is new"]),
        ({"a": {"id1": {}}}, {"a": {}}, True, []),
        ({"a": {}}, {"a": []}, True, [".a is {} instead of []"]),
    ],
)
def test_a_drift_of_the_stand_in_is_seen(ours: Any, theirs: Any, exactly: Any, said: list[str]) -> None:
    assert _differ(_shape_of(ours), _shape_of(theirs), exactly=exactly) == said


def _choose(
    case: Case, recorded_folder: Path | None, written: Path, load_reply: Callable[[Path], Any]
) -> tuple[Any, bool]:
    """The recorded reply, whose shape must be met exactly; without it the written one, whose fields must be there."""
    if recorded_folder is not None and (file := recorded_folder / f"{case.name}.txt").is_file():
        return load_reply(file), True
    return load_reply(written / f"{case.name}.txt"), False
