"""The lives of the twin's nodes: launched, booting, ready, broken, repaired, taken back.

Every move schedules the next one. A machine counts its moves in an epoch; an entry that was meant
for another epoch is stale, so a fault drawn for a node that has left meanwhile never happens.
"""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

import numpy as np

from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS
from tidemill.model.rows import Contract, Node
from tidemill.model.states import NodeState
from tidemill.reservation import types
from tidemill.twin.event_queue import columns
from tidemill.twin.event_queue.agenda import Agenda
from tidemill.twin.faults import Delay, Faults
from tidemill.twin.streams import Streams


class LaunchedContract:
    """A contract and what is launched under it."""

    __slots__ = (
        "alive",
        "hidden",
        "is_running",
        "made",
        "nodes",
        "nodes_per",
        "places",
        "row",
        "spares",
    )

    def __init__(self, row: Contract, nodes_per: Mapping[str, int]) -> None:
        self.row = row
        self.nodes = row.count // row.node.devices
        self.nodes_per = nodes_per
        self.places = list(range(self.nodes))
        """Places where no machine stands, the first one first: a heap."""
        self.is_running = False
        working = row.node.devices - row.node.unadvertised
        self.hidden = (1 << row.node.devices) - (1 << working)
        """Of each of its nodes the devices that are not advertised, as a mask."""
        self.made = 0
        self.alive = 0
        self.spares = 0


class SimulatedNode:
    """One node: where it is in its life, and which of its devices are broken."""

    __slots__ = (
        "broken", "claim", "draws", "epoch", "is_spare", "number", "place", "serial", "state",
    )  # fmt: skip

    def __init__(self, number: int, claim: LaunchedContract, is_spare: bool) -> None:
        self.number = number
        self.claim = claim
        self.serial = claim.made
        self.place = heappop(claim.places)
        self.is_spare = is_spare
        self.state = NodeState.ASKED
        self.epoch = 0
        self.broken = claim.hidden
        self.draws = 0


class Machines:
    """All nodes of all contracts."""

    def __init__(
        self,
        contracts: Sequence[Contract],
        faults: Faults,
        streams: Streams,
        schedule: Agenda,
        nodes_per: Mapping[str, Mapping[str, int]],
    ) -> None:
        self.claims = [LaunchedContract(row, nodes_per.get(row.name, {})) for row in contracts]
        self._machines: list[SimulatedNode] = []
        self._faults = faults
        self._streams = streams
        self._agenda = schedule
        self._repairs_ms: dict[int, int] = {}
        for number, fault in enumerate(faults.schedule):
            event = ev.NodeMoved(fault.at_ms, fault.node, NodeState.UNHEALTHY, ev.Why.NODE_LOST)
            schedule.push(columns.FAULT, fault.node, number, event)

    # what is asked of them -------------------------------------------------------------------

    def launch(self, c: int, wanted: int, now_ms: int) -> None:
        """Add nodes, as far as the contract pays for them, and let them boot."""
        claim = self.claims[c]
        room = claim.nodes - claim.alive if claim.is_running else 0
        for _ in range(min(wanted, room)):
            machine = self._made(claim)
            node = ev.NodeAdded(now_ms, _node_row(machine))
            self._agenda.push(columns.NODE_ADD, machine.number, 0, node)
            self._move(machine, now_ms, NodeState.BOOTING)

    def drain(self, n: int) -> None:
        """The node takes no new work: what was drawn for it while it was ready is void."""
        self._machines[n].state = NodeState.DRAINING
        self._machines[n].epoch += 1

    def repair(self, n: int, now_ms: int) -> None:
        """Send the node to be repaired; what was scheduled for it before is void."""
        machine = self._machines[n]
        machine.epoch += 1
        self._move(machine, now_ms, NodeState.REPAIRING)

    def give_back(self, n: int, now_ms: int) -> None:
        """Return the node to the provider."""
        machine = self._machines[n]
        machine.epoch += 1
        self._move(machine, now_ms, NodeState.GONE, ev.Why.SURPLUS)

    def set_spare(self, n: int, is_spare: bool) -> None:
        """Count the node among the spares, or not."""
        machine = self._machines[n]
        machine.claim.spares += is_spare - machine.is_spare
        machine.is_spare = is_spare

    # what happens to them --------------------------------------------------------------------

    def contract_started(self, c: int) -> None:
        """Nodes may be launched from now on."""
        self.claims[c].is_running = True

    def contract_ended(self, c: int) -> None:
        """The nodes are gone; the event of the end says so for all of them."""
        claim = self.claims[c]
        claim.is_running = False
        for machine in self._machines:
            if machine.claim is claim and machine.state is not NodeState.GONE:
                self._gone(machine)

    def fault_due(self, number: int, event: ev.NodeMoved) -> ev.Seen | None:
        """A fault that was known beforehand; it happens if the node is there to have it."""
        n = event.node
        if n >= len(self._machines) or self._machines[n].state is not NodeState.READY:
            return None
        self._repairs_ms[n] = self._faults.schedule[number].repair_ms
        self._machines[n].epoch += 1
        self._moved(self._machines[n], event)
        return event

    def due(self, n: int, epoch: int, event: ev.Seen) -> ev.Seen | None:
        """The event, if it is still meant; and what follows from it is scheduled."""
        machine = self._machines[n]
        if isinstance(event, ev.NodeAdded):
            return event
        if machine.epoch != epoch:
            return None
        machine.epoch += 1
        if isinstance(event, ev.DeviceFailed):
            machine.broken |= 1 << event.device
            self._wind_clocks(machine, event.at_ms)
        elif isinstance(event, ev.NodeMoved):
            self._moved(machine, event)
        return event

    # private ---------------------------------------------------------------------------------

    def _made(self, claim: LaunchedContract) -> SimulatedNode:
        is_spare = claim.alive - claim.spares >= claim.nodes - claim.row.spares
        claim.made += 1
        claim.alive += 1
        claim.spares += is_spare
        machine = SimulatedNode(len(self._machines), claim, is_spare)
        self._machines.append(machine)
        return machine

    def _moved(self, machine: SimulatedNode, event: ev.NodeMoved) -> None:
        machine.state, now_ms = event.to, event.at_ms
        match event.to:
            case NodeState.BOOTING:
                machine.broken = machine.claim.hidden
                boot_ms = self._drawn_ms(machine, "boot", self._faults.boot)
                self._move(machine, now_ms + boot_ms, NodeState.READY)
            case NodeState.READY:
                self._wind_clocks(machine, now_ms)
            case NodeState.REPAIRING:
                repair_ms = self._repairs_ms.pop(machine.number, None)
                if repair_ms is None:
                    repair_ms = self._drawn_ms(machine, "repair", self._faults.repair)
                self._move(machine, now_ms + repair_ms, NodeState.BOOTING, ev.Why.REPAIRED)
            case NodeState.CORDONED:
                stay_ms = self._drawn_ms(machine, "maintenance", self._faults.maintenance)
                self._move(machine, now_ms + stay_ms, NodeState.READY)
            case NodeState.DRAINING:
                self._move(machine, event.deadline_ms, NodeState.GONE, event.why)
            case NodeState.GONE:
                self._gone(machine)
            case _:
                pass  # an unhealthy node waits until somebody asks for its repair

    def _move(
        self, machine: SimulatedNode, at_ms: int, to: NodeState, why: ev.Why = ev.Why.UNSAID
    ) -> None:
        event = ev.NodeMoved(at_ms, machine.number, to, why)
        self._agenda.push(columns.NODE_MOVE, machine.number, machine.epoch, event)

    def _gone(self, machine: SimulatedNode) -> None:
        machine.state = NodeState.GONE
        machine.epoch += 1
        machine.claim.alive -= 1
        machine.claim.spares -= machine.is_spare
        heappush(machine.claim.places, machine.place)

    def _wind_clocks(self, machine: SimulatedNode, now_ms: int) -> None:
        """Draw what would happen to a ready node; the first to come voids the others."""
        faults, n = self._faults, machine.number
        if faults.node_rate:
            luck = self._luck(machine, "faults")
            at_ms = now_ms + _waiting_ms(luck, faults.node_rate)
            self._schedule(machine, _fault(machine, at_ms, luck, faults.device_share))
        if faults.maintenance_rate:
            at_ms = now_ms + _waiting_ms(self._luck(machine, "cordons"), faults.maintenance_rate)
            moved = ev.NodeMoved(at_ms, n, NodeState.CORDONED, ev.Why.MAINTENANCE)
            self._schedule(machine, moved)
        if faults.reclaim_rate and types.of(machine.claim.row).is_reclaimable:
            at_ms = now_ms + _waiting_ms(self._luck(machine, "reclaims"), faults.reclaim_rate)
            until_ms = at_ms + faults.notice_ms
            moved = ev.NodeMoved(at_ms, n, NodeState.DRAINING, ev.Why.SPOT_RECLAIM, until_ms)
            self._schedule(machine, moved)

    def _schedule(self, machine: SimulatedNode, event: ev.Seen) -> None:
        self._agenda.push(columns.NODE_MOVE, machine.number, machine.epoch, event)

    def _drawn_ms(self, machine: SimulatedNode, purpose: str, delay: Delay) -> int:
        return delay.at_quantile(self._luck(machine, purpose).random())

    def _luck(self, machine: SimulatedNode, purpose: str) -> np.random.Generator:
        machine.draws += 1
        name = f"{purpose}/{machine.claim.row.name}"
        return self._streams.of(name, machine.serial, machine.draws)


def _node_row(machine: SimulatedNode) -> Node:
    claim, name = machine.claim, machine.claim.row.name
    labels = tuple(
        (label, f"{name}-{machine.place // size + 1:03d}")
        for label, size in claim.nodes_per.items()
    )
    return Node(f"{name}-{machine.serial:04d}", name, labels, machine.is_spare)


def _fault(
    machine: SimulatedNode, at_ms: int, luck: np.random.Generator, device_share: float
) -> ev.Seen:
    """A device fails alone if that is what luck says and one still works beside it."""
    well = [d for d in range(machine.claim.row.node.devices) if not machine.broken >> d & 1]
    if luck.random() < device_share and len(well) > 1:
        return ev.DeviceFailed(at_ms, machine.number, well[int(luck.integers(len(well)))])
    return ev.NodeMoved(at_ms, machine.number, NodeState.UNHEALTHY, ev.Why.NODE_LOST)


def _waiting_ms(luck: np.random.Generator, rate: float) -> int:
    """Time to the next event of a memoryless process with this rate per 1,000 node-days."""
    return 1 + int(luck.exponential(1000 * DAY_MS / rate))
