"""Whether every event of a batch can be read back: what a journal asks before it keeps one."""

import numpy as np

from tidemill.journal.packed import bounds
from tidemill.model import codes
from tidemill.model.batch import ADDED, SUBMITTED, Batch, EventColumn, Matrix, fields

_E = EventColumn


def fault(batch: Batch, last_ms: int = 0) -> tuple[int, str] | None:
    """The first event of a batch that cannot be, and what is wrong with it; None: all can.

    Every number is compared with what its field may be, without making an event of it; and no
    event may be earlier than the one before it, the first not than ``last_ms``.
    """
    low, high = fields.bounds(batch.dictionary)
    events = np.ascontiguousarray(batch.events)
    e = int(bounds.first_wrong(events, low, high, last_ms))
    if e < len(events):
        return e, _words(events[e], int(events[e - 1, _E.AT]) if e else last_ms)
    return _pool_fault(batch)


def _words(row: Matrix, last_ms: int) -> str:
    """What is wrong with an event that cannot be."""
    at_ms, kind = row[_E.AT], row[_E.KIND]
    if not 0 <= kind < len(codes.KINDS):
        return f"this version knows no kind of event with the number {kind}"
    if 0 <= at_ms < last_ms:
        return f"it is at {at_ms} ms, after an event at {last_ms} ms"
    said = ", ".join(f"{column.name.lower()} {row[column]}" for column in _E)
    tag = codes.KINDS[kind].__struct_config__.tag
    return f"`{tag}` has a number that it cannot have: {said}"


def _pool_fault(batch: Batch) -> tuple[int, str] | None:
    kinds, counts = batch.events[:, _E.KIND], batch.events[:, _E.COUNT]
    is_submitted = kinds == SUBMITTED
    for pool in (batch.jobs, batch.job_names):
        if len(pool) != np.count_nonzero(is_submitted):
            return 0, f"{len(pool)} rows or names do not fit the jobs that were submitted"
    if len(batch.node_names) != np.count_nonzero(kinds == ADDED):
        return 0, f"{len(batch.node_names)} names do not fit the nodes that were added"
    if len(batch.pieces) != counts.sum():
        return 0, f"{len(batch.pieces)} pieces do not fit the placements"
    low, high = (side.reshape(1, -1) for side in fields.job_bounds(batch.dictionary))
    j = int(bounds.first_beyond(np.ascontiguousarray(batch.jobs), low, high))
    if j < len(batch.jobs):
        return int(is_submitted.nonzero()[0][j]), "`job_submitted` has a number that it cannot have"
    return None
