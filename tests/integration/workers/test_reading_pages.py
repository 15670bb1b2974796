"""The page read in a real Chromium: what counts as an editable, a wall, a challenge."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from broker.settings import load_settings, read_manifest
from broker.types import PageRead, Seen
from workers.audit import make_expression
from workers.page import interpret

PAYLOAD = "probe k3f9x coverage alpha"
Read = Callable[[str], PageRead]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    manifest = read_manifest(load_settings())
    if manifest.playwright_node:
        os.environ["PLAYWRIGHT_NODEJS_PATH"] = manifest.playwright_node
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=manifest.chromium,
            args=list(manifest.chromium_args),
            env={**os.environ, **manifest.chromium_env},
        )
        yield browser.new_page()
        browser.close()


@pytest.fixture
def read(page: Page) -> Read:
    def make(body: str) -> PageRead:
        page.set_content(f"<title>T</title><body>{body.replace('PAYLOAD', PAYLOAD)}</body>")
        page.wait_for_function("window.ready !== false")
        plain: dict[str, Any] = json.loads(page.evaluate(make_expression()))
        return interpret(plain, card="c", payload=PAYLOAD, listing=None, after_dispatch=1, offset_ms=1, duration_ms=1)

    return make


NESTED_SHADOW = """<div id=h></div><script>
h.attachShadow({mode: 'open'}).innerHTML = '<div id=i></div>';
h.shadowRoot.getElementById('i').attachShadow({mode: 'open'}).innerHTML = '<div contenteditable>PAYLOAD</div>';
</script>"""
DESIGN_MODE = """<script>ready = false</script>
<iframe srcdoc='<script>document.designMode="on"</script>PAYLOAD' onload='ready = true'></iframe>"""


@pytest.mark.parametrize(
    "body",
    [
        "<textarea>PAYLOAD</textarea>",
        "<input value='PAYLOAD'>",
        "<input type=search value='PAYLOAD'>",
        "<div contenteditable>PAYLOAD</div>",
        "<div contenteditable=plaintext-only><p>probe k3f9x</p><p>coverage alpha</p></div>",
        "<div role=textbox><div contenteditable>PAYLOAD</div></div>",
        "<div contenteditable><div role=textbox>PAYLOAD</div></div>",
        "<div role=textbox tabindex=0>PAYLOAD</div>",
        "<div id=h></div><script>h.attachShadow({mode:'open'}).innerHTML='<textarea>PAYLOAD</textarea>'</script>",
        NESTED_SHADOW,
        "<script>ready=false</script><iframe srcdoc='<body contenteditable>PAYLOAD' onload='ready=true'></iframe>",
        DESIGN_MODE,
        "<div contenteditable>PAYLOAD</div><p>You wrote: PAYLOAD</p>",
        "<textarea>PAYLOAD</textarea><textarea hidden>PAYLOAD</textarea><input type=hidden value='PAYLOAD'>",
        "<textarea>PAYLOAD</textarea><input readonly value='PAYLOAD'>",
    ],
)
def test_payload_is_found_exactly_once(read: Read, body: str) -> None:
    page = read(body)
    assert (page.payload, page.payload_count) == (Seen.SEEN, 1), page.editables
    assert page.frames_unread == 0


@pytest.mark.parametrize(
    "body",
    [
        "<p>PAYLOAD</p><textarea></textarea>",
        "<textarea placeholder='PAYLOAD'></textarea>",
        "<textarea readonly>PAYLOAD</textarea>",
        "<input type=password value='PAYLOAD'>",
        "<textarea style='visibility:hidden'>PAYLOAD</textarea>",
        "<div contenteditable=false>PAYLOAD</div>",
        "<title>PAYLOAD</title>",
    ],
)
def test_what_is_no_editable_is_no_evidence(read: Read, body: str) -> None:
    assert read(body).payload is Seen.ABSENT


def test_fill_in_two_editables_is_counted_twice(read: Read) -> None:
    assert read("<textarea>PAYLOAD</textarea><div contenteditable>PAYLOAD</div>").payload_count == 2


def test_frame_of_another_origin_could_not_be_looked_into(read: Read) -> None:
    page = read("<script>ready=false</script><iframe src='data:text/html,<p>x' onload='ready=true'></iframe>")
    assert (page.frames, page.frames_unread, page.payload) == (1, 1, Seen.COULD_NOT_LOOK)


def test_invisible_frame_of_another_origin_hides_no_editor(read: Read) -> None:
    page = read("<iframe src='data:text/html,<p>x' width=1 height=1></iframe><textarea></textarea>")
    assert (page.frames_unread, page.payload) == (0, Seen.ABSENT)


@pytest.mark.parametrize(
    "pane",
    [
        "<div role=textbox contenteditable=false aria-readonly=true aria-label=To>PAYLOAD</div>",
        "<div role=textbox aria-readonly=true aria-label=To>PAYLOAD</div>",
        "<textarea readonly aria-label=To>PAYLOAD</textarea>",
    ],
)
def test_row_of_a_pane_that_only_shows_is_no_copy_in_a_frame_that_could_not_be_entered(page: Page, pane: str) -> None:
    frame = "<iframe src='data:text/html,<p>x' onload='ready = true'></iframe>"
    body = f"<script>ready = false</script><div contenteditable aria-label=From>PAYLOAD</div>{pane}{frame}"
    page.set_content(body.replace("PAYLOAD", PAYLOAD))
    page.wait_for_function("ready")
    rows = "".join(f'[{row}]<textbox "{name}" value="{PAYLOAD}">\n' for row, name in ((1, "From"), (2, "To")))
    plain: dict[str, Any] = json.loads(page.evaluate(make_expression()))
    found = interpret(plain, card="c", payload=PAYLOAD, listing=rows, after_dispatch=1, offset_ms=1, duration_ms=1)
    assert (found.payload, found.payload_count) == (Seen.SEEN, 1)


def test_badge_of_a_captcha_hides_no_editor(read: Read) -> None:
    frame = "<iframe src='data:text/html,<p>x' width=256 height=60 onload='ready=true'></iframe>"
    page = read(f"<script>ready=false</script><div class=grecaptcha-badge>{frame}</div><textarea></textarea>")
    assert (page.frames, page.frames_unread, page.payload) == (1, 0, Seen.ABSENT)


FORM = "<form><input type=email><input type=password><button>Sign in</button></form>"


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (f"<main><h1>Sign in</h1>{FORM}</main>", Seen.SEEN),
        (f"<header>{FORM}</header><p>news", Seen.ABSENT),
        (f"<div class=top>{FORM}</div><textarea rows=20 cols=80></textarea>", Seen.ABSENT),
        (f"<footer>{FORM}</footer>", Seen.ABSENT),
        (f"<div hidden>{FORM}</div>", Seen.ABSENT),
        ("<a href=/login>Sign in</a><footer>password</footer>", Seen.ABSENT),
        (f"<textarea></textarea><div style='position:fixed;inset:0;background:#fff'>{FORM}</div>", Seen.SEEN),
        (f"<div id=h></div><script>h.attachShadow({{mode:'open'}}).innerHTML='{FORM}'</script>", Seen.SEEN),
        (f"<header>{FORM}</header><main><textarea rows=9 cols=60>PAYLOAD</textarea></main>", Seen.ABSENT),
        (f"<nav>{FORM}</nav>", Seen.ABSENT),
        (f"<div role=banner>{FORM}</div><p>news", Seen.ABSENT),
        (f"<div contenteditable style='height:200px'>PAYLOAD</div><div>{FORM}</div>", Seen.ABSENT),
        ("<form><input type=email><button>Next</button></form>", Seen.ABSENT),
        ("<p>Forgot your password?</p><textarea>type=password</textarea>", Seen.ABSENT),
        ("<input type=password style='visibility:hidden'>", Seen.ABSENT),
        ("<input type=password style='display:none'>", Seen.ABSENT),
        (
            (
                "<script>ready=false</script><iframe srcdoc='<form><input type=password></form>' width=400 height=300"
                " onload='ready=true'></iframe>"
            ),
            Seen.SEEN,
        ),
    ],
)
def test_sign_in_wall_is_told_from_a_widget(read: Read, body: str, seen: Seen) -> None:
    assert read(body).password_form is seen


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("<iframe title=c src='https://newassets.hcaptcha.test/c' width=303 height=78></iframe>", Seen.SEEN),
        ("<div class=grecaptcha-badge><iframe src='https://recaptcha.test/a' width=256 height=60></iframe></div>",
         Seen.ABSENT),
        ("<iframe src='https://recaptcha.test/a' width=0 height=0></iframe>", Seen.ABSENT),
        ("<script src='https://captcha.test/x.js'></script><textarea></textarea>", Seen.ABSENT),
        ("<div id=captcha-box style='width:400px;height:200px'>Puzzle</div>", Seen.SEEN),
        ("<div id=captcha-box hidden style='width:400px;height:200px'>Puzzle</div>", Seen.ABSENT),
        ("<div role=dialog>Drag the slider to fit the puzzle piece</div>", Seen.SEEN),
        ("<h1>Verify you are human</h1>", Seen.SEEN),
        ("<h1>Checking your browser</h1>", Seen.SEEN),
        ("<article>How sites verify you are human, a long read</article><textarea></textarea>", Seen.ABSENT),
        (("<h1>example.com</h1><p>Verifying that you are human. This may take a few seconds.</p>"
         "<div class=cf-chl-widget style='width:300px;height:120px'>One moment</div>"), Seen.SEEN),
        ("<h1>Access</h1><p>Press & hold to confirm you are a human</p>", Seen.SEEN),
        (("<div class=grecaptcha-badge style='width:256px;height:120px'>protected by reCAPTCHA</div>"
         "<textarea></textarea>"), Seen.ABSENT),
        ("<textarea>Verify you are human</textarea>", Seen.ABSENT),
        ("<p>This site is protected by reCAPTCHA and the Google Privacy Policy applies.</p>", Seen.ABSENT),
        ("<article>Verify you are human: " + "a long read about it. " * 100 + "</article>", Seen.ABSENT),
        ("<script>/* captcha */ var captcha = 1;</script><p>news", Seen.ABSENT),
        ("<style>.captcha {color: red}</style><textarea></textarea>", Seen.ABSENT),
        ("<div role=dialog hidden>Drag the slider to fit the puzzle piece</div>", Seen.ABSENT),
        ("<title>Verify you are human</title><textarea></textarea>", Seen.ABSENT),
    ],
)  # fmt: skip
def test_challenge_is_what_a_person_would_see(read: Read, body: str, seen: Seen) -> None:
    assert read(body).challenge is seen


def test_reading_changes_nothing_and_is_quick_on_a_large_page(read: Read, page: Page) -> None:
    rows = "<div class=row><a href=#>x</a><input><span>text</span></div>" * 3000
    found = read(f"{rows}<textarea>PAYLOAD</textarea>")
    # more inputs than are brought over: the payload's own place must not be lost among them
    assert found.payload is Seen.SEEN
    before = page.content()
    page.evaluate(make_expression())
    assert page.content() == before


BENT = [
    "Array.prototype.toJSON = function () { return '[bent]'; }",
    "Object.prototype.toJSON = () => 'bent'",
    "String.prototype.toJSON = () => 'bent'",
]


@pytest.mark.parametrize("bend", BENT)
def test_page_that_bends_json_is_read_as_any_other(read: Read, bend: str) -> None:
    found = read(f"<textarea aria-label=Post>PAYLOAD</textarea><script>{bend}</script>")
    assert (found.payload, found.payload_count, found.editables[0].label) == (Seen.SEEN, 1, "Post")


@pytest.mark.parametrize(
    "body",
    [
        "<textarea name=t>PAYLOAD</textarea><form><input name=editContext><input name=shadowRoot></form>",
        "<form><input name=value><input name=localName><input name=id><textarea>PAYLOAD</textarea></form>",
        "<form class=x><input name=getClientRects><input name=ownerDocument></form><textarea>PAYLOAD</textarea>",
        "<form name=title></form><form name=activeElement></form><form name=body></form><textarea>PAYLOAD</textarea>",
        "<form id=k tabindex=0><input name=shadowRoot></form><textarea>PAYLOAD</textarea><script>k.focus()</script>",
    ],
)
def test_fields_named_like_what_is_asked_of_a_page_bend_nothing(read: Read, body: str) -> None:
    found = read(body)
    assert (found.payload, found.payload_count, found.in_part) == (Seen.SEEN, 1, False), found.editables
    assert (found.title, found.password_form, found.challenge) == ("T", Seen.ABSENT, Seen.ABSENT)


def test_element_that_can_not_be_read_costs_no_other_its_reading(read: Read) -> None:
    broken = """<input id=b><textarea>PAYLOAD</textarea><script>
    Object.defineProperty(b, 'readOnly', {get() { throw new Error('no'); }});</script>"""
    found = read(broken)
    assert (found.payload, found.payload_count, found.in_part) == (Seen.SEEN, 1, True)
    assert read(broken.replace("PAYLOAD", "")).payload is Seen.COULD_NOT_LOOK


IN_SHADOW = """<div id=h></div><script>h.attachShadow({mode:'open'}).innerHTML =
'<textarea id=k style=width:1px;height:1px></textarea>'; h.shadowRoot.getElementById('k').focus()</script>"""
FOCUSED_DESIGN = """<script>ready = false</script><iframe id=f srcdoc='<body>'></iframe><script>
f.onload = () => { f.contentDocument.designMode = 'on'; f.contentWindow.focus(); ready = true; };</script>"""
FOCUS = "<script>document.getElementById('k').focus()</script>"
IN_FRAME = """<script>ready = false</script><canvas width=300 height=100></canvas>
<iframe id=f width=2 height=2 srcdoc='<body><div id=k contenteditable style="height:40px">'></iframe>
<script>f.onload = () => { f.contentDocument.getElementById('k').focus(); ready = true; };</script>"""


@pytest.mark.parametrize(
    "body",
    [
        "<textarea id=k aria-hidden=true tabindex=-1 style='width:200px;height:40px'></textarea>" + FOCUS,
        "<div id=k contenteditable aria-hidden=true tabindex=-1 style='width:200px;height:40px'></div>" + FOCUS,
        "<div id=k contenteditable style='width:1px;height:1px;overflow:hidden'></div>" + FOCUS,
        "<textarea id=k style='width:1px;height:1px'></textarea>" + FOCUS,
        IN_SHADOW,
        IN_FRAME,
        IN_FRAME.replace("<div id=k contenteditable", "<textarea id=k"),
    ],
)
def test_what_takes_the_keys_for_a_text_elsewhere_leaves_absence_open(read: Read, body: str) -> None:
    found = read(body)
    assert (found.payload, found.in_part) == (Seen.COULD_NOT_LOOK, True), found.editables
    other = read(body.replace(FOCUS, "").replace("k').focus()", "k')"))
    assert (other.payload, other.in_part) == (Seen.ABSENT, False), other.editables


@pytest.mark.parametrize(
    "body",
    [
        "<input type=search id=k>" + FOCUS,
        "<textarea id=k></textarea>" + FOCUS,
        "<textarea id=k readonly></textarea>" + FOCUS,
        "<div id=k contenteditable></div>" + FOCUS,
        "<div contenteditable style='width:1px;height:1px'></div><button id=k>x</button>" + FOCUS,
        "<p>Say <span id=k contenteditable></span> now</p>" + FOCUS,
        "<div contenteditable><p>words</p><button id=k contenteditable=false>x</button></div>" + FOCUS,
        "<div contenteditable><div role=textbox id=k tabindex=0>words</div></div>" + FOCUS,
        "<div id=k role=textbox tabindex=0>words</div>" + FOCUS,
        "<input type=checkbox id=k>" + FOCUS,
        "<canvas id=k tabindex=0></canvas>" + FOCUS,
        IN_FRAME.replace("width=2 height=2", "width=200 height=99"),
        FOCUSED_DESIGN,
    ],
)
def test_caret_in_what_was_read_leaves_nothing_open(read: Read, body: str) -> None:
    found = read(body)
    assert (found.payload, found.in_part) == (Seen.ABSENT, False), found.editables


@pytest.mark.parametrize(
    "body",
    [
        "<pre class=CodeMirror>static code</pre>",
        "<div class=monaco-editor><div class=overflowingContentWidgets style='height:9px'></div></div>",
    ],
)
def test_element_with_an_editor_s_class_and_nothing_else_of_it_is_no_editor(read: Read, body: str) -> None:
    found = read(body + "<textarea></textarea>")
    assert (found.payload, found.in_part) == (Seen.ABSENT, False)
    assert [one.kind for one in found.editables] == ["textarea"]
