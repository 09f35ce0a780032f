"""A recorded history as a world that answers: the same jobs, nodes and run times, other places.

The twin answers what is asked (``twin.backend``). What no scheduler decides happens as it was
recorded, at the same moments. Jobs that are pinned take the place that they were seen in; where our
plan has put somebody else there meanwhile, what finds no free device is counted as such
(``over_milli``), and nobody is stopped for it. What a job was measured to do, it does at the same
age again (``retold``). A node that is declared a spare while the shadow's jobs sit on it is one as
soon as they are gone.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from tidemill.advise.shadow import retold, truths
from tidemill.advise.shadow.story import Supply
from tidemill.advise.shadow.truths import Cast
from tidemill.engine.fold import room
from tidemill.engine.fold.batch import Inflow
from tidemill.live.kubernetes.scheduling import seats
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import EventColumn
from tidemill.model.batch.sheet import Sheet
from tidemill.model.errors import EventRefused
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Piece
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.twin.backend import Twin
from tidemill.twin.event_queue import columns, heap
from tidemill.twin.event_queue.agenda import Entry
from tidemill.twin.event_queue.columns import ANY_ATTEMPT
from tidemill.twin.faults import Faults

FORGIVEN = 1_000_000
"""Crashes of a job that was not seen to fail for good are always followed by another attempt."""
_CANCELLED = codes.KIND_CODE[ev.JobCancelled]
_BUSY = codes.KIND_CODE[ev.ActivitySeen]
_STARTED = codes.KIND_CODE[ev.JobStarted]
_RANKS = {
    ev.ContractSigned: columns.SIGNED, ev.QueueSet: columns.SIGNED,
    ev.TopologySet: columns.SIGNED, ev.ContractStarted: columns.CONTRACT_START,
    ev.ContractEnded: columns.CONTRACT_END,
}  # fmt: skip
"""In which turn of a moment supply happens; what is not named here, as nodes do."""


class RecordedTwin(Twin):
    """A world in which everything but the places of jobs is as it was recorded."""

    def __init__(self, supply: Sequence[Supply], cast: Cast, end_ms: int) -> None:
        arrivals = [one.arrival for one in cast.jobs]
        faults = Faults(retries=FORGIVEN)
        super().__init__((), (), arrivals, faults=faults, horizon_ms=end_ms)
        self._played = cast.jobs
        self._pinned = [j for j, one in enumerate(cast.jobs) if one.pin is not None]
        self._pinned.reverse()
        self._spares = [event for event in supply if isinstance(event, ev.AskedSpare)]
        """Nodes that are to be spares, or not to be any more, in order."""
        self.over_milli = 0
        """Of what pinned jobs were seen to hold, how much others held by then."""
        for event in supply:
            if isinstance(event, ev.AskedSpare):
                self.agenda.push(columns.NODE_MOVE, 0, 0, ev.Woke(event.at_ms))
            else:
                self.agenda.push(_RANKS.get(type(event), columns.NODE_MOVE), 0, 0, event)
        for j, one in enumerate(cast.jobs):
            if one.cancel_ms is not None:
                self._push(one.cancel_ms, columns.JOB_END, j, ANY_ATTEMPT, _CANCELLED)

    def happen(self, inflow: Inflow, sheet: Sheet) -> bool:
        """All that happens at the next moment; whoever is pinned takes its place at once."""
        at_ms, before = self.next_ms(), len(sheet)
        assert at_ms is not None, "the story is over"
        super().happen(inflow, sheet)
        rows = sheet.view().events[before:]
        started = rows[rows[:, EventColumn.KIND] == _STARTED]
        for j, attempt in started[:, [EventColumn.WHO, EventColumn.ATTEMPT]].tolist():
            self._tell_news(inflow, sheet, j, attempt, at_ms)
        for event in chain(self._pins(inflow.world, at_ms), self._turned(inflow.world, at_ms)):
            _tell(inflow, sheet, event)  # before the next is seated: it may want the same devices
        return len(sheet) > before

    def _tell_news(self, inflow: Inflow, sheet: Sheet, j: int, attempt: int, at_ms: int) -> None:
        """What an attempt that came up just now tells of itself, now and later."""
        for event in retold.of_attempt(self._played[j], j, attempt, at_ms):
            if event.at_ms == at_ms:
                _tell(inflow, sheet, event)
            elif isinstance(event, ev.ActivitySeen):  # a row, which kernels tell
                self._push(event.at_ms, columns.ACTIVITY, j, attempt, _BUSY, event.busy_ppm)
            else:
                self.agenda.push(columns.ACTIVITY, j, attempt, event)
                self.forget_next()

    def _turned(self, world: World, at_ms: int) -> Iterator[ev.AskedSpare]:
        """Nodes that become spares now, or are put to use; the last word on each counts."""
        due = {one.node: one for one in self._spares if one.at_ms <= at_ms}
        for n, one in due.items():
            if not (one.is_spare and world.aboard[n]):
                self._spares = [o for o in self._spares if o.node != n or o.at_ms > at_ms]
                if world.nodes.is_spare[n] != one.is_spare:
                    yield ev.AskedSpare(at_ms, n, one.is_spare)

    def _pins(self, world: World, at_ms: int) -> Iterator[ev.Seen]:
        while self._pinned and self._played[self._pinned[-1]].arrival.at_ms <= at_ms:
            j = self._pinned.pop()
            one = self._played[j]
            assert one.pin is not None, "only those are kept"
            pieces, over_milli = _seated(world, j, one.pin.pieces)
            self.over_milli += over_milli
            yield ev.PlacementSeen(at_ms, j, 1, pieces, over_milli)
            if one.pin.up_ms is not None:
                self._push(max(at_ms, one.pin.up_ms), columns.JOB_START, j, 1, _STARTED)

    def _push(self, at_ms: int, rank: int, j: int, attempt: int, kind: int, value: int = 0) -> None:
        self.agenda.make_room(1)
        t = self.agenda.t
        heap.push(t.clock, t.entries, at_ms, rank, j, attempt, kind, value)
        self.forget_next()

    def _answer_all(self, world: World, plan: ev.Plan) -> None:
        """Attempts come up as they were seen to; whatever else is asked is the twin's to answer."""
        rest = list[ev.Action]()
        for action in plan.actions:
            if isinstance(action, ev.AskedPlace):
                j, attempt = action.job, action.attempt
                up_ms = world.now_ms + truths.startup_ms(self._played[j].seen, attempt)
                slow_ppm = self.slow_ppm(world, j)
                self._push(up_ms, columns.JOB_START, j, attempt, _STARTED, slow_ppm)
            else:
                rest.append(action)
        super()._answer_all(world, ev.Plan(rest))

    def _rare_due(self, world: World, entry: Entry, event: ev.Seen | None) -> ev.Seen | None:
        """Supply happens as it was recorded; nothing follows from it by chance."""
        if event is None or entry.rank == columns.ACTIVITY:
            return super()._rare_due(world, entry, event)
        if isinstance(event, ev.Woke):
            return None  # a spare turns: see ``_turned``
        if isinstance(event, ev.NodeMoved) and event.to is NodeState.DRAINING:
            self._warned.append(event.node)
        return event


def _tell(inflow: Inflow, sheet: Sheet, event: ev.Event) -> None:
    inflow.single(event)
    sheet.write([event])


def _seated(world: World, j: int, pieces: Sequence[Piece]) -> tuple[tuple[Piece, ...], int]:
    """The devices that a job was seen on, or others of the same nodes; and what finds none."""
    if _are_free(world, j, pieces):
        return tuple(pieces), 0
    shape = world.shape_of(j)
    if any(role.milli < WHOLE_MILLI for role in shape.roles):
        kept, over_milli = list[Piece](), 0
        for piece in pieces:
            if _are_free(world, j, (*kept, piece)):
                kept.append(piece)
            else:
                over_milli += piece.replicas * shape.roles[piece.role].replica_milli
        return tuple(kept), over_milli
    wanted = Counter[seats.Seat]()
    for piece in pieces:
        wanted[piece.role, piece.node] += piece.replicas
    return seats.pieces(world, j, wanted)


def _are_free(world: World, j: int, pieces: Sequence[Piece]) -> bool:
    """Whether a job may be seen on these pieces, together."""
    try:
        room.refuse_if_booked(world, j, world.shape_of(j).roles, tuple(pieces))
    except EventRefused:
        return False
    return True
