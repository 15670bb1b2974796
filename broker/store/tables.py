"""The tables, as SQLAlchemy describes them. The migrations make them; a test compares the two.

States are columns with a CHECK; what must be unique while it is open is a partial unique index,
so that a wrong state can't be written by anyone (DELIVERY, "Things").
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from broker.types import Bucket

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

RUN_STATES = ("planned", "dispatched", "started", "closed", "cancelled")
RUN_KINDS = ("dry", "imported")
DISPATCH_STATES = ("open", "started", "done", "released", "taken_back", "lost")
ATTEMPT_STATES = ("started", "finished", "reported", "graded", "lost")
HOLD_KINDS = ("breach", "quarantined", "drained")
RECORD_STANDINGS = ("counted", "duplicate", "late", "unreadable", "imported")


def _one_of(column: str, values: tuple[str, ...], name: str) -> sa.CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{column} in ({listed})", name=name)


def _time(name: str, *, now: bool = False) -> sa.Column[object]:
    if now:
        return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.clock_timestamp())
    return sa.Column(name, sa.DateTime(timezone=True))


def _identity() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True)


def _json(name: str) -> sa.Column[object]:
    return sa.Column(name, JSONB, nullable=False, server_default=sa.text("'{}'::jsonb"))


sweeps = sa.Table(
    "sweeps",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("suite", sa.Text, nullable=False),
    sa.Column("suite_sha256", sa.Text, nullable=False),
    sa.Column("mode", sa.Text, nullable=False),
    sa.Column("trials", sa.Integer, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
    # how many further attempts an infra verdict may cost a run
    sa.Column("retries", sa.Integer, nullable=False, server_default="2"),
    sa.Column("requested_by", sa.Text, nullable=False),
    _json("params"),
    _time("created_at", now=True),
    # orders: columns that stop starts, never audits and clean-ups
    _time("paused_at"),
    _time("cancelled_at"),
    _time("halted_at"),
    sa.Column("order_reason", sa.Text),
    _time("deadline"),
    _time("finished_at"),
    _one_of("mode", ("dry", "live"), "mode"),
    # a holdout that was written on is none any more: reach only
    sa.CheckConstraint("suite <> 'holdout' or mode <> 'live'", name="holdout"),
    sa.CheckConstraint("trials >= 1", name="trials"),
    sa.CheckConstraint("retries >= 0", name="retries"),
)

site_runs = sa.Table(
    "site_runs",
    metadata,
    _identity(),
    sa.Column("sweep_id", sa.ForeignKey("sweeps.id"), nullable=False),
    sa.Column("arm", sa.Text, nullable=False),
    sa.Column("site", sa.Text, nullable=False),
    sa.Column("trial", sa.Integer, nullable=False),
    sa.Column("kind", sa.Text, nullable=False, server_default="dry"),
    sa.Column("order_key", sa.Integer, nullable=False),
    _json("task"),
    sa.Column("state", sa.Text, nullable=False, server_default="planned"),
    _time("planned_at", now=True),
    _time("dispatched_at"),
    _time("started_at"),
    _time("closed_at"),
    sa.Column("reason", sa.Text),
    sa.UniqueConstraint("sweep_id", "arm", "site", "trial"),
    _one_of("state", RUN_STATES, "state"),
    _one_of("kind", RUN_KINDS, "kind"),
    sa.CheckConstraint("trial >= 1", name="trial"),
    sa.Index("ix_site_runs_planned", "order_key", "id", postgresql_where=sa.text("state = 'planned'")),
    sa.Index("ix_site_runs_sweep_id_state", "sweep_id", "state"),
)

boxes = sa.Table(
    "boxes",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    # the PostgreSQL login that may speak for this box, and for no other
    sa.Column("login", sa.Text, nullable=False, unique=True),
    sa.Column("token", sa.Uuid),
    sa.Column("machine", sa.Text),
    sa.Column("boot", sa.Text),
    sa.Column("namespace", sa.Text),
    sa.Column("pid", sa.Integer),
    _time("registered_at"),
    _time("last_beat_at"),
    sa.Column("beats", sa.BigInteger, nullable=False, server_default="0"),
    # what the last beat said the box does (docs/explanation/box-states.md)
    sa.Column("phase", sa.Text, nullable=False, server_default="gone"),
    _json("facts"),
)

# Why a box must get no runs: it gets some when no row of it is open. What ends which: docs/explanation/box-states.md
box_holds = sa.Table(
    "box_holds",
    metadata,
    _identity(),
    sa.Column("box", sa.ForeignKey("boxes.name"), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    _time("held_at", now=True),
    # box (its own word, which its own word ends), dispatcher, grader, or a person
    sa.Column("held_by", sa.Text, nullable=False),
    _time("lifted_at"),
    sa.Column("lifted_by", sa.Text),
    # what the health check saw that ended it
    sa.Column("note", sa.Text),
    _one_of("kind", HOLD_KINDS, "kind"),
    sa.CheckConstraint("(lifted_at is null) = (lifted_by is null)", name="lifted"),
    sa.Index("uq_box_holds_open", "box", "kind", unique=True, postgresql_where=sa.text("lifted_at is null")),
    sa.Index("ix_box_holds_box_kind_lifted_at", "box", "kind", "lifted_at"),
)

dispatches = sa.Table(
    "dispatches",
    metadata,
    _identity(),
    sa.Column("run_id", sa.ForeignKey("site_runs.id"), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("box", sa.ForeignKey("boxes.name"), nullable=False),
    sa.Column("slot", sa.SmallInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False, server_default="open"),
    _time("created_at", now=True),
    sa.Column(
        "sent_at",
        ARRAY(sa.DateTime(timezone=True)),
        nullable=False,
        server_default=sa.text("'{}'::timestamptz[]"),
    ),
    # the box's beat counter when it was last sent: two more idle beats mean the message is lost
    sa.Column("sent_at_beat", sa.BigInteger),
    _time("started_at"),
    _time("ended_at"),
    sa.Column("reason", sa.Text),
    sa.UniqueConstraint("run_id", "number"),
    _one_of("state", DISPATCH_STATES, "state"),
    sa.CheckConstraint("slot in (1, 2)", name="slot"),
    sa.Index(
        "uq_dispatches_open_run",
        "run_id",
        unique=True,
        postgresql_where=sa.text("state in ('open', 'started')"),
    ),
    sa.Index(
        "uq_dispatches_open_slot",
        "box",
        "slot",
        unique=True,
        postgresql_where=sa.text("state in ('open', 'started')"),
    ),
    # the dispatcher asks at every tick when each box last handed a run back
    sa.Index("ix_dispatches_released", "box", "ended_at", postgresql_where=sa.text("state = 'released'")),
)

attempts = sa.Table(
    "attempts",
    metadata,
    _identity(),
    sa.Column("run_id", sa.ForeignKey("site_runs.id"), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    # the three are null for an attempt that was imported: no box of ours has started it
    sa.Column("dispatch_id", sa.ForeignKey("dispatches.id"), unique=True),
    sa.Column("box", sa.ForeignKey("boxes.name")),
    sa.Column("token", sa.Uuid),
    sa.Column("nonce", sa.Text, nullable=False, unique=True),
    # the exact text this attempt has to write; its nonce was made by the database at the start
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False, server_default="started"),
    sa.Column("phase", sa.Text),
    _time("phase_at"),
    # beats in a row that did not name this attempt
    sa.Column("unnamed_beats", sa.Integer, nullable=False, server_default="0"),
    _time("started_at", now=True),
    _time("finished_at"),
    _time("reported_at"),
    _time("graded_at"),
    _time("lost_at"),
    sa.Column("reason", sa.Text),
    sa.UniqueConstraint("run_id", "number"),
    _one_of("state", ATTEMPT_STATES, "state"),
    sa.CheckConstraint(
        "state = 'graded' or (dispatch_id is not null and box is not null and token is not null)", name="started_by"
    ),
    sa.Index(
        "uq_attempts_open_run",
        "run_id",
        unique=True,
        postgresql_where=sa.text("state in ('started', 'finished', 'reported')"),
    ),
    sa.Index("ix_attempts_box_state", "box", "state"),
    # the dispatcher asks at every tick for each box's last ones
    sa.Index("ix_attempts_box_id", "box", "id"),
)

evidence = sa.Table(
    "evidence",
    metadata,
    sa.Column("sha256", sa.Text, primary_key=True),
    # of the plain bytes
    sa.Column("size", sa.BigInteger, nullable=False),
    # zstandard
    sa.Column("data", sa.LargeBinary, nullable=False),
    _time("stored_at", now=True),
)

evidence_chunks = sa.Table(
    "evidence_chunks",
    metadata,
    sa.Column("sha256", sa.Text, primary_key=True),
    sa.Column("box", sa.Text, primary_key=True),
    sa.Column("index", sa.Integer, primary_key=True),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    _time("stored_at", now=True),
)

records = sa.Table(
    "records",
    metadata,
    _identity(),
    sa.Column("attempt_id", sa.ForeignKey("attempts.id"), nullable=False),
    # null: the line of a file that was imported
    sa.Column("box", sa.ForeignKey("boxes.name")),
    # counted: the one that enters rates; duplicate, late and unreadable ones are kept beside it;
    # imported: a row of another harness as it stood in its file, which no rule can judge
    sa.Column("standing", sa.Text, nullable=False),
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column("raw", sa.LargeBinary, nullable=False),
    _time("stored_at", now=True),
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    sa.Column("error", sa.Text),
    sa.UniqueConstraint("attempt_id", "sha256"),
    _one_of("standing", RECORD_STANDINGS, "standing"),
    sa.CheckConstraint("box is not null or standing = 'imported'", name="sent_by"),
    sa.Index("uq_records_counted", "attempt_id", unique=True, postgresql_where=sa.text("standing = 'counted'")),
)

record_evidence = sa.Table(
    "record_evidence",
    metadata,
    sa.Column("record_id", sa.ForeignKey("records.id"), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("sha256", sa.ForeignKey("evidence.sha256"), nullable=False),
    sa.Column("media_type", sa.Text, nullable=False),
)

# What the next beat tells the box: hashes to send again, records of attempts unknown here.
box_notes = sa.Table(
    "box_notes",
    metadata,
    sa.Column("box", sa.ForeignKey("boxes.name"), primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("sha256", sa.Text, primary_key=True),
    _time("noted_at", now=True),
    _one_of("kind", ("missing_evidence", "unknown_record"), "kind"),
)

verdicts = sa.Table(
    "verdicts",
    metadata,
    _identity(),
    sa.Column("attempt_id", sa.ForeignKey("attempts.id"), nullable=False),
    # null: an attempt that was lost and left no record
    sa.Column("record_id", sa.ForeignKey("records.id")),
    sa.Column("grader_version", sa.Integer, nullable=False),
    sa.Column("bucket", sa.Text, nullable=False),
    sa.Column("rule", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    # the case's measured values (claim, times, surface …) and the deciding lines with their offsets
    _json("facts"),
    # false for a late record's verdict: it enters no rate
    sa.Column("counts", sa.Boolean, nullable=False),
    _time("graded_at", now=True),
    sa.UniqueConstraint("attempt_id", "record_id", "grader_version", postgresql_nulls_not_distinct=True),
    _one_of("bucket", tuple(bucket.value for bucket in Bucket), "bucket"),
)

# Which version of the rules a sweep's scorecard quotes: the latest row; without one, each attempt's first verdict.
adoptions = sa.Table(
    "adoptions",
    metadata,
    _identity(),
    sa.Column("sweep_id", sa.ForeignKey("sweeps.id"), nullable=False),
    sa.Column("grader_version", sa.Integer, nullable=False),
    sa.Column("requested_by", sa.Text, nullable=False),
    _time("adopted_at", now=True),
    sa.Index("ix_adoptions_sweep_id", "sweep_id"),
)

# What came of setting the catalogue of markers against a product's source; the latest row of a revision stands.
marker_checks = sa.Table(
    "marker_checks",
    metadata,
    _identity(),
    sa.Column("product_revision", sa.Text, nullable=False),
    # of broker/markers.toml: another catalogue is unverified
    sa.Column("catalogue_sha256", sa.Text, nullable=False),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("alive", sa.Integer, nullable=False),
    # per dead marker its name and why; how often each pattern matched in which log
    _json("facts"),
    sa.Column("checked_by", sa.Text, nullable=False),
    _time("checked_at", now=True),
    # the box that made it, and in which registration; null: a person did
    sa.Column("box", sa.ForeignKey("boxes.name")),
    sa.Column("token", sa.Uuid),
    sa.CheckConstraint("alive between 0 and total", name="alive"),
    sa.Index("ix_marker_checks_product_revision", "product_revision", "catalogue_sha256"),
)

box_events = sa.Table(
    "box_events",
    metadata,
    _identity(),
    sa.Column("box", sa.ForeignKey("boxes.name"), nullable=False),
    _time("at", now=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("run_id", sa.ForeignKey("site_runs.id")),
    sa.Column("attempt_id", sa.ForeignKey("attempts.id")),
    _json("facts"),
    sa.Index("ix_box_events_run_id", "run_id"),
    sa.Index("ix_box_events_box_id", "box", "id"),
)

# What a group of a frozen suite was frozen with. A trigger refuses every change and deletion, here and in its uses.
freezes = sa.Table(
    "freezes",
    metadata,
    _identity(),
    sa.Column("suite", sa.Text, nullable=False),
    sa.Column("group", sa.Text, nullable=False),
    # of the tasks (broker/freezes.py)
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column("frozen_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("product_revision", sa.Text, nullable=False),
    sa.Column("frozen_by", sa.Text, nullable=False),
    # another harness has frozen it
    sa.Column("taken_over", sa.Boolean, nullable=False),
    sa.Column("reason", sa.Text),
    # the freeze that this one takes the place of
    sa.Column("follows", sa.ForeignKey("freezes.id"), unique=True),
    # so that what differs can be named
    sa.Column("tasks", JSONB, nullable=False),
    _time("recorded_at", now=True),
    sa.UniqueConstraint("suite", "group"),
    sa.CheckConstraint("(follows is null) = (reason is null)", name="reason"),
)

# The ledger: one row per sweep and freeze that it was planned with.
freeze_uses = sa.Table(
    "freeze_uses",
    metadata,
    _identity(),
    sa.Column("sweep_id", sa.ForeignKey("sweeps.id"), nullable=False),
    sa.Column("freeze_id", sa.ForeignKey("freezes.id"), nullable=False),
    _time("used_at", now=True),
    # the checkout that was searched for its hosts, in how many files, and how many are no text; null: none was
    sa.Column("source_revision", sa.Text),
    sa.Column("source", sa.Text),
    sa.Column("source_files", sa.Integer),
    sa.Column("source_binaries", sa.Integer),
    sa.Column("requested_by", sa.Text, nullable=False),
    sa.UniqueConstraint("sweep_id", "freeze_id"),
    sa.CheckConstraint("num_nulls(source, source_revision, source_files, source_binaries) in (0, 4)", name="source"),
    sa.Index("ix_freeze_uses_freeze_id", "freeze_id", "id"),
)
