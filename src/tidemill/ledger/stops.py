"""Stops: attempts that ended before their job did, counted by why.

Reads batches of events; the ledger's reader says how many stops there were in all. Every attempt
is stopped (and counted here once), or ends with its job (done, failed, cancelled), or still holds
accelerators.
"""

from collections import Counter

import numpy as np

from tidemill.model import events as ev
from tidemill.model.batch import Batch, EventColumn
from tidemill.model.codes import KIND_CODE, WHYS
from tidemill.model.events import Why
from tidemill.model.tables import I64, grown

WITH_NODE = "lost with a node (failed or reclaimed)"
_KINDS: tuple[tuple[str, frozenset[Why]], ...] = (
    ("retried after a crash", frozenset({Why.CRASHED})),
    ("requeued, nobody says why", frozenset({Why.UNSAID})),
    (WITH_NODE, frozenset({Why.NODE_LOST, Why.DEVICE_LOST, Why.SPOT_RECLAIM})),
    ("by preemption", frozenset({Why.PREEMPTED, Why.REORDERED})),
    ("for a guaranteed quota", frozenset({Why.RECLAIMED})),
    ("by drains", frozenset({Why.DRAINED, Why.MAINTENANCE, Why.CONTRACT_END, Why.SURPLUS})),
    ("evicted by others (a drain, an autoscaler, a scheduler)", frozenset({Why.EVICTED})),
    ("refused by their nodes: others had their GPUs first", frozenset({Why.LOST_RACE})),
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
_IS_ASKED = np.isin(range(len(KIND_CODE)), (*_ASKED, *_DONE))


StopsSoFar = tuple[Counter[str], dict[int, Why], dict[int, int]]


class Stops:
    """How many attempts were stopped, by why, up to the last event that was read."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._asked: dict[int, Why] = {}
        self._seen: I64 = np.zeros(64, np.int64)
        """The attempt in which each job was seen to sit somewhere; 0: none, or it failed since."""

    def begin(self, counts: Counter[str], asked: dict[int, Why], attempts: dict[int, int]) -> None:
        """Go on from what others counted."""
        self._counts, self._asked = counts, asked
        self._make_room(max((*attempts, *asked), default=0))
        self._seen[[*attempts]] = [*attempts.values()]

    @property
    def so_far(self) -> StopsSoFar:
        """What was counted, what was asked for and has not happened yet, who was seen where."""
        seated = np.flatnonzero(self._seen)
        attempts = dict(zip(seated.tolist(), self._seen[seated].tolist(), strict=True))
        return self._counts, self._asked, attempts

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
        rows = batch.events[_IS_COUNTED[batch.events[:, EventColumn.KIND]]]
        self._make_room(int(rows[:, EventColumn.WHO].max(initial=0)))
        if self._asked or _IS_ASKED[rows[:, EventColumn.KIND]].any():
            self._one_by_one(rows)
        elif len(rows):
            self._at_once(rows[np.argsort(rows[:, EventColumn.WHO], kind="stable")])

    def _one_by_one(self, rows: I64) -> None:
        """Events of which some ask jobs to leave."""
        columns = (
            EventColumn.KIND, EventColumn.WHO, EventColumn.WHY, EventColumn.VALUE,
            EventColumn.ATTEMPT,
        )  # fmt: skip
        for kind, job, why, is_final, attempt in self._that_matter(rows)[:, columns].tolist():
            if kind == _SEEN:
                if self._seen[job] not in (0, attempt):  # it sat elsewhere until now
                    self._add(Why.MOVED)
                self._seen[job] = attempt
            elif kind in _ASKED:
                self._asked[job] = WHYS[why]
            elif kind in _DONE:
                self._add(self._asked.pop(job, Why.UNSAID))
            else:
                self._asked.pop(job, None)
                self._seen[job] = 0
                if kind == _FAILED and not is_final:
                    self._add(WHYS[why])

    def _that_matter(self, rows: I64) -> I64:
        """Those of jobs that something else than an end happens to, or did."""
        is_over = _IS_OVER[rows[:, EventColumn.KIND]]
        who = rows[:, EventColumn.WHO]
        is_named = self._seen != 0
        is_named[who[~is_over]] = True
        is_named[[*self._asked]] = True
        return rows[is_named[who]]

    def _at_once(self, rows: I64) -> None:
        """Events, by job and then by time, of which none asks anybody to leave."""
        kind, who, attempt = (
            rows[:, c] for c in (EventColumn.KIND, EventColumn.WHO, EventColumn.ATTEMPT)
        )
        left = np.where(kind == _SEEN, attempt, 0)  # where each event leaves its job
        is_first = np.diff(who, prepend=-1) != 0
        before = np.where(is_first, self._seen[who], np.roll(left, 1))
        moves = int(np.count_nonzero((kind == _SEEN) & (before != 0) & (before != attempt)))
        self._add(Why.MOVED, moves)
        failed = rows[(kind == _FAILED) & (rows[:, EventColumn.VALUE] == 0), EventColumn.WHY]
        for why, times in zip(*np.unique(failed, return_counts=True), strict=True):
            self._add(WHYS[why], int(times))
        is_last = np.diff(who, append=-1) != 0
        self._seen[who[is_last]] = left[is_last]

    def _make_room(self, most: int) -> None:
        if most >= len(self._seen):
            self._seen = grown(self._seen, most + 1)

    def _add(self, why: Why, times: int = 1) -> None:
        if times:
            self._counts[_TITLE.get(why, OTHERWISE)] += times
