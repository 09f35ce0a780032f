"""The second reader of the order: does one job go before another? Said again, from the rows."""

from collections.abc import Sequence

from tidemill.model.policy import Policy
from tidemill.model.states import JobState
from tidemill.model.world import World

_FEWEST = 20
_LARGEST_MS = 2**60


def goes_before(world: World, policy: Policy, j: int, other: int) -> bool:
    """Whether the policy's own order looks at ``j`` first."""
    return (*place(world, policy, j), j) < (*place(world, policy, other), other)


def loses_nothing(world: World, j: int) -> bool:
    """Whether stopping an active job now wastes no work and no time to come back."""
    jobs = world.jobs
    if jobs.startup_ms[j] or jobs.restart_ms[j]:
        return False
    if jobs.state[j] != JobState.RUNNING or jobs.interval_ms[j] < 0:
        return True
    elapsed_ms = world.now_ms - int(jobs.origin_ms[j])
    interval_ms, cycle_ms = int(jobs.interval_ms[j]), int(jobs.interval_ms[j] + jobs.cost_ms[j])
    return elapsed_ms == 0 if interval_ms == 0 else elapsed_ms % cycle_ms == 0


def place(world: World, policy: Policy, j: int) -> tuple[int, int]:
    """0 and when patience was lost, or 1 and what the order reads of the job."""
    jobs = world.jobs
    is_running = jobs.state[j] == JobState.RUNNING
    began_ms = int(jobs.origin_ms[j]) if is_running else world.now_ms
    impatient_ms = int(jobs.submit_ms[j]) + int(jobs.ran_ms[j]) + policy.patience_ms
    if impatient_ms <= began_ms:
        return 0, impatient_ms
    stretch_ms, milli = world.now_ms - began_ms, world.shape_of(j).total_milli
    if policy.order == "attained":
        had_ms = (int(jobs.ran_ms[j]) + stretch_ms) * milli // 1000
        return 1, len([step for step in policy.attained_steps_ms if step <= had_ms])
    stretch_ms = stretch_ms * 1_000_000 // (1_000_000 + int(jobs.slow_ppm[j]))
    done_ms = int(jobs.saved_ms[j]) + stretch_ms * int(jobs.speed_ppm[j]) // 1_000_000
    left_ms = expected_ms(world, policy, j, done_ms) - done_ms
    return 1, left_ms * (milli if policy.order == "smallest" else 1)


def expected_ms(world: World, policy: Policy, j: int, done_ms: int) -> int:
    """How long a job that has done so much is taken to run in all."""
    guess_ms, counts = int(world.jobs.estimate_ms[j]), told(world, policy, j)
    per_step, total_ms = guess_ms or 1_000_000, first_ms(policy, guess_ms, counts)
    done_ms = max(done_ms, int(world.jobs.reached_ms[j]))
    while total_ms <= done_ms:
        past = max(1, total_ms * 1_000_000 // per_step)
        step = _reached(counts, policy.estimate_ppm, _step(past)) if counts else 0
        total_ms = max(2 * total_ms if step == 0 else 0, per_step * step // 1_000_000)
    return total_ms


def told(world: World, policy: Policy, j: int) -> Sequence[int]:
    """What history tells of a job: counts of ratios for a guess, else of run times; or nothing."""
    shape = world.shape_of(j)
    q = world.queue_number[shape.team]
    if policy.estimates != "history" or q >= len(world.ended):
        return ()
    size = min(15, (-(-shape.total_milli // 1000)).bit_length())
    counts: list[int] = (
        world.ratios[q] if world.jobs.estimate_ms[j] else world.run_times[q, size]
    ).tolist()
    return counts if sum(counts) >= _FEWEST else ()


def first_ms(policy: Policy, guess_ms: int, counts: Sequence[int]) -> int:
    """How long a job is taken to run before it has: by its guess and what history tells."""
    total_ms = guess_ms or policy.unknown_run_ms or 1
    if counts:
        total_ms = (guess_ms or 1_000_000) * _reached(counts, policy.estimate_ppm, -1) // 1_000_000
    return max(1, min(total_ms, _LARGEST_MS))


def _step(value: int) -> int:
    ends = [_end(step) for step in range(88)]
    return next((step for step, end in enumerate(ends) if value < end), 87)


def _end(step: int) -> int:
    """Steps are half doublings: they end at 2, 2, 3, 4, 6, 8, 12, 16 …"""
    return 2 if step < 2 else 2 ** (step // 2) * (3 + step % 2) // 2


def _reached(counts: Sequence[int], share_ppm: int, past: int) -> int:
    """The end of the step by which this share of those past a step is reached; 0: there is none."""
    rest = list(counts[past + 1 :])
    needed, so_far = max(1, -(-sum(rest) * share_ppm // 1_000_000)), 0
    for step, count in enumerate(rest, past + 1):
        so_far += count
        if so_far >= needed:
            return _end(step)
    return 0
