"""How long each call to the product may take. The product's own limits are from contract 2.3 and 2.4."""

from __future__ import annotations

CALL_TIMEOUT_S = 5.0
HEALTH_TIMEOUT_S = 2.0
# Blocks until the product's classifier has answered; posted once, whatever happens.
MESSAGE_TIMEOUT_S = 60.0

# Within its leash the product answers each browser command by itself, if only to say that the renderer did not. Without
# a renderer it says so after 8 s, which is below every leash.
LEASHES_S = {
    "navigate": 25.0,
    "replay_route": 20.0,
    "wait": 12.0,
    "perform_action": 35.0,
    "browser_fetch": 32.0,
    "browser_search": 45.0,
    "find_composer": 30.0,
    "import_session": 40.0,
}
OTHER_LEASH_S = 15.0
# So that the product's own word for a hang arrives before we stop listening.
SLACK_S = 3.0


def command_timeout_s(action: str) -> float:
    """How long to wait for a browser command: a little more than the product does."""
    return LEASHES_S.get(action, OTHER_LEASH_S) + SLACK_S
