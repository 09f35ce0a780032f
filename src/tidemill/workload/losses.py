"""What it would cost to stop a job now: work since its last checkpoint, and coming back."""

from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.workload import progress


def lost_ms(world: World, j: int) -> int:
    """Time of the whole gang that stopping this active job would waste."""
    jobs = world.jobs
    restart_ms = int(jobs.startup_ms[j]) + int(jobs.restart_ms[j])
    if jobs.state[j] != JobState.RUNNING:
        return restart_ms
    elapsed_ms = world.now_ms - int(jobs.origin_ms[j])
    return progress.lost_if_stopped_ms(
        elapsed_ms, int(jobs.interval_ms[j]), int(jobs.cost_ms[j]), restart_ms
    )
