"""What bv3 itself read on the run's cards, taken together into one view. Pure.

Every answer has three values: absence is evidence only if the read succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from broker.types import Editable, PageRead, RunRecord, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """The cards of one attempt as last read.

    `payload` is SEEN only when it stands exactly once, in one editable, over all cards.
    """

    payload: Seen
    # how often it was found; 2 is as wrong as 0
    count: int
    # of the card that holds the payload, else of the last card read; empty: not read
    url: str
    # the holding editable's own name, and what it is; empty: none holds it
    label: str
    # which dispatch was the last to have ended by then; 0: nothing was read
    after_dispatch: int
    password_form: Seen
    challenge: Seen
    # per card the last read that could look for a wall: a closed frame hides the payload, not the wall around it
    reads: tuple[PageRead, ...] = ()
    kind: str = ""
    # the kinds of the editables that the same read has beside the holder
    others: tuple[str, ...] = ()
    # of the reads that decided: frames that could not be entered, and whether an editor was read in part
    frames_unread: int = 0
    in_part: bool = False


UNREAD = PageView(
    payload=Seen.COULD_NOT_LOOK,
    count=0,
    url="",
    label="",
    after_dispatch=0,
    password_form=Seen.COULD_NOT_LOOK,
    challenge=Seen.COULD_NOT_LOOK,
)


def view_pages(record: RunRecord) -> PageView:
    """The view of this record's page reads. A read taken after the trial alone outranks any later one."""
    own = _tell_gone([read for read in record.reads if not record.cards or read.card in record.cards])
    trial = [read for read in own if read.after_dispatch <= 1]
    could_look = any(_payload_seen(read) is not Seen.COULD_NOT_LOOK for read in trial)
    reads = _last_of_each_card(trial if could_look else own, _payload_seen)
    if not reads:
        return UNREAD
    walls = _last_of_each_card(own, _wall_seen)
    holders = [read for read in reads if read.payload_count > 0]
    chosen = max(holders or reads, key=lambda read: (bool(read.url), read.offset_ms))
    count = sum(read.payload_count for read in reads)
    holder = _holder(chosen.editables) if holders and chosen.editables else None
    return PageView(
        payload=_combined(reads, count),
        count=count,
        url=chosen.url,
        label=holder.label if holder else "",
        after_dispatch=max(read.after_dispatch for read in reads),
        password_form=_any_seen([read.password_form for read in walls]),
        challenge=_any_seen([read.challenge for read in walls]),
        reads=tuple(walls),
        kind=holder.kind if holder else "",
        others=tuple(editable.kind for editable in chosen.editables if editable is not holder),
        frames_unread=sum(read.frames_unread for read in reads),
        in_part=any(read.in_part for read in reads),
    )


def _tell_gone(reads: list[PageRead]) -> list[PageRead]:
    """The reads, with ABSENT for one whose page no longer holds what stood on it before, closed frames or not.

    An editor that took a text back is not to be hidden by frames that can't be entered: no text moves into them.
    """
    told = []
    stood: set[str] = set()
    for read in sorted(reads, key=lambda read: read.offset_ms):
        is_hidden = not read.payload_count and read.frames_unread and not read.in_part
        is_gone = is_hidden and read.card in stood
        told.append(replace(read, payload=Seen.ABSENT, frames_unread=0) if is_gone else read)
        if any(editable.payload_count and editable.frame >= 0 for editable in read.editables):
            stood.add(read.card)
    return told


def _payload_seen(read: PageRead) -> Seen:
    """What the read says of the payload; absent in what could be entered is not absent everywhere."""
    if read.payload is Seen.ABSENT and read.frames_unread:
        return Seen.COULD_NOT_LOOK
    return read.payload


def _wall_seen(read: PageRead) -> Seen:
    """Whether the read could look for a wall at all, and whether it saw one."""
    return _any_seen((read.password_form, read.challenge))


def _last_of_each_card(reads: list[PageRead], answer: Callable[[PageRead], Seen]) -> list[PageRead]:
    """Per card the last read that could look: an editor may still revert, a closed card says nothing new."""
    if len(reads) <= 1:
        return reads
    last: dict[str, PageRead] = {}
    for read in sorted(reads, key=lambda read: read.offset_ms):
        if read.card not in last or answer(read) is not Seen.COULD_NOT_LOOK:
            last[read.card] = read
    return list(last.values())


def _combined(reads: list[PageRead], count: int) -> Seen:
    if count == 1:
        return Seen.SEEN
    if count == 0 and any(_payload_seen(read) is Seen.COULD_NOT_LOOK for read in reads):
        return Seen.COULD_NOT_LOOK
    return Seen.ABSENT


def _any_seen(answers: Sequence[Seen]) -> Seen:
    # a sequence finds members by identity, where a set calls each one's hash
    if Seen.SEEN in answers:
        return Seen.SEEN
    return Seen.ABSENT if Seen.ABSENT in answers else Seen.COULD_NOT_LOOK


def _holder(editables: tuple[Editable, ...]) -> Editable:
    return max(editables, key=lambda editable: editable.payload_count)
