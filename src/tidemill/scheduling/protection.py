"""Protection: how long a running job may not be stopped for another, so that evictions end.

A job that was started is left alone for ``min_run_ms``, twice as long after each time it was
stopped for another (at most ``DOUBLINGS`` times), and not at all what has not come up yet: so never
what this cycle placed. A job that was stopped ``evictions_at_most`` times without saving any work
in between may not be preempted any more; only a team's guaranteed quota may still take it back,
after the longest protection.

So a job with finite work is stopped a bounded number of times: either it saves work in between, or
it comes to its cap. And a guaranteed quota is given back within the longest protection of a start.
"""

from tidemill.model.events import Why
from tidemill.model.policy import Policy
from tidemill.model.world import World
from tidemill.scheduling.desk import rights


def until_ms(world: World, policy: Policy, j: int, why: Why) -> int:
    """Until when an active job is protected; FOREVER_MS: no passing of time alone will end it.

    As the compiled cycle says (``desk.rights``).
    """
    jobs, is_reclaimed = world.matrices.jobs, int(why is Why.RECLAIMED)
    found: int = rights.until_ms(jobs, j, policy.min_run_ms, policy.evictions_at_most, is_reclaimed)
    return found


def is_spent(world: World, policy: Policy, j: int) -> bool:
    """Whether a job was stopped so often, and saved nothing in between, that it is an alarm."""
    return world.jobs.fruitless.item(j) >= policy.evictions_at_most


def alarm(world: World, policy: Policy, j: int) -> str:
    """What there is to say of a job that was stopped too often, to people; nothing: it was not."""
    in_vain = world.jobs.fruitless.item(j)
    if not in_vain or not is_spent(world, policy, j):
        return ""
    times = "time" if in_vain == 1 else "times"
    saves = world.jobs.interval_ms.item(j) > 0
    return (
        f"alarm: preempted {in_vain:,} {times} without saving any work in between; from then on,"
        " until it saves, only a guaranteed quota may stop it (policy `evictions_at_most`): "
        + ("checkpoint more often" if saves else "it never saves: checkpoint")
    )
