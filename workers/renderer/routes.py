"""The routes of a page: what its scripts asked servers for, as ``list_routes`` tells them. No I/O."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

ROUTES_KEPT = 50
SCRIPTED: Final = frozenset({"fetch", "xhr"})
READING: Final = frozenset({"GET", "HEAD"})
_PORTS: Mapping[str, int] = MappingProxyType({"http": 80, "https": 443})


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One request that a page's script made."""

    method: str
    url: str
    # The origin of the page that made it.
    origin: str

    @property
    def is_write(self) -> bool:
        """Whether asking again may change something on the server."""
        return self.method not in READING


def read_origin(url: str) -> str:
    """Scheme, host and port of an address; '' when it has none."""
    parts = urlsplit(url)
    try:
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}:{port}" if parts.hostname else ""


@dataclass(slots=True, kw_only=True)
class Routes:
    """The latest routes of one card, each once, at most `kept`."""

    kept: int = ROUTES_KEPT
    _seen: "OrderedDict[Route, None]" = field(default_factory=OrderedDict)

    def note(self, *, kind: str, method: str, url: str, page_url: str) -> None:
        """Take note of a request, if a script made it."""
        if kind not in SCRIPTED or not url.startswith(("http://", "https://")):
            return
        route = Route(method=method.upper(), url=url, origin=read_origin(page_url))
        self._seen.pop(route, None)
        self._seen[route] = None
        while len(self._seen) > self.kept:
            self._seen.popitem(last=False)

    def pick(self, page_url: str, *, writes: bool = False) -> list[Route]:
        """The routes that pages of this page's origin used, the oldest first; writing ones only with `writes`."""
        origin = read_origin(page_url)
        return [route for route in self._seen if route.origin == origin and (writes or not route.is_write)]
