"""The reader: follows a loop or a journal and keeps the ledger up to date.

Supply is integrated level by level, jobs span by span; the two routes meet in the sum, which must
be what was paid. Work since the last checkpoint is provisional: its span is written only when its
fate is known (a checkpoint or the finish saves it, a stop makes it rework).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidemill.engine.fold import fold
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.spans import RUN, Cells, Span, Spans, Window
from tidemill.ledger.supply import Supply
from tidemill.model.events import Event
from tidemill.model.policy import Policy
from tidemill.model.states import ACTIVE, JobState
from tidemill.model.world import World
from tidemill.workload import progress

_ACTIVE = frozenset(int(state) for state in ACTIVE)
_RUNNING = int(JobState.RUNNING)


class _Open(NamedTuple):
    """An attempt in progress: since when it is in its phase, and what it holds of whom."""

    since_ms: int
    is_running: bool
    origin_ms: int
    busy_ppm: int
    attempt: int
    held: tuple[tuple[int, int], ...]
    earlier: tuple[tuple[int, int, int], ...] = ()
    """Stretches of this run with another busy share: (start, end, busy_ppm)."""


class Ledger:
    """Reads along with a loop (``before``/``after``), or through a journal (``read``)."""

    def __init__(self, policy: Policy | None = None, window: Window | None = None) -> None:
        self.window = window or Window()
        self.now_ms = 0
        self.world = World()
        self.supply = Supply((policy or Policy()).order == "priority")
        self._spans = Spans(self.window)
        self._open: dict[int, _Open] = {}

    def read(self, events: Iterable[Event]) -> "Ledger":
        """Fold a journal into a World of its own, reading along."""
        world = self.world
        for event in events:
            self.before(event.at_ms)
            self.after(world, fold(world, event))
        return self

    def before(self, at_ms: int) -> None:
        """Time goes on to this moment; nothing has changed yet."""
        window = self.window
        start, end = max(self.now_ms, window.start_ms), min(at_ms, window.end_ms)
        while start < end:
            number = (start - window.start_ms) // window.bin_ms
            edge = min(end, window.start_ms + (number + 1) * window.bin_ms)
            self.supply.integrate(self.world, number, edge - start)
            start = edge
        self.now_ms = max(self.now_ms, at_ms)

    def after(self, world: World, touched: Sequence[int]) -> None:
        """An event was folded; follow the jobs it touched."""
        self.world = world
        for j in touched:
            was = self._open.pop(j, None)
            state = int(world.jobs.state[j])
            if was is not None:
                self._close(j, was, state)
            if state in _ACTIVE:
                self._open[j] = self._opened(j, was, state == _RUNNING)

    def cells(self) -> Cells:
        """What jobs did with their accelerators up to now, what still runs included."""
        still_open = [span for j, o in self._open.items() for span in self._provisional(j, o)]
        return self._spans.cells(self.world, still_open)

    def _opened(self, j: int, was: _Open | None, is_running: bool) -> _Open:
        jobs = self.world.jobs
        earlier: tuple[tuple[int, int, int], ...] = ()
        if was is not None and was.is_running and jobs.interval_ms[j] != progress.CONTINUOUS:
            earlier = (*was.earlier, (was.since_ms, self.now_ms, was.busy_ppm))
        held = was.held if was is not None else self._held(j)
        origin_ms = int(jobs.origin_ms[j]) if is_running else 0
        busy_ppm, attempt = int(jobs.busy_ppm[j]), int(jobs.attempt[j])
        return _Open(self.now_ms, is_running, origin_ms, busy_ppm, attempt, held, earlier)

    def _held(self, j: int) -> tuple[tuple[int, int], ...]:
        world, sums = self.world, dict[int, int]()
        roles = world.shape_of(j).roles
        for piece in world.placements[j]:
            c = int(world.nodes.contract[piece.node])
            milli = piece.replicas * roles[piece.role].replica_milli
            sums[c] = sums.get(c, 0) + milli
        return tuple(sums.items())

    def _close(self, j: int, was: _Open, state: int) -> None:
        if not was.is_running:
            for span in self._plain(j, was, _starting(was), was.since_ms, self.now_ms):
                self._spans.add(self.world, span)
            return
        if state == _RUNNING and self.world.jobs.interval_ms[j] != progress.CONTINUOUS:
            return  # its fate is not known yet
        fate = self.now_ms if state in (_RUNNING, JobState.DONE) else self._safe_until(j, was)
        for span in self._run(j, was, fate, Bucket.REWORK):
            self._spans.add(self.world, span)

    def _provisional(self, j: int, o: _Open) -> list[Span]:
        if not o.is_running:
            return self._plain(j, o, _starting(o), o.since_ms, self.now_ms)
        return self._run(j, o, self._safe_until(j, o), Bucket.UNSAVED)

    def _safe_until(self, j: int, o: _Open) -> int:
        interval, cost = int(self.world.jobs.interval_ms[j]), int(self.world.jobs.cost_ms[j])
        return o.origin_ms + progress.safe_ms(self.now_ms - o.origin_ms, interval, cost)

    def _run(self, j: int, o: _Open, safe_ms: int, otherwise: Bucket) -> list[Span]:
        """Spans of a run: safe up to a moment, and what the rest turned out to be."""
        spans: list[Span] = []
        for start, end, busy in (*o.earlier, (o.since_ms, self.now_ms, o.busy_ppm)):
            safe = min(end, max(start, safe_ms))
            for c, milli in o.held:
                if safe > start:
                    spans.append((start, safe, RUN, j, c, milli, o.origin_ms, busy))
                if end > safe:
                    spans += _unsafe(self.world, j, (safe, end), safe_ms, (c, milli), otherwise)
        return spans

    def _plain(self, j: int, o: _Open, bucket: Bucket, start: int, end: int) -> list[Span]:
        return [(start, end, int(bucket), j, c, milli, 0, 0) for c, milli in o.held]


def _starting(o: _Open) -> Bucket:
    return Bucket.STARTING if o.attempt == 1 else Bucket.RESTART


def _unsafe(
    world: World,
    j: int,
    stretch: tuple[int, int],
    safe_ms: int,
    held: tuple[int, int],
    bucket: Bucket,
) -> list[Span]:
    """The stretch after the last checkpoint: work at risk, then perhaps a half-written one."""
    start, end = stretch
    c, milli = held
    interval = int(world.jobs.interval_ms[j])
    stalls_ms = safe_ms + interval if interval > 0 else end
    work_end = min(end, max(start, stalls_ms))
    spans: list[Span] = []
    if work_end > start:
        spans.append((start, work_end, int(bucket), j, c, milli, 0, 0))
    if end > work_end:
        spans.append((work_end, end, int(Bucket.CHECKPOINT), j, c, milli, 0, 0))
    return spans
