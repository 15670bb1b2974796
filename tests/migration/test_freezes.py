"""Nobody changes what was frozen, not even the tables' owner; and no holdout sweep is ever live."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from broker.store.engine import make_engine

_FROZEN = """
    insert into sweeps (id, plan, suite, suite_sha256, mode, trials, requested_by)
        values ('c8-1', 'c8', 'holdout', '', 'dry', 1, 'me');
    insert into freezes (suite, "group", sha256, frozen_at, product_revision, frozen_by, taken_over, tasks)
        values ('holdout', 'first', 'a', now(), '21a08c23', 'me', false, '[]');
    insert into freeze_uses (sweep_id, freeze_id, requested_by) select 'c8-1', id, 'me' from freezes
"""


@pytest.mark.parametrize(
    "change",
    [
        "update freezes set sha256 = 'b'",
        "update freezes set recorded_at = recorded_at",
        "delete from freezes",
        "truncate freezes cascade",
        "update freeze_uses set requested_by = 'you'",
        "delete from freeze_uses",
        "truncate freeze_uses",
    ],
)
def test_a_row_of_freezes_or_of_their_uses_is_never_changed_or_deleted(database: str, change: str) -> None:
    engine = make_engine(database, application="test", pooled=False)
    with engine.begin() as connection:
        connection.execute(sa.text(_FROZEN))
        before = connection.execute(sa.text("select * from freezes, freeze_uses")).all()
    with pytest.raises(sa.exc.IntegrityError, match="are never changed or deleted"), engine.begin() as connection:
        connection.execute(sa.text(change))
    with engine.begin() as connection:
        assert connection.execute(sa.text("select * from freezes, freeze_uses")).all() == before


@pytest.mark.parametrize(
    ("row", "refused"),
    [
        ("'first', null, null", "uq_freezes_suite_group"),
        ("'first-2', id, null", "ck_freezes_reason"),
        ("'first-2', null, 'why'", "ck_freezes_reason"),
        ("'first-2', id + 1000, 'why'", "fk_freezes_follows"),
    ],
)
def test_a_freeze_stands_once_and_one_that_follows_another_has_a_reason(database: str, row: str, refused: str) -> None:
    insert = """insert into freezes (suite, sha256, frozen_at, product_revision, frozen_by, taken_over, tasks,
        "group", follows, reason) select 'holdout', 'b', now(), '21a08c23', 'me', false, '[]', """
    engine = make_engine(database, application="test", pooled=False)
    with engine.begin() as connection:
        connection.execute(sa.text(_FROZEN))
    with pytest.raises(sa.exc.IntegrityError, match=refused), engine.begin() as connection:
        connection.execute(sa.text(f"{insert} {row} from freezes"))


def test_no_sweep_of_the_holdout_is_live(database: str) -> None:
    engine = make_engine(database, application="test", pooled=False)
    with pytest.raises(sa.exc.IntegrityError, match="ck_sweeps_holdout"), engine.begin() as connection:
        connection.execute(sa.text(_FROZEN.replace("'dry'", "'live'")))
    with engine.begin() as connection:
        connection.execute(sa.text(_FROZEN.replace("'dry'", "'live'").replace("'c8', 'holdout'", "'c2', 'known'")))
