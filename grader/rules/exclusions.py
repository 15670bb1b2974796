"""Rules on what leaves the denominator: on what bv3 read itself, or, UNVERIFIED, on the product's word.

An exclusion says that the product was not on trial, so its evidence must speak of the trial. Nearly every run
that meets a wall is read after a recovery dispatch: a dispatch that failed has one. The recovery works on the
same task and usually on the same page, so these cases are told apart:

- no recovery ran before the read, or the page still stands where the first dispatch says that it stood, or both
  are sign-in pages: what bv3 read is what the trial met. PROVEN.
- a recovery had moved the page on, to a wall of the task's own site: the account is likely to be signed out, but
  the trial may have met another page. UNVERIFIED: every rate is printed with and without it. Not excluded at
  all when the first dispatch had found a box: then it met no wall.
- the wall is a sign-in page of a host that nothing ties to the task's, neither its name nor what the first
  dispatch says of where it stood. UNVERIFIED.
- the wall stands on a host that is neither the task's nor one for signing in: it says where somebody went, and
  nothing of the site. Not excluded, whoever names it.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.types import Bucket, Claim, Evidence, PageRead, Seen
from grader.evidence import WALL_DECLINES, Case, is_url_cut
from grader.markers import Hit, unquote
from grader.rules.finding import Finding, describe_line
from grader.surface import Surface, is_of_task, is_same_owner, is_same_page, is_sign_in


def challenge_shown(case: Case) -> Finding | None:
    """bv3 read a visible bot-detection challenge on the run's page."""
    return _exclude(case, "challenge", lambda read: read.challenge is Seen.SEEN)


def sign_in_page(case: Case) -> Finding | None:
    """bv3 read a sign-in page's URL where the task's page was meant."""
    return _exclude(case, "sign-in URL", lambda read: is_sign_in(read.url, case.task))


def password_form(case: Case) -> Finding | None:
    """bv3 read a visible password field in a sign-in form on the run's page."""
    return _exclude(case, "password form", lambda read: read.password_form is Seen.SEEN)


def _exclude(case: Case, what: str, is_wall: Callable[[PageRead], bool]) -> Finding | None:
    """Excluded when bv3 read such a wall of the task's site; see above for what it proves."""
    if case.claim is not Claim.NONE:
        return None
    read = next((read for read in case.page.reads if is_wall(read) and is_of_task(read.url, case.task)), None)
    if read is None:
        return None
    is_of_trial = case.is_of_trial(read)
    if case.fill is not None and not is_of_trial:
        return None
    is_proven = case.stood_on(read) or (is_of_trial and is_same_owner(read.url, case.task))
    doubt = (
        "a host that nothing ties to the task's" if is_of_trial else "read only after a recovery had moved the page on"
    )
    return Finding(
        bucket=Bucket.NOT_MEASURABLE,
        why=f"{what} on {read.url[:120]}{'' if is_proven else f', {doubt}'}",
        evidence=Evidence.PROVEN if is_proven else Evidence.UNVERIFIED,
    )


def wall_claimed(case: Case) -> Finding | None:
    """The product says that it met a wall of the task's site, and bv3's own reading does not refute it."""
    if case.claim is not Claim.NONE or case.record.budget_used:
        return None
    lines = _wall_lines(case)
    if not lines or _is_refuted(case, lines):
        return None
    return Finding(
        bucket=Bucket.NOT_MEASURABLE,
        why=f"wall by the product's word alone: {describe_line(case, lines[-1])}",
        lines=lines,
        evidence=Evidence.UNVERIFIED,
    )


def wall_refuted(case: Case) -> Finding | None:
    """The product names a wall, but on another site's page, or bv3 read the intended page without one: not excluded."""
    if case.claim is not Claim.NONE or case.record.budget_used:
        return None
    lines = _wall_lines(case)
    if not lines or not _is_refuted(case, lines):
        return None
    return Finding(
        bucket=Bucket.PRODUCT_NO_COMPOSER,
        why=f"a wall by the product's word, but not one of the page that was meant: {describe_line(case, lines[-1])}",
        lines=lines,
    )


def _wall_lines(case: Case) -> tuple[Hit, ...]:
    declined = tuple(hit for hit in case.window(*WALL_DECLINES) if hit == case.outcome)
    # a dispatch that had found a box met no challenge before it, and one after it is no word on the site
    challenges = case.window("challenge_detected") if case.fill is None else ()
    return (*declined, *challenges)


def _is_refuted(case: Case, lines: tuple[Hit, ...]) -> bool:
    """Whether no wall of the task's site is left of what the product says.

    A challenge, and a wall named by its URL or its password field, is one that bv3 would have read where the
    trial stood. A wall named by its words is not: a page may withhold its composer and offer a sign-in link alone.
    """
    if not any(_is_on_site(case, line) for line in lines):
        return True
    readable = all(line.marker == "challenge_detected" or _names_readable(case, line) for line in lines)
    looked = case.page.password_form is Seen.ABSENT and case.page.challenge is Seen.ABSENT
    is_there = case.surface is Surface.RIGHT or all(_is_on_named_page(case, line) for line in lines)
    return readable and looked and is_there and all(case.speaks_of_trial(read) for read in case.page.reads)


def _names_readable(case: Case, line: Hit) -> bool:
    found = case.catalogue.replies_in(line.text("trigger"))
    return bool(found.intersection(("wall_by_url", "wall_by_password_field")))


def _is_on_named_page(case: Case, line: Hit) -> bool:
    """Whether bv3 read the very page on which the product took a password field for a wall.

    A header's sign-in widget stands on every page of a site, on those before the one that was meant too.
    """
    return "wall_by_password_field" in case.catalogue.replies_in(line.text("trigger")) and is_same_page(
        case.page.url, unquote(line.text("url")), truncated=is_url_cut(line)
    )


def _is_on_site(case: Case, line: Hit) -> bool:
    """Whether the wall of this line is one of the task's site; a line that names no place means where it stood."""
    place = unquote(line.text("url")) or (f"https://{line.text('host')}/" if line.text("host") else "")
    return not place or is_of_task(place, case.task)
