"""What a suite's groups were frozen with, and every use of them; no live sweep of the holdout

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '5s'")
    op.create_table(
        "freezes",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("group", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("frozen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("product_revision", sa.Text(), nullable=False),
        sa.Column("frozen_by", sa.Text(), nullable=False),
        sa.Column("taken_over", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("follows", sa.BigInteger(), nullable=True),
        sa.Column("tasks", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "recorded_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("(follows is null) = (reason is null)", name=op.f("ck_freezes_reason")),
        sa.ForeignKeyConstraint(["follows"], ["freezes.id"], name=op.f("fk_freezes_follows")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_freezes")),
        sa.UniqueConstraint("suite", "group", name=op.f("uq_freezes_suite_group")),
        sa.UniqueConstraint("follows", name=op.f("uq_freezes_follows")),
    )
    op.create_table(
        "freeze_uses",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("sweep_id", sa.Text(), nullable=False),
        sa.Column("freeze_id", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("source_revision", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("source_files", sa.Integer(), nullable=True),
        sa.Column("source_binaries", sa.Integer(), nullable=True),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "num_nulls(source, source_revision, source_files, source_binaries) in (0, 4)",
            name=op.f("ck_freeze_uses_source"),
        ),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_freeze_uses_sweep_id")),
        sa.ForeignKeyConstraint(["freeze_id"], ["freezes.id"], name=op.f("fk_freeze_uses_freeze_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_freeze_uses")),
        sa.UniqueConstraint("sweep_id", "freeze_id", name=op.f("uq_freeze_uses_sweep_id_freeze_id")),
    )
    op.create_index("ix_freeze_uses_freeze_id", "freeze_uses", ["freeze_id", "id"])
    op.create_check_constraint(op.f("ck_sweeps_holdout"), "sweeps", "suite <> 'holdout' or mode <> 'live'")
    _keep_rows("freezes", "freeze_uses")


def _keep_rows(*tables: str) -> None:
    """Whoever writes to these tables can only add to them."""
    op.execute("""
        create function refuse_change() returns trigger language plpgsql set search_path = pg_catalog as $$
        begin
            raise exception using errcode = 'restrict_violation',
                message = 'rows of ' || tg_table_name || ' are never changed or deleted';
        end
        $$
    """)
    op.execute("revoke all on function refuse_change() from public")
    for table in tables:
        op.execute(
            f"create trigger keep_rows before update or delete on {table} for each row execute function refuse_change()"
        )
        op.execute(
            f"create trigger keep_table before truncate on {table} for each statement execute function refuse_change()"
        )


def downgrade() -> None:
    raise NotImplementedError("the tables before have no place for freezes and their uses")
