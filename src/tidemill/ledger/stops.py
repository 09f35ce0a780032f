"""Stops: attempts that ended before their job did, counted by why.

Reads batches of events; the ledger's reader says how many stops there were in all. Every attempt
is stopped (and counted here once), or ends with its job (done, failed, cancelled), or still holds
accelerators.
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tidemill.model import events as ev
from tidemill.model.batch import Batch, EventColumn
from tidemill.model.codes import KIND_CODE, WHYS
from tidemill.model.events import Why
from tidemill.model.tables import I64

WITH_NODE = "lost with a node (failed or reclaimed)"
_KINDS: tuple[tuple[str, frozenset[Why]], ...] = (
    ("retried after a crash", frozenset({Why.CRASHED})),
    ("requeued, nobody says why", frozenset({Why.UNSAID})),
    (WITH_NODE, frozenset({Why.NODE_LOST, Why.DEVICE_LOST, Why.SPOT_RECLAIM})),
    ("by preemption", frozenset({Why.PREEMPTED, Why.REORDERED})),
    ("for a guaranteed quota", frozenset({Why.RECLAIMED})),
    ("by drains", frozenset({Why.DRAINED, Why.MAINTENANCE, Why.CONTRACT_END, Why.SURPLUS})),
    ("moved or resized", frozenset({Why.MOVED, Why.SHRUNK, Why.GROWN, Why.REPACKED})),
)
OTHERWISE = "for other reasons"
_TITLE = {why: title for title, some in _KINDS for why in some}


_ASKED = (KIND_CODE[ev.AskedEvict], KIND_CODE[ev.AskedMove])
_DONE = (KIND_CODE[ev.JobEvicted], KIND_CODE[ev.JobMoved])
_SEEN = KIND_CODE[ev.PlacementSeen]
_FAILED = KIND_CODE[ev.JobFailed]
_OVER = (KIND_CODE[ev.JobFinished], KIND_CODE[ev.JobCancelled])
_IS_COUNTED = np.isin(range(len(KIND_CODE)), (*_ASKED, *_DONE, *_OVER, _FAILED, _SEEN))
_IS_OVER = np.isin(range(len(KIND_CODE)), _OVER)


StopsSoFar = tuple[Counter[str], dict[int, Why], dict[int, int]]


class Stops:
    """How many attempts were stopped, by why, up to the last event that was read."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._asked: dict[int, Why] = {}
        self._attempts: dict[int, int] = {}
        """The attempt in which each job was seen to sit somewhere, unless it has failed since."""

    def begin(self, counts: Counter[str], asked: dict[int, Why], attempts: dict[int, int]) -> None:
        """Go on from what others counted."""
        self._counts, self._asked, self._attempts = counts, asked, attempts

    @property
    def so_far(self) -> StopsSoFar:
        """What was counted, what was asked for and has not happened yet, who was seen where."""
        return self._counts, self._asked, self._attempts

    def by_why(self, stopped: int) -> dict[str, int]:
        """All that were stopped, by why, in a fixed order, without zeros.

        Most attempts that go down with a node have no event of their own: they are the rest.
        """
        counts = Counter(self._counts)
        counts[WITH_NODE] += stopped - counts.total()
        titles = (*(title for title, _ in _KINDS), OTHERWISE)
        return {title: counts[title] for title in titles if counts[title]}

    def count(self, batch: Batch) -> None:
        """Count the events of a batch."""
        rows = self._that_matter(batch.events)
        columns = (
            EventColumn.KIND, EventColumn.WHO, EventColumn.WHY, EventColumn.VALUE,
            EventColumn.ATTEMPT,
        )  # fmt: skip
        rows = rows[~self._is_one_life(rows)][:, columns]
        for kind, job, why, is_final, attempt in rows.tolist():
            if kind == _SEEN:
                if self._attempts.get(job, attempt) != attempt:  # it sat elsewhere until now
                    self._add(Why.MOVED)
                self._attempts[job] = attempt
            elif kind in _ASKED:
                self._asked[job] = WHYS[why]
            elif kind in _DONE:
                self._add(self._asked.pop(job, Why.UNSAID))
            else:
                self._asked.pop(job, None)
                self._attempts.pop(job, None)
                if kind == _FAILED and not is_final:
                    self._add(WHYS[why])

    def _that_matter(self, events: I64) -> I64:
        """Those of jobs that something else than an end happens to, or did."""
        rows = events[_IS_COUNTED[events[:, EventColumn.KIND]]]
        is_over = _IS_OVER[rows[:, EventColumn.KIND]]
        named = [*self._attempts, *self._asked, *rows[~is_over, EventColumn.WHO].tolist()]
        return rows[~is_over | np.isin(rows[:, EventColumn.WHO], named)]

    def _is_one_life(self, rows: I64) -> NDArray[np.bool_]:
        """Whether rows are of jobs that sit once and are over with that, and so were not stopped.

        Of a history that others made these are nearly all.
        """
        order = np.argsort(rows[:, EventColumn.WHO], kind="stable")
        who = rows[order, EventColumn.WHO]
        first = np.flatnonzero(np.diff(who, prepend=-1))
        jobs, count = who[first], np.diff(first, append=len(who))
        seen, end = rows[order[first]], rows[order[first + count - 1]]
        kind = end[:, EventColumn.KIND]
        is_over = np.isin(kind, _OVER) | ((kind == _FAILED) & (end[:, EventColumn.VALUE] != 0))
        is_one = (count == 2) & (seen[:, EventColumn.KIND] == _SEEN) & is_over
        is_one &= ~np.isin(jobs, [*self._attempts, *self._asked])
        found: NDArray[np.bool_] = np.zeros(len(rows), np.bool_)
        found[order] = np.repeat(is_one, count)
        return found

    def _add(self, why: Why) -> None:
        self._counts[_TITLE.get(why, OTHERWISE)] += 1
