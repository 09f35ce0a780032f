"""A history that is played again with the decisions that made it gives the same books.

The histories are of the twin with our own scheduler, kept as if a real fleet had told them: jobs
that save, crash, are preempted, cancelled and lose their nodes, services whose load goes by the
clock, gangs that are slower far apart, MIG instances, hot spares. What was decided in them is
decided again, so every difference of the two ledgers would be a fault of the replay. Only fleets of
one GPU type: a replay places jobs on the types that they were seen on.
"""

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from tidemill import api
from tidemill.journal.source import Source
from tidemill.ledger.rows import NO_JOB
from tidemill.ledger.statement import Statement
from tidemill.twin import fleet
from tidemill.twin.backend import Twin

EXAMPLES = Path(__file__).parents[2] / "examples"
Cell = tuple[int, int, int, str]


def cells(statement: Statement) -> Counter[Cell]:
    """Milli·ms by time, contract, bucket and job."""
    rows, names = statement.rows, statement.world.job_names
    found = Counter[Cell]()
    columns = (rows.bin, rows.contract, rows.bucket, rows.job, rows.milli_ms)
    for number, contract, bucket, job, amount in zip(*(c.tolist() for c in columns), strict=True):
        found[number, contract, bucket, "" if job == NO_JOB else names[job]] += amount
    return found


@pytest.mark.parametrize("name", ["small", "serving-tide", "racks", "slices"])
def test_the_same_decisions_give_the_same_ledger(tmp_path: Path, name: str):
    """Every cell is equal to the last milli·ms, and nobody starts earlier or later."""
    spec = api.load_spec(EXAMPLES / f"{name}.toml")
    policy = replace(spec.policy, may_move=False, may_resize=False, cull_idle_after_ms=0)
    where, horizon_ms = str(tmp_path / "seen.sqlite"), int(spec.twin.horizon)
    api.run(
        Twin.from_spec(spec), policy, journal=where, end_ms=horizon_ms,
        calendar=fleet.calendar(spec), source=Source.LIVE,
    )  # fmt: skip
    found = api.replay(where, policy, str(tmp_path / "shadow.sqlite"))
    assert cells(found.shadow.statement) == cells(found.seen)
    assert [found.report.earlier, found.report.later] == [[], []]
    assert (found.report.unknown.jobs, found.report.undone.jobs) == (0, 0)
