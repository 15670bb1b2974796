"""Whether a page is the surface that a task meant. Pure; judged on the parsed URL, never on its text.

`netflix.com/home` is not `x.com/home`, `evil.example/?u=dev.to/new` is not `dev.to/new`, and a
private-message box on a public task is the wrong box on the right page.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any
from urllib.parse import SplitResult, urlsplit

import re2

from broker.codec import clean_text
from broker.suites.vocabulary import EditorShape
from broker.types import SiteTask

_WEB = frozenset({"http", "https"})
_MAX_URL = 8192
# `co.uk`, `com.au`: a country and a short label before it
_COUNTRY_LENGTH, _SHORT_LABEL = 2, 3
# what a browser takes from the ends of a URL, and out of its middle
_STRIPPED = "".join(map(chr, range(33)))
_DROPPED = {9: None, 10: None, 13: None}
# A page is a sign-in page when a whole segment of its path, or the first label of a foreign host, says so.
_SIGN_IN_SEGMENTS = frozenset(
    {"login", "log-in", "logon", "signin", "sign-in", "sign_in", "signup", "sign-up", "servicelogin", "authwall"}
)
_SIGN_IN_LABELS = frozenset({"accounts", "login", "signin", "sign-in", "auth", "sso"})
# What a private-message box is called. Words of pages, not of the product.
_MESSAGE_BOX = (
    r"(?i)^\W*(?:(?:write|send|type|enter|start|new|add|your)\s+)?(?:(?:an?|the|your)\s+)?"
    r"(?:(?:new|direct|private|instant)\s+)*(?:messages?|dms?)\b"
)
# A field of a page that is no place for the text of a task, whatever it is made of.
_FIELD = r"(?i)^\W*(?:(?:search|find|filter)\b|(?:(?:new|post|paste|topic|story|page)\s+)*(?:title|subject|tags)\b)"
# Shapes that are no library's, or that say where an editor stands and not what it is.
_NO_LIBRARY = {
    EditorShape.TEXTAREA,
    EditorShape.CONTENTEDITABLE,
    EditorShape.SHADOW_DOM,
    EditorShape.CROSS_ORIGIN_FRAME,
}
# Older tasks hold prose there, which says nothing for sure.
_LIBRARIES = frozenset(set(EditorShape) - _NO_LIBRARY)

# Kinds of editables that are no fields, as a page is read.
_EDITORS = frozenset({"contenteditable", "editcontext", "ace", "codemirror5", "codemirror6", "monaco"})

# What a box under somebody else's post is called, and how a task would speak of it: forums call a comment's so too.
_REPLY_BOX = r"(?i)^\W*(?:(?:write|add|post|type|leave|your)\s+)?(?:(?:an?|the|your|public)\s+)*repl(?:y|ies)\b"
_ANSWERS = frozenset({"reply", "replies"})
_ANSWERING_KINDS = frozenset({"comment", "reply"})


class Surface(StrEnum):
    """The answer for one URL; `unknown` when it can't be told, which is neither right nor wrong."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAddress:
    """The two parts of a URL that decide: `host` in lower-case ASCII without port, user and last dot."""

    host: str
    path: str


def parse_address(url: str) -> WebAddress | None:
    """Host and path of a web page's URL, read as a browser reads it; None for anything else."""
    return _parse(url[:_MAX_URL])


# the same few pages are asked for over and over, within a run and from run to run
@lru_cache(maxsize=512)
def _parse(url: str) -> WebAddress | None:
    cleaned = clean_text(url)[0].strip(_STRIPPED).replace("\\", "/").translate(_DROPPED)
    try:
        parts = urlsplit(cleaned)
        host = _ascii_host(parts)
    except ValueError:
        return None
    if parts.scheme.lower() not in _WEB or not host:
        return None
    return WebAddress(host=host, path=parts.path or "/")


def _ascii_host(parts: SplitResult) -> str:
    host = (parts.hostname or "").removesuffix(".")
    if not host.isascii():
        host = unicodedata.normalize("NFKC", host).encode("idna").decode("ascii")
    return host.lower()


def is_within(host: str, intended: str) -> bool:
    """Whether the host is the intended one or a subdomain of it: whole labels, `x.com.evil.example` is not."""
    return host == intended or host.endswith("." + intended)


def judge_url(url: str, task: SiteTask, *, truncated: bool = False) -> Surface:
    """The surface of this URL. `truncated`: its end may be missing, so a path that does not fit says nothing.

    A task without a host, which no suite has, knows no right page and no wrong one.
    """
    if not url or not task.host:
        return Surface.UNKNOWN
    address = parse_address(url)
    if address is None or not is_within(address.host, task.host.lower()):
        return Surface.WRONG
    if _is_found(task.path_rule, address.path):
        return Surface.RIGHT
    return Surface.UNKNOWN if truncated else Surface.WRONG


def is_message_box(label: str, task: SiteTask) -> bool:
    """Whether a box of this label is a private-message box where the task wanted something public."""
    return task.visibility == "public" and _is_found(_MESSAGE_BOX, clean_text(label[:200])[0])


def is_other_box(kind: str, label: str, task: SiteTask, *, others: Iterable[str] = ()) -> bool:
    """Whether a box of this kind and label can't be the task's editor. Both empty: nothing was read in any box.

    `others`: the kinds of the editables beside it, which are without the text. No more is refused than is sure: every
    shape has many lines; a site may have changed one library for another, or for a plain textarea, which is the wrong
    box only where an editor that is none stands beside it.
    """
    if not task.editor_shape:
        return False
    if kind == "input" or (kind == "textarea" and task.editor_shape in _LIBRARIES and not _EDITORS.isdisjoint(others)):
        return True
    said = clean_text(label[:200])[0]
    if _is_found(_FIELD, said) or (task.other_boxes and _is_found(task.other_boxes, said)):
        return True
    if task.kind in _ANSWERING_KINDS:
        return False
    return _is_found(_REPLY_BOX, said) and _ANSWERS.isdisjoint(re.findall(r"\w+", task.prompt.lower()))


def is_of_task(url: str, task: SiteTask) -> bool:
    """Whether this page can say anything of the task's site: a page of its host, or of a host for signing in.

    A wall on any other host says where somebody went, and nothing of the site.
    """
    if not task.host:
        return True
    address = parse_address(url)
    return address is not None and (is_within(address.host, task.host.lower()) or _is_sign_in_host(address.host))


def is_sign_in(url: str, task: SiteTask) -> bool:
    """Whether this URL is a sign-in page of the task's site that the task did not start from.

    A query counts for nothing (`/new?next=/login`); nor does a path that the task itself names.
    """
    address, entry = parse_address(url), parse_address(task.entry)
    if address is None or address == entry or not is_of_task(url, task):
        return False
    segments = {segment.lower() for segment in address.path.split("/")}
    return bool(segments & _SIGN_IN_SEGMENTS) or not is_within(address.host, task.host.lower())


def is_same_page(one: str, other: str, *, truncated: bool = False) -> bool:
    """Whether both URLs name one page: host and path. `truncated`: the end of `other` may be missing."""
    first, second = parse_address(one), parse_address(other)
    if first is None or second is None or first.host != second.host:
        return False
    return first.path.startswith(second.path) if truncated else first.path == second.path


def is_same_owner(url: str, task: SiteTask) -> bool:
    """Whether this page's host is the task's or has its last labels, as `accounts.google.com` and `mail.google.com`.

    Whose a domain is can't be told from its name alone: three labels are asked for where the last two may be a
    public suffix (`co.uk`), and what is asked for too much is at worst left UNVERIFIED.
    """
    address = parse_address(url)
    if address is None:
        return False
    host = task.host.lower()
    return is_within(address.host, host) or _last_labels(address.host) == _last_labels(host)


def _last_labels(host: str) -> list[str]:
    labels = host.split(".")
    is_suffix = len(labels[-1]) == _COUNTRY_LENGTH and len(labels[-2:][0]) <= _SHORT_LABEL
    return labels[-3:] if is_suffix else labels[-2:]


def _is_sign_in_host(host: str) -> bool:
    return host.partition(".")[0] in _SIGN_IN_LABELS


@lru_cache(maxsize=512)
def _is_found(pattern: str, text: str) -> bool:
    # of a str RE2's binding would map every offset back to characters
    return _compiled(pattern).search(text.encode()) is not None


@cache
def _compiled(pattern: str) -> Any:
    return re2.compile(pattern.encode())
