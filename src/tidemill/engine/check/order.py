"""The plan checker on the order: does one job go before another, and how long is it taken to run?

Said again, from the columns and the policy.
"""

from collections.abc import Collection

import numpy as np

from tidemill.engine.check.columns import SUM
from tidemill.engine.check.expecting import expected
from tidemill.engine.check.ranks import ATTAINED, SHORTEST, SMALLEST
from tidemill.engine.check.reading import SHORTER_MAY_PASS, STRICT
from tidemill.engine.check.shares import BILL, DRF
from tidemill.model.orders import BY_SHAPE, ORDERS, JobFacts
from tidemill.model.policy import Policy
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.world import World

STEPS_AT_MOST = SUM.FOURTH_STEP - SUM.FIRST_STEP + 1
"""Of the order ``attained``, that kernels know; with more of them the order itself is asked."""
_MEASURES = {"none": 0, "drf": DRF, "bill": BILL}
_READ = {"shortest": SHORTEST, "smallest": SMALLEST, "attained": ATTAINED}


def reads(policy: Policy) -> bool:
    """Whether kernels know the policy's order of jobs."""
    return policy.order in _READ and len(policy.attained_steps_ms) <= STEPS_AT_MOST


def write(policy: Policy, reg: I64) -> I64:
    """Write what a policy says into the registers, and return them."""
    reg[SUM.BY_PRIORITY] = policy.order == "priority"
    reg[SUM.LEARNS] = policy.estimates == "history"
    reg[SUM.SHARE_PPM], reg[SUM.UNKNOWN_MS] = policy.estimate_ppm, policy.unknown_run_ms
    reg[SUM.HOLD_AFTER_MS] = policy.hold_after_ms
    reg[SUM.CULL_AFTER_MS] = policy.cull_idle_after_ms
    reg[SUM.REORDERS] = policy.may_reorder and policy.order not in BY_SHAPE
    reg[SUM.IS_FAIR] = policy.fairness != "none"
    reg[SUM.FAIRNESS] = _MEASURES[policy.fairness] if policy.order in BY_SHAPE else 0
    reg[SUM.BACKFILLS] = policy.backfill != "none"
    reg[SUM.MIN_RUN_MS] = policy.min_run_ms
    reg[SUM.EVICTIONS_AT_MOST] = policy.evictions_at_most
    steps = policy.attained_steps_ms
    is_short = len(steps) <= STEPS_AT_MOST
    reg[SUM.PATIENCE_MS] = policy.patience_ms
    reg[SUM.ORDER] = _READ[policy.order] if reads(policy) else 0
    reg[SUM.STEPS] = len(steps) if is_short else 0
    reg[SUM.FIRST_STEP : SUM.FIRST_STEP + reg[SUM.STEPS]] = steps if is_short else ()
    goes_in_line = (policy.order in BY_SHAPE or reg[SUM.ORDER] > 0) and not policy.may_reorder
    is_plain = policy.backfill != "none" and policy.fairness == "none"
    reg[SUM.JUDGES] = is_plain and policy.order in BY_SHAPE
    reg[SUM.LINES] = goes_in_line * (SHORTER_MAY_PASS if policy.backfill != "none" else STRICT)
    return reg


def registers(policy: Policy) -> I64:
    """Registers in which only what a policy says is written."""
    return write(policy, np.zeros(len(SUM), np.int64))


def goes_before(world: World, policy: Policy, j: int, other: int) -> bool:
    """Whether the policy's own order looks at ``j`` first."""
    reg = registers(policy)
    return (*place(world, policy, reg, j), j) < (*place(world, policy, reg, other), other)


def place(world: World, policy: Policy, reg: I64, j: int) -> tuple[int, int]:
    """0 and when patience was lost, or 1 and what the order reads of the job."""
    jobs = world.jobs
    is_running = jobs.state[j] == JobState.RUNNING
    began_ms = int(jobs.origin_ms[j]) if is_running else world.now_ms
    impatient_ms = int(jobs.submit_ms[j]) + int(jobs.ran_ms[j]) + policy.patience_ms
    if impatient_ms <= began_ms:
        return 0, impatient_ms
    facts = _CheckedFacts(world, reg, j, world.now_ms - began_ms)
    return 1, ORDERS[policy.order].rank(facts, policy)


class _CheckedFacts(JobFacts):
    """A job as the checker knows it."""

    __slots__ = ("_reg",)

    def __init__(self, world: World, reg: I64, j: int, running_ms: int) -> None:
        super().__init__(world, j, running_ms)
        self._reg = reg

    @property
    def left_ms(self) -> int:
        jobs, j, w = self._world.jobs, self._j, self._world.matrices
        stretch_ms = self._running_ms * 1_000_000 // (1_000_000 + int(jobs.slow_ppm[j]))
        done_ms = int(jobs.saved_ms[j]) + stretch_ms * int(jobs.speed_ppm[j]) // 1_000_000
        total_ms = expected(w.jobs, w.shapes, w.run_times, w.ratios, self._reg, j, done_ms)
        return int(total_ms) - done_ms


def left_waiting(world: World, policy: Policy, placed: Collection[int]) -> dict[int, int]:
    """Jobs that a plan places before one that asks for the same and goes first; and that one.

    With backfill one that is expected to end sooner may pass, as ``reading`` says of lines.
    """
    reg = registers(policy)
    found: dict[int, int] = {}
    for j in placed:
        mine, may_pass = (*place(world, policy, reg, j), j), policy.backfill != "none"
        for other in world.waiting[world.jobs.shape.item(j)]:
            if other in placed or (*place(world, policy, reg, other), other) > mine:
                continue
            if not (may_pass and end_ms(world, reg, j) < end_ms(world, reg, other)):
                found[j] = other
                break
    return found


def end_ms(world: World, reg: I64, j: int) -> int:
    """When a waiting job is expected to end if it is placed now."""
    jobs = world.jobs
    restart_ms = int(jobs.restart_ms[j]) if jobs.attempt[j] else 0
    left_ms = _CheckedFacts(world, reg, j, 0).left_ms
    return world.now_ms + int(jobs.startup_ms[j]) + restart_ms + left_ms
