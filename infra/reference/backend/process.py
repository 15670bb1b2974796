"""The double as a process: environment in, log lines on stderr, until a signal."""

import contextlib
import copy
import os
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.types import ASGIApp
from uvicorn.config import LOGGING_CONFIG

from infra.reference.backend import lines
from infra.reference.backend.auth import Door, read_token
from infra.reference.backend.routes import Api
from infra.reference.backend.services import Services, make_services
from infra.reference.backend.settings import Settings, read_settings
from infra.reference.backend.sockets import Sockets
from infra.reference.backend.turns import Turns
from infra.reference.serving import Listener, serve


def make_app(services: Services, token: str) -> ASGIApp:
    """The double as an ASGI application behind its door."""
    turns = Turns(services)

    @contextlib.asynccontextmanager
    async def live(_app: Starlette) -> AsyncIterator[None]:
        lines.mask_uvicorn(token)
        await _announce(services)
        yield
        await turns.stop_all()
        await services.models.close()
        await services.natures.close()

    routes = [*Api(services, turns).make_routes(), *Sockets(services, turns).make_routes()]
    return Door(Starlette(routes=routes, lifespan=live), token)


async def _announce(services: Services) -> None:
    lines.STARTING.log()
    lines.RESTORED.log(count=len(services.sessions.list_all()))
    url = services.settings.router_url
    if await services.models.is_up():
        lines.ROUTER_ADOPTED.log(port=urlsplit(url).port)
    else:
        lines.ROUTER_ABSENT.log(url=url)


def run() -> None:
    """Serve the double in the foreground until SIGTERM or SIGINT.

    Raises:
        ReferenceFailure: the environment asks for what it can't do, the port is taken, or the data root is
            unusable.
    """
    settings: Settings = read_settings(os.environ)
    made = (settings.data_root / "auth.token").exists()
    token = read_token(settings.data_root)
    lines.start_logging(token)
    lines.AUTH_TOKEN.log(what="reusing existing" if made else "minted new", path=settings.data_root)
    services = make_services(settings)
    listener = Listener(app=make_app(services, token), port=settings.port)
    serve([listener], log_config=copy.deepcopy(LOGGING_CONFIG), access_log=True)
