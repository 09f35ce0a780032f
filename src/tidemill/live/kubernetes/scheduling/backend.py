"""The backend of a live cluster: what it shows is folded, what a plan says is sent.

The loop, the checker and the journal are the twin's (``engine.loop``). Here are the clock and the
names of pods; the decisions are not.
"""

from collections.abc import Callable

from tidemill.engine.fold.batch import Inflow
from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import seats
from tidemill.live.kubernetes.scheduling.differ import Differ, Vacant
from tidemill.live.kubernetes.scheduling.sending import Sender
from tidemill.live.kubernetes.scheduling.view import ClusterView
from tidemill.model import events as ev
from tidemill.model.batch import Dictionary
from tidemill.model.batch.sheet import Sheet
from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import Piece
from tidemill.model.world import World


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
        self.causes: set[int] = set()
        """Shapes whose cause changed since somebody last asked; whoever asks empties this."""

    def next_ms(self) -> int:
        """Now, if there is something to look at; else when to look again."""
        return self.now_ms if self.is_due else self._wake_ms

    @property
    def now_ms(self) -> int:
        """The cluster's clock; it goes on even where that goes back, also if nothing happens."""
        return max(self._clock_ms(), self._world.now_ms + 1, self._looked_ms + 1)

    @property
    def is_due(self) -> bool:
        """Whether there is something to look at."""
        return self._is_first or self._view.is_changed or self._clock_ms() >= self._wake_ms

    @property
    def wake_ms(self) -> int:
        """When the last plan asked to be woken."""
        return self._wake_ms

    def look(self) -> None:
        """Plan again, although the cluster shows nothing new: the policy is another."""
        self._wake_ms = 0

    def take(self, world: World) -> list[ev.Seen]:
        """Never asked for: it folds what it tells, event by event (``happen``)."""
        raise AssertionError(f"events are folded as they are told, {world.seq} so far")

    def happen(self, inflow: Inflow, sheet: Sheet) -> bool:
        """Fold everything by which the cluster differs; whether anything does."""
        at_ms, before = self.now_ms, len(sheet)
        self._looked_ms = at_ms
        if self._is_first:
            for event in self.differ.tell_unseen(at_ms):
                self._note(event, inflow, sheet)
            self._is_first = False
        for event in self.differ.tell(at_ms):
            self._note(event, inflow, sheet)
        if len(sheet) == before and at_ms >= self._wake_ms:
            self._note(ev.Woke(at_ms), inflow, sheet)
        if at_ms >= self._wake_ms:
            self._wake_ms = FOREVER_MS
        if len(sheet) == before:  # else it follows when all of this is safe
            self._send_open()
        return len(sheet) > before

    def _note(self, event: ev.Event, inflow: Inflow, sheet: Sheet) -> None:
        inflow.single(event)
        sheet.write([event])
        if isinstance(event, ev.AskedEvict):
            self._asked.append(event)

    def carry_out(self, world: World, plan: ev.Plan) -> None:  # noqa: ARG002 - as the loop calls it
        """Send what a plan says; it is in the journal by now."""
        self._send_open()
        for action in (*self._asked, *plan.actions):
            match action:
                case ev.AskedPlace(job=j, pieces=pieces):
                    self._place(j, pieces)
                case ev.AskedEvict(job=j):
                    self._evict(j)
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
        vacant, self.differ.vacant = self.differ.vacant, []
        self.sender.bind(vacant)
        self.sender.take_back()
        leaving, self.differ.leaving = self.differ.leaving, []
        for j in leaving:
            self._evict(j)

    def _place(self, j: int, pieces: tuple[Piece, ...]) -> None:
        """Bind the pods of a job, each to a seat of its role."""
        unit = self.differ.unit_of[j]
        open_, roles = dict[int, list[tuple[int, list[int]]]](), self._world.shape_of(j).roles
        for piece in sorted(pieces, key=lambda piece: (piece.role, piece.node)):
            devices = seats.handed_out(piece.devices, roles[piece.role].accelerators)
            open_.setdefault(piece.role, []).extend([(piece.node, devices)] * piece.replicas)
        found = list[Vacant]()
        for pod, r in self.differ.waiting(unit):
            if open_.get(r):
                found.append(self.differ.vacant_seat(j, pod, *open_[r].pop(0)))
        self.placed += 1
        self.sender.bind(found)

    def _evict(self, j: int) -> None:
        unit = self.differ.unit_of.get(j)
        if unit is not None:
            self.sender.evict(j, [pod for pod in self._pods(unit) if pod.node])

    def _pods(self, unit: UnitKey) -> list[KubePod]:
        return [pod for pod in self._view.unit_pods(unit) if not pod.is_over]
