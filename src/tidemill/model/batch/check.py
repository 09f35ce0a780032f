"""Whether every event of a batch can be read back: what a journal asks before it keeps one."""

import numpy as np

from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import ADDED, SUBMITTED, Batch, EventColumn, Matrix, fields, firsts

_E = EventColumn


def fault(batch: Batch) -> tuple[int, str] | None:
    """The first event of a batch that cannot be, and what is wrong with it; None: all can.

    Every number is compared with what its field may be, without making an event of it.
    """
    events = batch.events
    kinds = events[:, _E.KIND]
    unknown = (kinds < 0) | (kinds >= len(codes.KINDS))
    if unknown.any():
        e = int(unknown.argmax())
        return e, f"this version knows no kind of event with the number {kinds[e]}"
    low, high = fields.bounds(batch.dictionary)
    beyond = (events < low.take(kinds, axis=0)) | (events > high.take(kinds, axis=0))
    wrong = (kinds == codes.KIND_CODE[ev.AskedMove]) & (events[:, _E.VALUE] > events[:, _E.COUNT])
    wrong |= firsts(events) != events[:, _E.FIRST]
    if beyond.any() or wrong.any():
        e = int((wrong | beyond.any(axis=1)).argmax())  # row by row only now: that takes long
        return e, f"`{_tag(int(kinds[e]))}` has a number that it cannot have: {_said(events[e])}"
    return _pool_fault(batch)


def _said(row: Matrix) -> str:
    return ", ".join(f"{column.name.lower()} {row[column]}" for column in _E)


def _tag(code: int) -> str:
    return str(codes.KINDS[code].__struct_config__.tag)


def _pool_fault(batch: Batch) -> tuple[int, str] | None:
    kinds, counts = batch.events[:, _E.KIND], batch.events[:, _E.COUNT]
    for kind, pool in ((SUBMITTED, batch.jobs), (SUBMITTED, batch.job_names)):
        if len(pool) != np.count_nonzero(kinds == kind):
            return 0, f"{len(pool)} rows or names do not fit the jobs that were submitted"
    if len(batch.node_names) != np.count_nonzero(kinds == ADDED):
        return 0, f"{len(batch.node_names)} names do not fit the nodes that were added"
    if len(batch.pieces) != counts.sum():
        return 0, f"{len(batch.pieces)} pieces do not fit the placements"
    low, high = fields.job_bounds(batch.dictionary)
    wrong = (batch.jobs < low) | (batch.jobs > high)
    if wrong.any():
        e = int(np.flatnonzero(kinds == SUBMITTED)[wrong.any(axis=1).argmax()])
        return e, "`job_submitted` has a number that it cannot have"
    return None
