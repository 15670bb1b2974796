"""The one model call before a dispatch: does this prompt need a browser, and where does it begin?"""

import re
import time
from dataclasses import dataclass
from typing import Literal, cast

from infra.reference.backend import lines
from infra.reference.backend.models import AUX_MODEL, Models

Verdict = Literal["ACT", "READ", "NO"]
MAX_TOKENS = 250
BRIEF_CHARS = 700
SYSTEM = (
    "You route requests to a web-browsing agent. First line: ACT when the request changes something on a "
    "web page, READ when it only reads one, NO otherwise. Then a line ENTRY: <url> and a short brief."
)
PREFLIGHT_SYSTEM = "Name the tools that the request needs. Answer with a JSON list."
_ENTRY = re.compile(r"^ENTRY:\s*(https?://\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What the classifier said."""

    verdict: Verdict
    # Everything after its first line.
    text: str
    entry: str | None


async def classify(models: Models, prompt: str) -> Brief:
    """Ask the classifier and log its verdict.

    Raises:
        ModelUnavailableError: there is no one to ask.
    """
    started = time.monotonic()
    brief = read_brief(await models.ask(system=SYSTEM, user=prompt, max_tokens=MAX_TOKENS))
    lines.CLASSIFIED.log(
        verdict=brief.verdict,
        chars=len(brief.text),
        model=AUX_MODEL,
        ms=round((time.monotonic() - started) * 1000),
    )
    return brief


def read_brief(reply: str) -> Brief:
    """A classifier's reply: its first line must start ``ACT``, ``READ`` or ``YES`` (an ``ACT``)."""
    head, _, rest = reply.strip().partition("\n")
    word = (re.match(r"[A-Z]+", head) or [""])[0]
    verdict = {"ACT": "ACT", "YES": "ACT", "READ": "READ"}.get(word, "NO")
    text = rest.strip()[:BRIEF_CHARS]
    entry = _ENTRY.search(text)
    return Brief(verdict=cast("Verdict", verdict), text=text, entry=entry.group(1) if entry else None)
