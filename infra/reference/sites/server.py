"""Serving the sites by Host header, http and https, on loopback only."""

import json
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from infra.reference.build import BUNDLES
from infra.reference.failure import ReferenceFailure
from infra.reference.serving import Listener, serve
from infra.reference.sites.catalogue import ROOT, Page, Site, find_site, load_sites
from infra.reference.sites.certificate import make_certificate

Endpoint = Callable[[Request], Awaitable[Response]]
#: What a page may ask for: its own host, nothing else. A second lock behind the browser's host rules.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'"
)
_HEADERS = {"content-security-policy": POLICY, "cache-control": "no-store"}


class Sites:
    """The sites' pages and their destinations: what was really posted, by host, while the process lives."""

    def __init__(self, editors: Path) -> None:
        self._editors = editors
        self._posts: dict[str, list[Any]] = defaultdict(list)
        self._pages = Environment(
            loader=FileSystemLoader(ROOT), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )

    def make_app(self) -> Starlette:
        """The sites as one ASGI application."""
        return Starlette(
            routes=[
                Route("/healthz", self._health),
                Route("/favicon.ico", self._icon),
                Route("/assets/{name}", self._asset),
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
        if name not in {bundle.file for bundle in BUNDLES}:
            return self._missing(request)
        return FileResponse(self._editors / name, media_type="text/javascript")

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

    async def _page(self, request: Request) -> Response:
        site = find_site(_host(request))
        if site is None:
            return self._missing(request)
        query = request.url.query
        target = f"{request.url.path}?{query}" if query else request.url.path
        for page in site.pages:
            match = page.pattern.match(target)
            if match:
                return self._render(request, site, page, match.groupdict())
        return self._missing(request)

    def _render(self, request: Request, site: Site, page: Page, found: Mapping[str, str]) -> Response:
        if page.redirect:
            return RedirectResponse(page.redirect, status_code=302)
        item = None
        if page.items:
            item = next((row for row in site.data[page.items] if row["id"] == found["id"]), None)
            if item is None:
                return self._missing(request)
        template = self._pages.get_template(str(page.template))
        html = template.render(data=site.data, item=item, path=request.url.path)
        return HTMLResponse(html, headers=_HEADERS)

    def _missing(self, request: Request) -> Response:
        html = self._pages.get_template("missing.html").render(host=_host(request), path=request.url.path)
        return HTMLResponse(html, status_code=404, headers=_HEADERS)


def _host(request: Request) -> str:
    return (request.url.hostname or "").lower()


def run(*, http_port: int, https_port: int, editors: Path, state: Path, log_level: str) -> None:
    """Serve the sites in the foreground until SIGTERM or SIGINT.

    Raises:
        ReferenceFailure: a bundle is missing, a port is taken, or the state folder can't be written.
    """
    absent = [bundle.file for bundle in BUNDLES if not (editors / bundle.file).is_file()]
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
