"""What can be wrong, or only look wrong, with an open site's pages, each under a name. Pure.

A nature is set for one site at a time, by ``POST /__nature``, and acts on what the site answers; what it needs
stands in ``natures/``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from infra.reference.sites.catalogue import Site, load_sites

FOLDER = Path(__file__).parent / "natures"
#: The path of the sign-in page that ``page_login_redirect`` leads to.
LOGIN = "/login"
#: Where the widget of ``challenge_shown`` comes from.
WIDGET = "/cdn-cgi/challenge-platform/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What an all-knowing judge says of a run that meets the nature and does its best."""

    bucket: str
    evidence: Literal["PROVEN"] | None = None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a site's pages are answered; what is not named stays as it is without a nature."""

    status: int = 200
    # The connection is closed without a byte of an answer.
    is_dropped: bool = False
    # Every page but this one redirects to it.
    redirect: str | None = None
    # The template that takes the place of every page.
    page: str | None = None
    # Templates put at the start and at the end of each page's body.
    top: str | None = None
    bottom: str | None = None
    # Scripts run at the head of each page, in one scope.
    scripts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Nature:
    """One nature of a site's pages."""

    name: str
    # What a visitor meets.
    sentence: str
    answer: Answer
    expected: Expected
    # Where a site's own shape, or the agent's way with it, makes another bucket true.
    exceptions: Mapping[str, Expected] = field(default_factory=dict)
    # Why nothing can be measured under it, in the words of the catalogue; None where it can.
    not_measurable: str | None = None

    def expect(self, site: str) -> Expected:
        """What is true of a run on a site, by the site's name."""
        return self.exceptions.get(site, self.expected)


def find_open_sites() -> tuple[Site, ...]:
    """The sites that can be measured: only they have natures."""
    return tuple(site for site in load_sites() if site.truth.not_measurable is None)


def embellish(html: str, *, head: str = "", top: str = "", bottom: str = "") -> str:
    """The page with markup added to its head and at both ends of its body; the rest of it is untouched."""
    html = html.replace("<head>", f"<head>{head}", 1).replace("<body>", f"<body>{top}", 1)
    before, end, after = html.rpartition("</body>")
    return f"{before}{bottom}{end}{after}"


@cache
def read_script(name: str) -> str:
    """The text of a script of the natures."""
    return (FOLDER / name).read_text()


_NO_PAGE = Expected(
    bucket="product_no_composer", why="bv3 is on trial with a page that has no composer, and no wall either"
)
_OK = Expected(bucket="ok", why="the composer can be used, and holds the payload exactly once")
_DIED = Expected(bucket="product_fill_died", why="the composer was found, and no text stood in it in time")
_UNVERIFIED = Expected(
    bucket="product_unverified_fill", why="a fill was claimed, and the composer does not hold the payload exactly once"
)
# The box without a name takes text by structure alone; that counts as not typed, so a recovery follows.
_UNCONFIRMED = Expected(
    bucket="product_unconfirmed", why="claimed and not there once, but a recovery came between that and the reading"
)
_RECOVERED: Mapping[str, Expected] = {"twitch": _UNCONFIRMED}


def _exclude(why: str) -> Expected:
    return Expected(bucket="not_measurable", evidence="PROVEN", why=why)


def _edit(name: str) -> Answer:
    return Answer(scripts=("editor.js", f"{name}.js"))


_ALL = (
    Nature(
        name="page_404",
        sentence="every page of the site is the site's own page for what is not there, with status 404",
        answer=Answer(status=404, page="missing.html"),
        expected=_NO_PAGE,
    ),
    Nature(
        name="page_500",
        sentence="every page of the site says that something went wrong, with status 500",
        answer=Answer(status=500, page="natures/error.html"),
        expected=_NO_PAGE,
    ),
    Nature(
        name="page_204",
        sentence="every page of the site is answered with status 204, so that the browser stays where it was",
        answer=Answer(status=204),
        expected=_NO_PAGE,
    ),
    Nature(
        name="page_dropped",
        sentence="the site closes the connection of every page without a byte of an answer",
        answer=Answer(is_dropped=True),
        expected=_NO_PAGE,
    ),
    Nature(
        name="page_login_redirect",
        sentence="every page of the site redirects to its /login, which shows a form with a password field",
        answer=Answer(redirect=LOGIN, page="natures/login.html"),
        expected=_exclude("the address and the page are a sign-in page's"),
        not_measurable="sign_in_url",
    ),
    Nature(
        name="page_hash_change",
        sentence="the page adds #main-content to its address once it is loaded",
        answer=Answer(scripts=("page_hash_change.js",)),
        expected=_OK,
    ),
    Nature(
        name="challenge_shown",
        sentence="every page of the site is a bot-detection challenge with a heading and a checkbox, with status 200",
        answer=Answer(page="natures/challenge.html"),
        expected=_exclude("a visible challenge stands where the page was meant to be"),
        not_measurable="challenge",
    ),
    Nature(
        name="challenge_mention",
        sentence="each page loads a challenge's script, carries its badge, and speaks of challenges in an article",
        answer=Answer(bottom="natures/challenge_mention.html"),
        expected=_OK,
    ),
    Nature(
        name="footer_login",
        sentence="each page has a footer with links to log in, to sign up and to reset a password",
        answer=Answer(bottom="natures/footer_login.html"),
        expected=_OK,
    ),
    Nature(
        name="header_password",
        sentence="each page has a small sign-in form with a visible password field in a header above its own",
        answer=Answer(top="natures/header_password.html"),
        expected=Expected(
            bucket="product_no_composer",
            why="the composer can be used; the agent takes the password field for a wall and declines",
        ),
    ),
    Nature(
        name="editor_reverts",
        sentence="the editor takes the text, is set back to empty 300 ms later, and takes nothing from then on",
        answer=_edit("editor_reverts"),
        expected=_UNVERIFIED,
        exceptions=_RECOVERED,
    ),
    Nature(
        name="editor_late",
        sentence="the editor shows a text 1.5 s after it was entered",
        answer=_edit("editor_late"),
        expected=_DIED,
    ),
    Nature(
        name="editor_old_text",
        sentence="the editor comes with another run's payload in it, as a draft that was kept",
        answer=_edit("editor_old_text"),
        expected=_OK,
    ),
    Nature(
        name="editor_doubles",
        sentence="300 ms after the text a second copy of it is added to the editor",
        answer=_edit("editor_doubles"),
        expected=_UNVERIFIED,
        exceptions=_RECOVERED,
    ),
    Nature(
        name="editor_rejects",
        sentence="the editor can be focused and takes no input",
        answer=_edit("editor_rejects"),
        expected=_DIED,
    ),
)
NATURES: Mapping[str, Nature] = MappingProxyType({nature.name: nature for nature in _ALL})


def write_table() -> str:
    """The natures as a table in Markdown, for the documentation."""
    rows = ["| nature | what a visitor meets | a run on an open site is | because |", "| --- | --- | --- | --- |"]
    for nature in NATURES.values():
        rows.append(f"| `{nature.name}` | {nature.sentence} | {_say(nature.expected)} | {nature.expected.why} |")
        rows += [
            f"| | on {site} | {_say(expected)} | {expected.why} |"
            for site, expected in sorted(nature.exceptions.items())
        ]
    return "\n".join(rows) + "\n"


def _say(expected: Expected) -> str:
    return f"`{expected.bucket}`" + (f" {expected.evidence}" if expected.evidence else "")
