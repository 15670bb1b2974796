"""What a site's pages can be like, or have wrong with them, each under a name. Pure.

``POST /__nature`` sets which natures a site's pages have, any number at a time; they act on what the site answers.
What they need stands in ``natures/``.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
    # Every answer of the site is late.
    is_slow: bool = False
    # The first page is reached by redirects, one of them over a subdomain.
    has_detour: bool = False
    # Each page has a service worker.
    has_worker: bool = False
    # Each page has frames of other hosts.
    has_frames: bool = False
    # Templates put at the start and at the end of each page's body; not into the pages of frames.
    tops: tuple[str, ...] = ()
    bottoms: tuple[str, ...] = ()
    # Scripts run at the head of each page, each in a scope of its own; not in frames.
    scripts: tuple[str, ...] = ()
    # Scripts that act on the page's editor, after editor.js and in its scope; also in frames.
    editor_scripts: tuple[str, ...] = ()

    @property
    def replaces_page(self) -> bool:
        """Whether nothing of the site's own page is left."""
        return self.is_dropped or self.redirect is not None or self.page is not None or self.status != _OK_STATUS


_OK_STATUS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Nature:
    """One nature of a site's pages."""

    name: str
    # What a visitor meets.
    sentence: str
    answer: Answer
    # What is true by the nature itself; None: what the page holds in the end decides.
    expected: Expected | None = None
    # Why nothing can be measured under it, in the words of the catalogue; None where it can.
    not_measurable: str | None = None
    # The part of all runs that has it under `all`; 0: it is not among them, since it leaves nothing for the others.
    rate: float = 0.0


def find_open_sites() -> tuple[Site, ...]:
    """The sites that can be measured: only they have natures."""
    return tuple(site for site in load_sites() if site.truth.not_measurable is None)


def find_ruling(natures: Iterable[Nature]) -> Nature | None:
    """The one of these natures that replaces the page, the first of the catalogue; None when none does."""
    names = {nature.name for nature in natures}
    return next((one for name, one in NATURES.items() if name in names and one.answer.replaces_page), None)


def compose(natures: Iterable[Nature]) -> Answer:
    """How pages with all these natures are answered, whatever order they are named in.

    Of those that replace the page the first of the catalogue rules, and leaves nothing for the scripts and markup of
    the others. What is late, and what redirects on the way, does so before any page.
    """
    names = {nature.name for nature in natures}
    answers = [nature.answer for name, nature in NATURES.items() if name in names]
    ruling = next((answer for answer in answers if answer.replaces_page), Answer())
    added = () if ruling.replaces_page else answers
    return Answer(
        status=ruling.status,
        is_dropped=ruling.is_dropped,
        redirect=ruling.redirect,
        page=ruling.page,
        is_slow=any(answer.is_slow for answer in answers),
        has_detour=any(answer.has_detour for answer in answers),
        has_worker=any(answer.has_worker for answer in added),
        has_frames=any(answer.has_frames for answer in added),
        tops=tuple(top for answer in added for top in answer.tops),
        bottoms=tuple(bottom for answer in added for bottom in answer.bottoms),
        scripts=tuple(script for answer in added for script in answer.scripts),
        editor_scripts=tuple(script for answer in added for script in answer.editor_scripts),
    )


def embellish(html: str, *, head: str = "", top: str = "", bottom: str = "") -> str:
    """The page with markup added to its head and at both ends of its body; the rest of it is untouched."""
    html = html.replace("<head>", f"<head>{head}", 1).replace("<body>", f"<body>{top}", 1)
    before, end, after = html.rpartition("</body>")
    return f"{before}{bottom}{end}{after}"


def write_script(answer: Answer, *, editor: str | None, seed: int, is_framed: bool) -> str:
    """The script element of a page with this answer; empty without a script. `editor`: as in the site's truth."""
    scripts = () if is_framed else answer.scripts
    if not scripts and not answer.editor_scripts:
        return ""
    known = {"EDITOR": editor, "SEED": seed}
    parts = [f"const {name} = {json.dumps(value)};" for name, value in known.items()]
    parts += [f"{{\n{read_script(name)}}}" for name in scripts]
    if answer.editor_scripts:
        parts += [read_script("editor.js"), *(f"{{\n{read_script(name)}}}" for name in answer.editor_scripts)]
    # One scope of their own: the pages' scripts have names too.
    return "\n".join(["<script>(() => {", *parts, "})();</script>"])


@cache
def read_script(name: str) -> str:
    """The text of a script of the natures."""
    return (FOLDER / name).read_text()


_NO_PAGE = Expected(
    bucket="product_no_composer", why="bv3 is on trial with a page that has no composer, and no wall either"
)
_DIED = Expected(bucket="product_fill_died", why="the composer was found, and no text stood in it in time")
_UNVERIFIED = Expected(
    bucket="product_unverified_fill", why="a fill was claimed, and the composer does not hold the payload exactly once"
)


def _exclude(why: str) -> Expected:
    return Expected(bucket="not_measurable", evidence="PROVEN", why=why)


def _edit(name: str) -> Answer:
    return Answer(editor_scripts=(f"{name}.js",))


def _show(name: str, *, at_top: bool = False) -> Answer:
    markup = (f"natures/{name}.html",)
    return Answer(tops=markup) if at_top else Answer(bottoms=markup)


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
        rate=0.1,
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
        answer=Answer(bottoms=("natures/challenge_mention.html",)),
        rate=0.1,
    ),
    Nature(
        name="footer_login",
        sentence="each page has a footer with links to log in, to sign up and to reset a password",
        answer=Answer(bottoms=("natures/footer_login.html",)),
        rate=0.1,
    ),
    Nature(
        name="header_password",
        sentence="each page has a small sign-in form with a visible password field in a header above its own",
        answer=Answer(tops=("natures/header_password.html",)),
        rate=0.1,
    ),
    Nature(
        name="editor_reverts",
        sentence="the editor takes the text, is set back to empty 300 ms later, and takes nothing from then on",
        answer=_edit("editor_reverts"),
        expected=_UNVERIFIED,
        rate=0.05,
    ),
    Nature(
        name="editor_late",
        sentence="the editor shows a text 1.5 s after it was entered",
        answer=_edit("editor_late"),
        expected=_DIED,
        rate=0.05,
    ),
    Nature(
        name="editor_old_text",
        sentence="the editor comes with another run's payload in it, as a draft that was kept",
        answer=_edit("editor_old_text"),
        rate=0.1,
    ),
    Nature(
        name="editor_doubles",
        sentence="300 ms after the text a second copy of it is added to the editor",
        answer=_edit("editor_doubles"),
        expected=_UNVERIFIED,
        rate=0.05,
    ),
    Nature(
        name="editor_rejects",
        sentence="the editor can be focused and takes no input",
        answer=_edit("editor_rejects"),
        expected=_DIED,
        rate=0.05,
    ),
    Nature(
        name="late_mount",
        sentence="nothing of the page can be seen until 800 ms after its load",
        answer=Answer(scripts=("late_mount.js",)),
        rate=0.15,
    ),
    Nature(
        name="focus_theft",
        sentence="200 to 400 ms after the first input a rendering moves the focus to a search box, once",
        answer=Answer(tops=("natures/focus_theft.html",), editor_scripts=("focus_theft.js",)),
        rate=0.15,
    ),
    Nature(
        name="autosave",
        sentence="each change of the text is sent to the site as a draft, and a line says that it is saved",
        answer=Answer(bottoms=("natures/autosave.html",), editor_scripts=("autosave.js",)),
        rate=0.15,
    ),
    Nature(
        name="cookie_banner",
        sentence="a consent dialog covers the lower half of the window until one of its buttons is pressed",
        answer=_show("cookie_banner"),
        rate=0.15,
    ),
    Nature(
        name="ad_frames",
        sentence="each page has a hundred frames of other hosts",
        answer=Answer(bottoms=("natures/ad_frames.html",), has_frames=True),
        rate=0.1,
    ),
    Nature(
        name="header_login",
        sentence="a bar above the page has a field for a user, one for a password, and a button to log in",
        answer=_show("header_login", at_top=True),
        rate=0.15,
    ),
    Nature(
        name="newsletter",
        sentence="a box for an email address, with Subscribe beside it, stands above the page",
        answer=_show("newsletter", at_top=True),
        rate=0.15,
    ),
    Nature(
        name="second_composer",
        sentence="an article below the page has a second text box for a reply, with a button of its own",
        answer=_show("second_composer"),
        rate=0.15,
    ),
    Nature(
        name="dm_trap",
        sentence="a box for a private message floats over the lower right corner",
        answer=_show("dm_trap"),
        rate=0.15,
    ),
    Nature(
        name="infinite_feed",
        sentence="articles are added below the page whenever its end comes in sight",
        answer=Answer(bottoms=("natures/infinite_feed.html",), scripts=("infinite_feed.js",)),
        rate=0.15,
    ),
    Nature(
        name="beforeunload",
        sentence="a page whose editor was written in asks before it is left",
        answer=_edit("beforeunload"),
        rate=0.15,
    ),
    Nature(
        name="service_worker",
        sentence="the page registers a worker that answers each of its requests from the network",
        answer=Answer(scripts=("service_worker.js",), has_worker=True),
        rate=0.15,
    ),
    Nature(
        name="redirect_chain",
        sentence="the first page comes after three redirects, one of them over a subdomain",
        answer=Answer(has_detour=True),
        rate=0.15,
    ),
    Nature(
        name="slow_network",
        sentence="each answer of the site comes 150 to 400 ms late",
        answer=Answer(is_slow=True),
        rate=0.1,
    ),
    Nature(
        name="submit_disabled",
        sentence="a box has to be ticked before anything can be submitted",
        answer=Answer(tops=("natures/submit_disabled.html",), scripts=("submit_disabled.js",)),
        rate=0.15,
    ),
    Nature(
        name="char_limit",
        sentence="the characters are counted, and what goes beyond 280 is cut off",
        answer=Answer(bottoms=("natures/char_limit.html",), editor_scripts=("char_limit.js",)),
        rate=0.15,
    ),
    Nature(
        name="char_limit_short",
        sentence="what goes beyond 20 characters is cut off",
        answer=_edit("char_limit_short"),
        rate=0.05,
    ),
    Nature(
        name="smart_quotes",
        sentence="apostrophes and quotes become curly once the typing pauses",
        answer=_edit("smart_quotes"),
        rate=0.15,
    ),
)
NATURES: Mapping[str, Nature] = MappingProxyType({nature.name: nature for nature in _ALL})


def write_table() -> str:
    """The natures as a table in Markdown, for the documentation."""
    rows = ["| nature | what a visitor meets | under `all` | true by itself |", "| --- | --- | ---: | --- |"]
    for nature in NATURES.values():
        rate = f"{nature.rate:g}" if nature.rate else "-"
        rows.append(f"| `{nature.name}` | {nature.sentence} | {rate} | {_say(nature.expected)} |")
    return "\n".join(rows) + "\n"


def _say(expected: Expected | None) -> str:
    if expected is None:
        return "-"
    return f"`{expected.bucket}`{f' {expected.evidence}' if expected.evidence else ''}: {expected.why}"
