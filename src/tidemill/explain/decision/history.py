"""What was tried for a job, and when: read from the events of a journal, in bounded space.

Of each sort of event that is about the job, or about all jobs of its shape while it waits, the
first and the last moment and the number are kept; and where in the journal the last decision is.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from tidemill.engine.fold.jobs import without
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import CHANGED, Batch, EventColumn, JobColumn
from tidemill.model.rows import Piece, Shape
from tidemill.model.states import HOSTING
from tidemill.model.tables import I64

AT, KIND, WHO, _, WHY, TO, VALUE, FIRST, COUNT = EventColumn
Pieces = tuple[Piece, ...]
_CODE = codes.KIND_CODE
_IS_ACTION = np.array([issubclass(kind, ev.Action) for kind in codes.KINDS])


class What(StrEnum):
    """Sorts of events."""

    SUBMITTED = "submitted"
    CHANGED = "changed"
    WAITED = "waited"
    PASSED = "passed"
    PLACED = "placed"
    SEEN_PLACED = "seen_placed"
    SAID = "said"
    STARTED = "started"
    MADE_ROOM = "made_room"
    RELEASED = "released"
    ASKED_TO_STOP = "asked_to_stop"
    ASKED_TO_MOVE = "asked_to_move"
    STOPPED = "stopped"
    FAILED = "failed"
    FAILED_FOR_GOOD = "failed_for_good"
    LOST = "lost"
    KEPT = "kept"
    FINISHED = "finished"
    CANCELLED = "cancelled"


_OF_JOB = {
    _CODE[ev.RequestChanged]: What.CHANGED,
    _CODE[ev.JobPassed]: What.PASSED,
    _CODE[ev.AskedPlace]: What.PLACED,
    _CODE[ev.PlacementSeen]: What.SEEN_PLACED,
    _CODE[ev.ReasonSeen]: What.SAID,
    _CODE[ev.JobStarted]: What.STARTED,
    _CODE[ev.AskedEvict]: What.ASKED_TO_STOP,
    _CODE[ev.AskedMove]: What.ASKED_TO_MOVE,
    _CODE[ev.JobEvicted]: What.STOPPED,
    _CODE[ev.JobFailed]: What.FAILED,
    _CODE[ev.JobFinished]: What.FINISHED,
    _CODE[ev.JobCancelled]: What.CANCELLED,
}
_HAS_MOVED = _CODE[ev.JobMoved]
_LAST = (What.FAILED_FOR_GOOD, What.FINISHED, What.CANCELLED)
_LOSING = (_CODE[ev.NodeMoved], _CODE[ev.DeviceFailed], _CODE[ev.ContractEnded])
"""Events that take a job's devices away without an event of its own."""
_ROOM = (_CODE[ev.AskedEvict], _CODE[ev.AskedMove])
_ABOUT_JOBS = np.isin(np.arange(len(codes.KINDS)), [*_OF_JOB, _HAS_MOVED])
_ENDS_WAIT = (_CODE[ev.AskedPlace], _CODE[ev.PlacementSeen])


_NO_CONTRACTS: I64 = np.zeros(0, np.int64)
_ORDER = {what: i for i, what in enumerate(What)}


class EventGroup(NamedTuple):
    """Events of one sort: what it is about, how many, when."""

    what: What
    detail: int
    """A ``Cause``, or the place of a ``Why``."""
    times: int
    first_ms: int
    last_ms: int


def in_order(groups: Iterable[EventGroup]) -> list[EventGroup]:
    """Groups in the order in which they began."""
    return sorted(groups, key=lambda group: (group.first_ms, _ORDER[group.what], group.detail))


class Deciding(NamedTuple):
    """Where in the journal something was decided: the event, and the plan that it is part of."""

    seq: int
    plan: int
    """How many events there were before the first of that plan."""
    at_ms: int
    is_ours: bool = True
    """Whether our scheduler decided it; otherwise it was only seen."""


class MadeRoom(NamedTuple):
    """Somebody was asked to go for the job."""

    job: int
    deciding: Deciding
    kind: int
    why: int


class JobNaming(NamedTuple):
    """What a job is called, and the numbers of what jobs request."""

    name: str
    numbers: Mapping[Shape, int]


class JobHistory:
    """What is kept while the events of a journal go by."""

    def __init__(
        self, job: int, shape: int, submit_ms: int, contracts: I64 = _NO_CONTRACTS,
        known: JobNaming | None = None,
    ) -> None:  # fmt: skip
        """``contracts``: of each node, whose end it goes with. ``shape``: unless ``known``."""
        self.job, self.shape, self.submit_ms = job, shape, submit_ms
        self._known = known
        self._contracts = contracts
        self.placed: Deciding | None = None
        self.moved: Deciding | None = None
        """The last time that it was asked to go on elsewhere, in another size or for others."""
        self.room: list[MadeRoom] = []
        """Who was asked to go for it since it waits, or waited before it was placed last."""
        self.heir = -1
        """For whom it was asked to stop last; -1: for nobody in particular."""
        self.lost_with = -1
        """The node with which it lost what it held last; -1: it did not, or to no one node."""
        self.passed: list[int] = []
        """Whom the plan that placed it last was the first to pass."""
        self._groups: dict[tuple[What, int], EventGroup] = {}
        self._plan = 0
        self._held: Pieces = ()
        self._lost: Pieces = ()
        """What it held before some of that was lost."""
        self._move: tuple[Pieces, Pieces] = (), ()
        """What it is to gain and to leave, while it is asked to move."""
        self._waits = True
        self._since_ms = submit_ms
        self.waited_from_ms = submit_ms
        self.placed_before_ms: int | None = None
        """When it was placed, if that was before it was seen."""
        """When the wait began that its last placement ended, or that has not ended yet."""
        self._note(What.SUBMITTED, 0, submit_ms)

    def groups(self) -> list[EventGroup]:
        """What there was, in the order in which it began."""
        return in_order(self._groups.values())

    def read(self, batches: Iterable[Batch], seq: int, up_to_ms: int | None) -> None:
        """Read on from the event with a number, up to and including a moment."""
        self._plan = seq
        for batch in batches:
            events: I64 = batch.events
            if up_to_ms is not None:
                events = events[: int(np.searchsorted(events[:, AT], up_to_ms, side="right"))]
            self._take(events, batch.pieces, self._shapes(batch, len(events)), seq)
            seq += len(batch.events)
            if len(events) < len(batch.events):
                break

    def _shapes(self, batch: Batch, count: int) -> I64:
        """By event of a batch: the shape that the job has then; it may come to request another."""
        rows, known = batch.dictionary.shapes.rows, self._known
        if known is None:
            return np.full(count, self.shape, np.int64)
        if known.name in batch.job_names:
            row = batch.jobs.item(batch.job_names.index(known.name), JobColumn.SHAPE)
            self.shape = known.numbers[rows[row]]
        found: I64 = np.full(count, self.shape, np.int64)
        changes = (batch.events[:count, KIND] == CHANGED) & (batch.events[:count, WHO] == self.job)
        for i in np.flatnonzero(changes).tolist():
            found[i:] = self.shape = known.numbers[rows[batch.events.item(i, VALUE)]]
        return found

    def _take(self, events: I64, pieces: I64, shapes: I64, seq: int) -> None:
        kinds, who = events[:, KIND], events[:, WHO]
        seen = np.flatnonzero(~_IS_ACTION[kinds])
        mine = _ABOUT_JOBS[kinds] & (who == self.job)
        mine |= np.isin(kinds, _ROOM) & (events[:, TO] == self.job)
        mine |= np.isin(kinds, (_CODE[ev.CauseChanged], _CODE[ev.AskedRelease])) & (who == shapes)
        mine |= np.isin(kinds, _LOSING)
        for i in np.flatnonzero(mine).tolist():
            last = int(np.searchsorted(seen, i)) - 1
            plan = seq + seen.item(last) + 1 if last >= 0 else self._plan
            self._one(events[i].tolist(), pieces, Deciding(seq + i, plan, events.item(i, AT)))
            if self.placed is not None and self.placed.seq == seq + i:
                self.passed = _passed(events, i)
        if len(seen):
            self._plan = seq + seen.item(-1) + 1

    def _one(self, row: list[int], pieces: I64, where: Deciding) -> None:
        kind, at_ms = row[KIND], row[AT]
        if kind in _LOSING:
            if self._takes(row, self._held):
                self._lost = self._held
                self.lost_with = -1 if kind == _CODE[ev.ContractEnded] else row[WHO]
                self._wait_again(What.LOST, 0, at_ms)
            elif self._takes(row, self._move[0]):
                self._move = (), ()  # it stays where it is
        elif kind == _CODE[ev.CauseChanged]:
            if self._waits and at_ms >= self.submit_ms:
                self._note(What.WAITED, row[WHY], at_ms)
        elif kind == _CODE[ev.AskedRelease]:
            if self._waits and at_ms >= self.submit_ms:
                self._note(What.RELEASED, 0, at_ms)
        elif kind in _ROOM and row[TO] == self.job:
            self.room.append(MadeRoom(row[WHO], where, kind, row[WHY]))
            self._note(What.MADE_ROOM, row[WHY], at_ms)
        elif kind == _HAS_MOVED:
            gained, left = self._move
            self._hold((*(without(self._held, left) or ()), *gained))
        else:
            first = row[FIRST]
            rows = pieces[first : first + row[COUNT]].tolist()
            self._of_job(row, tuple(Piece(*one) for one in rows), where)

    def _of_job(self, row: list[int], pieces: Pieces, where: Deciding) -> None:
        kind, what = row[KIND], _OF_JOB[row[KIND]]
        says_why = what in (What.ASKED_TO_STOP, What.ASKED_TO_MOVE, What.FAILED)
        detail = row[WHY] if says_why else 0
        if what is What.FAILED and row[VALUE]:
            what = What.FAILED_FOR_GOOD
        if what in (What.STOPPED, What.FAILED):
            self._wait_again(what, detail, row[AT])
            return
        if what is What.CHANGED:
            self._waits = True
        if what in _LAST:
            self._waits = False
            self._hold(())
        if kind in _ENDS_WAIT:
            is_ours = kind == _CODE[ev.AskedPlace]
            if not is_ours and self._is_rest(pieces):
                self._waits, what = False, What.KEPT
            if self._waits or is_ours or self.placed is None:  # else what it holds is told anew
                self.placed = where._replace(is_ours=is_ours)
                self.waited_from_ms = self._since_ms
            self._waits = False
            self._hold(pieces)
        if what is What.ASKED_TO_STOP:
            self.heir = row[TO]
        if what is What.ASKED_TO_MOVE:
            self.moved, self._move = where, (pieces[: row[VALUE]], pieces[row[VALUE] :])
        self._note(what, detail, row[AT])

    def _is_rest(self, pieces: Pieces) -> bool:
        """Whether this is what is left where our scheduler put it, after some of it was lost."""
        was = {one.node for one in self._lost}
        is_ours = self.placed is not None and self.placed.is_ours
        return self._waits and is_ours and {one.node for one in pieces} <= was

    def _hold(self, pieces: Pieces) -> None:
        self._held, self._move = pieces, ((), ())

    def _takes(self, row: list[int], pieces: Pieces) -> bool:
        """Whether a node, a device of one or the end of a contract takes some of these away."""
        kind, who = row[KIND], row[WHO]
        if kind == _CODE[ev.DeviceFailed]:
            return any(one.node == who and one.devices >> row[VALUE] & 1 for one in pieces)
        if kind == _CODE[ev.ContractEnded]:
            return any(self._contracts.item(one.node) == who for one in pieces)
        return row[TO] not in HOSTING and any(one.node == who for one in pieces)

    def _wait_again(self, what: What, detail: int, at_ms: int) -> None:
        self._waits, self.room = True, []
        self._hold(())
        self._since_ms = at_ms
        self._note(what, detail, at_ms)

    def _note(self, what: What, detail: int, at_ms: int) -> None:
        known = self._groups.get((what, detail))
        times, first_ms = (0, at_ms) if known is None else (known.times, known.first_ms)
        self._groups[what, detail] = EventGroup(what, detail, times + 1, first_ms, at_ms)


def _passed(events: I64, i: int) -> list[int]:
    """Whom the placement in a row of a plan is the first to pass: told right after it."""
    found = []
    for kind, who in events[i + 1 :, [KIND, WHO]].tolist():
        if kind != _CODE[ev.JobPassed]:
            break
        found.append(who)
    return found
