"""structlog for every process: JSON lines to a file or pipe, readable lines at a terminal, to stderr.

Bind `sweep`, `run`, `attempt` and `box` with `structlog.contextvars`; every line then carries them.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

# user:password@host in an address
_PASSWORD = re.compile(r"(?P<scheme>[a-z+]{2,20}://[^:@/\s]{0,100}):[^@/\s]{1,200}@")


def mask_secrets(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Addresses in the event's values carry no password afterwards."""
    for key, value in event.items():
        if isinstance(value, str) and "://" in value:
            event[key] = _PASSWORD.sub(r"\g<scheme>:***@", value)
    return event


def configure_log(*, service: str, verbose: bool = False) -> None:
    """Everything logged from here on, by us or by a library, is one line on stderr in one format."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        mask_secrets,
    ]
    at_terminal = sys.stderr.isatty()
    renderer: Any = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if at_terminal
        else structlog.processors.JSONRenderer(sort_keys=True)
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if verbose else logging.INFO),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    last: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
    if not at_terminal:
        last.insert(1, structlog.processors.format_exc_info)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    for chatty in ("httpx", "httpcore", "websockets", "celery.app.trace", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    structlog.contextvars.bind_contextvars(service=service)
