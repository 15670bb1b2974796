"""What a follower sees, to the letter: at a terminal of 80 columns, in plain lines, and without Unicode."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from broker.holds import say_what_ends
from broker.store.progress import BoxLine, FinishedRun, HoldLine, Progress
from broker.store.standing import CheckState
from broker.types import Family
from scheduler.pace import Estimate
from scheduler.progress import (
    ASCII,
    UNICODE,
    LiveScreen,
    PlainScreen,
    choose_symbols,
    draw,
    flower_line,
    open_screen,
    say_age,
    summary_line,
)

SWEEP = "c7-20261129T220003Z-k3f9"
BOX_A = BoxLine(
    name="box-a",
    phase="running",
    hold_reason=None,
    run_name="youtube#7",
    run_phase="audit",
    phase_s=2.1,
    done=31,
    infra=0,
    last_beat_s=1.0,
)
BOX_B = replace(BOX_A, name="box-b", run_name="x#7", run_phase="wait", phase_s=0.8, done=30)
PROGRESS = Progress(
    state="active",
    total=108,
    over=61,
    families={Family.OK: 41, Family.PRODUCT: 1, Family.INFRA: 0, Family.NOT_MEASURABLE: 19},
    reach=(41, 42),
    active_attempts=2,
    ungraded=0,
    boxes=(BOX_A, BOX_B),
    fresh=(),
)
ESTIMATE = Estimate(runs_per_min=13.4, low_s=180.0, high_s=220.0)


def verdict(number: int, name: str, bucket: str = "ok", attempt_no: int = 1) -> FinishedRun:
    return FinishedRun(verdict_id=number, run_name=name, attempt_no=attempt_no, bucket=bucket, wall_s=2.94, box="box-a")


def drawn(progress: Progress, *, width: int = 80, height: int = 24, estimate: Estimate | None = ESTIMATE) -> str:
    lines = draw(SWEEP, progress, estimate, width=width, height=height, symbols=UNICODE)
    return "\n".join(line.plain for line in lines)


def test_a_terminal_of_80_columns_shows_counts_bar_and_boxes() -> None:
    assert drawn(PROGRESS) == (
        "c7-20261129T220003Z-k3f9   61 of 108   13.4 runs/min   3 to 4 min left\n"
        "ok 41  product 1  infra 0  not measurable 19\n" + "█" * 40 + "░" * 32 + "\n"
        " box-a    running   youtube#7      audit       2.1 s      31 done    0 infra\n"
        " box-b    running   x#7            wait        0.8 s      30 done    0 infra\n"
        "interim: reach 41/42, flake 0/61"
    )


def test_without_unicode_every_sign_is_ascii() -> None:
    narrow = draw(SWEEP, PROGRESS, ESTIMATE, width=40, height=24, symbols=ASCII)
    text = "\n".join(line.plain for line in narrow)
    assert text.isascii()
    assert "#" * 22 + "." * 18 in text
    assert narrow[0].plain == "c7-20261129T220003Z-k3f9   61 of 108 ..."


QUARANTINED = HoldLine(
    kind="quarantined",
    reason="three infra attempts in a row: x#1 infra_browser, x#1 attempt 2 infra_browser, reddit#1 infra_backend",
    ends_by=say_what_ends("quarantined"),
    held_s=754.0,
)


def test_a_held_box_says_why_and_what_ends_it_and_a_silent_one_since_when() -> None:
    held = replace(BOX_A, holds=(QUARANTINED,), run_name=None)
    silent = replace(BOX_B, last_beat_s=23.4)
    lines = drawn(replace(PROGRESS, boxes=(held, silent))).splitlines()
    assert lines[3:8] == [
        " box-a    held      quarantined                           31 done    0 infra",
        "          quarantined for 13 min: three infra attempts in a row: x#1",
        "          infra_browser, x#1 attempt 2 infra_browser, reddit#1 infra_backend",
        "          ends by a health check that passes on the box",
        " box-b    silent    no beat for 23 s                      30 done    0 infra",
    ]


def test_a_box_held_twice_tells_both_and_what_it_still_finishes() -> None:
    drained = HoldLine(kind="drained", reason="new\x1b[2J disk", ends_by=say_what_ends("drained"), held_s=9.0)
    lines = drawn(replace(PROGRESS, boxes=(replace(BOX_A, holds=(drained, QUARANTINED)),))).splitlines()
    assert lines[3].startswith(" box-a    held      drained, quarantined (youtube#7 finishes)")
    assert lines[4] == "          drained for 9 s: new [2J disk"
    assert lines[5] == "          ends by bv3-box resume, on the box"
    assert "\x1b" not in "".join(lines)


def test_a_contended_box_is_held_by_its_own_preflight() -> None:
    contended = HoldLine(kind="contended", reason="foreign_port", ends_by=say_what_ends("contended"), held_s=None)
    lines = drawn(replace(PROGRESS, boxes=(replace(BOX_A, holds=(contended,), run_name=None),))).splitlines()
    assert lines[4:6] == ["          contended: foreign_port", "          ends by its reason, when that is gone"]


def test_plain_lines_tell_a_held_box_with_what_ends_it() -> None:
    held = replace(BOX_A, holds=(QUARANTINED,), run_name=None)
    line = summary_line(SWEEP, replace(PROGRESS, boxes=(held,)), None)
    assert "box-a held (quarantined: three infra attempts in a row: " in line
    assert "; ends by a health check that passes on the box)" in line


DEAD: dict[str, Any] = {"check": CheckState.DEAD, "revision": "21a08c23", "dead_markers": ("fill_committed", "ready")}
BLOCKED = "no box may take its runs: box-a runs 21a08c23, where 2 markers are dead: fill_committed, ready"


def test_a_sweep_that_no_box_may_take_says_so_at_once_and_once() -> None:
    waits = replace(PROGRESS, boxes=(replace(BOX_A, **DEAD),), needs_verified=True)
    text = " ".join(drawn(waits).split())
    assert BLOCKED in text
    out, now_s = io.StringIO(), [0.0]
    screen = PlainScreen(SWEEP, out, clock=lambda: now_s[0])
    screen.show(waits)
    screen.show(waits)
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(BLOCKED)
    assert BLOCKED in lines[1]


@pytest.mark.parametrize(("seconds", "said"), [(-1, "0 s"), (119, "119 s"), (121, "2 min"), (7300, "2 h")])
def test_how_long_a_hold_lasts_is_said_in_round_numbers(seconds: float, said: str) -> None:
    assert say_age(seconds) == said


def test_a_farm_without_boxes_says_so() -> None:
    assert " no box is up yet" in drawn(replace(PROGRESS, boxes=())).splitlines()


@pytest.mark.parametrize("changes", [{"phase": "gone"}, {"last_beat_s": 3600.0}, {"last_beat_s": None}])
def test_a_box_of_an_earlier_farm_is_shown_only_if_it_has_a_share_in_the_sweep(changes: dict[str, Any]) -> None:
    away = replace(BOX_B, run_name=None, run_phase=None, **changes)
    assert "box-b" in drawn(replace(PROGRESS, boxes=(BOX_A, away)))
    assert "box-b" not in drawn(replace(PROGRESS, boxes=(BOX_A, replace(away, done=0))))
    assert " no box is up yet" in drawn(replace(PROGRESS, boxes=(replace(away, done=0),))).splitlines()


def test_many_boxes_leave_room_for_the_rest_of_a_small_terminal() -> None:
    many = tuple(replace(BOX_A, name=f"box-{number:02}") for number in range(40))
    lines = drawn(replace(PROGRESS, boxes=many), height=20).splitlines()
    assert len(lines) < 20
    assert " and 26 more boxes" in lines


def test_a_paused_sweep_says_so_and_promises_no_time() -> None:
    assert drawn(replace(PROGRESS, state="paused")).splitlines()[0] == f"{SWEEP}   61 of 108   paused"


@given(
    st.integers(20, 130),
    st.text(max_size=60),
    st.text(max_size=90).filter(bool),
    st.floats(0, 1e6),
)
def test_no_line_is_ever_wider_than_the_terminal(width: int, phase: str, reason: str, phase_s: float) -> None:
    hold = replace(QUARANTINED, reason=reason)
    boxes = (
        replace(BOX_A, run_phase=phase, phase_s=phase_s),
        replace(BOX_B, holds=(hold,), check=CheckState.DEAD, revision=reason),
    )
    progress = replace(PROGRESS, boxes=boxes, needs_verified=True)
    lines = draw(SWEEP, progress, ESTIMATE, width=width, height=24, symbols=UNICODE)
    assert all(line.cell_len <= width for line in lines)
    assert not any("\n" in line.plain or "\x1b" in line.plain for line in lines)


@pytest.mark.parametrize(
    ("environment", "symbols"),
    [
        ({"LANG": "de_DE.UTF-8"}, UNICODE),
        ({"LANG": "C.utf8"}, UNICODE),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, ASCII),
        ({"LANG": "de_DE.UTF-8", "LC_CTYPE": "POSIX"}, ASCII),
        ({}, ASCII),
    ],
)
def test_the_locale_decides_which_signs_are_used(environment: dict[str, str], symbols: object) -> None:
    assert choose_symbols(environment) is symbols


def test_plain_lines_tell_each_new_verdict_and_a_summary_each_minute() -> None:
    out, now_s = io.StringIO(), [0.0]
    screen = PlainScreen(SWEEP, out, clock=lambda: now_s[0])
    screen.show(replace(PROGRESS, over=0, families={}, reach=(0, 0)))
    now_s[0] = 30.0
    screen.show(replace(PROGRESS, over=1, fresh=(verdict(1, "x#1"), verdict(2, "gmail#1", "not_measurable"))))
    screen.show(replace(PROGRESS, over=2, fresh=(verdict(3, "x#1", "infra_router", attempt_no=2),)))
    now_s[0] = 61.0
    screen.show(replace(PROGRESS, over=3, total=108))
    boxes = "box-a youtube#7 audit, box-b x#7 wait"
    assert out.getvalue() == (
        f"{SWEEP}  0 of 108; ok 0, product 0, infra 0, not measurable 0; {boxes}\n"
        "1/108 x#1 ok 2.9 s box-a\n"
        "2/108 gmail#1 not_measurable 2.9 s box-a\n"
        "2/108 x#1 infra_router 2.9 s box-a attempt 2\n"
        f"{SWEEP}  3 of 108  3.0 runs/min  35 to 36 min left; "
        f"ok 41, product 1, infra 0, not measurable 19; {boxes}\n"
    )


def test_plain_lines_of_a_late_follower_begin_where_it_came_in() -> None:
    out = io.StringIO()
    screen = PlainScreen(SWEEP, out, clock=lambda: 0.0)
    screen.show(replace(PROGRESS, fresh=(verdict(1, "x#1"), verdict(2, "reddit#1"))))
    screen.show(replace(PROGRESS, fresh=(verdict(3, "gmail#1"),)))
    assert out.getvalue().splitlines()[1:] == ["3/108 gmail#1 ok 2.9 s box-a"]


def test_plain_lines_of_a_resumed_sweep_begin_after_the_last_verdict_that_was_known() -> None:
    out = io.StringIO()
    screen = PlainScreen(SWEEP, out, clock=lambda: 0.0, known_verdict=1)
    screen.show(replace(PROGRESS, fresh=(verdict(2, "reddit#1"), verdict(1, "x#1"))))
    screen.show(replace(PROGRESS, fresh=(verdict(3, "gmail#1"),)))
    first, _summary, second = out.getvalue().splitlines()
    assert [first, second] == ["2/108 reddit#1 ok 2.9 s box-a", "3/108 gmail#1 ok 2.9 s box-a"]


def test_a_sweep_that_starts_nothing_any_more_is_summed_up_more_often() -> None:
    out, now_s = io.StringIO(), [0.0]
    screen = PlainScreen(SWEEP, out, clock=lambda: now_s[0])
    for now_s[0] in (0.0, 9.0, 11.0):
        screen.show(replace(PROGRESS, state="cancelled"))
    assert len(out.getvalue().splitlines()) == 2


def test_the_live_screen_draws_in_place_and_leaves_the_last_block_standing() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24, color_system=None, legacy_windows=False)
    screen = LiveScreen(SWEEP, console, UNICODE)
    screen.show(replace(PROGRESS, over=60))
    screen.say("no new runs; 2 running ones finish (Ctrl-C again stops now)")
    screen.show(PROGRESS)
    screen.close()
    text = out.getvalue()
    assert text.count("no new runs") == 1
    assert "\x1b[1A" in text
    assert text.rindex("61 of 108") > text.rindex("60 of 108")
    assert text.endswith("\x1b[?25h")
    assert "interim" not in text[text.rindex("61 of 108") :]


def test_without_a_terminal_the_screen_is_plain() -> None:
    assert isinstance(open_screen(SWEEP, io.StringIO(), {"TERM": "xterm"}), PlainScreen)


def test_flowers_address_and_login_are_one_line_or_none() -> None:
    assert flower_line("http://127.0.0.1:5555", "bv3", "pw") == "Flower http://127.0.0.1:5555 (bv3 / pw)"
    assert flower_line(None, None, None) is None
