"""Why a box gets no runs: a row per hold, by kind, with what lifted it; whose check of markers it was

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '5s'")
    op.create_table(
        "box_holds",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("box", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("held_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("held_by", sa.Text(), nullable=False),
        sa.Column("lifted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lifted_by", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.CheckConstraint("kind in ('breach', 'quarantined', 'drained')", name=op.f("ck_box_holds_kind")),
        sa.CheckConstraint("(lifted_at is null) = (lifted_by is null)", name=op.f("ck_box_holds_lifted")),
        sa.ForeignKeyConstraint(["box"], ["boxes.name"], name=op.f("fk_box_holds_box")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_box_holds")),
    )
    op.create_index(
        "uq_box_holds_open", "box_holds", ["box", "kind"], unique=True, postgresql_where=sa.text("lifted_at is null")
    )
    op.create_index("ix_box_holds_box_kind_lifted_at", "box_holds", ["box", "kind", "lifted_at"])
    op.create_index("ix_attempts_box_id", "attempts", ["box", "id"])
    op.create_index("ix_box_events_box_id", "box_events", ["box", "id"])
    op.add_column("marker_checks", sa.Column("box", sa.Text(), nullable=True))
    op.add_column("marker_checks", sa.Column("token", sa.Uuid(), nullable=True))
    op.create_foreign_key(op.f("fk_marker_checks_box"), "marker_checks", "boxes", ["box"], ["name"])
    _move_holds()
    functions = Path(__file__).parent.parent / "sql" / "0003_functions.sql"
    # by the driver itself: without parameters it leaves the percent signs alone
    driver = op.get_bind().connection.driver_connection
    driver.execute(functions.read_text("utf-8"))  # type: ignore[union-attr]


def _move_holds() -> None:
    """A held box stays held, by a breach that is open or else by whoever wrote the reason."""
    op.execute("""
        insert into box_holds (box, kind, reason, held_at, held_by)
        select distinct on (b.name) b.name, 'breach',
            'false success in attempt ' || e.attempt_id || ': ' || coalesce(e.facts ->> 'said', ''), e.at, 'grader'
        from boxes b join box_events e on e.box = b.name and e.kind = 'breach' and e.attempt_id is not null
        where b.hold_reason is not null and not exists (select from box_events l
            where l.kind = 'breach_lifted' and l.attempt_id = e.attempt_id and l.id > e.id)
        order by b.name, e.id
    """)
    op.execute("""
        insert into box_holds (box, kind, reason, held_by)
        select name, case when starts_with(hold_reason, 'false success in attempt ') then 'breach' else 'drained' end,
            hold_reason, 'a person'
        from boxes where hold_reason is not null
        on conflict do nothing
    """)
    op.execute("""
        insert into box_holds (box, kind, reason, held_by) select name, 'drained', 'drained', 'a person'
        from boxes where drain
        on conflict do nothing
    """)
    op.drop_column("boxes", "hold_reason")
    op.drop_column("boxes", "drain")


def downgrade() -> None:
    raise NotImplementedError("the tables before have one reason per box, and no place for who lifted which")
