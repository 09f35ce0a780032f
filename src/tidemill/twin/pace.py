"""Pace: how much slower the twin runs a gang that sits further apart than it could.

Off unless the fleet has tiers with bandwidths and the job says how it divides its model or which
share of its time is on links (``scheduling.topology.hops``).
"""

from tidemill.model.world import World
from tidemill.scheduling.topology import hops


class Pace:
    """Remembers how large the domains of the fleet are until there are more nodes."""

    def __init__(self) -> None:
        self._sizes: tuple[int, hops.Sizes] | None = None

    def slow_ppm(self, world: World, j: int) -> int:
        """How much longer the steps of a job that was just placed take than at their best."""
        if not world.topology.tiers or not _talks(world, j):
            return 0
        if self._sizes is None or self._sizes[0] != world.node_count:
            self._sizes = (world.node_count, hops.sizes(world))
        return hops.slow_ppm(world, j, self._sizes[1])


def _talks(world: World, j: int) -> bool:
    return bool(world.jobs.links_ppm[j]) or world.shape_of(j).parallelism is not None
