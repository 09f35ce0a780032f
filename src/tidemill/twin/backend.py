"""The twin as a backend: time passes, actions are answered with events.

Reads the World to know which of its own promises are stale; never writes it. Three sources are
merged by time: arrivals (streamed, so a million jobs are not in memory at once), the agenda of
everything that follows from something, and the wake that the last plan asked for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self, cast

from tidemill.engine.fold.batch import Inflow
from tidemill.engine.loop import Loop
from tidemill.model import events as ev
from tidemill.model.batch.convert import to_event, to_events
from tidemill.model.batch.sheet import Sheet, rows_of
from tidemill.model.errors import EventRefused, SpecError
from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import Contract, Job, Queue
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.topology import UNDECLARED, Topology
from tidemill.model.world import World
from tidemill.twin import fleet, generate
from tidemill.twin.arrivals import Arrival
from tidemill.twin.attempts import Attempts
from tidemill.twin.coming import Coming
from tidemill.twin.driving.driver import Driver
from tidemill.twin.event_queue import columns, lives
from tidemill.twin.event_queue.agenda import Agenda, Entry
from tidemill.twin.event_queue.columns import CLOCK, ENTRY, TRUTH
from tidemill.twin.faults import QUIET, Faults
from tidemill.twin.machines import Machines
from tidemill.twin.neighbours import Neighbours, Sharing
from tidemill.twin.spec.tables import Spec
from tidemill.twin.streams import Streams
from tidemill.twin.traces.trace import Trace

EVENTS_AT_LEAST = 64  # rows that kernels may tell in one call
Comes = Arrival | tuple[int, Job, int]


class Twin:
    """A world that answers. Equal arguments give equal answers to equal plans."""

    def __init__(  # noqa: PLR0913 - a world is made of this many things, each with a default
        self,
        contracts: Sequence[Contract],
        queues: Sequence[Queue],
        arrivals: Iterable[Comes],
        *,
        faults: Faults = QUIET,
        topology: Topology = UNDECLARED,
        nodes_per: Mapping[str, Mapping[str, int]] | None = None,
        horizon_ms: int = FOREVER_MS,
        seed: int = 0,
        sharing: Sharing = "time-slice",
    ) -> None:
        if faults.never_end and horizon_ms >= FOREVER_MS:
            raise SpecError(
                "a twin with faults needs a horizon; found none",
                hint="faults never run out: give `horizon_ms`, or a `horizon` in the file",
            )
        streams = Streams(seed)
        self.horizon_ms = horizon_ms
        self.agenda = Agenda()
        self._machines = Machines(contracts, faults, streams, self.agenda, nodes_per or {})
        neighbours = Neighbours(sharing)
        self._attempts = Attempts(faults, streams, self.agenda, neighbours)
        self._coming = Coming(_in_order(arrivals), self.agenda, neighbours)
        self.dictionary = self._coming.dictionary
        """What jobs name by number: their shapes and users."""
        self._told = Sheet(self.dictionary)
        self.agenda.t.clock[CLOCK.WAKE_MS] = FOREVER_MS
        self._next_ms = -1
        """The next moment, where it was asked for already; -1: it may be another."""
        self._warned: list[int] = []
        """Nodes that were announced to be taken, at this moment."""
        if topology.tiers:
            self.agenda.push(columns.SIGNED, 0, 0, ev.TopologySet(0, topology))
        self._open(contracts, queues)

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """The world that a file describes."""
        return cls(
            [fleet.contract(row) for row in spec.contracts],
            fleet.queues(spec),
            generate.stream(spec),
            faults=fleet.faults(spec.faults),
            topology=fleet.topology(spec),
            nodes_per=fleet.nodes_per(spec),
            horizon_ms=int(spec.twin.horizon),
            seed=spec.twin.seed,
            sharing=spec.twin.sharing,
        )

    @classmethod
    def from_trace(cls, trace: Trace, *, faults: Faults | None = None, seed: int = 0) -> Self:
        """The world that a trace recorded; faults may be those of the trace or others."""
        if not trace.contracts:
            raise SpecError(
                f"trace `{trace.name}` has no fleet and no jobs to run",
                hint="run its faults with another one: Twin.from_trace(jobs, faults=this.faults)",
            )
        return cls(
            trace.contracts,
            trace.queues,
            trace.arrivals,
            faults=trace.faults if faults is None else faults,
            horizon_ms=trace.horizon_ms,
            seed=seed,
        )

    def next_ms(self) -> int | None:
        """When something happens next; None when the story is over."""
        if self._next_ms < 0:
            wake_ms, came_ms = self.agenda.t.clock.item(CLOCK.WAKE_MS), self._coming.next_ms
            self._next_ms = min(self.agenda.next_ms, wake_ms, came_ms)
        at_ms = self._next_ms
        return at_ms if at_ms <= self.horizon_ms and at_ms < FOREVER_MS else None

    def take(self, world: World) -> list[ev.Seen]:
        """All that happens at the next moment; empty when all of it turned out to be stale."""
        self._told.clear()
        self._tell(world, self._told, None)
        seen = cast(list[ev.Seen], to_events(self._told.view()))
        self._attempts.neighbours.note(world, seen)
        return seen

    def happen(self, inflow: Inflow, sheet: Sheet) -> bool:
        """As ``take``, but folded on the way and noted on a sheet; whether anything happened."""
        before = len(sheet)
        if not self._attempts.neighbours.are_any:
            self._tell(inflow.world, sheet, inflow)
        else:
            for event in self.take(inflow.world):
                inflow.single(event)
                sheet.write([event])
        return len(sheet) > before

    def _tell(self, world: World, sheet: Sheet, inflow: Inflow | None) -> None:
        """Tell what happens at the next moment; folded on the way, if there is an inflow."""
        at_ms = self.next_ms()
        assert at_ms is not None, "the simulation is over; call next_ms first"
        self._next_ms = -1
        clock, before = self.agenda.t.clock, len(sheet)
        lives.begin_moment(clock, at_ms)
        while code := self._happen(world, at_ms, sheet, inflow):
            self.tell_rare(world, code, sheet, inflow)
        if clock[CLOCK.WOKE] and len(sheet) == before:
            _note(ev.Woke(at_ms), sheet, inflow)

    def _happen(self, world: World, at_ms: int, sheet: Sheet, inflow: Inflow | None) -> int:
        """Let kernels tell as much as they can; why they came back (0: the moment is over)."""
        agenda, coming, before = self.agenda, self._coming, len(sheet)
        agenda.make_room(len(agenda) + 2)  # an attempt that comes up pushes two
        assert sheet.dictionary is coming.dictionary, "jobs are written by number"
        events, _ = sheet.room(EVENTS_AT_LEAST)
        agenda.renew(events=events)
        t, clock = agenda.t, agenda.t.clock
        clock[CLOCK.EVENTS] = clock[CLOCK.FOLDED] = before
        clock[CLOCK.FIRST] = clock[CLOCK.CAME] - sheet.job_count
        if inflow is None:
            code = int(lives.happen(world.matrices, t, at_ms, 0))
        else:
            self.foresee(inflow)
            code = int(lives.happen(inflow.ready(t.counts), t, at_ms, 1))
            inflow.done(t.counts, clock.item(CLOCK.FOLDED) - before, at_ms)
        sheet.wrote(clock.item(CLOCK.EVENTS), sheet.piece_count, *self.came(sheet))
        return code

    # For a driver ------------------------------------------------------------------------------

    def driver(self, loop: Loop) -> Driver:
        """Who makes many beats of this twin at once."""
        return Driver(self, loop)

    @property
    def has_neighbours(self) -> bool:
        """Whether jobs share devices, and slow each other."""
        return self._attempts.neighbours.are_any

    @property
    def has_followers(self) -> bool:
        """Whether something follows, after the next plan, from what was told at this moment."""
        return bool(self._warned) or self._attempts.has_followers

    def foresee(self, inflow: Inflow) -> None:
        """Have the rows of jobs that come next written ahead."""
        coming = self._coming
        inflow.foresee(coming.first, coming.jobs, coming.names, coming.dictionary)

    def came(self, sheet: Sheet) -> tuple[I64, list[str]]:
        """The rows and names of jobs that kernels submitted since a sheet was last written on."""
        clock, coming = self.agenda.t.clock, self._coming
        first = clock.item(CLOCK.FIRST) + sheet.job_count - coming.first
        end = clock.item(CLOCK.CAME) - coming.first
        return coming.jobs[first:end], coming.names[first:end]

    def read_on(self) -> None:
        """Read more of the jobs that come."""
        self._coming.read()

    def forget_next(self) -> None:
        """The next moment may be another by now."""
        self._next_ms = -1

    def tell_rare(self, world: World, code: int, sheet: Sheet, inflow: Inflow | None) -> None:
        """What kernels could not tell, or fold, at this moment."""
        if code == lives.READ_ON:
            self._coming.read()
        elif code == lives.SINGLE:
            self._fold_one(sheet, inflow)
        elif code == lives.RARE:
            _note(self._rare_due(world, *self.agenda.pop()), sheet, inflow)

    @property
    def declares_next(self) -> bool:
        """Whether a team or a contract, or the tiers, are declared next: all are at the start."""
        entries = self.agenda.t.entries
        return len(self.agenda) > 0 and entries.item(0, ENTRY.RANK) == columns.SIGNED

    def is_rare_next(self, now_ms: int) -> bool:
        """Whether what happens next, still at this moment, is what kernels do not tell."""
        return len(self.agenda) > 0 and bool(lives.is_rare(self.agenda.t.entries, now_ms))

    def is_over(self, now_ms: int) -> bool:
        """Whether nothing else happens at this moment."""
        return self.agenda.next_ms > now_ms and self._coming.next_ms > now_ms

    def is_rare_soon(self) -> bool:
        """Whether what happens next, whenever that is, is what kernels do not tell."""
        entries, coming_ms = self.agenda.t.entries, self._coming.next_ms
        at_ms = self.agenda.next_ms
        return at_ms < coming_ms and bool(lives.is_rare(entries, at_ms))

    def _fold_one(self, sheet: Sheet, inflow: Inflow | None) -> None:
        """Fold the last event by itself, as kernels could not; one that is refused is not told."""
        clock = self.agenda.t.clock
        assert inflow is not None, "what is not folded is told to the end"
        assert clock[CLOCK.FOLDED] == len(sheet) - 1, "a start, which kernels fold, tells two"
        try:
            inflow.single(to_event(sheet.view(), len(sheet) - 1))
        except EventRefused:
            sheet.drop()
            raise

    def carry_out(self, world: World, plan: ev.Plan) -> None:
        """Schedule the answers to a plan whose actions were folded into this World."""
        self._next_ms = -1
        self._attempts.start_moved(world)
        self._attempts.go_on_saved(world)
        for n in self._warned:
            self._attempts.warn(world, n, int(world.nodes.deadline_ms[n]))
        self._warned.clear()
        self._answer_all(world, plan)
        self._attempts.tell_paces(world)
        lives.wake(self.agenda.t.clock, plan.wake_at_ms, self.horizon_ms, world.now_ms)

    def slow_ppm(self, world: World, j: int) -> int:
        """How much longer the steps of a job take where it was put than at the best place."""
        is_slowed = world.topology.tiers and self.agenda.t.truths[j, TRUTH.TALKS]
        return self._attempts.slow_ppm(world, j) if is_slowed else 0

    def _answer_all(self, world: World, plan: ev.Plan) -> None:
        """Let kernels push what follows, and do what is rare by itself, in order."""
        asked, i = rows_of(plan).events, 0
        if not len(asked):
            return
        self.agenda.renew(asked=asked)
        self.agenda.t.clock[CLOCK.ASKED] = len(asked)
        jobs, tiers = world.matrices.jobs, len(world.topology.tiers)
        while True:
            self.agenda.make_room(len(asked))
            i = lives.carry_out(jobs, self.agenda.t, i, tiers, world.now_ms)
            if i >= len(asked):
                return
            self.answer(world, plan.actions[i])
            i += 1

    def _open(self, contracts: Sequence[Contract], queues: Sequence[Queue]) -> None:
        """The first page: contracts and teams; and the last: somebody looks at the clock."""
        for c, row in enumerate(contracts):
            self.agenda.push(columns.SIGNED, c, 0, ev.ContractSigned(0, row))
            start = ev.ContractStarted(row.start_ms, c)
            self.agenda.push(columns.CONTRACT_START, c, 0, start)
            if row.end_ms < FOREVER_MS:
                self.agenda.push(columns.CONTRACT_END, c, 0, ev.ContractEnded(row.end_ms, c))
        for q, queue in enumerate(queues):
            self.agenda.push(columns.SIGNED, q, 0, ev.QueueSet(0, queue))
        if self.horizon_ms < FOREVER_MS:
            self.agenda.push(columns.HORIZON, 0, 0, ev.Woke(self.horizon_ms))

    def _rare_due(self, world: World, entry: Entry, event: ev.Seen | None) -> ev.Seen | None:
        """What is due and has more to say than a row; None: it was stale."""
        if event is None:
            return self._attempts.end_due(world, entry)
        rank, subject, stamp = entry.rank, entry.who, entry.stamp
        if rank == columns.ACTIVITY:
            return self._attempts.news_due(world, entry, event)
        if rank in (columns.NODE_ADD, columns.NODE_MOVE):
            return self._machine_due(subject, stamp, event)
        if rank == columns.FAULT:
            assert isinstance(event, ev.NodeMoved)
            return self._machines.fault_due(stamp, event)
        if rank == columns.CONTRACT_START:
            self._machines.contract_started(subject)
        elif rank == columns.CONTRACT_END:
            self._machines.contract_ended(subject)
        return event

    def _machine_due(self, n: int, epoch: int, event: ev.Seen) -> ev.Seen | None:
        """What happens to a node; one that is going to be taken warns its jobs."""
        found = self._machines.due(n, epoch, event)
        if isinstance(found, ev.NodeMoved) and found.to is NodeState.DRAINING:
            self._warned.append(n)
        return found

    def answer(self, world: World, action: ev.Action) -> None:
        """Schedule what follows from an action that kernels do not answer."""
        now_ms = world.now_ms
        match action:
            case ev.AskedPlace(job=j, attempt=attempt):
                self._attempts.place(world, j, attempt)
            case ev.AskedLaunch(contract=c, nodes=count):
                self._machines.launch(c, count, now_ms)
            case ev.AskedRepair(node=n):
                self._machines.repair(n, now_ms)
            case ev.AskedReturn(node=n):
                self._machines.give_back(n, now_ms)
            case ev.AskedDrain(node=n, deadline_ms=deadline_ms):
                self._machines.drain(n)
                self._attempts.warn(world, n, deadline_ms)
            case ev.AskedSpare(node=n, is_spare=is_spare):
                self._machines.set_spare(n, is_spare)
            case _:
                raise AssertionError(f"kernels answer {action}")


def _note(event: ev.Seen | None, sheet: Sheet, inflow: Inflow | None) -> None:
    """Fold one event by itself, if there is an inflow, and note it; None: it was stale."""
    if event is not None:
        if inflow is not None:
            inflow.single(event)
        sheet.write([event])


def _in_order(arrivals: Iterable[Comes]) -> Iterator[Arrival]:
    """Arrivals by time: a list is sorted, a stream must come sorted."""
    if isinstance(arrivals, Sequence):
        arrivals = sorted(arrivals, key=lambda coming: coming[0])
    last_ms = 0
    for coming in arrivals:
        arrival = coming if isinstance(coming, Arrival) else Arrival(*coming)
        if arrival.at_ms < last_ms:
            raise SpecError(
                f"job `{arrival.job.name}` arrives at {arrival.at_ms} ms,"
                f" after one at {last_ms} ms",
                hint="a stream of arrivals must be sorted by time; a list is sorted for you",
            )
        last_ms = arrival.at_ms
        yield arrival
