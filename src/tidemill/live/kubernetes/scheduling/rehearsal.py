"""Plans for a made-up fleet of two nodes, before anybody waits for a plan.

The first plan on a machine compiles what decides, which takes a minute or more, and whatever is
first needed later is compiled then. Whoever holds the Lease meanwhile would lose it, and pods that
come meanwhile are planned all at once, which packs them worse: so all that pods can ask for is
asked for before. Nodes are filled, jobs that do not fit are kept room for, and one of a higher
priority looks for whom to stop.
"""

from collections.abc import Iterator, Sequence

from tidemill.engine.loop import Loop
from tidemill.live.kubernetes.scheduling.differ import FleetRules
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS, HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Job, Node, Queue, Role, Shape, Template
from tidemill.model.states import JobState, NodeState
from tidemill.model.topology import Bond
from tidemill.model.world import World

TEAM = "made up"
APART_MS = 2 * HOUR_MS
"""Between two plans: whoever runs by then may be stopped."""


class _MadeUp:
    """A fleet in which something happens before each plan; what was placed comes up at once."""

    def __init__(self, happens: Sequence[Sequence[ev.Seen]]) -> None:
        self._happens = iter(happens)
        self.now_ms = -APART_MS

    def next_ms(self) -> int:
        self.now_ms += APART_MS
        return self.now_ms

    def take(self, world: World) -> Sequence[ev.Seen]:
        came = [
            ev.JobStarted(self.now_ms, j, world.jobs.attempt.item(j))
            for j in world.placements
            if world.jobs.state.item(j) == JobState.STARTING
        ]
        return [*came, *next(self._happens)]

    def carry_out(self, world: World, plan: ev.Plan) -> None:
        """Nothing is sent."""


def rehearse(policy: Policy, fleet: FleetRules) -> None:
    """Plan some times."""
    first, *later = _jobs(fleet)
    happens = [[*_nodes(fleet), *first], *later]
    made_up = _MadeUp(happens)
    loop = Loop(World(), policy, made_up, None)
    for _ in happens:
        loop.beat(made_up.next_ms())


def _nodes(fleet: FleetRules) -> Iterator[ev.Seen]:
    labels = tuple((tier.label, "x") for tier in fleet.topology.tiers if tier.label)
    if labels:
        yield ev.TopologySet(0, fleet.topology)
    size = Template(8, 64_000, 512 << 10)
    yield ev.ContractSigned(0, Contract(TEAM, TEAM, "GPU", 16, 0, size))
    yield ev.QueueSet(0, Queue(TEAM))
    yield ev.ContractStarted(0, 0)
    for n in range(2):
        yield ev.NodeAdded(0, Node(f"{TEAM} {n}", TEAM, labels))
        yield ev.NodeMoved(0, n, NodeState.BOOTING, deadline_ms=FOREVER_MS)
        yield ev.NodeMoved(0, n, NodeState.READY, deadline_ms=FOREVER_MS)


def _jobs(fleet: FleetRules) -> Iterator[list[ev.Seen]]:
    """What comes before each plan."""
    tied = tuple(Bond(tier.name, 0) for tier in fleet.topology.tiers[:1] if tier.label)
    few = [Shape(TEAM, (Role(cpu_milli=1000, memory_mib=1024),)), Shape(TEAM, (Role(),)),
           Shape(TEAM, (Role(accelerators=0, cpu_milli=500),)),
           Shape(TEAM, (Role("worker", 2, 2),), bonds=tied)]  # fmt: skip
    large = [Shape(TEAM, (role,)) for role in (
        Role("worker", 4, 8), Role("worker", 1, 8), Role(accelerators=2), Role("worker", 2, 4)
    )]  # fmt: skip
    urgent = [Shape(TEAM, (Role(accelerators=8),), priority=10),
              Shape(TEAM, (Role("worker", 2, 4),), priority=10)]  # fmt: skip
    for i, (shapes, times) in enumerate(((few, 2), (large, 1), (few, 4), (urgent, 1), (few, 1))):
        yield [ev.JobSubmitted(i * APART_MS, Job(f"{i} {k} {t}", shape))
               for t in range(times) for k, shape in enumerate(shapes)]  # fmt: skip
