"""The plan checker on the order: does one job go before another, and how long is it taken to run?

Said again, from the columns and the policy.
"""

import numpy as np

from tidemill.engine.check.columns import REG
from tidemill.engine.check.expecting import expected
from tidemill.engine.check.reading import SHORTER_MAY_PASS, STRICT
from tidemill.model.policy import Policy
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.world import World


def write(policy: Policy, reg: I64) -> I64:
    """Write what a policy says into the registers, and return them."""
    reg[REG.BY_PRIORITY] = policy.order == "priority"
    reg[REG.LEARNS] = policy.estimates == "history"
    reg[REG.SHARE_PPM], reg[REG.UNKNOWN_MS] = policy.estimate_ppm, policy.unknown_run_ms
    reg[REG.HOLD_AFTER_MS] = policy.hold_after_ms
    goes_in_line = policy.order in {"fifo", "priority"} and not policy.may_reorder
    reg[REG.LINES] = goes_in_line * (SHORTER_MAY_PASS if policy.backfill != "none" else STRICT)
    return reg


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
    reg = write(policy, np.zeros(len(REG), np.int64))
    w = world.matrices
    total_ms = int(expected(w.jobs, w.shapes, w.run_times, w.ratios, reg, j, done_ms))
    left_ms = total_ms - done_ms
    return 1, left_ms * (milli if policy.order == "smallest" else 1)
