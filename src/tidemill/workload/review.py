"""The workload layer's beat: cancel interactive work that nobody uses, if the policy says so."""

from tidemill.core import idle
from tidemill.model.events import Action, AskedCancel, Why
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.world import World


def review(world: World, policy: Policy) -> tuple[list[Action], int]:
    """What to ask of jobs now, and when to look again."""
    w, now_ms, after_ms = world.matrices, world.now_ms, policy.cull_idle_after_ms
    if not after_ms:
        return [], FOREVER_MS
    actions: list[Action] = []
    j = int(idle.next_due(w, after_ms, now_ms, -1))
    while j >= 0:
        actions.append(AskedCancel(now_ms, j, Why.IDLE))
        j = int(idle.next_due(w, after_ms, now_ms, j))
    return actions, int(idle.next_due_at(w, after_ms, now_ms))
