"""What takes the double seconds, as it takes the product: all of it at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

POST = 'Go to http://box.test:9911/compose and create a post with exactly this text: "probe k3f9x coverage alpha"'
PROBE = {"action": "evaluate", "browser_id": "browser-none", "params": {"expression": "1"}}
Frame = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """What one scenario gave, and how long it took."""

    took_s: float
    reply: Frame
    session: str
    log: str
    truth: list[Frame]


class Scenarios:
    """Three doubles: one without a renderer, one whose renderer dies, one whose renderer misses a command."""

    def __init__(self, start_double: Callable[..., Any], render: Callable[..., Any]) -> None:
        self._doubles = [start_double() for _ in range(3)]
        self._render = render

    def run(self) -> dict[str, Waited]:
        """All of them at once."""
        bare, dying, missing = self._doubles
        with ThreadPoolExecutor() as pool:
            found = {
                "command without a renderer": pool.submit(self._time, bare, lambda: self._command(bare)),
                "run without a renderer": pool.submit(self._time, bare, lambda: self._run(bare)),
                "run with a dying renderer": pool.submit(self._time, dying, lambda: self._die(dying)),
                "command that is missed once": pool.submit(self._time, missing, lambda: self._miss(missing)),
            }
            return {name: future.result() for name, future in found.items()}

    def _time(self, double: Any, work: Callable[[], tuple[Frame, str]]) -> Waited:
        started = time.monotonic()
        reply, session = work()
        return Waited(
            took_s=time.monotonic() - started,
            reply=reply,
            session=session,
            log=double.process.output,
            truth=double.rows("truth.jsonl"),
        )

    def _command(self, double: Any) -> tuple[Frame, str]:
        return dict(double.client.post("/api/browser/command", json=PROBE).json()), ""

    def _run(self, double: Any) -> tuple[Frame, str]:
        session, frames = double.run(POST)
        return frames[-1], session

    def _die(self, double: Any) -> tuple[Frame, str]:
        with self._render(double, dies_at="click_index"):
            return self._run(double)

    def _miss(self, double: Any) -> tuple[Frame, str]:
        heard: list[str] = []

        def swallow_once(command: Frame) -> bool:
            heard.append(command["request_id"])
            return len(heard) == 1

        with self._render(double, swallow=swallow_once):
            reply, _ = self._command(double)
        return {**reply, "heard": heard}, ""


@pytest.fixture(scope="module")
def waited(start_double: Callable[..., Any], render: Callable[..., Any]) -> dict[str, Waited]:
    return Scenarios(start_double, render).run()


def test_a_command_without_a_renderer_is_given_up_after_eight_seconds(waited: dict[str, Waited]) -> None:
    found = waited["command without a renderer"]
    assert found.took_s == pytest.approx(8.0, abs=1.0)
    assert found.reply == {"error": "No dashboard is connected. Open the dashboard to use browser tools."}


def test_a_run_without_a_renderer_is_refused_and_still_completes(waited: dict[str, Waited]) -> None:
    found = waited["run without a renderer"]
    assert found.took_s == pytest.approx(8.0, abs=1.5)
    assert found.reply["data"]["status"] == "completed"
    assert "[browser-agent] dispatch refused: no dashboard after reconnect wait" in found.log
    assert f"[browser-fast-path] session {found.session} done: path=act+no-dashboard" in found.log
    assert "[browser-metrics]" not in found.log
    assert [(row["session_id"], row["bucket"]) for row in found.truth] == [(found.session, "infra_no_renderer")]


def test_a_renderer_that_dies_in_mid_run_ends_it_without_a_second_dispatch(waited: dict[str, Waited]) -> None:
    found = waited["run with a dying renderer"]
    assert found.took_s == pytest.approx(11.5, abs=2.0)
    assert "[browser-slow] BrowserClickIndex took 11" in found.log
    assert "fill errored (No dashboard is connected. Open the dashboard to use browser tools.); handing to" in found.log
    assert f"session {found.session} done: path=act+no-dashboard" in found.log
    assert "recovery dispatch" not in found.log
    assert [row["bucket"] for row in found.truth] == ["infra_no_renderer"]


def test_a_command_that_was_missed_is_broadcast_again_after_three_seconds(waited: dict[str, Waited]) -> None:
    found = waited["command that is missed once"]
    assert found.took_s == pytest.approx(3.0, abs=1.0)
    assert found.reply["heard"] == [found.reply["request_id"]] * 2
