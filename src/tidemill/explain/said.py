"""The cause for which a shape waits, as the scheduler said it last, in the order of the questions.

What pods of a cluster are told is what ``why`` and ``pending`` say: one rule, one text.
"""

from tidemill.explain import phrasing, rerun
from tidemill.explain.rerun import Glance
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.world import World


def cause(world: World, s: int) -> Cause:
    """Why the jobs of a shape wait; none: nobody has looked yet."""
    found = Cause(world.shapes.cause.item(s))
    if found not in (Cause.SCATTERED, Cause.BEHIND, Cause.RESERVED):
        return found
    return rerun.from_the_ground(world, Glance(world, sweeps=True), s, found)


def anew(world: World, policy: Policy) -> dict[int, Cause]:
    """Why the jobs of each shape wait, by a look that remembers nothing; none: the next starts."""
    memo = Glance(world, sweeps=True)
    found = rerun.look(world, policy, memo, world.queued)
    placed = {world.jobs.shape.item(j) for j in found.placed}
    causes = rerun.grounded(world, memo, found)
    return {s: Cause.NONE if s in placed else cause for s, cause in causes.items()}


def words(world: World, found: Cause) -> str:
    """That in words."""
    return phrasing.cause(world, found)
