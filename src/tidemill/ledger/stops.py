"""Stops: attempts that ended before their job did, counted by why.

Reads batches of events; the ledger's reader says how many stops there were in all. Every attempt
is stopped (and counted here once), or ends with its job (done, failed, cancelled), or still holds
accelerators.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.model import events as ev
from tidemill.model.batch import Batch, EventColumn, PieceColumn
from tidemill.model.codes import KIND_CODE, WHYS
from tidemill.model.events import Why
from tidemill.model.tables import I64, grown

WITH_NODE = "lost with a node (failed or reclaimed)"
_KINDS: tuple[tuple[str, frozenset[Why]], ...] = (
    ("retried after a crash", frozenset({Why.CRASHED})),
    ("retried after running out of memory", frozenset({Why.OUT_OF_MEMORY})),
    ("requeued, nobody says why", frozenset({Why.UNSAID})),
    (WITH_NODE, frozenset({Why.NODE_LOST, Why.DEVICE_LOST, Why.SPOT_RECLAIM})),
    ("by preemption", frozenset({Why.PREEMPTED, Why.REORDERED})),
    ("for a guaranteed quota", frozenset({Why.RECLAIMED})),
    ("by drains", frozenset({Why.DRAINED, Why.MAINTENANCE, Why.CONTRACT_END, Why.SURPLUS})),
    ("evicted by others (a drain, an autoscaler, a scheduler)", frozenset({Why.EVICTED})),
    ("refused by their nodes: others had their GPUs first", frozenset({Why.LOST_RACE})),
    ("moved or resized", frozenset({Why.MOVED, Why.SHRUNK, Why.GROWN, Why.REPACKED})),
    ("started again in the same place", frozenset()),
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


_IN_PLACE = _KINDS[-1][0]
_IN_PARTS = "in the end, pod by pod"
"""Counted, and no stop: pods of a gang that ended before the others did, as its last attempt was
over. Only a job that goes on with fewer, or grows again, was resized."""


Bools = NDArray[np.bool_]
_ATTEMPT, _REPLICA = 1 << 40, 1 << 20
"""One attempt and one replica, in a number that has the place below them."""
_SPREAD = 2_654_435_761
"""Knuth's multiplier: nodes that are near each other get numbers that are not."""


class LastSeat(NamedTuple):
    """Where a job was seen to sit last."""

    attempt: int
    replicas: int
    place: int
    """On which nodes, as a short number; another place seldom has the same."""
    fewer: int
    """How often in a row it was seen with fewer replicas than before."""


StopsSoFar = tuple[Counter[str], dict[int, Why], dict[int, LastSeat]]


class Stops:
    """How many attempts were stopped, by why, up to the last event that was read."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._asked: dict[int, Why] = {}
        self._seen: I64 = np.zeros(64, np.int64)
        """By job, where it was seen to sit: the attempt, how many replicas, and the place, in one.

        0: it was not, or it failed since.
        """
        self._fewer: dict[int, int] = {}

    def begin(
        self, counts: Counter[str], asked: dict[int, Why], seats: dict[int, LastSeat]
    ) -> None:
        """Go on from what others counted."""
        self._counts, self._asked = counts, asked
        self._make_room(max((*seats, *asked), default=0))
        self._seen[[*seats]] = [
            _ATTEMPT * seat.attempt + _REPLICA * seat.replicas + seat.place
            for seat in seats.values()
        ]
        self._fewer = {j: seat.fewer for j, seat in seats.items() if seat.fewer}

    @property
    def so_far(self) -> StopsSoFar:
        """What was counted, what was asked for and has not happened yet, who was seen where."""
        seated = np.flatnonzero(self._seen)
        rows = zip(seated.tolist(), self._seen[seated].tolist(), strict=True)
        seats = {
            j: LastSeat(
                seat // _ATTEMPT,
                seat % _ATTEMPT // _REPLICA,
                seat % _REPLICA,
                self._fewer.get(j, 0),
            )
            for j, seat in rows
        }
        return self._counts, self._asked, seats

    def by_why(self, stopped: int) -> dict[str, int]:
        """All that were stopped, by why, in a fixed order, without zeros.

        Most attempts that go down with a node have no event of their own: they are the rest.
        """
        counts = Counter(self._counts)
        counts[_TITLE[Why.MOVED]] += sum(self._fewer.values())
        counts[WITH_NODE] += stopped - counts.total()
        titles = (*(title for title, _ in _KINDS), OTHERWISE)
        return {title: counts[title] for title in titles if counts[title]}

    def count(self, batch: Batch) -> None:
        """Count the events of a batch."""
        rows = batch.events[_IS_COUNTED[batch.events[:, EventColumn.KIND]]]
        self._make_room(int(rows[:, EventColumn.WHO].max(initial=0)))
        if self._asked or _IS_ASKED[rows[:, EventColumn.KIND]].any():
            self._one_by_one(rows, batch.pieces)
        elif len(rows):
            rows = rows[np.argsort(rows[:, EventColumn.WHO], kind="stable")]
            self._at_once(rows, _seats(rows, batch.pieces))

    def _one_by_one(self, rows: I64, pieces: I64) -> None:
        """Events of which some ask jobs to leave."""
        columns = (
            EventColumn.KIND, EventColumn.WHO, EventColumn.WHY, EventColumn.VALUE,
            EventColumn.ATTEMPT,
        )  # fmt: skip
        rows = self._that_matter(rows)
        told = zip(rows[:, columns].tolist(), _seats(rows, pieces).tolist(), strict=True)
        for (kind, job, why, is_final, attempt), seat in told:
            if kind == _SEEN:
                self._see(job, attempt, seat)
            elif kind in _ASKED:
                self._asked[job] = WHYS[why]
            elif kind in _DONE:
                self._add(self._asked.pop(job, Why.UNSAID))
            else:
                self._asked.pop(job, None)
                self._seen[job] = 0
                self._end(job)
                if kind == _FAILED and not is_final:
                    self._add(WHYS[why])

    def _see(self, job: int, attempt: int, seat: int) -> None:
        """A job sits somewhere: elsewhere than until now, or with fewer pods, or still."""
        before, had = divmod(self._seen.item(job), _ATTEMPT)
        is_next = before not in (0, attempt)
        if is_next and seat // _REPLICA < had // _REPLICA:
            self._fewer[job] = self._fewer.get(job, 0) + 1
        elif is_next and seat == had:
            self._counts[_IN_PLACE] += 1
        elif is_next or seat // _REPLICA > had // _REPLICA:
            self._add(Why.MOVED, self._fewer.pop(job, 0) + is_next)
        self._seen[job] = _ATTEMPT * attempt + seat

    def _that_matter(self, rows: I64) -> I64:
        """Those of jobs that something else than an end happens to, or did."""
        is_over = _IS_OVER[rows[:, EventColumn.KIND]]
        who = rows[:, EventColumn.WHO]
        is_named = self._seen != 0
        is_named[who[~is_over]] = True
        is_named[[*self._asked]] = True
        return rows[is_named[who]]

    def _at_once(self, rows: I64, seats: I64) -> None:
        """Events, by job and then by time, of which none asks anybody to leave."""
        kind, who, attempt = (
            rows[:, c] for c in (EventColumn.KIND, EventColumn.WHO, EventColumn.ATTEMPT)
        )
        left = np.where(kind == _SEEN, _ATTEMPT * attempt + seats, 0)  # how it leaves its job
        is_first = np.diff(who, prepend=-1) != 0
        before, had = np.divmod(np.where(is_first, self._seen[who], np.roll(left, 1)), _ATTEMPT)
        is_next = (kind == _SEEN) & (before != 0) & (before != attempt)
        is_fewer, has_more = (
            seats // _REPLICA < had // _REPLICA,
            seats // _REPLICA > had // _REPLICA,
        )
        is_fewer &= is_next
        is_same = is_next & (seats == had)
        is_move = is_next & ~is_fewer & ~is_same
        self._add(Why.MOVED, int(np.count_nonzero(is_move)))
        if is_same.any():
            self._counts[_IN_PLACE] += int(np.count_nonzero(is_same))
        if self._fewer or is_fewer.any():
            self._resolve(who, is_fewer, (kind == _SEEN) & (is_move | has_more), kind != _SEEN)
        failed = rows[(kind == _FAILED) & (rows[:, EventColumn.VALUE] == 0), EventColumn.WHY]
        for why, times in zip(*np.unique(failed, return_counts=True), strict=True):
            self._add(WHYS[why], int(times))
        is_last = np.diff(who, append=-1) != 0
        self._seen[who[is_last]] = left[is_last]

    def _resolve(self, who: I64, is_fewer: Bools, goes_on: Bools, is_end: Bools) -> None:
        """What becomes of jobs that were seen with fewer replicas: they end, or go on."""
        concerned = np.zeros(len(self._seen), np.bool_)
        concerned[who[is_fewer]] = concerned[[*self._fewer]] = True
        mine = concerned[who] & (is_fewer | goes_on | is_end)
        columns = (who[mine].tolist(), is_fewer[mine].tolist(), goes_on[mine].tolist())
        for job, has_fewer, is_at_work in zip(*columns, strict=True):
            if has_fewer:
                self._fewer[job] = self._fewer.get(job, 0) + 1
            elif is_at_work:
                self._add(Why.MOVED, self._fewer.pop(job, 0))
            else:
                self._end(job)

    def _end(self, job: int) -> None:
        """An attempt is over: pods that ended before the last did were a part of that."""
        if job in self._fewer:
            self._counts[_IN_PARTS] += self._fewer.pop(job)

    def _make_room(self, most: int) -> None:
        if most >= len(self._seen):
            self._seen = grown(self._seen, most + 1)

    def _add(self, why: Why, times: int = 1) -> None:
        if times:
            self._counts[_TITLE.get(why, OTHERWISE)] += times


def _seats(rows: I64, pieces: I64) -> I64:
    """How many replicas each event shows, and on which nodes, in one; 0: it shows none."""
    replicas = pieces[:, PieceColumn.REPLICAS]
    place = (pieces[:, PieceColumn.NODE] + 1) * _SPREAD % _REPLICA * replicas
    count, where = (np.concatenate(([0], np.cumsum(column))) for column in (replicas, place))
    first, pieces_of = rows[:, EventColumn.FIRST], rows[:, EventColumn.COUNT]
    is_seen = (rows[:, EventColumn.KIND] == _SEEN) & (pieces_of > 0)
    first, end = np.where(is_seen, first, 0), np.where(is_seen, first + pieces_of, 0)
    many = np.minimum(count[end] - count[first], _REPLICA - 1)
    found: I64 = _REPLICA * many + (where[end] - where[first]) % _REPLICA
    return found
