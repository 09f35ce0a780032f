"""Impossible jobs on 12,500 nodes: how long until the checked plan says so, and what would fit.

Each impossible job is submitted to a busy fleet as an event; timed are the fold, the cycle that
declares the cause, the second reader, the certificate from the contracts, and the nearest things
that would run now. Beside it a plain Python look at every node for the same job, as a yardstick; a
peer's published figure for giving up is 249.5 s on 500 nodes.
"""

import time
from statistics import median
from typing import Any

from msgspec.structs import replace

from tidemill.engine.check import check
from tidemill.engine.cycle import CycleMemo, cycle
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.explain import certificates, nearest
from tidemill.explain.trials import Trials
from tidemill.model import events as ev
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Job, Node, Piece, Queue, Role, Shape, Share, Template
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.scheduling.snapshot import Snapshot

TURNS = 20
PEER_S, PEER_NODES = 249.5, 500

_ASKS: dict[str, tuple[str, Role]] = {
    "no such kind": ("a", Role(accelerators=8, kinds=("TPU",))),
    "no such label": ("a", Role(accelerators=8, labels=(("rack", "z"),))),
    "too large for a node": ("a", Role(accelerators=16)),
    "too many cores": ("a", Role(accelerators=8, cpu_milli=10**7)),
    "too wide a gang": ("a", Role(count=20_000, accelerators=8)),
    "over the limit": ("b", Role(count=16, accelerators=8)),
    "not now: scattered": ("a", Role(accelerators=8)),
    "not now: gang": ("a", Role(count=512, accelerators=8)),
}


def run(nodes: int = 12_500) -> dict[str, Any]:
    """Submit each impossible job some twenty times, each a shape of its own."""
    world, memo, policy = _busy(nodes), CycleMemo(), Policy(may_preempt=False)
    fold_all(world, cycle(world, policy, memo).actions)
    _turn(world, policy, memo, "warm", *_ASKS["too large for a node"])
    found: dict[str, Any] = {}
    for name, (team, role) in _ASKS.items():
        turns = [_turn(world, policy, memo, f"{name} {i}", team, role) for i in range(TURNS)]
        parts = {part: round(median(turn[part] for turn in turns), 3) for part in turns[0]}
        found[name] = parts | {"slowest_ms": round(max(sum(t.values()) for t in turns), 3)}
    naive_ms = _naive_ms(world, _ASKS["too large for a node"][1])
    return {
        "nodes": nodes,
        "cpu_ms": found,
        "naive_look_ms": round(naive_ms, 1),
        "slowest_ms": max(row["slowest_ms"] for row in found.values()),
        "a_peer_published": {"seconds": PEER_S, "nodes": PEER_NODES},
    }


def _turn(
    world: World, policy: Policy, memo: CycleMemo, name: str, team: str, role: Role
) -> dict[str, float]:
    """One job from the event to the checked plan, its certificate and what is near; CPU-ms."""
    serial = world.job_count
    shape = Shape(team, (replace(role, memory_mib=1 + serial),))
    clock = [time.process_time()]
    fold(world, ev.JobSubmitted(world.now_ms, Job(f"{name} {serial}", shape)))
    clock.append(time.process_time())
    plan = cycle(world, policy, memo)
    clock.append(time.process_time())
    check(world, plan, policy)
    clock.append(time.process_time())
    fold_all(world, plan.actions)
    clock.append(time.process_time())
    proof = certificates.certificate(world, shape)
    clock.append(time.process_time())
    if proof is not None:
        wish = nearest.Wish(Snapshot(world), Job(f"{name} instead", shape), 0)
        certificates.with_nearest(proof, wish, Trials(world, policy))
    clock.append(time.process_time())
    assert any(isinstance(action, ev.CauseChanged) for action in plan.actions), plan
    fold(world, ev.JobCancelled(world.now_ms, serial))
    parts = ("fold", "cycle", "check", "fold_the_cause", "certificate", "nearest")
    return {
        part: 1000 * (after - before)
        for part, before, after in zip(parts, clock, clock[1:], strict=False)
    }


def _naive_ms(world: World, role: Role) -> float:
    """A look at every device of every node in plain Python."""
    start = time.process_time()
    free, first = world.devices.free_milli.tolist(), world.nodes.first_device.tolist()
    count = world.nodes.devices.tolist()
    fits = [
        n for n in range(world.node_count)
        if sum(free[d] == 1000 for d in range(first[n], first[n] + count[n])) >= role.accelerators
    ]  # fmt: skip
    assert not fits
    return 1000 * (time.process_time() - start)


def _busy(nodes: int) -> World:
    """A fleet of nodes of eight with five, six or seven taken, in turn."""
    node = Template(8, 192_000, 2**20)
    contract = Contract("fleet", "main", "H100", nodes * 8, 2_000_000, node)
    limited = Queue("b", (Share("H100", 0, 64_000),))
    world = fold_all(
        World(),
        [ev.QueueSet(0, Queue("a")), ev.QueueSet(0, limited), ev.ContractSigned(0, contract),
         ev.ContractStarted(0, 0)],
    )  # fmt: skip
    for n in range(nodes):
        fold(world, ev.NodeAdded(0, Node(f"n{n}", "fleet")))
        fold(world, ev.NodeMoved(0, n, NodeState.BOOTING))
        fold(world, ev.NodeMoved(0, n, NodeState.READY))
        taken = 5 + n % 3
        fold(world, ev.JobSubmitted(0, Job(f"r{n}", Shape("a", (Role(accelerators=taken),)))))
        fold(world, ev.AskedPlace(0, n, 1, (Piece(0, n, 1, (1 << taken) - 1),)))
        fold(world, ev.JobStarted(0, n, 1))
    return world
