"""Serving the sites by Host header, http and https, on loopback only."""

import json
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from infra.reference.build import FILES
from infra.reference.failure import ReferenceFailure
from infra.reference.serving import Listener, serve
from infra.reference.sites.catalogue import ROOT, Page, Site, find_site, load_sites
from infra.reference.sites.certificate import make_certificate
from infra.reference.sites.natures import NATURES, WIDGET, Nature, embellish, find_open_sites, read_script
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
_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost"})


class _Dropped(Response):
    """No answer: the connection is closed."""

    async def __call__(self, scope: Scope, receive: Receive, _send: Send) -> None:
        scope["state"]["drop"]()
        while (await receive())["type"] != "http.disconnect":
            pass


class Sites:
    """The sites' pages and their destinations: what was really posted, by host, while the process lives."""

    def __init__(self, editors: Path) -> None:
        self._editors = editors
        self._posts: dict[str, list[Any]] = defaultdict(list)
        # By the site's name.
        self._natures: dict[str, Nature] = {}
        self._pages = Environment(
            loader=FileSystemLoader(ROOT), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        self._pages.globals["reference"] = Markup(_REFERENCE)  # noqa: S704 - our own script

    def make_app(self) -> Starlette:
        """The sites as one ASGI application."""
        return Starlette(
            routes=[
                Route("/healthz", self._health),
                Route("/favicon.ico", self._icon),
                Route("/assets/{name}", self._asset),
                Route("/__nature", self._nature, methods=["GET", "POST"]),
                Route("/reference/posts", self._destination, methods=["GET", "POST"]),
                Route("/{path:path}", self._page),
            ],
        )

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
        return FileResponse(self._editors / name, media_type=f"text/{kind}")

    async def _destination(self, request: Request) -> Response:
        """What was posted on this host: POST adds the JSON body, GET lists."""
        posts = self._posts[_host(request)]
        if request.method == "POST":
            try:
                posts.append(json.loads(await request.body()))
            except ValueError:
                return JSONResponse({"error": "the body is not JSON"}, status_code=400)
            return JSONResponse({"ok": True, "count": len(posts)}, status_code=201)
        return JSONResponse({"posts": posts})

    async def _nature(self, request: Request) -> Response:
        """Which nature each open site has: POST {"host", "nature"} sets one or, with null, clears it; GET lists.

        Only this machine's own address over plain http is answered so: a page of a site can't reach it.
        """
        if request.url.scheme != "http" or _host(request) not in _LOOPBACK_HOSTS:
            return await self._page(request)
        if request.method == "POST":
            try:
                wanted = json.loads(await request.body())
                site, nature = _read_wish(wanted)
            except ValueError as error:
                return JSONResponse({"error": str(error), **_known()}, status_code=400)
            self._natures.pop(site.name, None)
            if nature:
                self._natures[site.name] = nature
        hosts = {site.name: site.host for site in load_sites()}
        return JSONResponse({"natures": {hosts[name]: nature.name for name, nature in self._natures.items()}})

    async def _page(self, request: Request) -> Response:
        site = find_site(_host(request))
        if site is None:
            return self._missing(request)
        nature = self._natures.get(site.name)
        if nature is None:
            return self._find(request, site)
        return self._answer(request, site, nature)

    def _answer(self, request: Request, site: Site, nature: Nature) -> Response:
        """The page as the nature has it."""
        answer, path = nature.answer, request.url.path
        if answer.is_dropped:
            return _Dropped()
        if answer.redirect and path != answer.redirect:
            return RedirectResponse(answer.redirect, status_code=302, headers={"cache-control": "no-store"})
        if answer.status == HTTPStatus.NO_CONTENT:
            return Response(status_code=answer.status, headers={"cache-control": "no-store"})
        if answer.page is None:
            return self._find(request, site, nature)
        template = _WIDGET_PAGE if path.startswith(WIDGET) else answer.page
        html = self._pages.get_template(template).render(site=site, host=_host(request), path=path)
        return HTMLResponse(html, status_code=answer.status, headers=_FRAMED)

    def _find(self, request: Request, site: Site, nature: Nature | None = None) -> Response:
        query = request.url.query
        target = f"{request.url.path}?{query}" if query else request.url.path
        for page in site.pages:
            match = page.pattern.match(target) if page.host in {None, _host(request)} else None
            if match:
                return self._render(request, site, page, match.groupdict(), nature)
        return self._missing(request)

    def _render(
        self, request: Request, site: Site, page: Page, found: Mapping[str, str], nature: Nature | None
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
        headers = _FRAMED if site.has_frames else _HEADERS
        return HTMLResponse(self._embellish(html, site, nature) if nature else html, headers=headers)

    def _embellish(self, html: str, site: Site, nature: Nature) -> str:
        """The page with what the nature adds to it."""
        answer = nature.answer
        parts = [f"const EDITOR = {json.dumps(site.truth.editor)};", *map(read_script, answer.scripts)]
        # One scope of their own: the pages' scripts have names too.
        script = "\n".join(["<script>(() => {", *parts, "})();</script>"]) if answer.scripts else ""
        ends = {
            name: self._pages.get_template(template).render(site=site)
            for name, template in (("top", answer.top), ("bottom", answer.bottom))
            if template
        }
        return embellish(html, head=script, **ends)

    def _missing(self, request: Request) -> Response:
        html = self._pages.get_template("missing.html").render(host=_host(request), path=request.url.path)
        return HTMLResponse(html, status_code=404, headers=_HEADERS)


def _host(request: Request) -> str:
    return (request.url.hostname or "").lower()


def _known() -> dict[str, list[str]]:
    return {"hosts": [site.host for site in find_open_sites()], "natures": sorted(NATURES)}


def _read_wish(wanted: object) -> tuple[Site, Nature | None]:
    """The open site and the nature that a POST names.

    Raises:
        ValueError: one of them is not known; the text says which.
    """
    if not isinstance(wanted, dict) or set(wanted) != {"host", "nature"}:
        raise ValueError('the body is not {"host": ..., "nature": ...}')
    site = find_site(str(wanted["host"]))
    if site is None or site not in find_open_sites():
        raise ValueError(f"no open site has the host {wanted['host']!r}")
    nature = NATURES.get(str(wanted["nature"]))
    if nature is None and wanted["nature"] is not None:
        raise ValueError(f"no nature is called {wanted['nature']!r}")
    return site, nature


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
