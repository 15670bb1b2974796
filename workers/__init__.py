"""The box: supervisor, Celery worker, stack, page reads, journal, and the command bv3-box."""
