"""One plan for a made-up node and two jobs, before anybody waits for a plan.

The first plan on a machine compiles what decides, which takes a minute or more. Whoever holds the
Lease meanwhile would lose it, so it is done before.
"""

from collections.abc import Sequence

from tidemill.engine.loop import Loop
from tidemill.live.kubernetes.scheduling.differ import FleetRules
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Job, Node, Queue, Role, Shape, Template
from tidemill.model.states import NodeState
from tidemill.model.topology import Bond
from tidemill.model.world import World


class _MadeUp:
    """A cluster of one node, in which one thing happens."""

    def __init__(self, happens: Sequence[ev.Seen]) -> None:
        self._happens = happens

    def next_ms(self) -> int | None:
        return 0

    def take(self, world: World) -> Sequence[ev.Seen]:  # noqa: ARG002 - as the loop calls it
        return self._happens

    def carry_out(self, world: World, plan: ev.Plan) -> None:
        """Nothing is sent."""


def rehearse(policy: Policy, fleet: FleetRules) -> int:
    """Plan once; how many actions the plan had."""
    labels = tuple((tier.label, "x") for tier in fleet.topology.tiers if tier.label)
    node = Template(8, 64_000, 512 << 10)
    tied = tuple(Bond(tier.name, 0) for tier in fleet.topology.tiers[:1] if tier.label)
    gang = Shape("made up", (Role("worker", 2, 2),), bonds=tied)
    happens: list[ev.Seen] = [ev.TopologySet(0, fleet.topology)] if labels else []
    happens += [
        ev.ContractSigned(0, Contract("made up", "made up", "GPU", 8, 0, node)),
        ev.QueueSet(0, Queue("made up")), ev.ContractStarted(0, 0),
        ev.NodeAdded(0, Node("made up", "made up", labels)),
        ev.NodeMoved(0, 0, NodeState.BOOTING, deadline_ms=FOREVER_MS),
        ev.NodeMoved(0, 0, NodeState.READY, deadline_ms=FOREVER_MS),
        ev.JobSubmitted(0, Job("single", Shape("made up", (Role(),)))),
        ev.JobSubmitted(0, Job("gang", gang)),
        ev.JobSubmitted(0, Job("large", Shape("made up", (Role("worker", 4, 8),)))),
    ]  # fmt: skip
    plan = Loop(World(), policy, _MadeUp(happens), None).beat(0)
    assert plan is not None, "something happened"
    return len(plan.actions)
