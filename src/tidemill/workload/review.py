"""The workload layer's beat: cancel interactive work that nobody uses, if the policy says so."""

from tidemill.model.events import Action, AskedCancel, Why
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.states import JobClass
from tidemill.model.world import World


def review(world: World, policy: Policy) -> tuple[list[Action], int]:
    """What to ask of jobs now, and when to look again."""
    if not policy.cull_idle_after_ms:
        return [], FOREVER_MS
    actions: list[Action] = []
    wake_ms = FOREVER_MS
    for j, since_ms in sorted(world.idle.items()):
        if world.shape_of(j).kind is not JobClass.INTERACTIVE or world.jobs.is_leaving[j]:
            continue
        due_ms = since_ms + policy.cull_idle_after_ms
        if due_ms <= world.now_ms:
            actions.append(AskedCancel(world.now_ms, j, Why.IDLE))
        else:
            wake_ms = min(wake_ms, due_ms)
    return actions, wake_ms
