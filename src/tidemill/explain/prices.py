"""Prices: what it would cost to launch nodes for a job, or to move others out of its way.

Both are bounded looks at the present World, checked with the scheduler's own fit: a launch counts
whole nodes at the contract's rate, a move counts the work that stopping the cheapest jobs loses.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tidemill.explain import phrasing, supply
from tidemill.explain.answers import PricedFix
from tidemill.explain.context import Case
from tidemill.model.measures import HOUR_MS, WHOLE_MILLI
from tidemill.model.rows import Piece
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.scheduling import diagnose, slices
from tidemill.scheduling.fit import fit, undo
from tidemill.scheduling.preemption import cost

NODES_AT_MOST = (
    64  # nodes looked at for a move, the emptiest first: the price is a bound, not the optimum
)


class Loss(NamedTuple):
    """What stopping jobs now would lose."""

    milli_ms: int
    usd_micro: int


class _NodeOffer(NamedTuple):
    """Jobs to take off one node so that one more replica fits there."""

    usd_micro: int
    node: int
    jobs: tuple[int, ...]


def launch(case: Case, replicas: int) -> PricedFix | None:
    """The cheapest contract by the hour under which enough nodes may be launched."""
    offers = []
    for c in case.supply.contracts:
        row, contracts = case.world.contract_rows[c], case.world.contracts
        per_node = diagnose.replicas_per_node(row, case.role)
        if not contracts.is_running[c] or not contracts.is_elastic[c] or not per_node:
            continue
        nodes = -(-replicas // per_node)
        have = int(contracts.nodes[c]) + int(contracts.asked_nodes[c])
        if nodes and have + nodes <= row.count // row.node.devices:
            usd = nodes * row.node.devices * row.usd_micro_per_hour
            offers.append((usd, c, nodes))
    if not offers:
        return None
    usd, c, nodes = min(offers)
    name = case.world.contract_rows[c].name
    return PricedFix(f"launch {phrasing.many(nodes, 'node')} of contract `{name}`", usd)


class PricedMoves(NamedTuple):
    """Jobs to take off their nodes; whether all of them would find room elsewhere at once."""

    fix: PricedFix
    is_free: bool
    jobs: tuple[int, ...]


def moves(case: Case) -> PricedMoves | None:
    """The cheapest jobs to take off their nodes so that the job fits; None: not found."""
    found_on = [offer for n in _emptiest(case) if (offer := _offer(case, n))]
    offers = sorted(found_on, key=lambda offer: (offer.usd_micro, len(offer.jobs), offer.node))
    chosen = offers[: case.missing]
    jobs = sorted({j for offer in chosen for j in offer.jobs})
    if len(chosen) < case.missing or not jobs:
        return None
    found = _try(case, jobs)
    if found is None:
        return None
    world, loss = case.world, lost(case.world, jobs)
    names = phrasing.ids([world.job_names[j] for j in jobs])
    nodes = phrasing.ids([world.node_rows[offer.node].name for offer in chosen])
    text = (
        f"move {names} off {nodes}: {'it fits' if len(jobs) == 1 else 'they fit'} elsewhere"
        if found
        else f"stop {names} on {nodes}, to wait again"
    )
    return PricedMoves(PricedFix(text, 0, loss.milli_ms, loss.usd_micro), found, tuple(jobs))


def lost(world: World, jobs: Iterable[int]) -> Loss:
    """Accelerator-time and dollars that stopping these active jobs now would lose."""
    milli_ms = usd = 0
    for j in jobs:
        lost_ms, roles = cost.lost_ms(world, j), world.shape_of(j).roles
        for piece in world.placements[j]:
            held = piece.replicas * roles[piece.role].replica_milli * lost_ms
            rate = world.contracts.rate_usd_micro[world.nodes.contract[piece.node]]
            milli_ms += held
            usd += held * int(rate)
    return Loss(milli_ms, usd // (WHOLE_MILLI * HOUR_MS))


def _emptiest(case: Case) -> list[int]:
    """Nodes large enough for a replica but not free enough, the emptiest first."""
    world, role = case.world, case.role
    rows, nodes = world.node_count, world.nodes
    working = nodes.devices[:rows] - nodes.failed[:rows]
    slots = supply.hosting(world, role)
    may = supply.node_mask(world, case.options) & (nodes.state[:rows] == NodeState.READY)
    may &= (nodes.is_spare[:rows] == 0) & (working >= role.accelerators)
    may &= (nodes.cpu_milli[:rows] >= role.cpu_milli) & (nodes.memory_mib[:rows] >= role.memory_mib)
    may &= slots < role.accelerators
    here = np.flatnonzero(may)
    order = np.argsort(-nodes.free_milli[:rows][here], kind="stable")
    found: list[int] = here[order][:NODES_AT_MOST].tolist()
    return found


def _offer(case: Case, n: int) -> _NodeOffer | None:
    """The cheapest jobs that have to leave one node; greedy, cheapest first."""
    world, role, nodes = case.world, case.role, case.world.nodes
    first, count = int(nodes.first_device[n]), int(nodes.devices[n])
    free = world.devices.free_milli[first : first + count].tolist()
    failed = world.devices.is_failed[first : first + count].tolist()
    cut = world.devices.slices[first : first + count].tolist()
    cpu, memory = int(nodes.cpu_free_milli[n]), int(nodes.memory_free_mib[n])
    staying = [j for j in sorted(world.aboard[n]) if _may_go(world, j)]
    usd, gone = 0, []
    for price, j in sorted((lost(world, [j]).usd_micro, j) for j in staying):
        for piece in _pieces_on(world, j, n):
            asks = world.shape_of(j).roles[piece.role]
            cpu += piece.replicas * asks.cpu_milli
            memory += piece.replicas * asks.memory_mib
            if piece.slices:
                d = piece.devices.bit_length() - 1
                cut[d] ^= piece.slices
                free[d] = 0 if cut[d] else WHOLE_MILLI
                continue
            for d in range(count):
                free[d] += asks.milli * (piece.devices >> d & 1)
        usd += price
        gone.append(j)
        slots = sum(
            slices.hosted(world, n, state, f, role) if role.profile else f // role.milli
            for f, state, bad in zip(free, cut, failed, strict=True)
            if not bad
        )
        if slots >= role.accelerators and cpu >= role.cpu_milli and memory >= role.memory_mib:
            return _NodeOffer(usd, n, tuple(gone))
    return None


def _try(case: Case, jobs: list[int]) -> bool | None:
    """With these jobs gone the gang fits (else None); whether all of them then fit elsewhere."""
    world, memo = case.world, case.memo
    room, scoring = memo.room(world), memo.scoring(world, case.policy)
    for j in jobs:
        undo(room, _queue(world, j), world.shape_of(j), world.placements[j])
    q = int(world.shapes.queue[case.s])
    options = memo.known(world, case.s).options
    if not fit(room, q, case.shape, options, scoring).pieces:
        return None
    return all(
        fit(
            room, _queue(world, j), world.shape_of(j),
            memo.known(world, int(world.jobs.shape[j])).options, scoring,
        ).pieces
        for j in jobs
    )  # fmt: skip


def _may_go(world: World, j: int) -> bool:
    return world.shape_of(j).is_preemptible and not world.jobs.is_leaving[j]


def _pieces_on(world: World, j: int, n: int) -> list[Piece]:
    return [piece for piece in world.placements[j] if piece.node == n]


def _queue(world: World, j: int) -> int:
    return int(world.shapes.queue[world.jobs.shape[j]])
