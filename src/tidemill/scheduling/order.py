"""Order: who is looked at first. A smaller key goes first; keys end in the job's number.

First whoever room was made for, then teams that have not yet got their floor, then by fair share
and by priority (if the policy says so), then the oldest. Within a team the order never depends on a
job's size.
"""

from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import shares
from tidemill.scheduling.fairness import Fair
from tidemill.scheduling.memo import Known

Key = tuple[tuple[int, ...], int, int]


def key(world: World, fair: Fair, used: I64, known: Known, s: int, j: int) -> Key:
    """The place in the queue of a waiting job, given what teams use."""
    if s in world.promised:
        return ((-1,), 0, j)
    rank = shares.standing(world, used, known.queue, known.kinds)
    by_priority = fair.policy.order == "priority"
    return (
        (rank, *fair.rank(used, known.queue)),
        -known.priority if by_priority else 0,
        j,
    )
