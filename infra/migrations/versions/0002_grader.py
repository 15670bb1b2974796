"""What the grader keeps beside verdicts: adoptions, checks of markers, imported rows

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '5s'")
    op.create_table(
        "adoptions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("sweep_id", sa.Text(), nullable=False),
        sa.Column("grader_version", sa.Integer(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column(
            "adopted_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_adoptions_sweep_id_sweeps")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_adoptions")),
    )
    op.create_index("ix_adoptions_sweep_id", "adoptions", ["sweep_id"])
    op.create_table(
        "marker_checks",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("product_revision", sa.Text(), nullable=False),
        sa.Column("catalogue_sha256", sa.Text(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("alive", sa.Integer(), nullable=False),
        sa.Column(
            "facts",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("checked_by", sa.Text(), nullable=False),
        sa.Column(
            "checked_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("alive between 0 and total", name=op.f("ck_marker_checks_alive")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_marker_checks")),
    )
    op.create_index("ix_marker_checks_product_revision", "marker_checks", ["product_revision", "catalogue_sha256"])
    _let_rows_be_imported()


def _let_rows_be_imported() -> None:
    op.drop_constraint(op.f("ck_site_runs_kind"), "site_runs")
    op.create_check_constraint(op.f("ck_site_runs_kind"), "site_runs", "kind in ('dry', 'imported')")
    for column in ("dispatch_id", "box", "token"):
        op.alter_column("attempts", column, nullable=True)
    op.create_check_constraint(
        op.f("ck_attempts_started_by"),
        "attempts",
        "state = 'graded' or (dispatch_id is not null and box is not null and token is not null)",
    )
    op.alter_column("records", "box", nullable=True)
    op.drop_constraint(op.f("ck_records_standing"), "records")
    op.create_check_constraint(
        op.f("ck_records_standing"), "records", "standing in ('counted', 'duplicate', 'late', 'unreadable', 'imported')"
    )
    op.create_check_constraint(op.f("ck_records_sent_by"), "records", "box is not null or standing = 'imported'")


def downgrade() -> None:
    raise NotImplementedError("imported rows and checks of markers have no place in the tables before")
