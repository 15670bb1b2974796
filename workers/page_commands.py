"""bv3-box cards, read, eval, shot: a browser card by hand, no model anywhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.errors import EXIT_GATE, EXIT_SERVICE
from broker.terminal import print_inert
from workers.options import box_option

if TYPE_CHECKING:
    from workers.rawbrowser import RawBrowser, Visit

_MOST_NAME_CHARS = 60

_json = click.option("--json", "as_json", is_flag=True, help="one JSON object on stdout, texts exactly as they are")
_timeout = click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=1), default=40.0, show_default=True, help="seconds to arrive in"
)
_follow = click.option("--follow", is_flag=True, help="take the page that the address leads to, whichever it is")


@click.command()
@box_option
@_json
def cards(*, box_file: Path, as_json: bool) -> None:
    r"""Show each card of the dashboard: whose it is, its address as its page tells it, whether it answers.

    Exit 0 when every card answers, 1 when one is wedged, 3 when the backend can't be asked.

    \b
    bv3-box cards --box box.toml
    """
    from workers.rawbrowser import look_at_cards

    with _open_browser(box_file) as browser:
        own = frozenset({browser.facts.audit_card, browser.facts.raw_card})
        views = look_at_cards(browser.product, own)
    if as_json:
        click.echo(json.dumps({"cards": [asdict(view) for view in views]}))
    else:
        names = {"bv3": "bv3's own", "user": "user's"}
        for view in views:
            owner = names.get(view.owner, f"session {view.owner}")
            state = view.url if view.answers else f"WEDGED: {view.error}"
            tabs = f"{view.tabs} tab{'' if view.tabs == 1 else 's'}"
            print_inert(f"{view.card}  {owner}  {tabs}  {view.duration_ms} ms  {state}".replace("\n", " "))
    for view in views:
        if not view.answers:
            print_inert(f"wedged: {view.card}", err=True)
    sys.exit(0 if all(view.answers for view in views) else EXIT_GATE)


@click.command()
@box_option
@click.argument("url")
@click.argument("text", required=False)
@_json
@_timeout
@_follow
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=3.0,
    show_default=True,
    help="seconds in which TEXT may still appear",
)
@click.option("--skip-frames", is_flag=True, help="TEXT may be called absent with frames that can't be read")
def read(
    *,
    box_file: Path,
    url: str,
    text: str | None,
    as_json: bool,
    timeout_s: float,
    follow: bool,
    wait_s: float,
    skip_frames: bool,
) -> None:
    r"""Read the page at URL: print its text, or, with TEXT, say how often TEXT is on it.

    Believed only when the page itself says that it is at URL (host and path) and has text. Without TEXT exit 0.
    With TEXT exit 0 when it was seen, 1 when it is absent. Exit 3 when the page could not be looked at: that is
    neither.

    \b
    bv3-box read --box box.toml https://x.com/someone
    bv3-box read --box box.toml https://x.com/someone "probe k3f9x coverage alpha"
    """
    from workers.pagetext import look_for

    deadline_s = time.monotonic() + timeout_s
    with _open_browser(box_file) as browser:
        may_use_audit = _is_idle(browser)
        with browser.visit(url, deadline_s=deadline_s, follow=follow, may_use_audit=may_use_audit) as visit:
            _note(visit)
            if text is None:
                _print_page(visit, as_json=as_json)
                return
            found = look_for(browser, visit, text, wait_s=wait_s, skip_frames=skip_frames)
    if as_json:
        click.echo(json.dumps({"url": url, **asdict(found)}))
    else:
        print_inert(found.describe())
    sys.exit({"seen": 0, "absent": EXIT_GATE}.get(found.answer.value, EXIT_SERVICE))


@click.command("eval")
@box_option
@click.argument("url")
@click.argument("js")
@_json
@_timeout
@_follow
def evaluate(*, box_file: Path, url: str, js: str, as_json: bool, timeout_s: float, follow: bool) -> None:
    r"""Go to URL and print what the expression JS gives there: text as it is, all else as JSON.

    Exit 1 when the expression failed, 3 when the page could not be looked at.

    \b
    bv3-box eval --box box.toml https://x.com/home "document.querySelectorAll('article').length"
    """
    from workers.client.errors import CommandFailedError, ProductError
    from workers.rawbrowser import CouldNotLookError

    deadline_s = time.monotonic() + timeout_s
    with _open_browser(box_file) as browser:
        may_use_audit = _is_idle(browser)
        with browser.visit(
            url, deadline_s=deadline_s, follow=follow, needs_text=False, may_use_audit=may_use_audit
        ) as visit:
            _note(visit)
            try:
                result = browser.product.evaluate(visit.card, js, timeout_s=max(1.0, deadline_s - time.monotonic()))
            except CommandFailedError as error:
                # a page that hangs fails the command too
                browser.read(visit.card)
                print_inert(f"the expression gave nothing: {error.message}", err=True)
                sys.exit(EXIT_GATE)
            except ProductError as error:
                raise CouldNotLookError(error.message) from error
    if as_json:
        click.echo(json.dumps({"url": url, "href": visit.page.href, "card": visit.card, "result": result}))
    else:
        print_inert(result)


@click.command()
@box_option
@click.argument("url")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="the file; default: named by the host")
@_timeout
@_follow
def shot(*, box_file: Path, url: str, out: Path | None, timeout_s: float, follow: bool) -> None:
    r"""Take a picture of the page at URL; the file's name is on stdout.

    \b
    bv3-box shot --box box.toml https://x.com/home --out home.png
    """
    from workers.rawbrowser import parse_address, take_picture

    file = out or Path(f"{(parse_address(url).hostname or 'page')[:_MOST_NAME_CHARS]}.png")
    with _open_browser(box_file) as browser:
        may_use_audit = _is_idle(browser)
        with browser.visit(
            url, deadline_s=time.monotonic() + timeout_s, follow=follow, needs_text=False, may_use_audit=may_use_audit
        ) as visit:
            _note(visit)
            data = take_picture(browser.product, visit.card)
    _write(file, data)
    click.echo(str(file))


def _write(file: Path, data: bytes) -> None:
    from broker.errors import UsageError

    try:
        file.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{file} can't be written: {error.strerror}", hint="name another file with --out") from error


@contextmanager
def _open_browser(box_file: Path) -> Iterator[RawBrowser]:
    from workers.boxfile import open_box
    from workers.client.product import ProductAddress, ProductClient
    from workers.rawbrowser import RawBrowser
    from workers.stack.driver import facts_path
    from workers.stack.facts import read_facts

    box = open_box(box_file)
    facts = read_facts(facts_path(box))
    address = ProductAddress(url=facts.backend_url, token=facts.read_token(), dashboard_id=facts.dashboard_id)
    with ProductClient(address) as product:
        yield RawBrowser(product=product, facts=facts, folder=box.folder, tell=lambda said: print_inert(said, err=True))


def _is_idle(browser: RawBrowser) -> bool:
    """Whether no run is in progress, so that the audit card is nobody's need."""
    from workers.client.errors import ProductError
    from workers.occupancy import find_handwork, find_run

    try:
        return not find_run(browser.folder) and not find_handwork(browser.folder) and not browser.product.count_active()
    except ProductError:
        return False


def _note(visit: Visit) -> None:
    print_inert(f"{visit.page.href} on {visit.card} in {visit.duration_ms} ms", err=True)


def _print_page(visit: Visit, *, as_json: bool) -> None:
    page = visit.page
    if page.unread:
        print_inert(f"not read: {len(page.unread)} frames of other origins: {', '.join(page.unread)}", err=True)
    if page.is_cut:
        print_inert("cut: the page holds more text than is shown", err=True)
    if as_json:
        click.echo(
            json.dumps({"url": visit.asked, "card": visit.card, "duration_ms": visit.duration_ms, **asdict(page)})
        )
    else:
        print_inert(page.text)


COMMANDS: tuple[click.Command, ...] = (cards, read, evaluate, shot)
