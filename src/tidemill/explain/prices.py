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
from tidemill.scheduling import contract_capacity, shares
from tidemill.scheduling.preemption import cost


class Loss(NamedTuple):
    """What stopping jobs now would lose."""

    milli_ms: int
    usd_micro: int | None
    """None where nobody said a price of some of it."""


def launch(case: Case, replicas: int, after: str = "") -> PricedFix | None:
    """The cheapest contract by the hour under which enough nodes may be launched, of a type that
    the quotas of its team leave it now; ``after``: or of any, once that has happened.
    """
    offers = []
    q, need = int(case.world.shapes.queue[case.s]), case.role.total_milli
    for c in case.supply.contracts:
        row, contracts = case.world.contract_rows[c].at(case.world.now_ms), case.world.contracts
        per_node = contract_capacity.replicas_per_node(row, case.role)
        if not contracts.is_running[c] or not contracts.is_elastic[c] or not per_node:
            continue
        k = case.world.kind_number[row.kind]
        if not after and not shares.within_limit(case.world, q, k, need):
            continue  # another node would be none that it may use
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
    words = f"{after}, and {words} then" if after else words
    return PricedFix(words, usd if row.is_priced else None)


def most_ready(case: Case) -> int:
    """Replicas that nodes which take work would hold if they were empty."""
    room = case.memo.empty_room(case.world)
    return max((room.count_hosts(case.role, o.is_ok) for o in case.options), default=0)


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
