"""Prices: what it would cost to launch or add nodes for a job, and what stopping others would lose.

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
from tidemill.scheduling import contract_capacity
from tidemill.scheduling.preemption import cost


class Loss(NamedTuple):
    """What stopping jobs now would lose."""

    milli_ms: int
    usd_micro: int | None
    """None where nobody said a price of some of it."""


def launch(case: Case, replicas: int) -> PricedFix | None:
    """The cheapest contract by the hour under which enough nodes may be launched."""
    offers = []
    for c in case.supply.contracts:
        row, contracts = case.world.contract_rows[c].at(case.world.now_ms), case.world.contracts
        per_node = contract_capacity.replicas_per_node(row, case.role)
        if not contracts.is_running[c] or not contracts.is_elastic[c] or not per_node:
            continue
        nodes = -(-replicas // per_node)
        have = int(contracts.nodes[c]) + int(contracts.asked_nodes[c])
        if nodes and have + nodes <= row.count // row.node.devices:
            usd = nodes * row.node.devices * row.rate_usd_micro
            offers.append((usd, c, nodes))
    if not offers:
        return None
    usd, c, nodes = min(offers)
    row = case.world.contract_rows[c]
    name, row = row.name_at(case.world.now_ms), row.at(case.world.now_ms)
    words = f"launch {phrasing.many(nodes, 'node')} of contract `{name}`"
    return PricedFix(words, usd if row.is_priced else None)


def widen(case: Case) -> tuple[PricedFix, ...]:
    """As many more nodes as the gang lacks on one GPU type: of the type that lacks the fewest, at
    the cheapest rate paid now; a price that is known goes first.
    """
    assert case.proof is not None
    world, rows = case.world, contract_capacity.running_contracts(case.world, case.role)
    hosts = contract_capacity.hosts_by_kind(world, case.role, rows)
    offers = []
    for c in case.supply.contracts:
        row = world.contract_rows[c].at(world.now_ms)
        per_node = contract_capacity.replicas_per_node(row, case.role)
        if per_node and contract_capacity.matching_nodes(world, row, case.role):
            nodes = -(-(case.proof.asked - hosts[row.kind]) // per_node)
            usd = nodes * row.node.devices * row.rate_usd_micro
            offers.append((nodes, not row.is_priced, usd, c))
    if not offers:
        return ()
    nodes, _, usd, c = min(offers)
    row = case.world.contract_rows[c]
    more = phrasing.many(nodes, "node")
    words = (
        f"add {more} of `{row.kind}`"
        if case.world.is_observed
        else (f"enlarge contract `{row.name}` by {more}")
    )
    return (PricedFix(words, usd if row.is_priced else None),)


def lost(world: World, jobs: Iterable[int]) -> Loss:
    """Accelerator-time and dollars that stopping these active jobs now would lose.

    Nobody knows the dollars where a contract has no price, or where a job trains and nobody says
    whether it saves: then the time is at least so much.
    """
    milli_ms, usd, is_known = 0, 0, True
    for j in jobs:
        is_known = is_known and cost.is_loss_known(world, j)
        lost_ms, roles = cost.lost_ms(world, j), world.shape_of(j).roles
        for piece in world.placements[j]:
            held = piece.replicas * roles[piece.role].replica_milli * lost_ms
            row = world.contract_rows[world.nodes.contract.item(piece.node)].at(world.now_ms)
            is_known = is_known and (row.is_priced or not held)
            milli_ms += held
            usd += held * row.rate_usd_micro
    return Loss(milli_ms, usd // (WHOLE_MILLI * HOUR_MS) if is_known else None)
