"""Which sweep of the known suite a holdout's gap is taken from when nobody has named one."""

from __future__ import annotations

import sqlalchemy as sa

from broker.store.comparing import finished_sweeps
from grader.criteria import Sample
from grader.criteria.cells import HOLDOUT_SUITE
from grader.criteria.conditions import SAME_REVISION, incomparable, unlike
from grader.reading import read_sample

_PLAN = "c7"


def find_known(connection: sa.Connection, sample: Sample) -> Sample | None:
    """The last c7 of every site of today's suite, run under the holdout's own conditions and over when it was.

    Where none was by then, the first one after it; None: there is none. By date and conditions alone, whatever came
    out of it: among several nobody may choose the one that pleases, and what was read once is not read otherwise later.
    """
    ran = next((one for one in sample.measured_conditions if one.mode is not None), None)
    if sample.sweep.suite != HOLDOUT_SUITE or ran is None or unlike(sample):
        return None
    candidates = finished_sweeps(
        connection,
        plan=_PLAN,
        product_revision=ran.product_revision,
        renderer=ran.renderer,
        lane=ran.lane,
        by=sample.sweep.finished_at,
    )
    for sweep in candidates:
        known = read_sample(connection, sweep)
        if not known.blocked and not known.is_reworded and not incomparable(sample, known, SAME_REVISION):
            return known
    return None
