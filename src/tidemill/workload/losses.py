"""What it would cost to stop a job now: work since its last checkpoint, and coming back."""

from tidemill.core import progress
from tidemill.model.world import World


def lost_ms(world: World, j: int) -> int:
    """Time of the whole gang that stopping this active job would waste."""
    found: int = progress.lost_ms(world.matrices.jobs, j, world.now_ms)
    return found
