"""The migrations and the tables in code are one schema, and many may migrate at once."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext

import infra.migrations
from broker.errors import DatabaseError
from broker.store.breaches import lift_breaches
from broker.store.engine import make_engine
from broker.store.holds import read_holds
from broker.store.migrate import migrate
from broker.store.tables import metadata


def test_migrating_an_empty_database_makes_the_tables_that_the_code_describes(database: str) -> None:
    with make_engine(database, application="test", pooled=False).connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    assert differences == []


def test_a_second_migration_changes_nothing(database: str) -> None:
    assert migrate(database) == migrate(database)


def test_tables_of_a_newer_bv3_and_a_login_that_may_not_make_any_are_told_in_a_sentence(database: str) -> None:
    with make_engine(database, application="test", pooled=False).begin() as connection:
        connection.execute(sa.text("drop role if exists box_visitor"))
        connection.execute(sa.text("create role box_visitor login"))
    visitor = sa.make_url(database).set(username="box_visitor").render_as_string(hide_password=False)
    with pytest.raises(DatabaseError, match="no schema has been selected to create in"):
        migrate(visitor)
    with make_engine(database, application="test", pooled=False).begin() as connection:
        connection.execute(sa.text("drop role box_visitor"))
        connection.execute(sa.text("update alembic_version set version_num = '9999'"))
    with pytest.raises(DatabaseError, match="not of this bv3"):
        migrate(database)


def _migrate(url: str, results: multiprocessing.Queue[str]) -> None:
    try:
        results.put(migrate(url))
    except Exception as error:  # noqa: BLE001 - the test wants to see whatever it was
        results.put(repr(error))


def test_eight_processes_migrate_one_empty_database_without_an_error(empty_database: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[str] = spawn.Queue()
    processes = [spawn.Process(target=_migrate, args=(empty_database, results)) for _ in range(8)]
    for process in processes:
        process.start()
    answers = [results.get(timeout=240) for _ in processes]
    for process in processes:
        process.join(timeout=60)
    assert len(set(answers)) == 1, answers
    with make_engine(empty_database, application="test", pooled=False).connect() as connection:
        assert connection.scalar(sa.text("select count(*) from alembic_version")) == 1


def test_no_attempt_but_an_imported_one_stands_without_the_box_that_started_it(database: str) -> None:
    values = (
        "insert into sweeps (id, plan, suite, suite_sha256, mode, trials, requested_by)"
        " values ('s', 'c7', 'known', '', 'dry', 1, 'me');"
        " insert into site_runs (sweep_id, arm, site, trial, order_key) values ('s', 'main', 'x', 1, 1)"
    )
    attempt = "insert into attempts (run_id, number, nonce, payload, state) select id, 1, 'n', '', '{}' from site_runs"
    with make_engine(database, application="test", pooled=False).connect() as connection:
        connection.execute(sa.text(values))
        connection.commit()
        with pytest.raises(sa.exc.IntegrityError, match="ck_attempts_started_by"):
            connection.execute(sa.text(attempt.format("started")))
        connection.rollback()
        connection.execute(sa.text(attempt.format("graded")))
        connection.rollback()


def _upgrade(engine: sa.Engine, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(infra.migrations.__file__).parent))
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.commit()


def test_boxes_that_were_held_stay_held_when_holds_become_rows(empty_database: str) -> None:
    engine = make_engine(empty_database, application="test", pooled=False)
    _upgrade(engine, "0002")
    with engine.begin() as connection:
        connection.execute(sa.text(_HELD_AT_0002))
    migrate(empty_database)
    with engine.begin() as connection:
        found = connection.execute(sa.text("select box, kind, reason, lifted_at from box_holds order by box, kind"))
        assert [tuple(row) for row in found] == [
            ("breached", "breach", "false success in attempt 1: claimed: sent", None),
            ("by-hand", "drained", "new disk", None),
            ("drained", "drained", "drained", None),
            ("hand-then-breach", "breach", "false success in attempt 2: claimed: sent", None),
            ("hand-then-breach", "drained", "new disk", None),
        ]
        assert connection.scalar(sa.text("select count(*) from boxes")) == 6
        assert connection.scalar(sa.text("select facts ->> 'mode' from boxes where name = 'free'")) == "dry"
        assert connection.scalar(sa.text("select count(*) from marker_checks where box is null")) == 1
        assert lift_breaches(connection, "s", "anna").held == (("hand-then-breach", "new disk"),)
        assert "breached" not in read_holds(connection)


_HELD_AT_0002 = """
    insert into boxes (name, login, hold_reason, drain, facts) values
        ('breached', 'a', 'false success in attempt 1: claimed: sent', false, '{}'),
        ('by-hand', 'b', 'new disk', false, '{}'),
        ('drained', 'c', null, true, '{}'),
        ('hand-then-breach', 'd', 'new disk', false, '{}'),
        ('free', 'e', null, false, '{"mode": "dry"}'),
        ('lifted', 'f', null, false, '{}');
    insert into sweeps (id, plan, suite, suite_sha256, mode, trials, requested_by, halted_at)
        values ('s', 'c7', 'known', '', 'dry', 3, 'me', now());
    insert into site_runs (sweep_id, arm, site, trial, order_key, state)
        select 's', 'main', 'x', trial, trial, 'started' from generate_series(1, 3) trial;
    insert into dispatches (run_id, number, box, slot, state)
        select id, 1, (array['breached', 'hand-then-breach', 'lifted'])[trial], 1, 'started' from site_runs;
    insert into attempts (run_id, number, dispatch_id, box, token, nonce, payload)
        select d.run_id, 1, d.id, d.box, gen_random_uuid(), 'n' || d.id, '' from dispatches d order by d.id;
    insert into box_events (box, kind, run_id, attempt_id, facts)
        select box, 'breach', run_id, id, '{"said": "claimed: sent"}' from attempts order by id;
    insert into box_events (box, kind, run_id, attempt_id) select box, 'breach_lifted', run_id, id from attempts
        where box = 'lifted';
    insert into marker_checks (product_revision, catalogue_sha256, total, alive, checked_by)
        values ('21a08c23', 'c', 2, 2, 'me');
"""
