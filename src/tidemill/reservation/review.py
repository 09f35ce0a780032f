"""The reservation layer's beat: let go of contracts in time, so that their end surprises no job."""

import numpy as np

from tidemill.model.claims import Claims
from tidemill.model.events import Action, AskedDrain, Why
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy, release_ms
from tidemill.model.states import NodeState
from tidemill.model.world import World


class ReservationMemo:
    """What the last review saw. Forgetting it costs one review more."""

    def __init__(self) -> None:
        self.supply_changes = -1
        self.wake_ms = -1


def review(
    world: World, policy: Policy, memo: ReservationMemo, claims: Claims
) -> tuple[list[Action], int]:
    """Drain the nodes of contracts that end soon; return also when to look again."""
    if world.supply_changes == memo.supply_changes and world.now_ms < memo.wake_ms:
        return [], memo.wake_ms
    actions: list[Action] = []
    wake_ms = FOREVER_MS
    for c in np.flatnonzero(world.contracts.is_running[: world.contract_count]).tolist():
        row = world.contract_rows[c]
        if row.end_ms >= FOREVER_MS:
            continue
        due_ms = release_ms(policy, row)
        if world.now_ms < due_ms:
            wake_ms = min(wake_ms, due_ms)
        else:
            actions += _drain_all(world, c, row.end_ms, claims)
    memo.supply_changes, memo.wake_ms = world.supply_changes, wake_ms
    return actions, wake_ms


def _drain_all(world: World, c: int, end_ms: int, claims: Claims) -> list[Action]:
    rows = world.node_count
    states = world.nodes.state[:rows]
    may_drain = (states == NodeState.READY) | (states == NodeState.CORDONED)
    mine = np.flatnonzero((world.nodes.contract[:rows] == c) & may_drain).tolist()
    return [
        AskedDrain(world.now_ms, n, Why.CONTRACT_END, end_ms) for n in mine if n not in claims.asked
    ]
