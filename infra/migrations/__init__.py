"""Alembic's revisions of the database; `broker.store.migrate` runs them."""
