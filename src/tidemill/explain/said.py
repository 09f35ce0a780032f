"""The cause for which a shape waits, as the scheduler said it last, in the order of the questions.

What pods of a cluster are told is what ``why`` and ``pending`` say: one rule, one text.
"""

from tidemill.engine.fold import earlier
from tidemill.explain import phrasing, rerun
from tidemill.explain import spared as spared_jobs
from tidemill.explain.context import NO_SUPPLY
from tidemill.explain.rerun import Glance
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.world import World
from tidemill.scheduling import diagnose, eligibility


def cause(world: World, s: int) -> Cause:
    """Why the jobs of a shape wait; none: nobody has looked yet."""
    found = Cause(world.shapes.cause.item(s))
    if found in NO_SUPPLY and _may_use_over_committed(world, s):
        seen = earlier.as_busy(world)
        return diagnose.supply_cause(seen, Glance(seen, sweeps=True), s) or Cause.BUSY
    if found not in (Cause.SCATTERED, Cause.BEHIND, Cause.RESERVED):
        return found
    return rerun.from_the_ground(world, Glance(world, sweeps=True), s, found)


def _may_use_over_committed(world: World, s: int) -> bool:
    """Whether a shape may use a node where more is in use than it has: else nothing is copied."""
    groups = [
        world.nodes.group.item(n)
        for n, words in world.node_words.items()
        if words.startswith(earlier.OVER_COMMITTED)
    ]
    return bool(groups) and any(
        eligibility.anywhere(world, role).is_ok[g]
        for role in world.shape_rows[s].roles
        for g in groups
    )


def anew(world: World, policy: Policy) -> dict[int, Cause]:
    """Why the jobs of each shape wait, by a look that remembers nothing; none: the next starts."""
    world = earlier.as_busy(world)
    memo = Glance(world, sweeps=True)
    found = rerun.look(world, policy, memo, world.queued)
    placed = {world.jobs.shape.item(j) for j in found.placed}
    causes = rerun.grounded(world, memo, found)
    return {s: Cause.NONE if s in placed else cause for s, cause in causes.items()}


def spared(world: World, policy: Policy, s: int, found: Cause) -> str:
    """Who would be preempted for the jobs of a shape if the cluster let them go, and who does not;
    "": nobody would.
    """
    jobs = rerun.spared_from(world, policy, s, found)
    kept = [j for j in jobs if j in world.kept]
    return spared_jobs.words(world, kept) if kept else ""


def words(world: World, found: Cause) -> str:
    """That in words."""
    return phrasing.cause(world, found)
