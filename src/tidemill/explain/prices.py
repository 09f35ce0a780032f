"""Prices: what it would cost to launch nodes for a job, and what stopping others would lose.

A launch counts whole nodes at the contract's rate; a stop counts the work since the last checkpoint
and the time to come up again.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidemill.explain import phrasing
from tidemill.explain.answers import PricedFix
from tidemill.explain.context import Case
from tidemill.model.measures import HOUR_MS, WHOLE_MILLI
from tidemill.model.world import World
from tidemill.scheduling import diagnose
from tidemill.scheduling.preemption import cost


class Loss(NamedTuple):
    """What stopping jobs now would lose."""

    milli_ms: int
    usd_micro: int


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
