"""Told: of which jobs somebody measured what, so that an empty bucket is zero and not unknown.

Reads batches of events. A source that stops measuring says so with an event, and the part is then
not known of the whole job: only what was never called unknown counts as told.
"""

import numpy as np
from numpy.typing import NDArray

from tidemill.ledger.buckets import Bucket
from tidemill.model import codes, paging
from tidemill.model import events as ev
from tidemill.model.batch import Batch, EventColumn
from tidemill.model.loads import TRAINING, LoadSource
from tidemill.model.measures import ONE_PPM
from tidemill.model.states import Confidence
from tidemill.model.tables import I64, grown

_ACTIVITY, _STALLS, _SAVES, _STRAGGLER, _LOAD, _USE = _COUNTED = tuple(
    codes.KIND_CODE[kind]
    for kind in (
        ev.ActivitySeen, ev.StallsSeen, ev.CheckpointSeen, ev.StragglerSeen, ev.LoadSeen,
        ev.EfficiencySeen,
    )
)  # fmt: skip
_STARTED = codes.KIND_CODE[ev.JobStarted]
_STOPS = tuple(codes.KIND_CODE[kind] for kind in (ev.JobFailed, ev.JobEvicted, ev.JobCancelled))
_IS_COUNTED = np.isin(range(len(codes.KINDS)), _COUNTED)
_IS_STOP = np.isin(range(len(codes.KINDS)), _STOPS)
_IS_OF_STARTS = np.isin(range(len(codes.KINDS)), (_STARTED, _SAVES, _LOAD))
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


_IN_PART, _ASKED, _SERVES, _UNHEARD, _RATED, _STOPPED = 62, 61, 60, 59, 58, 57
"""Bits beside ``FILLS``: busy for a part of the time; a service of which requests are counted; one
that counts them itself, and so says that it is a service; a job of most of whose devices no rank
told when it came up; it was said how efficient it was; its loop was stopped, or went back: where
that says nothing of what it saves, nobody knows what it lost.

A service that was only ever told to be busy or idle as a whole was told so by its requests: that it
stood still is known, but not how busy its devices were while it did not."""

_A_ROUNDING = 100
"""One part of so many may be unseen: scrapes begin a little after a job, and end before it."""


class Told:
    """By job: a bit for each of ``FILLS`` that was told, and one for each that was taken back."""

    def __init__(self) -> None:
        self._bits: I64 = np.zeros((64, 2), np.int64)
        """Of the last row, and of jobs beyond it, nothing was told."""
        self._late_ms: I64 = np.zeros(64, np.int64)
        """By job, from when on the first word of its loop comes late: the moment after it came up.
        0: it did not come up yet, or its loop has spoken since."""
        self._up: I64 = np.zeros((1, 2), np.int64)
        """By job, for how long it was up and nobody saw when its devices were busy, and for how
        long it was up; nothing before ``with_seen``."""

    def count(self, batch: Batch) -> None:
        """Take in the events of a batch."""
        kind = batch.events[:, EventColumn.KIND]
        unheard = self._unheard(batch.events)
        starts = batch.events[_IS_OF_STARTS[kind]]
        is_loop = (starts[:, EventColumn.KIND] != _LOAD) | (starts[:, EventColumn.WHY] >= TRAINING)
        starts = starts[is_loop]
        late = self._late(starts)
        is_told = _IS_COUNTED[kind]
        self._count(batch.events[is_told], starts, late)
        self._mark(1, _UNHEARD, unheard)
        stops = batch.events[_IS_STOP[kind]]
        known = stops[stops[:, EventColumn.WHO] < len(self._bits) - 1]
        self._mark(1, _STOPPED, known[self._bits[known[:, EventColumn.WHO], 0] > 1])

    def _count(self, rows: I64, starts: I64, late: I64) -> None:
        """What is told of jobs; ``starts``: when they came up, and their loops spoke.

        ``late``: of those the first words that came late.
        """
        if not len(rows):  # as a rule in imports: their jobs have no rows here
            return
        kind = rows[:, EventColumn.KIND]
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
        saves = rows[kind == _SAVES]
        is_again = saves[:, EventColumn.TO] != 0
        self._mark(0, 1, saves[~is_again & (saves[:, EventColumn.WHY] == 0)])
        self._mark(1, 1, saves[is_again & (saves[:, EventColumn.VALUE] == 0)])
        words = starts[starts[:, EventColumn.KIND] != _STARTED]
        self._mark(0, _UP, words)
        self._mark(1, _STOPPED, rows[rows[:, EventColumn.ATTEMPT] > 1])
        self._mark(1, _STOPPED, saves[saves[:, EventColumn.WHY] != 0])
        self._mark(1, _UP, late)
        use = rows[kind == _USE]
        self._mark(1, _RATED, use[use[:, EventColumn.WHY] != _UNKNOWN])
        stalls = rows[kind == _STALLS]
        for place, column in _SHARES:
            self._mark(0, place, stalls[stalls[:, column] >= 0])
            self._mark(1, place, stalls[stalls[:, column] < 0])
        compared = rows[kind == _STRAGGLER]
        is_known = compared[:, EventColumn.WHY] != _UNKNOWN
        self._mark(0, 5, compared[is_known])
        self._mark(1, 5, compared[~is_known])

    def _unheard(self, events: I64) -> I64:
        """Those that say at the moment when an attempt came up that no rank tells of most of its
        devices.
        """
        kind = events[:, EventColumn.KIND]
        is_silent = (kind == _STRAGGLER) & (2 * events[:, EventColumn.TO] > ONE_PPM)
        if not is_silent.any():
            return events[:0]
        rows = events[is_silent | (kind == _STARTED)]
        rows = rows[np.argsort(rows[:, EventColumn.WHO], kind="stable")]
        job, at_ms = rows[:, EventColumn.WHO], rows[:, EventColumn.AT]
        is_up = rows[:, EventColumn.KIND] == _STARTED
        is_same = np.concatenate([[False], (job[1:] == job[:-1]) & is_up[:-1]])
        known = np.append(self._late_ms, 0)[np.minimum(job, len(self._late_ms))]
        found: I64 = rows[~is_up & (np.where(is_same, np.roll(at_ms, 1), known - 1) == at_ms)]
        return found

    def _late(self, rows: I64) -> I64:
        """The first words of loops, about what is safe or what they did, that came after their
        attempt came up.
        """
        most = int(rows[:, EventColumn.WHO].max(initial=0)) + 1
        if most > len(self._late_ms):
            known, self._late_ms = self._late_ms, paging.blank(2 * most, is_kept=True)
            paging.copy_rows(known, self._late_ms)
        if (rows[:, EventColumn.KIND] == _STARTED).all():
            self._late_ms[rows[:, EventColumn.WHO]] = rows[:, EventColumn.AT] + 1
            return rows[:0]
        rows = rows[np.argsort(rows[:, EventColumn.WHO], kind="stable")]
        job, at_ms = rows[:, EventColumn.WHO], rows[:, EventColumn.AT]
        is_up = rows[:, EventColumn.KIND] == _STARTED
        after_ms = np.where(is_up, at_ms + 1, 0)
        is_same = np.concatenate([[False], job[1:] == job[:-1]])
        late_ms = np.where(is_same, np.roll(after_ms, 1), self._late_ms[job])
        self._late_ms[job] = after_ms  # of a job with several rows that of the last
        found: I64 = rows[~is_up & (late_ms > 0) & (at_ms >= late_ms)]
        return found

    def of(self, jobs: I64) -> frozenset[int]:
        """The buckets that are known, though they be empty, of every one of these jobs.

        Of when devices were busy, of almost all of their time together. None are where the events
        of some were rolled up (numbers below 0): who told is forgotten.
        """
        if not len(jobs) or jobs.min() < 0:
            return frozenset()
        is_busy_known, known = self._is_busy_known(jobs), (1 << len(FILLS)) - 1
        for some in paging.stretches(len(jobs)):
            known &= int(np.bitwise_and.reduce(self._known(jobs[some]) | is_busy_known))
            if not known:
                break
        return frozenset(b for i, some in enumerate(FILLS) if known >> i & 1 for b in some)

    def _is_busy_known(self, jobs: I64) -> bool:
        """Whether devices of these jobs were seen for almost all of the time that they were up."""
        unseen, up = 0, 0
        for some in paging.stretches(len(jobs)):
            both = self._up[np.minimum(jobs[some], len(self._up) - 1)].sum(axis=0)
            unseen, up = unseen + int(both[0]), up + int(both[1])
        return up > 0 and _A_ROUNDING * unseen <= up

    def knows(self, jobs: I64, bucket: int) -> NDArray[np.bool_]:
        """Of each of these jobs, whether a bucket is known of it, though it be empty."""
        place = next(i for i, some in enumerate(FILLS) if bucket in some)
        found = np.zeros(len(jobs), bool)
        for some in paging.stretches(len(jobs)):
            found[some] = self._known(jobs[some]) >> place & 1
        return found

    def is_asked(self, jobs: I64) -> NDArray[np.bool_]:
        """Of each of these jobs, whether its requests were counted."""
        return self._has(jobs, _ASKED)

    def serve(self, jobs: I64) -> NDArray[np.bool_]:
        """Of each of these jobs, whether it said while it ran that it is a service."""
        return self._has(jobs, _SERVES)

    def came_up_unheard(self, jobs: I64) -> NDArray[np.bool_]:
        """Of each of these jobs, whether no rank told of most of its devices when it came up."""
        return self._has(jobs, _UNHEARD)

    def is_rated(self, jobs: I64) -> NDArray[np.bool_]:
        """Of each of these jobs, whether it was ever said how efficient it was."""
        return self._has(jobs, _RATED)

    def _has(self, jobs: I64, place: int) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self._bits[self._at(jobs), 1] >> place & 1 == 1
        return found

    def _known(self, jobs: I64) -> I64:
        """Of each of these jobs, the bits of what is known of it."""
        told, back = self._bits[self._at(jobs)].T
        is_by_requests = (back >> _ASKED & 1) & ~(back >> _IN_PART & 1)
        # a loop that was never stopped lost nothing
        is_kept = (told > 1) & (back >> _STOPPED & 1 == 0) & (back >> _ASKED & 1 == 0)
        found: I64 = (told & ~back & ~is_by_requests) | (is_kept.astype(np.int64) << 1)
        return found

    def is_tracked(self, jobs: I64) -> NDArray[np.bool_]:
        """Of each of these jobs, whether its own loop told of its steps or of what it saved."""
        found: NDArray[np.bool_] = self._bits[self._at(jobs), 0] > 1
        return found

    def with_seen(self, seen: I64, up: I64) -> "Told":
        """The same, and of each job for how much of the time in which it was up its devices were
        seen: of that it is measured when they were busy, always, where nobody said otherwise.

        Where they were, that counts; and who was only told to be busy or idle as a whole was told
        so by a loop that ended, of the time after it alone.
        """
        found, some = Told(), np.flatnonzero(seen)
        found._bits = self._bits.copy()
        found._bits[found._bits[:, 1] >> _IN_PART & 1 == 0, 0] &= ~1
        if not len(some):
            return found
        found._bits = grown(found._bits, len(up) + 1)
        found._bits[some, 1] |= 1 << _IN_PART
        unseen = np.where(seen > 0, np.maximum(up - seen, 0), up)
        unseen[(seen == 0) & (found._known(np.arange(len(up))) & 1 == 1)] = 0
        is_almost_all = _A_ROUNDING * unseen[some] <= up[some]
        found._bits[some, 0] = found._bits[some, 0] & ~1 | is_almost_all
        found._up = grown(np.stack([unseen, up], axis=1), len(found._bits))
        return found

    def _at(self, jobs: I64) -> I64:
        """The rows of jobs; that of which nothing was told where they have none."""
        return np.minimum(jobs, len(self._bits) - 1)

    def _mark(self, which: int, place: int, rows: I64) -> None:
        self._bits[rows[:, EventColumn.WHO], which] |= 1 << place
