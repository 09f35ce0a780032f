"""What a journal tells of a fleet, in parts that can be played again with other decisions.

Reads the events once. *Supply* (contracts, teams, nodes, who watched) is what no scheduler of jobs
decides. Of each job it keeps when it came, where it sat, when it came up, and how each attempt
ended: by itself, or because something took its place away.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.journal import Journal
from tidemill.model import events as ev
from tidemill.model.batch.convert import to_events
from tidemill.model.errors import SpecError
from tidemill.model.reasons import Cause
from tidemill.model.rows import Job, Piece, Shape
from tidemill.model.states import NodeState

_KEEPS = (NodeState.READY, NodeState.CORDONED, NodeState.DRAINING)
_OF_THE_JOB = (ev.Why.CRASHED, ev.Why.TIMED_OUT, ev.Why.OUT_OF_MEMORY)
"""Why attempts end that would have ended so anywhere else, too."""
_SUPPLY = (
    ev.ContractSigned, ev.ContractStarted, ev.ContractEnded, ev.CommitmentSeen, ev.QueueSet,
    ev.TopologySet, ev.NodeAdded, ev.NodeMoved, ev.DeviceFailed, ev.DeviceRepaired, ev.SightLost,
    ev.SightRegained, ev.DeviceErrorSeen, ev.AskedSpare,
)  # fmt: skip
_NEWS = (
    ev.ActivitySeen, ev.StallsSeen, ev.EfficiencySeen, ev.StragglerSeen, ev.CheckpointSeen,
)  # fmt: skip
"""What an attempt that works tells of itself, and the ledger divides its time by."""
Supply = ev.Seen | ev.AskedSpare
News = ev.ActivitySeen | ev.StallsSeen | ev.EfficiencySeen | ev.StragglerSeen | ev.CheckpointSeen


class End(StrEnum):
    """How an attempt ended."""

    DONE = "done"
    CRASHED = "crashed"
    """By its own error; the job was tried again, or not."""
    STOPPED = "stopped"
    """By something that another placement would have spared it: preempted, moved, a node lost."""
    CANCELLED = "cancelled"
    """By its owner, at a moment of his own."""


class SeenAttempt(NamedTuple):
    """One time that a job held something."""

    placed_ms: int
    sat_ms: int
    """Since when it held all that it held in this attempt."""
    pieces: tuple[Piece, ...]
    up_ms: int | None = None
    """Since when it worked; None: it never did."""
    end_ms: int | None = None
    end: End | None = None
    is_asked: bool = False
    """Whether our own scheduler put it there."""
    slow_ppm: int = 0
    """How much longer its steps took there than at the best place."""
    earlier: tuple[tuple[int, tuple[Piece, ...]], ...] = ()
    """What it held before while it worked, each until a moment; then ``pieces``."""
    over_milli: int = 0
    """Of what it was shown to hold, what others held as well: that was not booked."""
    stopped: ev.Why = ev.Why.UNSAID
    """Why our own scheduler stopped it, to wait again; unsaid: it did not."""

    @property
    def is_over(self) -> bool:
        """Whether others held some of what it was shown to hold."""
        return self.over_milli > 0

    @property
    def run_ms(self) -> int | None:
        """How long it worked; None: that is not known, or it never did."""
        if self.up_ms is None or self.end_ms is None:
            return None
        return max(1, self.end_ms - self.up_ms)


class ToldReason(NamedTuple):
    """Why a job waited from a moment on, as its own scheduler said."""

    at_ms: int
    cause: Cause
    words: str


class SeenJob:
    """One job, and all that was seen of it."""

    __slots__ = (
        "attempts", "came_ms", "cause", "is_failed", "is_held", "job", "news", "over_ms",
        "reasons",
    )  # fmt: skip

    def __init__(self, job: Job, came_ms: int) -> None:
        self.job, self.came_ms = job, came_ms
        self.is_held = False
        """Whether it waits, to its end or that of the books, for something else than GPUs."""
        self.attempts: list[SeenAttempt] = []
        self.over_ms: int | None = None
        """When it was over for good."""
        self.is_failed = False
        self.cause = Cause.NONE
        """Why it waited, as its own scheduler said last; NONE: it said nothing."""
        self.reasons: list[ToldReason] = []
        """All that it said before the job had a place, in order."""
        self.news: list[News] = []
        """What was measured of it while it worked, in order."""

    @property
    def is_cancelled(self) -> bool:
        """Whether its owner ended it."""
        is_own = bool(self.attempts) and self.attempts[-1].end in (End.DONE, End.CRASHED)
        return self.over_ms is not None and not is_own

    @property
    def tells_saves(self) -> bool:
        """Whether its last attempt said itself what was saved."""
        last = len(self.attempts)
        return any(
            isinstance(one, ev.CheckpointSeen) and one.attempt == last
            and not (one.is_back or one.is_again)
            for one in self.news
        )  # fmt: skip

    @property
    def replicas(self) -> int:
        """How many replicas the whole of it has."""
        return sum(role.count for role in self.job.shape.roles)

    @property
    def last_run_ms(self) -> int | None:
        """How long it worked at the last try; None: nobody has seen its end."""
        if self.over_ms is None or self.is_cancelled or not self.attempts:
            return None
        return self.attempts[-1].run_ms

    @property
    def whole_ms(self) -> int | None:
        """When all of it was first placed; None: it never was."""
        return next((one.sat_ms for one in self.attempts if one.up_ms is not None), None)


class Story(NamedTuple):
    """All that a journal tells."""

    supply: list[Supply]
    jobs: list[SeenJob]
    """In the order of their numbers."""
    end_ms: int
    kinds: list[str]
    """The GPU type of each node, by number."""


def read(journal: Journal) -> Story:
    """The whole of a journal."""
    if journal.rolled_up() is not None:
        raise SpecError(
            f"`{journal.where}` was rolled up: the events of its past are gone",
            hint="play a journal that has all of its events, or keep more (`journal roll-up`)",
        )
    telling = _Telling()
    for batch in journal.batches(0):
        telling.take(to_events(batch))
    if not telling.jobs:
        raise SpecError(
            f"`{journal.where}` tells of no job",
            hint="let it be written for longer: there is nothing to play again",
        )
    return Story(telling.supply, telling.jobs, telling.now_ms, telling.kinds)


class _Telling:
    """Events, one after the other."""

    def __init__(self) -> None:
        self.supply: list[Supply] = []
        self.jobs: list[SeenJob] = []
        self.now_ms = 0
        self.kinds: list[str] = []
        self._states: list[NodeState] = []
        self._kind_of: dict[str, str] = {}
        self._shapes: dict[Shape, int] = {}
        self._of_shape: dict[int, list[SeenJob]] = {}
        self._aboard: dict[int, set[int]] = {}
        self._asked: dict[int, ev.Why] = {}
        """Why jobs are to be stopped that were not yet."""

    def take(self, events: Iterable[ev.Event]) -> None:
        """These happened."""
        for event in events:
            self.now_ms = event.at_ms
            seen = self._closing(event)
            if isinstance(seen, _SUPPLY):
                self.supply.append(seen)
                self._note_node(seen)
                self._lose(seen)
            else:
                self._of_job(event)

    def _closing(self, event: ev.Event) -> ev.Event:
        """A node that its owner asked to be emptied, or given back, is draining from then on."""
        match event:
            case ev.AskedDrain(at_ms=at_ms, node=n, why=why, deadline_ms=deadline_ms):
                return ev.NodeMoved(at_ms, n, NodeState.DRAINING, why, deadline_ms)
            case ev.AskedRepair(at_ms=at_ms, node=n) | ev.AskedReturn(at_ms=at_ms, node=n):
                if self._states[n] is NodeState.READY:
                    return ev.NodeMoved(at_ms, n, NodeState.DRAINING, ev.Why.SURPLUS)
        return event

    def _note_node(self, event: Supply) -> None:
        if isinstance(event, ev.ContractSigned):
            self._kind_of[event.contract.name] = event.contract.kind
        elif isinstance(event, ev.NodeAdded):
            self.kinds.append(self._kind_of[event.node.contract])
            self._states.append(NodeState.ASKED)
        elif isinstance(event, ev.NodeMoved):
            self._states[event.node] = event.to

    def _lose(self, event: Supply) -> None:
        """Who sat on a node that keeps no gangs was stopped, without an event of its own."""
        if isinstance(event, ev.NodeMoved) and event.to not in _KEEPS:
            for j in sorted(self._aboard.pop(event.node, ())):
                self._ended(j, event.at_ms, End.STOPPED)
        elif isinstance(event, ev.DeviceFailed):
            for j in sorted(self._aboard.get(event.node, ())):
                pieces = self.jobs[j].attempts[-1].pieces
                if any(p.node == event.node and p.devices >> event.device & 1 for p in pieces):
                    self._ended(j, event.at_ms, End.STOPPED)

    def _of_job(self, event: ev.Event) -> None:
        match event:
            case ev.JobSubmitted(at_ms=at_ms, job=job):
                self._came(job, at_ms)
            case ev.CauseChanged(at_ms=at_ms, shape=s, cause=cause):
                self._cause(s, cause, at_ms)
            case ev.PlacementSeen() | ev.AskedPlace():
                is_asked = isinstance(event, ev.AskedPlace)
                self._sits(event.job, event.at_ms, event.pieces, is_asked=is_asked)
                if isinstance(event, ev.PlacementSeen):
                    mine = self.jobs[event.job].attempts
                    mine[-1] = mine[-1]._replace(over_milli=event.over_milli)
            case ev.JobStarted(at_ms=at_ms, job=j, slow_ppm=slow_ppm):
                self._up(j, at_ms, slow_ppm)
            case ev.JobFinished(at_ms=at_ms, job=j):
                self._over(j, at_ms, End.DONE)
            case ev.JobFailed(at_ms=at_ms, job=j, why=why, is_final=is_final):
                self._failed(j, at_ms, why, is_final=is_final)
            case ev.JobEvicted(at_ms=at_ms, job=j) | ev.JobMoved(at_ms=at_ms, job=j):
                self._ended(j, at_ms, End.STOPPED)
            case ev.JobCancelled(at_ms=at_ms, job=j):
                self._over(j, at_ms, End.CANCELLED)
            case _:
                self._told(event)

    def _came(self, job: Job, at_ms: int) -> None:
        made = SeenJob(job, at_ms)
        self.jobs.append(made)
        s = self._shapes.setdefault(job.shape, len(self._shapes))
        self._of_shape.setdefault(s, []).append(made)

    def _changed(self, one: SeenJob, event: ev.RequestChanged) -> None:
        """It is played with what it came to request; what it asked for first never ran."""
        self._of_shape[self._shapes[one.job.shape]].remove(one)
        one.job = replace(one.job, shape=event.request, estimate_ms=event.estimate_ms)
        one.over_ms = None
        s = self._shapes.setdefault(event.request, len(self._shapes))
        self._of_shape.setdefault(s, []).append(one)

    def _cause(self, s: int, cause: Cause, at_ms: int) -> None:
        """Jobs that wait for something else than GPUs have a shape of their own."""
        for one in self._of_shape.get(s, ()):
            if cause is Cause.NOT_ELIGIBLE and not one.attempts:
                one.is_held = True
            elif one.is_held:
                one.is_held, one.came_ms = False, at_ms

    def _sits(self, j: int, at_ms: int, pieces: tuple[Piece, ...], *, is_asked: bool) -> None:
        job, last = self.jobs[j], self.jobs[j].attempts[-1] if self.jobs[j].attempts else None
        job.is_held = False
        if last is not None and last.end is None and last.up_ms is None:
            job.attempts[-1] = last._replace(pieces=pieces, sat_ms=at_ms)
        elif last is not None and last.end is None:  # it goes on elsewhere: still one run
            before = (*last.earlier, (at_ms, last.pieces))
            is_same = at_ms == last.up_ms or pieces == last.pieces
            earlier = last.earlier if is_same else before
            job.attempts[-1] = last._replace(pieces=pieces, earlier=earlier)
        else:
            job.attempts.append(SeenAttempt(at_ms, at_ms, pieces, is_asked=is_asked))
        if last is not None and last.end is None:
            self._leave(j, last.pieces)
        for piece in pieces:
            self._aboard.setdefault(piece.node, set()).add(j)

    def _up(self, j: int, up_ms: int, slow_ppm: int) -> None:
        attempts = self.jobs[j].attempts
        if attempts and attempts[-1].up_ms is None:
            attempts[-1] = attempts[-1]._replace(up_ms=up_ms, slow_ppm=slow_ppm)

    def _failed(self, j: int, at_ms: int, why: ev.Why, *, is_final: bool) -> None:
        end = End.CRASHED if is_final or why in _OF_THE_JOB else End.STOPPED
        self._ended(j, at_ms, end)
        if is_final:
            self.jobs[j].over_ms, self.jobs[j].is_failed = at_ms, True

    def _over(self, j: int, at_ms: int, end: End) -> None:
        self._ended(j, at_ms, end)
        self.jobs[j].over_ms = at_ms

    def _ended(self, j: int, at_ms: int, end: End) -> None:
        attempts, asked = self.jobs[j].attempts, self._asked.pop(j, ev.Why.UNSAID)
        if not attempts or attempts[-1].end is not None:
            return
        why = asked if end is End.STOPPED else ev.Why.UNSAID
        attempts[-1] = attempts[-1]._replace(end_ms=at_ms, end=end, stopped=why)
        self._leave(j, attempts[-1].pieces)

    def _leave(self, j: int, pieces: tuple[Piece, ...]) -> None:
        for piece in pieces:
            self._aboard.get(piece.node, set()).discard(j)

    def _told(self, event: ev.Event) -> None:
        """What was measured of a job while it worked, said of it while it waited, or asked."""
        if isinstance(event, _NEWS):
            self.jobs[event.job].news.append(event)
        elif isinstance(event, ev.ReasonSeen):
            one = self.jobs[event.job]
            one.cause = event.cause
            if not one.attempts:
                one.reasons.append(ToldReason(event.at_ms, event.cause, event.reason))
        elif isinstance(event, ev.RequestChanged):
            self._changed(self.jobs[event.job], event)
        elif isinstance(event, ev.AskedEvict):
            self._asked[event.job] = event.why
