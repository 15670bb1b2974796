"""First tables and the five functions of a box

Revision ID: 0001
Revises:
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '5s'")
    op.create_table(
        "boxes",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("login", sa.Text(), nullable=False),
        sa.Column("token", sa.Uuid(), nullable=True),
        sa.Column("machine", sa.Text(), nullable=True),
        sa.Column("boot", sa.Text(), nullable=True),
        sa.Column("namespace", sa.Text(), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_beat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("beats", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("phase", sa.Text(), server_default="gone", nullable=False),
        sa.Column("hold_reason", sa.Text(), nullable=True),
        sa.Column("drain", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column(
            "facts",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_boxes")),
        sa.UniqueConstraint("login", name=op.f("uq_boxes_login")),
    )
    op.create_table(
        "evidence",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column(
            "stored_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_evidence")),
    )
    op.create_table(
        "evidence_chunks",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("box", sa.Text(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column(
            "stored_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("sha256", "box", "index", name=op.f("pk_evidence_chunks")),
    )
    op.create_table(
        "sweeps",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("suite_sha256", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), server_default="0", nullable=False),
        sa.Column("retries", sa.Integer(), server_default="2", nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column(
            "params",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("paused_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancelled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("halted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("order_reason", sa.Text(), nullable=True),
        sa.Column("deadline", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("mode in ('dry', 'live')", name=op.f("ck_sweeps_mode")),
        sa.CheckConstraint("retries >= 0", name=op.f("ck_sweeps_retries")),
        sa.CheckConstraint("trials >= 1", name=op.f("ck_sweeps_trials")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sweeps")),
    )
    op.create_table(
        "box_notes",
        sa.Column("box", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column(
            "noted_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.CheckConstraint("kind in ('missing_evidence', 'unknown_record')", name=op.f("ck_box_notes_kind")),
        sa.ForeignKeyConstraint(["box"], ["boxes.name"], name=op.f("fk_box_notes_box")),
        sa.PrimaryKeyConstraint("box", "kind", "sha256", name=op.f("pk_box_notes")),
    )
    op.create_table(
        "site_runs",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("sweep_id", sa.Text(), nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("site", sa.Text(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), server_default="dry", nullable=False),
        sa.Column("order_key", sa.Integer(), nullable=False),
        sa.Column(
            "task",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("state", sa.Text(), server_default="planned", nullable=False),
        sa.Column(
            "planned_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("dispatched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.CheckConstraint("kind in ('dry')", name=op.f("ck_site_runs_kind")),
        sa.CheckConstraint(
            "state in ('planned', 'dispatched', 'started', 'closed', 'cancelled')",
            name=op.f("ck_site_runs_state"),
        ),
        sa.CheckConstraint("trial >= 1", name=op.f("ck_site_runs_trial")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_site_runs_sweep_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_site_runs")),
        sa.UniqueConstraint("sweep_id", "arm", "site", "trial", name=op.f("uq_site_runs_sweep_id_arm_site_trial")),
    )
    op.create_index(
        "ix_site_runs_planned",
        "site_runs",
        ["order_key", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'planned'"),
    )
    op.create_index("ix_site_runs_sweep_id_state", "site_runs", ["sweep_id", "state"], unique=False)
    op.create_table(
        "dispatches",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("box", sa.Text(), nullable=False),
        sa.Column("slot", sa.SmallInteger(), nullable=False),
        sa.Column("state", sa.Text(), server_default="open", nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column(
            "sent_at",
            postgresql.ARRAY(sa.DateTime(timezone=True)),
            server_default=sa.text("'{}'::timestamptz[]"),
            nullable=False,
        ),
        sa.Column("sent_at_beat", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state in ('open', 'started', 'done', 'released', 'taken_back', 'lost')",
            name=op.f("ck_dispatches_state"),
        ),
        sa.CheckConstraint("slot in (1, 2)", name=op.f("ck_dispatches_slot")),
        sa.ForeignKeyConstraint(["box"], ["boxes.name"], name=op.f("fk_dispatches_box")),
        sa.ForeignKeyConstraint(["run_id"], ["site_runs.id"], name=op.f("fk_dispatches_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dispatches")),
        sa.UniqueConstraint("run_id", "number", name=op.f("uq_dispatches_run_id_number")),
    )
    op.create_index(
        "uq_dispatches_open_run",
        "dispatches",
        ["run_id"],
        unique=True,
        postgresql_where=sa.text("state in ('open', 'started')"),
    )
    op.create_index(
        "uq_dispatches_open_slot",
        "dispatches",
        ["box", "slot"],
        unique=True,
        postgresql_where=sa.text("state in ('open', 'started')"),
    )
    op.create_index(
        "ix_dispatches_released",
        "dispatches",
        ["box", "ended_at"],
        unique=False,
        postgresql_where=sa.text("state = 'released'"),
    )
    op.create_table(
        "attempts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("dispatch_id", sa.BigInteger(), nullable=False),
        sa.Column("box", sa.Text(), nullable=False),
        sa.Column("token", sa.Uuid(), nullable=False),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="started", nullable=False),
        sa.Column("phase", sa.Text(), nullable=True),
        sa.Column("phase_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("unnamed_beats", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("graded_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lost_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state in ('started', 'finished', 'reported', 'graded', 'lost')", name=op.f("ck_attempts_state")
        ),
        sa.ForeignKeyConstraint(["box"], ["boxes.name"], name=op.f("fk_attempts_box")),
        sa.ForeignKeyConstraint(["dispatch_id"], ["dispatches.id"], name=op.f("fk_attempts_dispatch_id")),
        sa.ForeignKeyConstraint(["run_id"], ["site_runs.id"], name=op.f("fk_attempts_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("dispatch_id", name=op.f("uq_attempts_dispatch_id")),
        sa.UniqueConstraint("nonce", name=op.f("uq_attempts_nonce")),
        sa.UniqueConstraint("run_id", "number", name=op.f("uq_attempts_run_id_number")),
    )
    op.create_index("ix_attempts_box_state", "attempts", ["box", "state"], unique=False)
    op.create_index(
        "uq_attempts_open_run",
        "attempts",
        ["run_id"],
        unique=True,
        postgresql_where=sa.text("state in ('started', 'finished', 'reported')"),
    )
    op.create_table(
        "box_events",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("box", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=True),
        sa.Column("attempt_id", sa.BigInteger(), nullable=True),
        sa.Column(
            "facts",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_box_events_attempt_id")),
        sa.ForeignKeyConstraint(["box"], ["boxes.name"], name=op.f("fk_box_events_box")),
        sa.ForeignKeyConstraint(["run_id"], ["site_runs.id"], name=op.f("fk_box_events_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_box_events")),
    )
    op.create_index("ix_box_events_run_id", "box_events", ["run_id"], unique=False)
    op.create_table(
        "records",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("attempt_id", sa.BigInteger(), nullable=False),
        sa.Column("box", sa.Text(), nullable=False),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.Column(
            "stored_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "standing in ('counted', 'duplicate', 'late', 'unreadable')", name=op.f("ck_records_standing")
        ),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_records_attempt_id")),
        sa.ForeignKeyConstraint(["box"], ["boxes.name"], name=op.f("fk_records_box")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_records")),
        sa.UniqueConstraint("attempt_id", "sha256", name=op.f("uq_records_attempt_id_sha256")),
    )
    op.create_index(
        "uq_records_counted",
        "records",
        ["attempt_id"],
        unique=True,
        postgresql_where=sa.text("standing = 'counted'"),
    )
    op.create_table(
        "record_evidence",
        sa.Column("record_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["record_id"], ["records.id"], name=op.f("fk_record_evidence_record_id")),
        sa.ForeignKeyConstraint(["sha256"], ["evidence.sha256"], name=op.f("fk_record_evidence_sha256")),
        sa.PrimaryKeyConstraint("record_id", "name", name=op.f("pk_record_evidence")),
    )
    op.create_table(
        "verdicts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("attempt_id", sa.BigInteger(), nullable=False),
        sa.Column("record_id", sa.BigInteger(), nullable=True),
        sa.Column("grader_version", sa.Integer(), nullable=False),
        sa.Column("bucket", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column(
            "facts",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("counts", sa.Boolean(), nullable=False),
        sa.Column(
            "graded_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "bucket in ('ok', 'product_no_composer', 'product_wrong_surface', 'product_fill_died', 'product_unverified_fill', 'product_unconfirmed', 'product_command_timeout', 'product_timeout', 'product_false_success', 'infra_backend', 'infra_router', 'infra_browser', 'infra_no_renderer', 'infra_harness', 'infra_box_lost', 'infra_contended', 'not_measurable')",
            name=op.f("ck_verdicts_bucket"),
        ),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_verdicts_attempt_id")),
        sa.ForeignKeyConstraint(["record_id"], ["records.id"], name=op.f("fk_verdicts_record_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdicts")),
        sa.UniqueConstraint(
            "attempt_id",
            "record_id",
            "grader_version",
            name=op.f("uq_verdicts_attempt_id_record_id_grader_version"),
            postgresql_nulls_not_distinct=True,
        ),
    )
    functions = Path(__file__).parent.parent / "sql" / "0001_functions.sql"
    # by the driver itself: without parameters it leaves the percent signs of `raise` alone
    driver = op.get_bind().connection.driver_connection
    driver.execute(functions.read_text("utf-8"))  # type: ignore[union-attr]


def downgrade() -> None:
    raise NotImplementedError("there is nothing before the first revision")
