"""A log slice explained on its own: slices of our own making, one for each kind of page and fault."""

# ruff: noqa: E501 - lines of a log are long

from __future__ import annotations

import dataclasses
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.types import Bucket, Claim, Evidence, SiteTask
from grader import cli
from grader.rules import RULES, instrument
from grader.slicing import SLICE_RULES, Explanation, explain_slice

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference"
HOST = "http://pages.test:4100"


def _opening(path: str) -> tuple[str, ...]:
    return (
        'INFO:     127.0.0.1:40000 - "POST /api/agents/launch HTTP/1.1" 200 OK',
        "[browser-fast-path] classifier: ACT brief=80ch model=m in 400ms",
        f"[browser-fast-path] direct dispatch for session {'a' * 32} (act)",
        f"[browser-cold] brief entry url for {'a' * 32}: {HOST}/{path}",
        f"[browser-cold] new card browser-00000001 opens at brief entry {HOST}/{path}",
        "[browser-cold] mount poll 250ms for browser-00000001",
    )


def _staged(path: str, *, ready: bool = True) -> tuple[str, ...]:
    how = (
        "[browser-prestage] READY tier-0 in 20ms: a composer is already on the page, no aux call needed"
        if ready
        else "[browser-prestage] READY after 0 step(s): composer visible"
    )
    return (
        f"[browser-prestage] start url={HOST}/{path}",
        how,
        f"[browser-prestage] done: steps=0 url={HOST}/{path} in 90ms",
    )


def _filled(
    path: str, *, name: str = "'Write a post'", index: int = 1, submit: str = "True, submit_rank=3, submit='post'"
) -> tuple[str, ...]:
    return (
        f"[browser-sendscript] fill target {name} [{index}] on {HOST}/{path}",
        f"[browser-sendscript] DRYRUN: WOULD send (fill committed, send_button_listed=True, submit_resolved={submit}); not clicking",
    )


def _report(path: str) -> str:
    return f"[dryrun-report] armed=1 composer=1 opener=1 textboxes=1 filled=0 url={HOST}/{path}"


REUSED = "[browser-agent] reusing same-host card browser-00000001 instead of stacking another webview"
PROBE = (
    f"[browser-fast-path] send-zone failure for {'a' * 32}; payload probe before any retry",
    REUSED,
    "[browser-sendscript] decline: read-only directive in user request",
    f"[browser-fast-path] session {'a' * 32} done: path=act+send-probe=unknown reply=404ch in 1200ms",
)


def _recovered(*lines: str) -> tuple[str, ...]:
    return (
        f"[browser-fast-path] first dispatch failed for {'a' * 32}; one recovery dispatch",
        REUSED,
        *lines,
        f"[browser-fast-path] session {'a' * 32} done: path=act+recovery reply=134ch in 2400ms",
    )


def _plain(path: str, **how: Any) -> tuple[str, ...]:
    return (*_opening(path), *_staged(path), *_filled(path, **how), _report(path), *PROBE)


UNNAMED = _filled("unnamed", name="'textarea'", index=-1)
WALL = f"[browser-sendscript] decline: login/auth wall ('{HOST}/login') triggered by url: /login"
NOTHING = "[browser-sendscript] decline: no composer, opener, or structural editable"
HUNG = (
    f"[browser-sendscript] fill target 'Write a post' [1] on {HOST}/compose",
    "[browser-slow] BrowserClickIndex took 15000ms -> browser-00000001",
    "[browser-sendscript] fill errored (Browser command timed out); handing to model untouched",
)
REJECTED = (
    f"[browser-sendscript] fill target 'Write a post' [1] on {HOST}/reject",
    "[browser-sendscript] fill errored (Focused index 1 but the text did not register); handing to model untouched",
)
SLICES: dict[str, tuple[str, ...]] = {
    "textarea": _plain("textarea"),
    "compose": _plain("compose"),
    "named": _plain("compose", name="'Post text'"),
    "contenteditable": _plain("ce", name="'Post text'"),
    "unnamed": (*_opening("unnamed"), *_staged("unnamed", ready=False), *UNNAMED, *_recovered(*UNNAMED)),
    "lazy": (
        *_opening("lazy"),
        "[browser-sendscript] firing via opener 'Start a post' [1]",
        *_filled("lazy", index=2),
        *PROBE,
    ),
    "disabled": _plain(
        "disabled", submit="False, submit_rank=0, submit='the submit control is present but DISABLED, so it'"
    ),
    "frame": _plain("frame", submit="False, submit_rank=0, submit='no editable holding the payload'"),
    "login": (*_opening("login"), *_staged("login", ready=False), WALL, _report("login"), *_recovered(WALL)),
    "empty": (*_opening("empty"), *_staged("empty", ready=False), NOTHING, _report("empty"), *_recovered(NOTHING)),
    "reject": (*_opening("reject"), *_staged("reject"), *REJECTED, _report("reject"), *_recovered(*REJECTED)),
    "no renderer": (
        *_opening("compose")[:4],
        "[browser-agent] dispatch refused: no dashboard after reconnect wait",
        f"[browser-fast-path] session {'a' * 32} done: path=act+no-dashboard reply=116ch in 8600ms",
    ),
    "click never answered": (*_opening("compose"), *_staged("compose"), *HUNG, _report("compose"), *_recovered(*HUNG)),
    "renderer killed": (
        *_opening("compose"),
        *_staged("compose"),
        HUNG[0],
        "[browser-slow] BrowserClickIndex took 11009ms -> browser-00000001",
        (
            "[browser-sendscript] fill errored (No dashboard is connected. Open the dashboard to use browser tools.);"
            " handing to model untouched"
        ),
        f"[browser-fast-path] session {'a' * 32} done: path=act+no-dashboard reply=116ch in 21000ms",
    ),
    "no provider": (
        (
            "[browser-fast-path] classifier unavailable, normal path: No AI provider connected for auxiliary LLM call."
            " Connect at least one."
        ),
    ),
}
EXPECTED = dict.fromkeys(SLICES, Bucket.PRODUCT_UNCONFIRMED) | {
    "login": Bucket.NOT_MEASURABLE,
    "empty": Bucket.PRODUCT_NO_COMPOSER,
    "reject": Bucket.PRODUCT_FILL_DIED,
    "no renderer": Bucket.INFRA_NO_RENDERER,
    "click never answered": Bucket.PRODUCT_COMMAND_TIMEOUT,
    "renderer killed": Bucket.INFRA_NO_RENDERER,
    "no provider": Bucket.INFRA_ROUTER,
}


def _print(lines: Sequence[str]) -> bytes:
    printed = (line if line.startswith("INFO:") else f"09:15:02 I a.b.c: {line}" for line in lines)
    return "".join(f"{line}\n" for line in printed).encode()


def _explain(*lines: str, task: SiteTask | None = None) -> Explanation:
    return explain_slice(_print((*_opening("compose"), *lines)), task)


@pytest.mark.parametrize("kind", SLICES)
def test_a_slice_alone_has_the_bucket_of_its_product_s_side(kind: str) -> None:
    found = explain_slice(_print(SLICES[kind]))
    assert found.bucket is EXPECTED[kind], found.detail
    assert found.evidence is (Evidence.UNVERIFIED if kind == "login" else None)
    is_filled = found.bucket is Bucket.PRODUCT_UNCONFIRMED
    assert found.claim is (Claim.FILLED if is_filled else Claim.NONE)
    assert found.submit is ((kind not in {"disabled", "frame"}) if is_filled else None)
    assert found.lines


@pytest.mark.parametrize("kind", SLICES)
def test_the_command_prints_it_as_json_and_in_words(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "slice.log"
    path.write_bytes(_print(SLICES[kind]))
    assert cli.run(["slice", str(path), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["bucket"] == EXPECTED[kind]
    data = path.read_bytes()
    assert [data[line["start"] : line["end"]].decode() for line in plain["lines"]] == [
        line["text"] for line in plain["lines"]
    ]
    assert cli.run(["slice", str(path)]) == 0
    words = capsys.readouterr().out
    assert words.startswith(EXPECTED[kind].value)
    assert f"rule {plain['rule']}" in words
    assert f"claims {plain['claim']}" in words


def test_a_slice_comes_in_by_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_print(SLICES["reject"]))))
    assert cli.run(["slice", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rule"] == "fill_died"


@pytest.mark.parametrize("name", ["nothing.log", ".", "a\0b"])
def test_a_file_that_is_none_is_a_wrong_request(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["slice", f"{tmp_path}/{name}"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    assert "log slice" in said.err


def test_an_unknown_site_is_answered_with_those_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "slice.log"
    path.write_bytes(b"")
    assert cli.run(["slice", str(path), "--site", "nowhere"]) == 2
    assert "reddit" in capsys.readouterr().err


def test_a_surface_is_judged_only_for_a_site(task: SiteTask) -> None:
    assert _explain(*_filled("compose")).bucket is Bucket.PRODUCT_UNCONFIRMED
    assert _explain(*_filled("compose"), task=task).rule == "filled_wrong_page"
    assert _explain(*_filled("compose", name="'Message'")).rule == "page_unread"
    here = dataclasses.replace(task, host="pages.test", path_rule="^/compose")
    assert _explain(*_filled("compose"), task=here).rule == "page_unread"
    assert _explain(*_filled("compose", name="'Message'"), task=here).rule == "filled_message_box"


def test_a_wall_of_another_site_than_the_one_named_excludes_nothing(task: SiteTask) -> None:
    assert _explain(WALL).rule == "wall_claimed"
    assert _explain(WALL, task=task).rule == "wall_refuted"


def test_a_send_is_a_false_success_only_where_the_slice_shows_a_dry_run() -> None:
    sent = "[browser-sendscript] done sent_receipt=True delivered=None in 108ms"
    unknown = _explain(HUNG[0], sent)
    assert (unknown.bucket, unknown.claim, unknown.dry) == (Bucket.PRODUCT_UNCONFIRMED, Claim.SENT, False)
    dry = _explain(HUNG[0], sent, _report("compose"))
    assert (dry.bucket, dry.claim, dry.dry) == (Bucket.PRODUCT_FALSE_SUCCESS, Claim.SENT, True)


def test_a_slice_of_several_sessions_is_nobody_s() -> None:
    found = _explain(*_filled("compose"), f"[browser-fast-path] direct dispatch for session {'b' * 32} (act)")
    assert (found.bucket, found.rule, found.session) == (Bucket.INFRA_HARNESS, "foreign_session", "a" * 32)


@pytest.mark.parametrize("log", [b"", b"\n \n"])
def test_an_empty_slice_says_nothing(log: bytes) -> None:
    assert explain_slice(log).rule == "log_missing"


@pytest.mark.parametrize("log", [b"\xff\x00\n" * 9, b"no newline", "\u2028".encode() * 3, b"09:15:02 I"])
def test_bytes_of_any_kind_are_explained(log: bytes) -> None:
    assert explain_slice(log).rule == "wrong_log"


def test_rules_that_need_a_record_are_not_asked() -> None:
    left_out = {rule.__name__ for rule in RULES if rule not in SLICE_RULES}
    assert left_out == {
        "site_retired", "box_contended", "wrong_mode", "step_failed", "no_session", "foreign_card",
        "wrong_payload", "reached", "part_restarted", "renderer_silent", "challenge_shown", "sign_in_page",
        "password_form", "budget_used", "payload_absent",
    }  # fmt: skip
    assert SLICE_RULES[0] is instrument.sent_in_dry_run
    assert SLICE_RULES[-1] is RULES[-1]


def test_every_name_of_the_json_form_is_documented() -> None:
    page = (DOCS / "slice-json.md").read_text()
    assert [field.name for field in dataclasses.fields(Explanation) if f"`{field.name}`" not in page] == []


def test_a_file_as_large_as_a_whole_log_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "slice.log"
    noise = b"09:15:02 I a.b.c: nothing of interest here, again and again\n"
    path.write_bytes(_print(SLICES["frame"]) + noise * 200_000)
    assert cli.run(["slice", str(path), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert (plain["rule"], plain["submit"], plain["size"]) == ("page_unread", False, path.stat().st_size)


def test_names_with_terminal_escapes_stay_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "slice.log"
    path.write_bytes(_print((*_opening("c"), *_filled("c", name="'a\x1b[2Jb'"))))
    assert cli.run(["slice", str(path)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_explaining_needs_no_database() -> None:
    code = "import sys, grader.slice_report; print([name for name in sys.modules if name.startswith(('sqlalchemy', 'celery'))])"
    assert _run_python(code) == "[]"


def _run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
