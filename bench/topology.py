"""Tied gangs at size: 4,096 accelerators over racks on 12,500 nodes, and what others pay for it.

A third of the nodes is in use. Times are process time of one ``fit`` and its undoing, the best of
several rounds; the naive reference places the same gang with lists of nodes in plain Python.
"""

import random
import time
from collections.abc import Callable
from typing import Any

from tidemill.engine.fold.one_event import fold_all
from tidemill.model import events as ev
from tidemill.model.rows import Contract, Job, Node, Piece, Queue, Role, Shape, Template
from tidemill.model.states import NodeState
from tidemill.model.topology import Bond, Tier, Topology
from tidemill.model.world import World
from tidemill.scheduling.fit import fit, undo
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.scores.scoring import PACKING

TIERS = Topology((Tier("zone", "zone"), Tier("spine", "spine"), Tier("rack", "rack"), Tier("node")))
NODES_PER = {"zone": 4_096, "spine": 1_024, "rack": 32}
ROUNDS = 20


def run(nodes: int = 12_500, gang_nodes: int = 512) -> dict[str, Any]:
    """Place one gang by different bonds, and ordinary jobs with and without a topology."""
    gang = Role(count=gang_nodes, accelerators=8)
    each = Role(count=gang_nodes, accelerators=8, bonds=(Bond("rack", 16),))
    near = Bond("rack", is_required=False)
    shapes = {
        "required_one_spine": Shape("a", (gang,), bonds=(Bond("spine"),)),
        "preferred_one_rack": Shape("a", (gang,), bonds=(near,)),
        "groups_of_16_nodes_in_one_rack": Shape("a", (each,)),
        "no_bond": Shape("a", (gang,)),
    }
    world = _world(nodes, TIERS, [*shapes.values(), Shape("a", (Role(accelerators=4),))])
    bare = _world(nodes, Topology(), [shapes["no_bond"], Shape("a", (Role(accelerators=4),))])
    found = {name: _fit_ms(world, shape) for name, shape in shapes.items()}
    single = Shape("a", (Role(accelerators=4),))
    return {
        "nodes": nodes,
        "accelerators_of_the_gang": 8 * gang_nodes,
        "groups_of_nodes": len(world.groups),
        "ms_a_placement": found,
        "ms_a_placement_without_topology": {"no_bond": _fit_ms(bare, shapes["no_bond"])},
        "ms_naive_one_spine": _best_ms(lambda: _naive(world, gang_nodes), 3),
        "us_a_single": round(1000 * _fit_ms(world, single, 200), 1),
        "us_a_single_without_topology": round(1000 * _fit_ms(bare, single, 200), 1),
    }


def _world(nodes: int, topology: Topology, shapes: list[Shape]) -> World:
    contract = Contract("c", "main", "H100", 8 * nodes, 2_000_000, Template(8, 192_000, 10**6))
    events: list[ev.Event] = [ev.QueueSet(0, Queue("a"))]
    if topology.tiers:
        events.append(ev.TopologySet(0, topology))
    events += [ev.ContractSigned(0, contract), ev.ContractStarted(0, 0)]
    for n in range(nodes):
        labels = tuple((label, str(n // size)) for label, size in NODES_PER.items())
        row = Node(f"n{n}", "c", labels if topology.tiers else ())
        events.append(ev.NodeAdded(0, row))
        events += [ev.NodeMoved(0, n, NodeState.BOOTING), ev.NodeMoved(0, n, NodeState.READY)]
    luck, used = random.Random(0), 0
    for n in range(nodes):
        if luck.random() < 1 / 3:
            shape = Shape("a", (Role(accelerators=luck.choice([1, 2, 4, 8])),))
            held = (1 << shape.roles[0].accelerators) - 1
            events.append(ev.JobSubmitted(0, Job(f"x{n}", shape)))
            events.append(ev.AskedPlace(0, used, 1, (Piece(0, n, 1, held),)))
            used += 1
    events += [ev.JobSubmitted(0, Job(f"t{i}", shape)) for i, shape in enumerate(shapes)]
    return fold_all(World(), events)


def _fit_ms(world: World, shape: Shape, times: int = 1) -> float:
    memo, s = Memo(), world.shape_number[shape]
    room, known = memo.room(world), memo.known(world, s)

    def once() -> None:
        for _ in range(times):
            found = fit(room, 0, shape, known.options, PACKING)
            assert found.shortage is None, f"{shape} does not fit"
            undo(room, 0, shape, found.pieces)

    return round(_best_ms(once, ROUNDS) / times, 4)


def _naive(world: World, gang_nodes: int) -> list[int]:
    """The tightest spine with enough empty nodes, rack by rack, the fullest racks first."""
    spines: dict[int, dict[int, list[int]]] = {}
    for n in range(world.node_count):
        if world.nodes.state[n] == NodeState.READY and world.nodes.free_milli[n] == 8_000:
            spine, rack = int(world.position[1, n]), int(world.position[2, n])
            spines.setdefault(spine, {}).setdefault(rack, []).append(n)
    able = [s for s, racks in spines.items() if sum(map(len, racks.values())) >= gang_nodes]
    best = min(able, key=lambda s: (sum(map(len, spines[s].values())), s))
    racks = sorted(spines[best].values(), key=lambda nodes: -len(nodes))
    return [n for nodes in racks for n in nodes][:gang_nodes]


def _best_ms(work: Callable[[], object], rounds: int) -> float:
    work()
    best = 1e9
    for _ in range(rounds):
        start = time.process_time_ns()
        work()
        best = min(best, (time.process_time_ns() - start) / 1e6)
    return round(best, 4)
