"""Jobs that may not preempt: that they wait for what others hold whom they are before."""

from tidemill.explain.context import Case


def words(case: Case) -> str:
    """That a job waits although it is before others that run: it may not have them stopped."""
    world, mine = case.world, case.shape
    if mine.may_preempt or not case.policy.may_preempt or world.is_looked_on:
        return ""
    lower = [
        j for j in sorted(world.placements)
        if (other := world.shape_of(j)).team == mine.team
        and other.priority < mine.priority and other.is_preemptible
    ]  # fmt: skip
    if not lower:
        return ""
    name = world.job_names[lower[0]]
    rest = f" and {len(lower) - 1:,} more" if len(lower) > 1 else ""
    return (
        f"; `{name}`{rest} of less priority may be stopped for others, and nobody is for this job:"
        " it may not preempt (on Kubernetes, its preemptionPolicy is Never)"
    )
