"""Told: of which jobs somebody measured what, so that an empty bucket is zero and not unknown.

Reads batches of events. A source that stops measuring says so with an event, and the part is then
not known of the whole job: only what was never called unknown counts as told.
"""

import numpy as np
from numpy.typing import NDArray

from tidemill.ledger.buckets import Bucket
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import Batch, EventColumn
from tidemill.model.loads import TRAINING, LoadSource
from tidemill.model.measures import ONE_PPM
from tidemill.model.states import Confidence
from tidemill.model.tables import I64, grown

_ACTIVITY, _STALLS, _SAVES, _STRAGGLER, _LOAD, _STARTED = _COUNTED = tuple(
    codes.KIND_CODE[kind]
    for kind in (ev.ActivitySeen, ev.StallsSeen, ev.CheckpointSeen, ev.StragglerSeen, ev.LoadSeen,
                 ev.JobStarted)
)  # fmt: skip
_IS_COUNTED = np.isin(range(len(codes.KINDS)), _COUNTED)
_UNKNOWN = codes.CONFIDENCE_CODE[Confidence.UNKNOWN]

FILLS: tuple[frozenset[int], ...] = (
    frozenset({Bucket.IDLE}),
    frozenset({Bucket.REWORK, Bucket.UNSAVED}),
    frozenset({Bucket.CHECKPOINT}),
    frozenset({Bucket.HOST}),
    frozenset({Bucket.LINKS}),
    frozenset({Bucket.STRAGGLER}),
    frozenset({Bucket.STARTING, Bucket.RESTART}),
)
"""Which buckets are known of a job by what is told of it: when its devices are busy; what is saved;
its checkpoint stalls; its waits for data; its waits for other ranks; what of those a slow rank
caused; since when it works."""
_UP = 6
"""The place of the last: not known where a loop first spoke after its job was told to be at work,
which was so by nobody's measure."""

_SHARES = ((2, EventColumn.WHY), (3, EventColumn.TO), (4, EventColumn.VALUE))
"""The places in ``FILLS`` of the three shares of ``StallsSeen``, and their columns."""


_SPOKEN = np.iinfo(np.int64).max
"""Of jobs that did not come up yet, or whose loops spoke since."""
_IN_PART, _ASKED, _SERVES = 62, 61, 60
"""Bits beside ``FILLS``: busy for a part of the time; a service of which requests are counted; one
that counts them itself, and so says that it is a service.

A service that was only ever told to be busy or idle as a whole was told so by its requests: that it
stood still is known, but not how busy its devices were while it did not."""


class Told:
    """By job: a bit for each of ``FILLS`` that was told, and one for each that was taken back."""

    def __init__(self) -> None:
        self._bits: I64 = np.zeros((64, 2), np.int64)
        """Of the last row, and of jobs beyond it, nothing was told."""
        self._up_ms: I64 = np.full(64, _SPOKEN)
        """When each job last came up, until its loop has spoken of that attempt."""

    def count(self, batch: Batch) -> None:
        """Take in the events of a batch."""
        kind = batch.events[:, EventColumn.KIND]
        is_told = _IS_COUNTED[kind]
        if not is_told.any():
            return
        rows, kind = batch.events[is_told], kind[is_told]
        most = int(rows[:, EventColumn.WHO].max()) + 1
        if most >= len(self._bits):
            self._bits = grown(self._bits, most + 1)
        busy = rows[kind == _ACTIVITY]
        self._mark(0, 0, busy)
        share = busy[:, EventColumn.VALUE]
        self._mark(1, _IN_PART, busy[(share > 0) & (share < ONE_PPM)])
        loads = rows[(kind == _LOAD) & (rows[:, EventColumn.WHY] < TRAINING)]
        self._mark(1, _ASKED, loads)
        self._mark(1, _SERVES, loads[loads[:, EventColumn.TO] == LoadSource.TRACK])
        self._mark(0, 1, rows[kind == _SAVES])
        self._mark(0, _UP, rows[kind == _SAVES])
        self._mark(1, _UP, self._late(rows[(kind == _STARTED) | (kind == _SAVES)]))
        stalls = rows[kind == _STALLS]
        for place, column in _SHARES:
            self._mark(0, place, stalls[stalls[:, column] >= 0])
            self._mark(1, place, stalls[stalls[:, column] < 0])
        compared = rows[kind == _STRAGGLER]
        is_known = compared[:, EventColumn.WHY] != _UNKNOWN
        self._mark(0, 5, compared[is_known])
        self._mark(1, 5, compared[~is_known])

    def _late(self, rows: I64) -> I64:
        """The first words of loops about what is safe that came after their attempt came up."""
        if len(rows) and (most := int(rows[:, EventColumn.WHO].max()) + 1) > len(self._up_ms):
            more = np.full(2 * most - len(self._up_ms), _SPOKEN)
            self._up_ms = np.concatenate([self._up_ms, more])
        rows = rows[np.argsort(rows[:, EventColumn.WHO], kind="stable")]
        job, at_ms = rows[:, EventColumn.WHO], rows[:, EventColumn.AT]
        is_up = rows[:, EventColumn.KIND] == _STARTED
        is_same = np.concatenate([[False], job[1:] == job[:-1]])[: len(rows)]
        was_up = np.concatenate([[False], is_up[:-1]])[: len(rows)]
        before = np.concatenate([[0], at_ms[:-1]])[: len(rows)]
        up_ms = np.where(is_same, np.where(was_up, before, _SPOKEN), self._up_ms[job])
        is_last = np.concatenate([job[1:] != job[:-1], [True]])[: len(rows)]
        self._up_ms[job[is_last]] = np.where(is_up, at_ms, _SPOKEN)[is_last]
        found: I64 = rows[~is_up & (at_ms > up_ms)]
        return found

    def of(self, jobs: I64) -> frozenset[int]:
        """The buckets that are known, though they be empty, of every one of these jobs.

        None are where the events of some were rolled up (numbers below 0): who told is forgotten.
        """
        if not len(jobs) or jobs.min() < 0:
            return frozenset()
        known = int(np.bitwise_and.reduce(self._known(jobs)))
        return frozenset(b for i, some in enumerate(FILLS) if known >> i & 1 for b in some)

    def knows(self, jobs: I64, bucket: int) -> NDArray[np.bool_]:
        """Of each of these jobs, whether a bucket is known of it, though it be empty."""
        place = next(i for i, some in enumerate(FILLS) if bucket in some)
        found: NDArray[np.bool_] = (self._known(jobs) >> place & 1) == 1
        return found

    def is_asked(self, jobs: I64) -> NDArray[np.bool_]:
        """Of each of these jobs, whether its requests were counted."""
        return self._has(jobs, _ASKED)

    def serve(self, jobs: I64) -> NDArray[np.bool_]:
        """Of each of these jobs, whether it said while it ran that it is a service."""
        return self._has(jobs, _SERVES)

    def _has(self, jobs: I64, place: int) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (self._bits[:, 1] >> place & 1 == 1)[self._at(jobs)]
        return found

    def _known(self, jobs: I64) -> I64:
        """Of each of these jobs, the bits of what is known of it."""
        told, back = self._bits.T
        is_by_requests = (back >> _ASKED & 1) & ~(back >> _IN_PART & 1)
        found: I64 = (told & ~back & ~is_by_requests)[self._at(jobs)]
        return found

    def is_tracked(self, jobs: I64) -> NDArray[np.bool_]:
        """Of each of these jobs, whether its own loop told of its steps or of what it saved."""
        found: NDArray[np.bool_] = (self._bits[:, 0] > 1)[self._at(jobs)]
        return found

    def with_busy(self, jobs: I64, others: I64) -> "Told":
        """The same, and of these jobs it is measured when their devices were busy: always, where
        nobody said otherwise. Not so of ``others``, whose devices were seen for too little of the
        time, and of those that were only told to be busy or idle as a whole: a loop that ended
        says so of the time after it alone.
        """
        found = Told()
        most = max(int(jobs.max(initial=0)), int(others.max(initial=0)))
        found._bits = grown(self._bits.copy(), most + 2)
        found._bits[found._bits[:, 1] >> _IN_PART & 1 == 0, 0] &= ~1
        found._bits[others, 0] &= ~1
        found._bits[jobs, 0] |= 1
        found._bits[jobs, 1] |= 1 << _IN_PART
        return found

    def _at(self, jobs: I64) -> I64:
        """The rows of jobs; that of which nothing was told where they have none."""
        return np.minimum(jobs, len(self._bits) - 1)

    def _mark(self, which: int, place: int, rows: I64) -> None:
        self._bits[rows[:, EventColumn.WHO], which] |= 1 << place
