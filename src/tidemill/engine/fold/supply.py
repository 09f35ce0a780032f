"""Folding what happens to supply: contracts, nodes, devices."""

from typing import NoReturn

import numpy as np

from tidemill.engine.fold import jobs, queues, room, topology
from tidemill.model import events as ev
from tidemill.model.columns import AT, JOBS_KEPT, KIND, NODE, NONE, NOTHING_SEEN
from tidemill.model.errors import EventRefused
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.rows import Contract, Node, Piece
from tidemill.model.states import HOSTING, LAUNCHED, NodeState
from tidemill.model.world import World, is_among
from tidemill.provisioning import life
from tidemill.reservation import types
from tidemill.reservation.types import ContractType

ASKED_NOTHING, ASKED_REPAIR, ASKED_RETURN = 0, 1, 2
_WHYS = tuple(ev.Why)


def contract_signed(world: World, event: ev.ContractSigned) -> list[int]:
    """A claim is known; nothing is paid yet."""
    row = event.contract
    if row.name in world.contract_number:
        raise EventRefused(
            f"contract `{row.name}` is signed twice", hint="give every contract its own name"
        )
    if row.end_ms <= row.start_ms:
        raise EventRefused(
            f"contract `{row.name}` ends at {row.end_ms} ms, not after its start {row.start_ms} ms",
            hint="give it an end after its start, or leave the end out",
        )
    moments = [event.at_ms, *(price.from_ms for price in row.later_prices or ())]
    if sorted(set(moments)) != moments:
        raise EventRefused(
            f"contract `{row.name}` is signed at {event.at_ms} ms and has later prices from"
            f" {moments[1:]} ms on",
            hint="give later prices in the order of time, after the contract was signed",
        )
    if row.node.unadvertised < 0:
        raise EventRefused(
            f"contract `{row.name}` advertises {row.node.advertised} of {row.node.devices}"
            " accelerators of a node",
            hint="as many as a node has, or fewer",
        )
    if row.count % row.node.devices or row.spares * row.node.devices > row.count:
        raise EventRefused(
            f"contract `{row.name}` has {row.count} accelerators on nodes of {row.node.devices},"
            f" {row.spares} nodes of them spare",
            hint="make the count a multiple of the devices of a node, with fewer spares than nodes",
        )
    c, kind = world.contract_count, types.of(row)
    _write_contract(world, c, row, kind)
    world.contract_rows.append(row)
    world.contract_number[row.name] = c
    world.ink.w.at[AT.SUPPLY_CHANGES] += 1
    return []


def contract_started(world: World, event: ev.ContractStarted) -> list[int]:
    """Paying begins."""
    c = event.contract
    row = _known_contract(world, c)
    if event.at_ms < row.start_ms or world.contracts.is_running[c] or event.at_ms >= row.end_ms:
        _refuse(f"contract `{row.name}`", "it cannot start now")
    world.ink.contracts.is_running[c] = 1
    world.ink.w.at[AT.SUPPLY_CHANGES] += 1
    return []


def contract_ended(world: World, event: ev.ContractEnded) -> list[int]:
    """Paying ends; the nodes are gone and what ran there is lost."""
    c = event.contract
    row = _known_contract(world, c)
    if not world.contracts.is_running[c]:
        _refuse(f"contract `{row.name}`", "it is not running")
    touched: list[int] = []
    for n in np.flatnonzero(world.nodes.contract[: world.node_count] == c).tolist():
        if world.nodes.state[n] != NodeState.GONE:
            touched += _move(world, n, NodeState.GONE, event.at_ms, ev.Why.CONTRACT_END)
    world.ink.contracts.is_running[c] = 0
    world.ink.w.at[AT.SUPPLY_CHANGES] += 1
    return touched


def commitment_seen(world: World, event: ev.CommitmentSeen) -> list[int]:
    """A commitment pays for so much from now on."""
    c = event.contract
    row = _known_contract(world, c)
    if not world.contracts.is_running[c]:
        _refuse(f"contract `{row.name}`", "it is not running")
    if row.terms != types.UNFILLED:
        _refuse(f"contract `{row.name}`", "it says itself what it pays for")
    world.ink.contracts.count_milli[c] = event.paid_milli
    _settle(world, c, event.at_ms)
    world.ink.w.at[AT.SUPPLY_CHANGES] += 1
    return []


def node_added(world: World, event: ev.NodeAdded) -> list[int]:
    """A node that was asked for has a name."""
    row = event.node
    if row.name in world.node_number:
        raise EventRefused(
            f"node `{row.name}` is added twice", hint="give every node a name of its own"
        )
    c = world.contract_number.get(row.contract)
    if c is None:
        raise EventRefused(
            f"node `{row.name}` is under contract `{row.contract}`, which nobody signed",
            hint="sign the contract before adding its nodes",
        )
    contract = world.contract_rows[c]
    if not world.contracts.is_running[c]:
        raise EventRefused(
            f"node `{row.name}` is under contract `{contract.name}`, which is not running",
            hint="nodes come after the start of their contract and are gone with its end",
        )
    if (int(world.contracts.nodes[c]) + 1) * contract.node.devices > contract.count:
        raise EventRefused(
            f"node `{row.name}` is one more than contract `{contract.name}` pays for"
            f" ({contract.count} accelerators)",
            hint="raise the count of the contract or add the node to another one",
        )
    n = world.node_count
    _write_node(world, n, c, row, event.at_ms)
    world.ink.w.nodes[n, NODE.IS_UNSEEN] = world.is_unseen(row.name)
    topology.locate(world, n, (*contract.node.labels, *row.labels))
    world.changes.add(n)
    world.node_rows.append(row)
    world.node_number[row.name] = n
    contracts = world.ink.contracts
    contracts.nodes[c] += 1
    contracts.asked_nodes[c] = max(0, int(contracts.asked_nodes[c]) - 1)
    world.ink.w.at[AT.SUPPLY_CHANGES] += 1
    return []


def node_moved(world: World, event: ev.NodeMoved) -> list[int]:
    """A node changed its state."""
    n = event.node
    _known_node(world, n)
    origin = NodeState(world.nodes.state[n])
    if not life.may_move(origin, event.to):
        legal = ", ".join(s.name.lower() for s in sorted(life.MOVES[origin])) or "nothing"
        raise EventRefused(
            f"node `{world.node_rows[n].name}` cannot go from {origin.name.lower()} to"
            f" {event.to.name.lower()}",
            hint=f"from {origin.name.lower()} a node may become: {legal}",
        )
    return _move(world, n, event.to, event.at_ms, event.why, event.deadline_ms)


def device_failed(world: World, event: ev.DeviceFailed) -> list[int]:
    """One device is lost, and with it every gang that held a part of it."""
    n, device = event.node, event.device
    if _is_failed(world, n, device):
        _refuse(f"device {device} of node `{world.node_rows[n].name}`", "it failed already")
    victims = []
    for j in sorted(world.aboard[n]):
        if _holds(world.placements[j], n, device):
            jobs.interrupt(world, j, event.at_ms)
            victims.append(j)
        elif j in world.moving and _holds(world.moving[j].gained, n, device):
            jobs.call_off(world, j, event.at_ms)
            victims.append(j)
    room.fail_device(world, n, device)
    world.ink.w.at[AT.SUPPLY_CHANGES] += 1
    return victims


def device_repaired(world: World, event: ev.DeviceRepaired) -> list[int]:
    """One device that had failed can be had again."""
    n, device = event.node, event.device
    if not _is_failed(world, n, device):
        _refuse(f"device {device} of node `{world.node_rows[n].name}`", "it has not failed")
    room.repair_device(world, n, device)
    world.ink.w.kinds[world.nodes.kind[n], KIND.FREED] += 1
    world.ink.w.at[AT.SUPPLY_CHANGES] += 1
    return []


def _is_failed(world: World, n: int, device: int) -> bool:
    """Whether a device of a launched node has failed."""
    row = _known_node(world, n)
    if not 0 <= device < world.nodes.devices[n] or NodeState(world.nodes.state[n]) not in LAUNCHED:
        _refuse(f"device {device} of node `{row.name}`", "there is no such device now")
    return bool(world.devices.is_failed[int(world.nodes.first_device[n]) + device])


def node_asked(world: World, event: ev.AskedRepair | ev.AskedReturn) -> list[int]:
    """A repair or a return was sent; what comes of it will be seen. It takes no new work."""
    n = event.node
    row = _known_node(world, n)
    if world.aboard[n]:
        _refuse(f"node `{row.name}`", "it still carries work")
    if world.nodes.asked[n]:
        _refuse(f"node `{row.name}`", "its repair or return was asked for already")
    is_repair = isinstance(event, ev.AskedRepair)
    state = NodeState(world.nodes.state[n])
    if not life.may_move(state, NodeState.REPAIRING if is_repair else NodeState.GONE):
        _refuse(f"node `{row.name}`", f"it is {state.name.lower()}")
    if state is NodeState.READY:
        _move(world, n, NodeState.DRAINING, event.at_ms, ev.Why.SURPLUS)
    world.ink.nodes.asked[n] = ASKED_REPAIR if is_repair else ASKED_RETURN
    return []


def drain(world: World, event: ev.AskedDrain) -> list[int]:
    """We decided to empty a node; it takes no new work."""
    n = event.node
    row = _known_node(world, n)
    if not life.may_move(NodeState(world.nodes.state[n]), NodeState.DRAINING):
        _refuse(f"node `{row.name}`", "it cannot be drained now")
    return _move(world, n, NodeState.DRAINING, event.at_ms, event.why, event.deadline_ms)


def spare(world: World, event: ev.AskedSpare) -> list[int]:
    """An empty node becomes a spare, or a spare is put to use.

    Of somebody else's fleet it is what its owner declared, whatever runs there.
    """
    n = event.node
    row = _known_node(world, n)
    if world.aboard[n] and not world.ink.w.at.item(AT.SEEN):
        _refuse(f"node `{row.name}`", "it carries work and cannot be a spare")
    room.take_out(world, n)
    world.ink.nodes.is_spare[n] = event.is_spare
    room.put_back(world, n)
    world.ink.w.kinds[world.nodes.kind[n], KIND.FREED] += 1
    world.ink.w.at[AT.SUPPLY_CHANGES] += 1
    return []


def launch(world: World, event: ev.AskedLaunch) -> list[int]:
    """Nodes were asked for; each is seen when it is added."""
    c, row = event.contract, _known_contract(world, event.contract)
    have = int(world.contracts.nodes[c]) + int(world.contracts.asked_nodes[c])
    if (have + event.nodes) * row.node.devices > row.count:
        raise EventRefused(
            f"{event.nodes} more nodes are asked for under contract `{row.name}`, which pays for"
            f" {row.count // row.node.devices} and has {have}",
            hint="raise the count of the contract or ask for fewer nodes",
        )
    world.ink.contracts.asked_nodes[c] += event.nodes
    return []


def _move(
    world: World, n: int, to: NodeState, at_ms: int, why: ev.Why, deadline_ms: int = FOREVER_MS
) -> list[int]:
    touched = [] if to is NodeState.READY else _disturb(world, n, to in HOSTING, at_ms)
    nodes, origin = world.ink.nodes, NodeState(world.nodes.state[n])
    room.take_out(world, n)
    if to is NodeState.BOOTING:
        room.repair_devices(world, n)
    nodes.state[n] = to
    nodes.why[n] = _WHYS.index(why)
    nodes.since_ms[n] = at_ms
    nodes.deadline_ms[n] = deadline_ms
    if not world.aboard[n]:
        nodes.emptied_ms[n] = at_ms
    nodes.asked[n] = ASKED_NOTHING
    room.put_back(world, n)
    _count_launched(world, n, origin, to)
    _fill(world, int(nodes.contract[n]), at_ms)
    if to is NodeState.READY:
        world.ink.w.kinds[nodes.kind[n], KIND.FREED] += 1
    world.ink.w.at[AT.SUPPLY_CHANGES] += 1
    return touched


def _count_launched(world: World, n: int, origin: NodeState, to: NodeState) -> None:
    contracts, c = world.ink.contracts, int(world.nodes.contract[n])
    change = (to in LAUNCHED) - (origin in LAUNCHED)
    contracts.launched_milli[c] += change * int(world.nodes.devices[n]) * WHOLE_MILLI
    if to is NodeState.GONE:
        contracts.nodes[c] -= 1


def _fill(world: World, c: int, at_ms: int) -> None:
    """Nodes of a contract came or went: of the commitment that they fill, more or less is left."""
    under = world.contract_rows[c].price_at(at_ms).commitment
    if under and (rest := world.contract_number.get(under)) is not None:
        _settle(world, rest, at_ms)


def _settle(world: World, c: int, at_ms: int) -> None:
    """What of a commitment nothing is launched for now; parts of GPUs fill it as such."""
    name, contracts = world.contract_rows[c].name, world.ink.contracts
    filled = sum(
        row.exactly_in_gpus(int(contracts.launched_milli[i]))
        for i, row in enumerate(world.contract_rows)
        if row.price_at(at_ms).commitment == name
    )
    contracts.committed_milli[c] = max(0, int(contracts.count_milli[c]) - int(filled))


def _write_contract(world: World, c: int, row: Contract, kind: ContractType) -> None:
    k = queues.kind_number(world, row.kind)
    queues.fit_matrices(world)
    if c >= len(world.ink.w.contracts):
        world.grow(contracts=c + 1, levels=c + 1)
    contracts = world.ink.contracts
    contracts.kind[c] = k
    contracts.count_milli[c] = row.count * WHOLE_MILLI
    contracts.rate_usd_micro[c] = row.rate_usd_micro
    contracts.committed_milli[c] = types.committed_milli(row)
    contracts.is_elastic[c] = kind.is_elastic


def _write_node(world: World, n: int, c: int, row: Node, at_ms: int) -> None:
    contract = world.contract_rows[c]
    template, first = contract.node, world.device_count
    if n >= len(world.ink.w.nodes):
        world.grow(nodes=n + 1)
    if first + template.devices > len(world.ink.w.devices):
        world.grow(devices=first + template.devices)
    world.ink.w.nodes[n, NODE.FIRST_PIECE] = NONE
    k = int(world.contracts.kind[c])
    group = topology.group(world, k, contract, row)
    nodes, devices = world.ink.nodes, world.ink.devices
    nodes.contract[n] = c
    nodes.kind[n] = k
    nodes.group[n] = topology.group_number(world, group)
    nodes.state[n] = NodeState.ASKED
    nodes.is_spare[n] = row.is_spare
    nodes.since_ms[n] = at_ms
    nodes.emptied_ms[n] = at_ms
    nodes.deadline_ms[n] = FOREVER_MS
    nodes.first_device[n] = first
    nodes.devices[n] = template.devices
    nodes.cpu_milli[n] = nodes.cpu_free_milli[n] = template.cpu_milli
    nodes.memory_mib[n] = nodes.memory_free_mib[n] = template.memory_mib
    nodes.free_milli[n] = template.devices * WHOLE_MILLI
    devices.free_milli[first : first + template.devices] = WHOLE_MILLI
    world.device_count = first + template.devices
    world.ink.w.nodes[n, NODE.UNADVERTISED] = template.unadvertised
    room.keep_unadvertised(world, n)


def _holds(pieces: tuple[Piece, ...], n: int, device: int) -> bool:
    return any(p.node == n and p.devices >> device & 1 for p in pieces)


def _disturb(world: World, n: int, may_stay: bool, at_ms: int) -> list[int]:
    """A node takes no new work: nobody moves there, and whoever sits there may stay, or not."""
    touched = []
    for j in sorted(world.aboard[n]):
        sits = any(piece.node == n for piece in world.placements[j])
        if sits and not may_stay:
            jobs.interrupt(world, j, at_ms)
            touched.append(j)
        elif j in world.moving and any(piece.node == n for piece in world.moving[j].gained):
            jobs.call_off(world, j, at_ms)
            touched.append(j)
    return touched


def device_error(world: World, event: ev.DeviceErrorSeen) -> list[int]:
    """A driver reported an error; whether the device can be used, nodes and jobs show."""
    _known_node(world, event.node)
    return []


def sight(world: World, event: ev.SightLost | ev.SightRegained) -> list[int]:
    """Nobody watches from now on, or somebody does again; whom that touches is the ledger's."""
    if event.prefix:
        _sight_of(world, event)
        return []
    blind = world.ink.w.at
    if isinstance(event, ev.SightLost):
        wanted = JOBS_KEPT if event.keeps_jobs else NOTHING_SEEN
        if blind[AT.BLIND] == wanted:
            _refuse("who watches", "nobody does already")
        blind[AT.BLIND] = wanted
    elif not blind[AT.BLIND]:
        _refuse("who watches", "somebody watches already")
    else:
        blind[AT.BLIND] = 0
    return []


def _sight_of(world: World, event: ev.SightLost | ev.SightRegained) -> None:
    """Nobody watches some nodes from now on, or somebody does again."""
    is_lost, who = isinstance(event, ev.SightLost), f"who watches `{event.prefix}`"
    if is_lost == (event.prefix in world.unseen):
        _refuse(who, "nobody does already" if is_lost else "somebody watches already")
    if isinstance(event, ev.SightLost) and not event.keeps_jobs:
        _refuse(who, "it says that nobody tells what jobs hold there, which only all nodes can say")
    world.unseen ^= {event.prefix}
    for n, row in enumerate(world.node_rows):
        if is_among(row.name, event.prefix):
            room.take_out(world, n)
            world.ink.w.nodes[n, NODE.IS_UNSEEN] = world.is_unseen(row.name)
            room.put_back(world, n)


def _known_contract(world: World, c: int) -> Contract:
    if not 0 <= c < world.contract_count:
        _refuse(f"contract number {c}", f"only {world.contract_count} were signed")
    return world.contract_rows[c]


def _known_node(world: World, n: int) -> Node:
    if not 0 <= n < world.node_count:
        _refuse(f"node number {n}", f"only {world.node_count} were added")
    return world.node_rows[n]


def _refuse(what: str, found: str) -> NoReturn:
    raise EventRefused(
        f"an event about {what} cannot be: {found}",
        hint="the event is late, repeated or out of order; nothing was changed",
    )
