"""The reader: follows a loop or a journal and keeps the ledger up to date.

Supply is integrated level by level, jobs span by span; the two routes meet in the sum, which must
be what was paid. Work since the last checkpoint is provisional: its span is written only when its
fate is known (a checkpoint or the finish saves it, a stop makes it rework).
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np

from tidemill.engine.fold import fold
from tidemill.engine.layout import Before
from tidemill.engine.story import FAILED, PLACED, Story
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.cells import Cells
from tidemill.ledger.cut import LASTED, NOT_RUNNING
from tidemill.ledger.spans import Spans, Window
from tidemill.ledger.supply import OpenJobs, Supply
from tidemill.ledger.usable import Usable
from tidemill.ledger.waiting import Waiting
from tidemill.model.events import Event
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.states import ACTIVE, JobState
from tidemill.model.world import World
from tidemill.scheduling import protection
from tidemill.workload import progress

_ACTIVE = frozenset(int(state) for state in ACTIVE)
_WAITING, _RUNNING, _DONE = (
    int(state) for state in (JobState.WAITING, JobState.RUNNING, JobState.DONE)
)

_Write = Callable[[tuple[int, ...]], None]


class _Open:
    """An attempt in progress: what it holds of whom, its phase, and its stretches so far."""

    __slots__ = (
        "attempt", "beside_ppm", "busy_ppm", "earlier", "held", "is_running", "origin_ms",
        "since_ms", "slow_ppm",
    )  # fmt: skip

    def __init__(self, attempt: int, held: tuple[tuple[int, int], ...], since_ms: int) -> None:
        self.attempt = attempt
        self.held = held
        """Contracts and milli."""
        self.is_running = False
        self.origin_ms = NOT_RUNNING
        self.since_ms = since_ms
        self.busy_ppm = 0
        self.slow_ppm = 0
        self.beside_ppm = 0
        self.earlier: list[tuple[int, int, int, int]] = []
        """Stretches of this run with another busy share or pace: (start, end, busy, beside)."""


class _Moving(NamedTuple):
    """A place that a job holds beside its own until it has moved there."""

    held: tuple[tuple[int, int], ...]
    since_ms: int
    keeps_work: bool


class Ledger:
    """Reads along with a loop (``before``/``after``), or through a journal (``read``)."""

    def __init__(
        self,
        policy: Policy | None = None,
        window: Window | None = None,
        weighs_mix: bool = False,
    ) -> None:
        self.window = window or Window()
        self.now_ms = 0
        self.world = World()
        self.policy = policy or Policy()
        self.supply = Supply(self.policy.order == "priority")
        self.usable = Usable() if weighs_mix else None
        """What arrivals could have used of what was free; costs a third more, so only if asked."""
        self.cut_short = 0
        """How many attempts of training jobs were stopped at work, inside the window."""
        self.waiting = Waiting(self.window.end_ms)
        """How long jobs waited, up to the end of the window."""
        self.stopped = 0
        """How many attempts were stopped before their job ended, at any time, for any reason."""
        self.alarms: dict[int, str] = {}
        """Jobs that were preempted as often as the policy allows, inside the window, in words."""
        self._spans = Spans(self.window)
        self._open: dict[int, _Open] = {}
        self._moving: dict[int, _Moving] = {}

    def read(self, events: Iterable[Event]) -> Self:
        """Fold a journal into a World of its own, reading along."""
        world = self.world
        for event in events:
            self.before(event.at_ms)
            self.after(world, fold(world, event))
        return self

    def before(self, at_ms: int) -> None:
        """Time goes on to this moment; nothing has changed yet."""
        if at_ms <= self.now_ms:
            return
        window = self.window
        start, end = max(self.now_ms, window.start_ms), min(at_ms, window.end_ms)
        self.now_ms = at_ms
        while start < end:
            number = (start - window.start_ms) // window.bin_ms
            edge = min(end, window.start_ms + (number + 1) * window.bin_ms)
            self.supply.integrate(self.world, number, edge - start)
            if self.usable is not None:
                self.usable.integrate(self.world, number, edge - start)
            start = edge

    def after(self, world: World, touched: Sequence[int]) -> None:
        """An event was folded; follow the jobs it touched."""
        if world is not self.world:
            assert world.seq <= 1, "a ledger reads from the first event of a journal, or not at all"
            self.world = world
        for j in touched:
            state, was = world.jobs.state.item(j), self._open.get(j)
            self.waiting.note(j, state, self.now_ms)
            lasts = self._mind_move(j) if self._moving or world.moving else False
            if was is None:
                if state in _ACTIVE:
                    attempt = world.jobs.attempt.item(j)
                    self._open[j] = _Open(attempt, self._held(j), self.now_ms)
            elif state in _ACTIVE and was.attempt != world.jobs.attempt.item(j):
                self.stopped += 1
                self._ends(j, was, lasts)
                self._open[j] = _Open(was.attempt + 1, self._held(j), self.now_ms)
            elif state == _RUNNING:
                self._goes_on(j, was)
            elif state not in _ACTIVE:
                del self._open[j]
                self.stopped += state == _WAITING
                self._ends(j, was, state == _DONE)
                self._mind_alarm(j)

    def _mind_alarm(self, j: int) -> None:
        """An attempt is over; it may have been one preemption too many."""
        alarm = protection.alarm(self.world, self.policy, j)
        is_waiting = self.world.jobs.state.item(j) == _WAITING
        if alarm and is_waiting and self.window.start_ms <= self.now_ms < self.window.end_ms:
            self.alarms[j] = alarm

    @property
    def can_follow(self) -> bool:
        """Whether it can; the mix of arrivals is weighed event by event."""
        return self.usable is None

    def follow(self, world: World, before: Before, story: Story) -> None:
        """A stretch was folded at once; ``before`` is what the World was."""
        assert world is self.world, (
            "a ledger reads from the first event of a journal, or not at all"
        )
        jobs = OpenJobs.before(world, before)
        for j, o in self._open.items():
            jobs.since_ms[j], jobs.origin_ms[j] = o.since_ms, o.origin_ms
        spans, cut_short = self.supply.follow(self.window, world, before, story, jobs, self.now_ms)
        self.cut_short += cut_short
        self.waiting.follow(world.job_count, story)
        retried = (story.lines.kind == FAILED) & (story.lines.pieces == 0)
        self.stopped += int(retried.sum())
        self.now_ms = world.now_ms
        self._spans.add_all(world, spans)
        self._reopen(story, jobs)

    def _reopen(self, story: Story, jobs: OpenJobs) -> None:
        """Attempts that came, went on or ended during a story."""
        touched = np.unique(story.lines.subject[story.lines.kind == PLACED]).tolist()
        state = self.world.jobs.state
        for j in [j for j in self._open if state[j] not in _ACTIVE]:
            del self._open[j]
        for j in touched:
            if state[j] in _ACTIVE:
                attempt = self.world.jobs.attempt.item(j)
                self._open[j] = _Open(attempt, self._held(j), jobs.since_ms.item(j))
        for j, o in self._open.items():
            if state[j] == _RUNNING and not o.is_running:
                o.is_running, o.origin_ms = True, jobs.origin_ms.item(j)
                o.since_ms, o.busy_ppm = jobs.since_ms.item(j), self.world.jobs.busy_ppm.item(j)

    def cells(self) -> Cells:
        """What jobs did with their accelerators up to now, what still runs included."""
        still_open = array("q")
        for j, o in self._open.items():
            if o.is_running:
                self._run(j, o, self._safe_ms(j, o), Bucket.UNSAVED, still_open.extend)
            else:
                self._start(j, o, still_open.extend)
        for j, moving in self._moving.items():
            self._reserve(j, moving, still_open.extend)
        return self._spans.cells(self.world, still_open)

    def _mind_move(self, j: int) -> bool:
        """A job holds a second place, or not any more; whether the move that ends keeps work."""
        move, was = self.world.moving.get(j), self._moving.get(j)
        if move is not None and was is None:
            held = self._held_in(j, move.gained)
            self._moving[j] = _Moving(held, self.now_ms, move.keeps_work)
        elif move is None and was is not None:
            del self._moving[j]
            self._reserve(j, was, self._keep)
            return was.keeps_work
        return False

    def _reserve(self, j: int, moving: _Moving, write: _Write) -> None:
        """What a job holds before it is there: it is on its way to a restart."""
        since_ms, bucket = moving.since_ms, int(Bucket.RESTART)
        if since_ms < self.now_ms:
            for c, milli in moving.held:
                write((since_ms, self.now_ms, bucket, j, c, milli, NOT_RUNNING, since_ms, 0, 0, 0))

    def _goes_on(self, j: int, o: _Open) -> None:
        """A gang has come up, or its busy share or its pace has changed."""
        jobs = self.world.jobs
        busy_ppm, beside_ppm = jobs.busy_ppm.item(j), self._beside_ppm(j)
        if o.is_running and o.origin_ms != jobs.origin_ms.item(j):
            self._saved(j, o)
        elif not o.is_running:
            self._start(j, o, self._keep)
            o.is_running, o.origin_ms = True, jobs.origin_ms.item(j)
            o.slow_ppm = jobs.slow_ppm.item(j)
        elif (busy_ppm, beside_ppm) == (o.busy_ppm, o.beside_ppm):
            return
        elif jobs.interval_ms.item(j) == progress.CONTINUOUS:
            self._run(j, o, self.now_ms, Bucket.REWORK, self._keep)
        else:
            o.earlier.append((o.since_ms, self.now_ms, o.busy_ppm, o.beside_ppm))
        o.since_ms, o.busy_ppm, o.beside_ppm = self.now_ms, busy_ppm, beside_ppm

    def _saved(self, j: int, o: _Open) -> None:
        """An attempt saved all its work out of its rhythm: it lasts up to the save, a stall."""
        now_ms, jobs = self.now_ms, self.world.jobs
        began_ms = now_ms - jobs.cost_ms.item(j)
        runs = (*o.earlier, (o.since_ms, now_ms, o.busy_ppm, o.beside_ppm))
        for start, end, busy, beside in runs:
            until_ms = min(end, began_ms)
            for c, milli in o.held if start < until_ms else ():
                self._keep(
                    (start, until_ms, LASTED, j, c, milli, o.origin_ms, start, busy, o.slow_ppm,
                     beside)
                )  # fmt: skip
        if began_ms < now_ms:
            stall = int(Bucket.CHECKPOINT)
            for c, milli in o.held:
                self._keep((began_ms, now_ms, stall, j, c, milli, NOT_RUNNING, began_ms, 0, 0, 0))
        o.earlier.clear()
        o.origin_ms = jobs.origin_ms.item(j)

    def _beside_ppm(self, j: int) -> int:
        """How much neighbours slow a running job now."""
        paces = self.world.paces.get(j)
        return paces[-1][1] if paces else 0

    def _ends(self, j: int, o: _Open, is_done: bool) -> None:
        """An attempt is over: what it did lasts, or what was not saved is lost."""
        if not o.is_running:
            self._start(j, o, self._keep)
            return
        safe_ms = self.now_ms if is_done else self._safe_ms(j, o)
        self._run(j, o, safe_ms, Bucket.REWORK, self._keep)
        if not is_done and self.window.start_ms <= self.now_ms < self.window.end_ms:
            self.cut_short += self.world.jobs.interval_ms.item(j) != progress.CONTINUOUS

    def _safe_ms(self, j: int, o: _Open) -> int:
        """Up to when an interruption could take nothing back any more."""
        interval, cost = self.world.jobs.interval_ms.item(j), self.world.jobs.cost_ms.item(j)
        return o.origin_ms + progress.safe_ms(self.now_ms - o.origin_ms, interval, cost)

    def _start(self, j: int, o: _Open, write: _Write) -> None:
        bucket = int(Bucket.STARTING if o.attempt == 1 else Bucket.RESTART)
        if o.since_ms < self.now_ms:
            for c, milli in o.held:
                since = o.since_ms
                write((since, self.now_ms, bucket, j, c, milli, NOT_RUNNING, since, 0, 0, 0))

    def _run(self, j: int, o: _Open, safe_ms: int, otherwise: Bucket, write: _Write) -> None:
        """Write the stretches of a run: what lasts up to a moment, and what the rest is."""
        now = (o.since_ms, self.now_ms, o.busy_ppm, o.beside_ppm)
        for start, end, busy, beside in (*o.earlier, now):
            safe = min(end, max(start, safe_ms))
            for c, milli in o.held:
                pace = (o.origin_ms, start, busy, o.slow_ppm, beside)
                if start < safe:
                    write((start, safe, LASTED, j, c, milli, *pace))
                if safe < end:
                    write((safe, end, int(otherwise), j, c, milli, *pace))

    def _keep(self, span: tuple[int, ...]) -> None:
        if span[1] > self.window.start_ms and span[0] < self.window.end_ms:
            self._spans.add(self.world, span)

    def _held(self, j: int) -> tuple[tuple[int, int], ...]:
        return self._held_in(j, self.world.placements[j])

    def _held_in(self, j: int, pieces: tuple[Piece, ...]) -> tuple[tuple[int, int], ...]:
        """Contracts and milli of some pieces of a job."""
        world, sums = self.world, dict[int, int]()
        roles = world.shape_of(j).roles
        for piece in pieces:
            c = world.nodes.contract.item(piece.node)
            sums[c] = sums.get(c, 0) + piece.replicas * roles[piece.role].replica_milli
        return tuple((c, milli) for c, milli in sums.items() if milli)
