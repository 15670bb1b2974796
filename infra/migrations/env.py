"""Alembic's environment: it uses the connection that `broker.store.migrate` hands over."""

from __future__ import annotations

from alembic import context

from broker.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=True,
    compare_server_default=False,
)
with context.begin_transaction():
    context.run_migrations()
