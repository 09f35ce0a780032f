"""The twin as a backend: time passes, actions are answered with events.

Reads the World to know which of its own promises are stale; never writes it. Three sources are
merged by time: arrivals (streamed, so a million jobs are not in memory at once), the agenda of
everything that follows from something, and the wake that the last plan asked for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self, assert_never

from tidemill.engine.layout import Before
from tidemill.engine.story import Story
from tidemill.model import events as ev
from tidemill.model.errors import SpecError
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Job, Queue
from tidemill.model.states import NodeState
from tidemill.model.topology import UNDECLARED, Topology
from tidemill.model.world import World
from tidemill.scheduling.memo import Memo
from tidemill.twin import agenda, fleet, generate, stretch
from tidemill.twin.agenda import Agenda, Entry
from tidemill.twin.arrivals import Arrival
from tidemill.twin.attempts import Attempts
from tidemill.twin.faults import QUIET, Faults
from tidemill.twin.machines import Machines
from tidemill.twin.neighbours import Sharing
from tidemill.twin.spec_tables import Spec
from tidemill.twin.streams import Streams
from tidemill.twin.stretch import Coming
from tidemill.twin.traces.trace import Trace

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
        self._horizon_ms = horizon_ms
        self._agenda = Agenda()
        self._machines = Machines(contracts, faults, streams, self._agenda, nodes_per or {})
        self._attempts = Attempts(faults, streams, self._agenda, sharing)
        self._coming = Coming(_in_order(arrivals))
        self._wake_ms = FOREVER_MS
        self._warned: list[int] = []
        """Nodes that were announced to be taken, at this moment."""
        if topology.tiers:
            self._agenda.push(agenda.SIGNED, 0, 0, ev.TopologySet(0, topology))
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
        at_ms = min(self._agenda.next_ms, self._wake_ms)
        coming = self._coming.first()
        if coming is not None and coming.at_ms < at_ms:
            at_ms = coming.at_ms
        return at_ms if at_ms <= self._horizon_ms and at_ms < FOREVER_MS else None

    def take(self, world: World) -> list[ev.Seen]:
        """All that happens at the next moment; empty when all of it turned out to be stale."""
        at_ms = self.next_ms()
        assert at_ms is not None, "the simulation is over; call next_ms first"
        self._attempts.new_batch()
        seen: list[ev.Seen] = []
        is_clock = self._wake_ms == at_ms
        while entry := self._agenda.due(at_ms):
            if entry[1] == agenda.CLOCK:
                is_clock = True
            else:
                self._happen(world, entry, seen)
        while (coming := self._coming.first()) is not None and coming.at_ms == at_ms:
            seen.append(self._attempts.submit(self._coming.take()))
        if self._wake_ms <= at_ms:
            self._wake_ms = FOREVER_MS
        self._attempts.neighbours.note(world, seen)
        return seen if seen or not is_clock else [ev.Woke(at_ms)]

    def stretch(
        self, world: World, policy: Policy, memo: Memo, until_ms: int
    ) -> tuple[Before, Story] | None:
        """Many beats at once, up to a moment at most; None: there is more than plain jobs now."""
        until_ms = min(until_ms, self._wake_ms)
        return stretch.run(
            world, policy, memo, self._coming, self._attempts, self._agenda, until_ms
        )

    def carry_out(self, world: World, plan: ev.Plan) -> None:
        """Schedule the answers to a plan whose actions were folded into this World."""
        self._attempts.start_moved(world)
        self._attempts.go_on_saved(world)
        for n in self._warned:
            self._attempts.warn(world, n, int(world.nodes.deadline_ms[n]))
        self._warned.clear()
        for action in plan.actions:
            self._answer(world, action)
        self._attempts.tell_paces(world)
        wake_ms = max(plan.wake_at_ms, world.now_ms)
        if wake_ms < self._wake_ms and wake_ms < self._horizon_ms:
            self._wake_ms = wake_ms

    def _open(self, contracts: Sequence[Contract], queues: Sequence[Queue]) -> None:
        """The first page: contracts and teams; and the last: somebody looks at the clock."""
        for c, row in enumerate(contracts):
            self._agenda.push(agenda.SIGNED, c, 0, ev.ContractSigned(0, row))
            start = ev.ContractStarted(row.start_ms, c)
            self._agenda.push(agenda.CONTRACT_START, c, 0, start)
            if row.end_ms < FOREVER_MS:
                self._agenda.push(agenda.CONTRACT_END, c, 0, ev.ContractEnded(row.end_ms, c))
        for q, queue in enumerate(queues):
            self._agenda.push(agenda.SIGNED, q, 0, ev.QueueSet(0, queue))
        if self._horizon_ms < FOREVER_MS:
            self._agenda.push(agenda.CLOCK, 0, 0, ev.Woke(self._horizon_ms))

    def _happen(self, world: World, entry: Entry, seen: list[ev.Seen]) -> None:
        _, rank, _, subject, stamp, event = entry
        found: ev.Seen | None = event
        if rank == agenda.JOB_START:
            seen += self._attempts.start_due(world, subject, stamp, event)
            return
        if rank == agenda.JOB_END:
            found = self._attempts.end_due(world, subject, stamp, event)
        elif rank == agenda.ACTIVITY:
            found = self._attempts.news_due(world, subject, stamp, event)
        elif rank in (agenda.NODE_ADD, agenda.NODE_MOVE):
            found = self._machine_due(subject, stamp, event)
        elif rank == agenda.FAULT:
            assert isinstance(event, ev.NodeMoved)
            found = self._machines.fault_due(stamp, event)
        elif rank == agenda.CONTRACT_START:
            self._machines.contract_started(subject)
        elif rank == agenda.CONTRACT_END:
            self._machines.contract_ended(subject)
        if found is not None:
            seen.append(found)

    def _machine_due(self, n: int, epoch: int, event: ev.Seen) -> ev.Seen | None:
        """What happens to a node; one that is going to be taken warns its jobs."""
        found = self._machines.due(n, epoch, event)
        if isinstance(found, ev.NodeMoved) and found.to is NodeState.DRAINING:
            self._warned.append(n)
        return found

    def _answer(self, world: World, action: ev.Action) -> None:  # noqa: C901 - one case a kind
        now_ms = world.now_ms
        match action:
            case ev.AskedPlace(job=j, attempt=attempt):
                self._attempts.place(world, j, attempt)
            case ev.AskedEvict(job=j, attempt=attempt):
                self._attempts.evict(j, attempt, now_ms)
            case ev.AskedMove(job=j, attempt=attempt):
                self._attempts.move(j, attempt, now_ms)
            case ev.AskedCancel(job=j):
                self._attempts.cancel(j, now_ms)
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
            case ev.SaidWhy() | ev.SaidHalfLife() | ev.SaidMix():
                pass
            case ev.AskedRelease() | ev.JobPassed():
                pass
            case _ as never:
                assert_never(never)


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
