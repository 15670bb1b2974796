"""Names and times in the product's spelling."""

import uuid
from datetime import UTC, datetime


def new_id() -> str:
    """32 hexadecimal digits, as sessions, messages and requests are named."""
    return uuid.uuid4().hex


def now() -> str:
    """This moment, ISO 8601 with microseconds and without a zone, as the product writes it."""
    return datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
