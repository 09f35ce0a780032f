"""What it would cost to stop a job now: work since its last checkpoint, and coming back."""

from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.workload import progress

_RUNNING = int(JobState.RUNNING)  # a numpy scalar compares with an enum in a microsecond


def lost_ms(world: World, j: int) -> int:
    """Time of the whole gang that stopping this active job would waste."""
    jobs = world.jobs
    restart_ms = jobs.startup_ms.item(j) + jobs.restart_ms.item(j)
    if jobs.state.item(j) != _RUNNING:
        return restart_ms
    elapsed_ms = world.now_ms - jobs.origin_ms.item(j)
    return progress.lost_if_stopped_ms(
        elapsed_ms, jobs.interval_ms.item(j), jobs.cost_ms.item(j), restart_ms
    )
