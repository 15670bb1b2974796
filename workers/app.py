"""`celery -A workers.app worker`: the box's Celery app and its one task, run by the supervisor."""

from broker.app import app
from workers import tasks

tasks.register(app)

__all__ = ["app"]
