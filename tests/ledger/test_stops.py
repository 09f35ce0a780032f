"""Stops are counted the same however events are cut into batches."""

from random import Random

import numpy as np
import pytest

from tidemill.ledger.stops import Stops
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import Batch, Dictionary, EventColumn, JobColumn, PieceColumn
from tidemill.model.tables import I64

ENDS = (ev.JobFailed, ev.JobFailed, ev.JobFinished, ev.JobCancelled)
WHYS = (ev.Why.CRASHED, ev.Why.PREEMPTED, ev.Why.UNSAID)


def _lives(luck: Random) -> I64:
    """Jobs that sit, sit elsewhere, are asked to leave, fail and come again, or are over."""
    found = []
    for job in range(60):
        at = luck.randrange(200)
        for attempt in range(1, luck.choice((1, 1, 1, 2, 3)) + 1):
            steps: list[tuple[type[ev.Event], int]] = [(ev.PlacementSeen, 0)]
            steps += [(ev.AskedEvict, 0), (ev.JobEvicted, 0)] * (luck.random() < 0.1)
            steps += [(luck.choice(ENDS), luck.randrange(2))] * (luck.random() < 0.8)
            for kind, is_final in steps:
                at += luck.randrange(30)
                row = [0] * len(EventColumn)
                row[EventColumn.AT], row[EventColumn.KIND] = at, codes.KIND_CODE[kind]
                row[EventColumn.WHO], row[EventColumn.ATTEMPT] = job, attempt
                row[EventColumn.WHY] = codes.WHY_CODE[luck.choice(WHYS)]
                row[EventColumn.VALUE] = is_final
                if kind is ev.PlacementSeen:  # so many pieces of one replica each
                    row[EventColumn.COUNT] = luck.randrange(1, 4)
                found.append(row)
    return np.array(sorted(found, key=lambda row: row[EventColumn.AT]), np.int64)


def _counted(events: I64, rows: int) -> Stops:
    stops = Stops()
    pieces, jobs = (
        np.ones((4, len(PieceColumn)), np.int64),
        np.zeros((0, len(JobColumn)), np.int64),
    )
    pieces[:, PieceColumn.NODE] = range(4)
    for first in range(0, len(events), rows):
        some = events[first : first + rows]
        stops.count(Batch(some, pieces, jobs, [], [], Dictionary()))
    return stops


@pytest.mark.parametrize("seed", range(5))
def test_batches_of_any_size_count_the_same(seed: int):
    """One event at a time, none of which can be left out, against some and all at once."""
    events = _lives(Random(seed))
    one_by_one = _counted(events, 1)
    assert sum(one_by_one.so_far[0].values()) > 10
    for rows in (7, len(events)):
        assert _counted(events, rows).so_far == one_by_one.so_far


def _job(*steps: tuple[type[ev.Event], int, int]) -> I64:
    """What happens to one job: events, the attempt they are of, and how many replicas they show."""
    rows = np.zeros((len(steps), len(EventColumn)), np.int64)
    for row, (kind, attempt, replicas) in zip(rows, steps, strict=True):
        row[EventColumn.KIND], row[EventColumn.ATTEMPT] = codes.KIND_CODE[kind], attempt
        row[EventColumn.COUNT] = replicas
    return rows


@pytest.mark.parametrize("rows", [1, 9])
def test_a_gang_that_ends_pod_by_pod_was_not_resized(rows: int):
    """Three pods, then two, then one, then its job is over: that is one end, and no stop."""
    seen = [(ev.PlacementSeen, attempt, 4 - attempt) for attempt in (1, 2, 3)]
    for end in (ev.JobFinished, ev.JobCancelled):
        assert _counted(_job(*seen, (end, 3, 0)), rows).by_why(2) == {}
    goes_on = _counted(_job(*seen), rows)
    assert goes_on.by_why(2) == {"moved or resized": 2}
    grows = _counted(_job(*seen, (ev.PlacementSeen, 4, 3), (ev.JobFinished, 4, 0)), rows)
    assert grows.by_why(3) == {"moved or resized": 3}


@pytest.mark.parametrize("rows", [1, 9])
def test_a_gang_that_starts_again_where_it_was_was_not_moved(rows: int):
    """A container of one of its pods failed, and started again: the same pods on the same nodes."""
    seen = _job(*((ev.PlacementSeen, attempt, 2) for attempt in (1, 2, 3)), (ev.JobFinished, 3, 0))
    assert _counted(seen, rows).by_why(2) == {"started again in the same place": 2}
    seen[1, EventColumn.FIRST] = 1  # there, and back
    assert _counted(seen, rows).by_why(2) == {"moved or resized": 2}
