"""The provisioning layer's beat: which nodes to launch, drain, repair, return, keep spare.

It reads contracts, nodes and the causes the scheduler gave, and returns actions. A review is made
when supply changed or when a moment it asked for has come; between them nothing is scanned.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidemill.model import events as ev
from tidemill.model.claims import Claims
from tidemill.model.measures import FOREVER_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.provisioning import looking
from tidemill.provisioning.columns import LOOK, Overview
from tidemill.provisioning.demand import LaidSupply

_WHYS = tuple(ev.Why)
LOOK_AGAIN_MS = MINUTE_MS  # unmet demand is looked at no more often, whatever the policy says


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
        self._laid = LaidSupply()

    def supply(self, world: World, policy: Policy) -> Overview:
        """What a look takes."""
        return self._laid.out(world, policy, look_again_after_ms(policy))


def review(world: World, policy: Policy, memo: ProvisioningMemo, claims: Claims) -> Review:
    """Look at contracts and nodes when there is a reason to."""
    again_ms = world.now_ms + look_again_after_ms(policy)
    if memo.is_elastic and world.queued:
        memo.wake_ms = min(memo.wake_ms, again_ms)
    if world.supply_changes == memo.supply_changes and world.now_ms < memo.wake_ms:
        return Review([], memo.wake_ms)
    look = _Look(world, memo.supply(world, policy), claims)
    running = np.flatnonzero(world.contracts.is_running[: world.contract_count]).tolist()
    memo.is_elastic = bool(world.contracts.is_elastic[running].any())
    for c in running:
        look.at_contract(c)
    look.at_nodes(policy)
    if memo.is_elastic and world.queued:
        look.wake_ms = min(look.wake_ms, again_ms)
    memo.supply_changes, memo.wake_ms = world.supply_changes, look.wake_ms
    return Review(look.actions, memo.wake_ms)


def look_again_after_ms(policy: Policy) -> int:
    """How long after a look at unmet demand the next is, while somebody waits."""
    return max(policy.scale_up_after_ms, LOOK_AGAIN_MS)


class _Look:
    """One look: ``looking`` finds the nodes, and here is said what is asked of them."""

    def __init__(self, world: World, supply: Overview, claims: Claims) -> None:
        self.world, self.claims = world, claims
        self.actions: list[ev.Action] = []
        self.wake_ms = FOREVER_MS
        self._supply, self._matrices = supply, world.matrices
        supply.look[LOOK.STAMP] += 1
        self._use(claims.used)

    def at_contract(self, c: int) -> None:
        """Launch what is missing, turn spares, give back what is idle."""
        world, w, u, now_ms = self.world, self._matrices, self._supply, self.world.now_ms
        missing = looking.nodes_missing(w, u, c, now_ms) if world.contracts.is_elastic[c] else 0
        wanted = int(looking.nodes_to_launch(w, u, c, missing, now_ms))
        if wanted:
            self.actions.append(ev.AskedLaunch(now_ms, c, wanted))
        spare = world.nodes.is_spare
        turned = self._found(looking.turn_spares(w, u, c))
        self.actions += [ev.AskedSpare(now_ms, n, not spare[n]) for n in turned]
        self._use(turned)
        idle = self._found(looking.return_idle(w, u, c, -missing, now_ms))
        self.actions += [ev.AskedReturn(now_ms, n) for n in idle]
        self._wake()

    def at_nodes(self, policy: Policy) -> None:
        """Repair the sick, drain the half-broken, empty the draining at their deadline."""
        now_ms, state = self.world.now_ms, self.world.nodes.state.item
        found = self._found(looking.mind_nodes(self._matrices, self._supply, now_ms))
        self._wake()
        sick = [n for n in found if state(n) == NodeState.UNHEALTHY]
        broken = [n for n in found if state(n) == NodeState.READY]
        until_ms = min(now_ms + policy.drain_ms, FOREVER_MS)
        minded: list[ev.Action] = [ev.AskedRepair(now_ms, n) for n in sick]
        minded += [ev.AskedDrain(now_ms, n, ev.Why.DEVICE_LOST, until_ms) for n in broken]
        for n in found:
            if state(n) == NodeState.DRAINING:
                minded += self._mind_draining(n)
        self.actions += dict.fromkeys(minded)  # a gang on two draining nodes is evicted once

    def _mind_draining(self, n: int) -> Sequence[ev.Action]:
        world, now_ms, jobs = self.world, self.world.now_ms, self.world.jobs
        aboard = sorted(world.aboard[n])
        if not aboard:
            is_sick = _WHYS[world.nodes.why[n]] in looking.REPAIRED_WHEN_EMPTY
            return [ev.AskedRepair(now_ms, n) if is_sick else ev.AskedReturn(now_ms, n)]
        return [
            ev.AskedEvict(now_ms, j, int(jobs.attempt[j]), ev.Why.DRAINED)
            for j in aboard if not jobs.is_leaving[j] and j not in self.claims.leaving
        ]  # fmt: skip

    def _found(self, count: int) -> list[int]:
        found: list[int] = self._supply.minded[:count].tolist()
        return found

    def _use(self, nodes: "frozenset[int] | list[int]") -> None:
        """Nothing is asked of these in this look."""
        self._supply.used[list(nodes)] = self._supply.look[LOOK.STAMP]

    def _wake(self) -> None:
        self.wake_ms = min(self.wake_ms, self._supply.look.item(LOOK.WAKE_MS))
