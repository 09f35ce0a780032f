"""The backend of a live cluster: what it shows is folded, what a plan says is sent.

The loop, the checker and the journal are the twin's (``engine.loop``). Here are the clock and the
names of pods; the decisions are not.
"""

from collections.abc import Callable, Iterable, Iterator

from tidemill.engine.fold.batch import Inflow
from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import seats
from tidemill.live.kubernetes.scheduling.differ import Differ
from tidemill.live.kubernetes.scheduling.resizing import Resizer
from tidemill.live.kubernetes.scheduling.sending import Leaver, Sender
from tidemill.live.kubernetes.scheduling.units import Vacant
from tidemill.live.kubernetes.scheduling.view import ClusterView
from tidemill.model import events as ev
from tidemill.model.batch import Dictionary
from tidemill.model.batch.sheet import Sheet
from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import Piece
from tidemill.model.world import World

TICK_MS = 60_000
"""The books of a cluster with nodes go on at least so often, also while nothing happens there."""


class KubernetesBackend:
    """One cluster that answers; times are milliseconds since the journal began."""

    def __init__(
        self, world: World, view: ClusterView, differ: Differ, sender: Sender,
        clock_ms: Callable[[], int],
    ) -> None:  # fmt: skip
        self._world, self._view, self.differ, self.sender = world, view, differ, sender
        self._clock_ms = clock_ms
        self._wake_ms = FOREVER_MS
        self._looked_ms = -1
        self._is_first = True
        self._asked: list[ev.AskedEvict] = []
        self.dictionary = Dictionary()
        """What its events name by number."""
        self.placed = 0
        self.stopped: list[ev.AskedEvict] = []
        """Who was asked to leave since somebody last asked; whoever asks empties this."""
        self.on_kept: Callable[[], None] = lambda: None
        """Called when others than before may be stopped."""
        self.resizer: Resizer | None = None
        """Who asks owners for another number of pods, if anybody may."""
        self.resized: dict[int, ev.AskedMove] = {}
        """What jobs were last asked for, of those whose owner was not asked yet."""
        self.causes: set[int] = set()
        """Shapes whose cause changed since somebody last asked; whoever asks empties this."""

    def next_ms(self) -> int:
        """Now, if there is something to look at; else when to look again."""
        return self.now_ms if self.is_due else self.wake_ms

    @property
    def now_ms(self) -> int:
        """The cluster's clock; it goes on even where that goes back, also if nothing happens."""
        return max(self._clock_ms(), self._world.now_ms + 1, self._looked_ms + 1)

    @property
    def is_due(self) -> bool:
        """Whether there is something to look at."""
        return self._is_first or self._view.is_changed or self._clock_ms() >= self.wake_ms

    @property
    def wake_ms(self) -> int:
        """When the last plan asked to be woken, seats come free, or the books are to go on."""
        world = self._world
        tick_ms = world.now_ms + TICK_MS if world.node_count else FOREVER_MS
        return min(self._wake_ms, self.differ.due_ms, tick_ms)

    def look(self) -> None:
        """Plan again, although the cluster shows nothing new: the policy is another."""
        self._wake_ms = 0

    def take(self, world: World) -> list[ev.Seen]:
        """Never asked for: it folds what it tells, event by event (``happen``)."""
        raise AssertionError(f"events are folded as they are told, {world.seq} so far")

    def happen(self, inflow: Inflow, sheet: Sheet) -> bool:
        """Fold everything by which the cluster differs; whether anything does."""
        at_ms, told = self.now_ms, list[ev.Event]()
        self._looked_ms = at_ms
        try:
            for event in self._differences(at_ms):
                inflow.single(event)
                told.append(event)
            is_news = self._spare()
            if not told and (at_ms >= self.wake_ms or is_news):
                inflow.single(woke := ev.Woke(at_ms))
                told.append(woke)
        finally:
            sheet.write(told)
        self._asked += self._evictions(told)
        if at_ms >= self._wake_ms:
            self._wake_ms = FOREVER_MS
        if not told:  # else it follows when all of this is safe
            self._send_open()
        return bool(told)

    def _differences(self, at_ms: int) -> Iterator[ev.Event]:
        """What the cluster shows otherwise; who asks folds each before the next."""
        if self._is_first:
            yield from self.differ.tell_unseen(at_ms)
            self._is_first = False
        yield from self.differ.tell(at_ms)

    def _spare(self) -> bool:
        """Keep those from being stopped whom the cluster keeps; whether others may be stopped."""
        kept = self.differ.spared.jobs(self.differ.lives.job)
        before, self._world.kept = self._world.kept, frozenset(kept)
        self._world.keepers = kept
        is_news = bool(before - self._world.kept)
        if is_news:
            self.on_kept()  # searches that were in vain may not be any more
        return is_news

    def carry_out(self, world: World, plan: ev.Plan) -> None:  # noqa: ARG002 - as the loop calls it
        """Send what a plan says; it is in the journal by now."""
        self._send_open()
        self._evict(one.job for one in (*self._asked, *self._evictions(plan.actions)))
        for action in plan.actions:
            match action:
                case ev.AskedPlace(job=j, pieces=pieces):
                    self._place(j, pieces)
                case ev.AskedMove(job=j):
                    self.resized[j] = action
                    self._view.dirty_units[self.differ.unit_of[j]] = None
                    self._view.changed()
                case ev.AskedEvict():
                    pass  # all that leave for one go together, or not at all
                case ev.CauseChanged(shape=s):
                    self.causes.add(s)
                case ev.JobPassed() | ev.HalfLifeSet() | ev.MixSampled() | ev.AskedRelease():
                    pass
                case _:
                    raise AssertionError(f"the policy of a live cluster forbids {action}")
        self._asked.clear()
        self._wake_ms = plan.wake_at_ms

    def _send_open(self) -> None:
        """Complete what was begun: seats of gangs that are bound in part, jobs asked to leave."""
        seating = self.differ.seating
        vacant, seating.vacant = seating.vacant, []
        self.sender.bind(vacant)
        self.sender.take_back()
        leaving, self.differ.leaving = self.differ.leaving, []
        self._evict(leaving)
        elastic = self.differ.elastic
        resizes, elastic.resizes = elastic.resizes, []
        for one in resizes:
            if one.leavers:
                some = [Leaver(one.job, one.leavers)]
                self.sender.evict(some, is_begun=False, may_stay=True)
        if self.resizer is not None:
            self.resizer.ask(one for one in resizes if not one.leavers)

    def _place(self, j: int, pieces: tuple[Piece, ...]) -> None:
        """Bind the pods of a job, each to a seat of its role: neighbours by number are near.

        Of an elastic one those with the highest numbers sit where the fewest do: they leave first.
        """
        unit = self.differ.unit_of[j]
        open_, shape = dict[int, list[tuple[int, list[int]]]](), self._world.shape_of(j)
        roles, is_elastic = shape.roles, shape.elastic_role is not None

        def rank(piece: Piece) -> tuple[int, ...]:
            if is_elastic:
                return piece.role, -piece.replicas, piece.node
            return seats.rank(self._world, (piece.role, piece.node))

        for piece in sorted(pieces, key=rank):
            devices = seats.handed_out(piece.devices, roles[piece.role].accelerators)
            open_.setdefault(piece.role, []).extend([(piece.node, devices)] * piece.replicas)
        found = list[Vacant]()
        for pod, r in self.differ.waiting(unit):
            if open_.get(r):
                found.append(self.differ.seating.seat(j, pod, *open_[r].pop(0)))
        self.placed += 1
        self.sender.bind(found)

    def _evictions(self, told: Iterable[ev.Event]) -> list[ev.AskedEvict]:
        """Who is stopped; whoever asks why empties ``stopped``."""
        found = [one for one in told if isinstance(one, ev.AskedEvict)]
        self.stopped += found
        return found

    def _evict(self, jobs: Iterable[int]) -> None:
        """Ask jobs to leave, those together that leave for the same."""
        world, groups = self._world, dict[int, list[Leaver]]()
        for j in dict.fromkeys(jobs):
            unit = self.differ.unit_of.get(j)
            if unit is None or not world.jobs.is_leaving[j] or j in self.differ.give_back:
                continue
            mine = Leaver(j, tuple(pod for pod in self._pods(unit) if pod.node))
            heir = world.leaving_for[j]
            if heir < 0 or self._has_begun(j, mine):
                self.sender.evict([mine], is_begun=self._has_begun(j, mine), may_stay=False)
            else:
                groups.setdefault(heir, []).append(mine)
        for group in groups.values():
            self.sender.evict(group, is_begun=False, may_stay=True)

    def _has_begun(self, j: int, mine: Leaver) -> bool:
        """Whether pods of a job are gone, or about to go: the rest of it is of no use."""
        seats = sum(piece.replicas for piece in self._world.placements.get(j, ()))
        return len(mine.pods) < seats or any(pod.leaves_ms is not None for pod in mine.pods)

    def _pods(self, unit: UnitKey) -> list[KubePod]:
        return [pod for pod in self._view.unit_pods(unit) if not pod.is_over]
