"""Partial gangs: jobs of which fewer replicas are placed than they work with."""

from tidemill.model.columns import JOB
from tidemill.model.world import World


def lacking(world: World, j: int) -> list[tuple[int, int]]:
    """By number, the roles of a placed job that lack replicas, and how many; none: it is whole.

    What was shown on devices that others hold is there too, and only not booked.
    """
    roles = world.shape_of(j).roles
    held = [0] * len(roles)
    for piece in world.placements[j]:
        held[piece.role] += piece.replicas
    lacks = [
        (r, role.fewest - held[r])
        for r, role in enumerate(roles)
        if held[r] < role.fewest and role.accelerators
    ]
    missing_milli = sum(count * roles[r].replica_milli for r, count in lacks)
    return lacks if missing_milli > world.matrices.jobs.item(j, JOB.OVER_MILLI) else []
