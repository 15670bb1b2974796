"""Serving the sites by Host header, http and https, on loopback only."""

import asyncio
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from infra.reference.build import FILES
from infra.reference.failure import ReferenceFailure
from infra.reference.serving import Listener, serve
from infra.reference.sites.catalogue import ROOT, Page, Site, find_site, load_sites
from infra.reference.sites.certificate import make_certificate
from infra.reference.sites.natures import WIDGET, embellish, read_script, write_script
from infra.reference.sites.wishes import Wish, list_known, read_wish
from infra.reference.truth import SURVEY

Endpoint = Callable[[Request], Awaitable[Response]]
#: What a page may ask for: its own host, nothing else. A second lock behind the browser's host rules.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'"
)
_HEADERS = {"content-security-policy": POLICY, "cache-control": "no-store"}
# The browser's host rules bring every name to these sites, so that a frame of any host is one of ours.
_FRAMED = {**_HEADERS, "content-security-policy": f"{POLICY}; frame-src 'self' https:"}
_REFERENCE = (ROOT / "reference.js").read_text().replace("SURVEY", SURVEY.strip(), 1)
_WIDGET_PAGE = "natures/challenge_widget.html"
#: Where a detour leads over, what the hosts of advertisements serve, and a site's service worker.
DETOUR = "/__way"
AD = "/__ad/"
WORKER = "/__worker.js"
#: On loopback alone: which hosts that no site owns were asked for, and how often.
STRANGERS = "/__strangers"
_LOG = logging.getLogger("sites")
_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost"})


class _Dropped(Response):
    """No answer: the connection is closed."""

    async def __call__(self, scope: Scope, receive: Receive, _send: Send) -> None:
        scope["state"]["drop"]()
        while (await receive())["type"] != "http.disconnect":
            pass


class _Watched:
    """An application each of whose requests is told of first, WebSockets among them."""

    def __init__(self, app: ASGIApp, *, tell: Callable[[HTTPConnection], None]) -> None:
        self._app = app
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            self._tell(HTTPConnection(scope))
        await self._app(scope, receive, send)


class Sites:
    """The sites' pages, and their destinations: what was really posted or kept, by host, while the process lives."""

    def __init__(self, editors: Path) -> None:
        self._editors = editors
        self._strangers: Counter[str] = Counter()
        self._posts: dict[tuple[str, str], list[Any]] = defaultdict(list)
        # By the site's name.
        self._wishes: dict[str, Wish] = {}
        # The sites whose first page was reached since their natures were set.
        self._arrived: set[str] = set()
        self._pages = Environment(
            loader=FileSystemLoader(ROOT), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        self._pages.globals["reference"] = Markup(_REFERENCE)  # noqa: S704 - our own script

    def make_app(self) -> Starlette:
        """The sites as one ASGI application."""
        return Starlette(
            routes=[
                Route("/healthz", self._health),
                Route(STRANGERS, self._list_strangers),
                Route("/favicon.ico", self._icon),
                Route("/assets/{name}", self._asset),
                Route("/__nature", self._nature, methods=["GET", "POST"]),
                Route("/reference/posts", self._destination, methods=["GET", "POST"]),
                Route("/reference/drafts", self._destination, methods=["GET", "POST"]),
                Route("/{path:path}", self._page),
            ],
            middleware=[Middleware(_Watched, tell=self._watch)],
        )

    async def _list_strangers(self, request: Request) -> Response:
        """The hosts that no site owns and that were asked for all the same, with how often; pages can't ask this."""
        if request.url.scheme != "http" or _host(request) not in _LOOPBACK_HOSTS:
            return await self._page(request)
        return JSONResponse({"strangers": dict(sorted(self._strangers.items()))})

    async def _health(self, request: Request) -> Response:
        if find_site(_host(request)):
            return await self._page(request)
        return JSONResponse({"ok": True, "sites": [site.name for site in load_sites()]})

    async def _icon(self, _request: Request) -> Response:
        return Response(status_code=204)

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in FILES:
            return self._missing(request)
        kind = "css" if name.endswith(".css") else "javascript"
        await self._linger(request)
        return FileResponse(self._editors / name, media_type=f"text/{kind}")

    async def _destination(self, request: Request) -> Response:
        """What was posted or kept as a draft on this host: POST adds the JSON body, GET lists."""
        kind = Path(request.url.path).name
        posts = self._posts[_host(request), kind]
        if request.method == "POST":
            try:
                posts.append(json.loads(await request.body()))
            except ValueError:
                return JSONResponse({"error": "the body is not JSON"}, status_code=400)
            return JSONResponse({"ok": True, "count": len(posts)}, status_code=201)
        return JSONResponse({kind: posts})

    async def _nature(self, request: Request) -> Response:
        """Set or clear a site's natures, or list those that are set: on this machine's own address in plain http.

        A host among the sites has its own page there, as everywhere: no page of a site can change what it is.
        """
        if request.url.scheme != "http" or _host(request) not in _LOOPBACK_HOSTS:
            return await self._page(request)
        if request.method == "POST":
            try:
                wish = read_wish(json.loads(await request.body()))
            except ValueError as error:
                return JSONResponse({"error": str(error), **list_known()}, status_code=400)
            self._wishes.pop(wish.site.name, None)
            self._arrived.discard(wish.site.name)
            if wish.natures:
                self._wishes[wish.site.name] = wish
        hosts = {site.name: site.host for site in load_sites()}
        return JSONResponse({"natures": {hosts[name]: wish.names for name, wish in self._wishes.items()}})

    async def _page(self, request: Request) -> Response:
        site = find_site(_host(request))
        if site is None:
            return self._ad() if request.url.path.startswith(AD) else self._missing(request)
        wish = self._wishes.get(site.name)
        if request.url.path == WORKER:
            return _worker(is_there=bool(wish and wish.answer.has_worker))
        if wish is None:
            return self._find(request, site)
        await self._linger(request)
        return self._answer(request, site, wish)

    async def _linger(self, request: Request) -> None:
        """Wait as long as a slow network takes, where the site has one."""
        site = find_site(_host(request))
        wish = self._wishes.get(site.name) if site else None
        if wish and wish.answer.is_slow:
            await asyncio.sleep(wish.delay_s(request.url.path))

    def _answer(self, request: Request, site: Site, wish: Wish) -> Response:
        """The page as the natures have it."""
        answer, path = wish.answer, request.url.path
        if answer.has_detour and not _is_framed(request) and (step := self._find_detour(request, site)):
            return RedirectResponse(step, status_code=302, headers={"cache-control": "no-store"})
        if answer.is_dropped:
            return _Dropped()
        if answer.redirect and path != answer.redirect:
            return RedirectResponse(answer.redirect, status_code=302, headers={"cache-control": "no-store"})
        if answer.status == HTTPStatus.NO_CONTENT:
            return Response(status_code=answer.status, headers={"cache-control": "no-store"})
        if answer.page is None:
            return self._find(request, site, wish)
        template = _WIDGET_PAGE if path.startswith(WIDGET) else answer.page
        html = self._pages.get_template(template).render(site=site, host=_host(request), path=path)
        return HTMLResponse(html, status_code=answer.status, headers=_FRAMED)

    def _find_detour(self, request: Request, site: Site) -> str | None:
        """Where the first page of a site is looked for next; None once it is reached, until a nature is set again."""
        if site.name in self._arrived:
            return None
        if request.url.path != DETOUR:
            return f"https://go.{site.host}{DETOUR}?to={quote(str(request.url), safe='')}"
        target = request.query_params.get("to", "")
        if _host(request).startswith("go."):
            return f"https://{urlsplit(target).netloc}{DETOUR}?to={quote(target, safe='')}"
        self._arrived.add(site.name)
        return target

    def _find(self, request: Request, site: Site, wish: Wish | None = None) -> Response:
        query = request.url.query
        target = f"{request.url.path}?{query}" if query else request.url.path
        for page in site.pages:
            match = page.pattern.match(target) if page.host in {None, _host(request)} else None
            if match:
                return self._render(request, site, page, match.groupdict(), wish)
        return self._missing(request)

    def _render(
        self, request: Request, site: Site, page: Page, found: Mapping[str, str], wish: Wish | None
    ) -> Response:
        if page.redirect:
            return RedirectResponse(page.redirect, status_code=302, headers={"cache-control": "no-store"})
        item = None
        if page.items:
            item = next((row for row in site.data[page.items] if row["id"] == found["id"]), None)
            if item is None:
                return self._missing(request)
        template = self._pages.get_template(str(page.template))
        html = template.render(data=site.data, item=item, path=request.url.path)
        if wish is None:
            return HTMLResponse(html, headers=_FRAMED if site.has_frames else _HEADERS)
        headers = _FRAMED if site.has_frames or wish.answer.has_frames else _HEADERS
        return HTMLResponse(self._embellish(html, wish, is_framed=_is_framed(request)), headers=headers)

    def _embellish(self, html: str, wish: Wish, *, is_framed: bool) -> str:
        """The page with what its natures add to it; the page of a frame has what acts on its editor alone."""
        script = write_script(wish.answer, editor=wish.site.truth.editor, seed=wish.seed, is_framed=is_framed)
        if is_framed:
            return embellish(html, head=script)
        top, bottom = (
            "".join(self._pages.get_template(name).render(site=wish.site) for name in names)
            for names in (wish.answer.tops, wish.answer.bottoms)
        )
        return embellish(html, head=script, top=top, bottom=bottom)

    def _watch(self, asked: HTTPConnection) -> None:
        """Remember that somebody asked for a host that no site owns, whatever was asked; advertisements are served."""
        host = _host(asked)
        if host in _LOOPBACK_HOSTS or find_site(host) or asked.url.path.startswith(AD):
            return
        self._strangers[host] += 1
        if self._strangers[host] == 1:
            _LOG.warning("asked for %r, which no site owns", host[:200])

    def _ad(self) -> Response:
        return HTMLResponse(self._pages.get_template("natures/ad.html").render(), headers=_HEADERS)

    def _missing(self, request: Request) -> Response:
        html = self._pages.get_template("missing.html").render(host=_host(request), path=request.url.path)
        return HTMLResponse(html, status_code=404, headers=_HEADERS)


def _host(request: HTTPConnection) -> str:
    return (request.url.hostname or "").lower()


def _is_framed(request: Request) -> bool:
    """Whether a page is asked for by a frame."""
    return request.headers.get("sec-fetch-dest") in {"iframe", "frame"}


def _worker(*, is_there: bool) -> Response:
    script = read_script("worker.js" if is_there else "worker_gone.js")
    return Response(script, media_type="text/javascript", headers={"cache-control": "no-store"})


def run(*, http_port: int, https_port: int, editors: Path, state: Path, log_level: str) -> None:
    """Serve the sites in the foreground until SIGTERM or SIGINT.

    Raises:
        ReferenceFailure: a bundle is missing, a port is taken, or the state folder can't be written.
    """
    absent = [file for file in FILES if not (editors / file).is_file()]
    if absent:
        hint = "run python -m infra.reference.build"
        raise ReferenceFailure(f"no {', '.join(absent)} in {editors}", hint=hint)
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname).1s sites: %(message)s")
    app = Sites(editors).make_app()
    hosts = [host for site in load_sites() for host in site.hosts]
    certificate, key = make_certificate(state, hosts)
    serve(
        [
            Listener(app=app, port=http_port),
            Listener(app=app, port=https_port, certificate=certificate, key=key),
        ],
        log_config=None,
        access_log=log_level == "debug",
    )
