"""The provisioning layer's beat: which nodes to launch, drain, repair, return, keep spare.

It reads contracts, nodes and the causes the scheduler gave, and returns actions. A review is made
when supply changed or when a moment it asked for has come; between them nothing is scanned.
"""

from typing import NamedTuple

import numpy as np

from tidemill.model import events as ev
from tidemill.model.claims import Claims, claims_of
from tidemill.model.measures import FOREVER_MS, MINUTE_MS
from tidemill.model.policy import Policy, release_ms
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.provisioning import demand

_WHYS = tuple(ev.Why)
_IN_USE = (NodeState.ASKED, NodeState.BOOTING, NodeState.READY, NodeState.CORDONED)
LOOK_AGAIN_MS = MINUTE_MS  # unmet demand is looked at no more often, whatever the policy says
_REPAIRABLE = frozenset({ev.Why.DEVICE_LOST, ev.Why.MAINTENANCE})
_RETURNED = frozenset({ev.Why.SURPLUS, ev.Why.CONTRACT_END})


class Review(NamedTuple):
    """What to ask for now, and when to look again."""

    actions: list[ev.Action]
    wake_ms: int


class ProvisioningMemo:
    """What the last review saw. Forgetting it costs one review more."""

    def __init__(self) -> None:
        self.supply_changes = -1
        self.wake_ms = -1
        self.is_elastic = False


def review(world: World, policy: Policy, memo: ProvisioningMemo, claims: Claims) -> Review:
    """Look at contracts and nodes when there is a reason to."""
    if memo.is_elastic and world.queued:
        memo.wake_ms = min(memo.wake_ms, _look_again_ms(world, policy))
    if world.supply_changes == memo.supply_changes and world.now_ms < memo.wake_ms:
        return Review([], memo.wake_ms)
    actions: list[ev.Action] = []
    wake_ms = FOREVER_MS
    running = np.flatnonzero(world.contracts.is_running[: world.contract_count]).tolist()
    memo.is_elastic = bool(world.contracts.is_elastic[running].any())
    unmet = demand.unmet(world, policy) if memo.is_elastic else []
    for c in running:
        is_elastic = world.contracts.is_elastic[c]
        missing = demand.nodes_missing(world, c, unmet) if is_elastic else 0
        actions += _launch(world, policy, c, missing)
        spared = _mind_spares(world, c, claims)
        claimed = claims.used | claims_of(spared).asked
        returned, due_ms = _return_idle(world, policy, c, -missing, claimed)
        actions += spared + returned
        wake_ms = min(wake_ms, due_ms)
    minded, due_ms = _mind_nodes(world, policy, claims)
    if memo.is_elastic and world.queued:
        due_ms = min(due_ms, _look_again_ms(world, policy))
    memo.supply_changes, memo.wake_ms = world.supply_changes, min(wake_ms, due_ms)
    return Review(actions + minded, memo.wake_ms)


def _launch(world: World, policy: Policy, c: int, missing: int) -> list[ev.Action]:
    """All nodes of the contract; of an elastic one, those that have been missing long enough."""
    row = world.contract_rows[c]
    if world.now_ms >= release_ms(policy, row):
        return []
    have = int(world.contracts.nodes[c]) + int(world.contracts.asked_nodes[c])
    wanted = row.count // row.node.devices - have
    if world.contracts.is_elastic[c]:
        wanted = min(wanted, missing)
    return [ev.AskedLaunch(world.now_ms, c, wanted)] if wanted > 0 else []


def _mind_spares(world: World, c: int, claims: Claims) -> list[ev.Action]:
    """Put a spare to use when a node is lost; keep an empty node spare when one is back."""
    row = world.contract_rows[c]
    if not row.spares:
        return []
    mine = _nodes_of(world, c)
    states, spare = world.nodes.state[mine], world.nodes.is_spare[mine] == 1
    is_well = (states == NodeState.READY) & (world.nodes.failed[mine] == 0)
    in_use = int((np.isin(states, _IN_USE) & ~spare).sum())
    missing = row.count // row.node.devices - row.spares - in_use
    if missing > 0:
        ready = mine[spare & is_well].tolist()
        return [ev.AskedSpare(world.now_ms, n, False) for n in ready[:missing]]
    if missing == 0:
        return []
    idle = [
        n for n in mine[~spare & is_well].tolist()
        if not world.aboard[n] and n not in claims.used
    ]  # fmt: skip
    return [ev.AskedSpare(world.now_ms, n, True) for n in idle[::-1][:-missing]]


def _return_idle(
    world: World, policy: Policy, c: int, unneeded: int, claimed: frozenset[int]
) -> tuple[list[ev.Action], int]:
    """Give back nodes of elastic contracts that have been empty long enough; not the spares."""
    if not world.contracts.is_elastic[c]:
        return [], FOREVER_MS
    actions: list[ev.Action] = []
    wake_ms = FOREVER_MS
    nodes, mine = world.nodes, _nodes_of(world, c)
    is_kept = (nodes.is_spare[mine] == 1) | (nodes.failed[mine] > 0) | (nodes.asked[mine] > 0)
    for n in mine[(nodes.state[mine] == NodeState.READY) & ~is_kept].tolist():
        if world.aboard[n] or n in claimed:
            continue
        due_ms = int(world.nodes.emptied_ms[n]) + policy.return_idle_after_ms
        if due_ms > world.now_ms:
            wake_ms = min(wake_ms, due_ms)
        elif len(actions) < unneeded:
            actions.append(ev.AskedReturn(world.now_ms, n))
        else:
            wake_ms = min(wake_ms, _look_again_ms(world, policy))
    return actions, wake_ms


def look_again_after_ms(policy: Policy) -> int:
    """How long after a look at unmet demand the next is, while somebody waits."""
    return max(policy.scale_up_after_ms, LOOK_AGAIN_MS)


def _look_again_ms(world: World, policy: Policy) -> int:
    return world.now_ms + look_again_after_ms(policy)


def _mind_nodes(world: World, policy: Policy, claims: Claims) -> tuple[list[ev.Action], int]:
    """Repair the sick, drain the half-broken, empty the draining at their deadline."""
    rows, now_ms = world.node_count, world.now_ms
    states, asked = world.nodes.state[:rows], world.nodes.asked[:rows]
    sick = np.flatnonzero((states == NodeState.UNHEALTHY) & (asked == 0)).tolist()
    actions: list[ev.Action] = [ev.AskedRepair(now_ms, n) for n in sick]
    broken = np.flatnonzero((states == NodeState.READY) & (world.nodes.failed[:rows] > 0))
    actions += [
        ev.AskedDrain(now_ms, n, ev.Why.DEVICE_LOST, min(now_ms + policy.drain_ms, FOREVER_MS))
        for n in broken.tolist()
    ]
    wake_ms = FOREVER_MS
    for n in np.flatnonzero((states == NodeState.DRAINING) & (asked == 0)).tolist():
        minded, due_ms = _mind_draining(world, n, claims)
        actions += minded
        wake_ms = min(wake_ms, due_ms)
    return list(dict.fromkeys(actions)), wake_ms  # a gang on two draining nodes is evicted once


def _mind_draining(world: World, n: int, claims: Claims) -> tuple[list[ev.Action], int]:
    why, deadline_ms = _WHYS[world.nodes.why[n]], int(world.nodes.deadline_ms[n])
    now_ms = world.now_ms
    if not world.aboard[n]:
        if why in _REPAIRABLE:
            return [ev.AskedRepair(now_ms, n)], FOREVER_MS
        return ([ev.AskedReturn(now_ms, n)] if why in _RETURNED else []), FOREVER_MS
    if why is ev.Why.SPOT_RECLAIM:
        return [], FOREVER_MS
    if now_ms < deadline_ms:
        return [], deadline_ms
    staying = [
        j for j in sorted(world.aboard[n])
        if not world.jobs.is_leaving[j] and j not in claims.leaving
    ]  # fmt: skip
    attempts = world.jobs.attempt
    return [ev.AskedEvict(now_ms, j, int(attempts[j]), ev.Why.DRAINED) for j in staying], FOREVER_MS


def _nodes_of(world: World, c: int) -> np.ndarray:
    rows = world.node_count
    of_contract = world.nodes.contract[:rows] == c
    return np.flatnonzero(of_contract & (world.nodes.state[:rows] != NodeState.GONE))
