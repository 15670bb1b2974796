"""The send script: find the composer, fill it, see the text committed, say what would send it, never send."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from infra.reference.backend import lines
from infra.reference.backend.agent import scripts
from infra.reference.backend.agent.composers import Choice, choose, lists_send, suits
from infra.reference.backend.agent.hands import Hands, Reply
from infra.reference.backend.agent.listing import Element, View
from infra.reference.backend.agent.walls import find_wall, offers_sign_in
from infra.reference.backend.agent.wording import Task
from infra.reference.backend.commands import TIMED_OUT

# walled: declined for a wall; astray: declined on a page of another kind; overrun: the script's time was used up.
End = Literal["filled", "sent", "declined", "walled", "astray", "fill_died", "timed_out", "unseen", "overrun"]
URL_CHARS = 90
WALL_URL_CHARS = 60
ERROR_CHARS = 160
REPLY_CHARS = 120
#: A listing shows 60 characters of a value; so much of a payload must be seen.
SEEN_CHARS = 24
#: How long a box may take to be made, once its page is loaded and at rest.
LATE_S = 2.0
_SMART = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Where the payload stands, and the control that would send it."""

    found: bool = False
    # How many editables hold the payload.
    count: int = 0
    resolved: bool = False
    # 3 exact label, 2 a form's submit control, 1 label that starts with a sending verb, 0 none.
    rank: int = 0
    label: str = ""
    # Why nothing was resolved.
    why: str = "the page could not be read"


def _role(reply: Reply) -> str:
    return str(reply.get("role") or reply.get("tag"))


def _plain(text: str) -> str:
    """A text as it is compared: editors make quotes smart and spaces hard."""
    return " ".join(text.translate(_SMART).split())


@dataclass(slots=True, kw_only=True)
class Script:
    """One run of the send script."""

    hands: Hands
    task: Task
    view: View
    # The task names a first thing, and it was not opened: whatever can be filled here is the wrong box.
    astray: bool
    # Asked once the text stands there: whether it is claimed as sent.
    claims: Callable[[], bool] = lambda: False
    # A listed element took the payload.
    typed: bool = False
    started_s: float = field(default_factory=time.monotonic)

    @property
    def payload(self) -> str:
        """The text to write; empty when the task has none."""
        return self.task.payload or ""

    async def run(self) -> End:
        """Fill the composer that fits the task, or decline; the lines say which and why."""
        reason = await self._refuse()
        if reason:
            return self._decline(reason, "walled" if find_wall(self.view) else "declined")
        choice = self._choose()
        # What opens a composer on one page sends on another: with the payload in place nothing is pressed.
        there = self._shows_payload(self.view) or (await self._find_submit()).found
        if choice.composer is None and choice.opener is not None and not (there or self.astray or await self._finds()):
            choice = await self._press(choice.opener)
        if choice.composer is None:
            return await self._fill_unlisted(there=there)
        if self.astray:
            return self._decline(self._mismatch(choice.composer.name), "astray")
        return await self._fill(choice.composer, there=there)

    async def _refuse(self) -> str | None:
        if self.task.read_only:
            return "read-only directive in user request"
        wall = find_wall(self.view)
        if wall and (wall.is_certain or not await self._may_write()):
            return f"login/auth wall ({self.view.url[:WALL_URL_CHARS]!r}) triggered by {wall}"
        if not self.payload:
            return "no unambiguous quoted payload"
        return None

    async def _may_write(self) -> bool:
        """Whether something to write in, or what opens it, is there beside what looks like a wall."""
        return choose(self.view.elements, self.task).opener is not None or await self._finds()

    async def _finds(self) -> bool:
        """Whether a composer that is in no listing can be seen by its structure."""
        return self._fits(await self.hands.find_composer(goal=self.task.goal))

    def _fits(self, reply: Reply) -> bool:
        return bool(reply.get("found")) and suits(str(reply.get("name") or ""), self.task)

    def _decline(self, reason: str, end: End = "declined") -> End:
        lines.DECLINED.log(reason=reason)
        return end

    def _mismatch(self, found: str) -> str:
        return f"asked for a {self.task.first}, landed on a page with {found!r} ({self.view.url[:URL_CHARS]})"

    def _choose(self) -> Choice:
        choice = choose(self.view.elements, self.task)
        for element in choice.ignored:
            lines.WRONG_SURFACE.log(name=element.name)
        return choice

    async def _press(self, opener: Element) -> Choice:
        """Press the opener and wait for the composer that it mounts."""
        lines.OPENER.log(name=opener.name, index=opener.index)
        await self.hands.click(opener.index)
        self.view = await self.hands.settle(self._lists_composer, patient=True, unlisted=self._finds)
        return choose(self.view.elements, self.task)

    def _lists_composer(self, view: View) -> bool:
        return choose(view.elements, self.task).composer is not None

    async def _fill(self, composer: Element, *, there: bool) -> End:
        """Put the payload into a listed box; text that an earlier dispatch left there is not typed again."""
        lines.FILL_TARGET.log(name=composer.name, index=composer.index, url=self.view.url[:URL_CHARS])
        if there:
            return await self._report()
        reply = await self.hands.click(composer.index, self.payload)
        if "error" in reply:
            lines.FILL_ERRORED.log(error=str(reply["error"])[:ERROR_CHARS])
            return "timed_out" if reply["error"] == TIMED_OUT else "fill_died"
        self.typed = True
        self.view = await self.hands.settle(self._shows_payload)
        if not self._shows_payload(self.view) and not (await self._find_submit()).found:
            lines.FILL_UNSEEN.log()
            return "unseen"
        return await self._report()

    def _shows_payload(self, view: View) -> bool:
        wanted = _plain(self.payload)[:SEEN_CHARS]
        return bool(wanted) and any(wanted in _plain(f"{box.value} {box.name}") for box in view.textboxes)

    async def _fill_unlisted(self, *, there: bool) -> End:
        """Find the composer by its structure and fill it; text that already stands there is left alone.

        Revealing presses things, so nothing is revealed once the payload is in place.
        """
        hands_off = there or self.astray
        reply = await self.hands.find_composer(reveal=not hands_off, goal=self.task.goal)
        if not self._fits(reply) and not hands_off and "error" not in reply:
            # Some boxes are made a while after their page.
            self.view = await self.hands.settle(
                self._lists_composer, patient=True, limit_s=LATE_S, unlisted=self._finds
            )
            late = choose(self.view.elements, self.task).composer
            if late is not None:
                return await self._fill(late, there=False)
            reply = await self.hands.find_composer(goal=self.task.goal)
        if not reply.get("found"):
            return self._give_up(reply)
        # With nothing that fits, what there is must do: that it is the wrong place shows on the page.
        if self.astray:
            return self._decline(self._mismatch(_role(reply)), "astray")
        return await self._fill_structurally(reply, there=there)

    def _give_up(self, reply: Reply) -> End:
        lines.NOT_STRUCTURAL.log(reply=str(reply)[:REPLY_CHARS])
        why = "no composer, opener, or structural editable"
        if offers_sign_in(self.view):
            why = "signed OUT (composer withheld, sign-in offered)"
        declined = self._decline(why)
        return "timed_out" if reply.get("error") == TIMED_OUT else declined

    async def _fill_structurally(self, found: Reply, *, there: bool) -> End:
        reply = found if there else await self.hands.find_composer(fill=self.payload, goal=self.task.goal)
        if "error" in reply:
            return self._give_up(reply)
        if not there and not await self._holds(reply):
            lines.FILL_UNSEEN.log()
            return "unseen"
        lines.STRUCTURAL.log(
            role=_role(reply),
            score=reply.get("score"),
            near=reply.get("nearSubmit"),
            reveals=found.get("reveals") or [],
            mode=reply.get("fillMode"),
        )
        self.view = await self.hands.look()
        lines.FILL_TARGET.log(name=_role(reply), index=-1, url=self.view.url[:URL_CHARS])
        return await self._report()

    async def _holds(self, reply: Reply) -> bool:
        """Whether a structural fill can be believed; inside a frame the page's own script can't look."""
        if not reply.get("filled"):
            return False
        return bool(reply.get("frameUrl")) or (await self._find_submit()).found

    async def _find_submit(self) -> Submit:
        text = await self.hands.evaluate(scripts.find_submit(self.payload))
        try:
            return Submit(**json.loads(text))
        except ValueError:
            return Submit()

    async def _report(self) -> End:
        submit = await self._find_submit()
        if self.claims():
            lines.SENT.log(ms=round((time.monotonic() - self.started_s) * 1000))
            return "sent"
        lines.DRYRUN.log(
            listed=lists_send(self.view.elements),
            resolved=submit.resolved,
            rank=submit.rank,
            submit=submit.label if submit.resolved else submit.why,
        )
        return "filled"
