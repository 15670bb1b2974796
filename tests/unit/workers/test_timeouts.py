"""Every browser command is waited for a little longer than the product waits for it."""

from __future__ import annotations

import pytest

from infra.reference.backend import commands
from workers.client.errors import CommandFailedError, NoAnswerError, NoCardError, NoRendererError, make_failure
from workers.client.timeouts import LEASHES_S, MESSAGE_TIMEOUT_S, OTHER_LEASH_S, command_timeout_s


@pytest.mark.parametrize("action", [*commands.LEASHES_S, "evaluate", "list_interactives", "screenshot", "unheard"])
def test_leash_ends_before_the_client_stops_listening(action: str) -> None:
    leash_s = commands.LEASHES_S.get(action, commands.DEFAULT_LEASH_S)
    assert leash_s < command_timeout_s(action) <= leash_s + 5


def test_client_and_stand_in_have_the_leashes_of_the_contract() -> None:
    assert LEASHES_S == commands.LEASHES_S
    assert OTHER_LEASH_S == commands.DEFAULT_LEASH_S == 15
    assert commands.RECONNECT_WAIT_S < OTHER_LEASH_S
    assert MESSAGE_TIMEOUT_S == 60


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (commands.NO_DASHBOARD, NoRendererError),
        (commands.TIMED_OUT, NoAnswerError),
        ("Browser card 'browser-1' not found or not an Electron webview", NoCardError),
        ("JS evaluation error: Error: No dashboard is connected.", CommandFailedError),
        ("Unknown browser action: frobnicate", CommandFailedError),
        ("", CommandFailedError),
    ],
)
def test_why_a_command_failed_is_known_by_type(said: str, kind: type[CommandFailedError]) -> None:
    error = make_failure(f"evaluate on browser-1: {said}", said=said)
    assert type(error) is kind
    assert said in error.message
