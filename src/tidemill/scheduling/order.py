"""Order: who is looked at first. A smaller key goes first; keys end in the job's number.

First whoever room was made for, then teams that have not yet got their floor, then by fair
share (if the policy says so), then the policy's own order, then the oldest. What each order reads
of a job is its row in ``model.orders``: ``shortest`` is SRTF, ``smallest`` SRSF, ``attained`` goes
by the accelerator time that a job had, in steps (after Tiresias, NSDI'19).

In all but ``fifo`` and ``priority`` a job that has waited for longer than the policy's patience,
all its waits taken together, goes before those that have not, in the order in which patience was
lost. Nothing can take that from it again, so whoever can fit finally runs whatever else arrives.
"""

from tidemill.core import order as core
from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.orders import BY_SHAPE, ORDERS, JobFacts
from tidemill.model.policy import Policy
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import shares
from tidemill.scheduling.estimates import Estimates
from tidemill.scheduling.fairness import Fair
from tidemill.scheduling.shape_eligibility import Known

Place = tuple[int, int]
"""A job's place in the policy's own order: 0 and when patience was lost, or 1 and its rank."""
Head = tuple[Place, int]
"""The place of a job and its number."""
Key = tuple[tuple[int, ...], int, int, int]

_RUNNING = int(JobState.RUNNING)


def key(world: World, fair: Fair, used: I64, known: Known, s: int, j: int) -> Key:
    """The place in the queue of a waiting job, given what teams use."""
    place = place_of(world, fair.policy, Estimates(fair.policy), j)
    return key_at(fair, used, known, s, (place, j))


def key_at(fair: Fair, used: I64, known: Known, s: int, head: Head) -> Key:
    """The same for a job whose place in the policy's own order is known."""
    if s in fair.world.promised:
        return ((-1,), 0, 0, head[1])
    return ranked(fair, used, known, head)


def ranked(fair: Fair, used: I64, known: Known, head: Head) -> Key:
    """The same without regard to room that was made."""
    place, j = head
    standing = shares.standing(fair.world, used, known.queue, known.kinds)
    return ((standing, *fair.rank(used, known.queue)), *place, j)


def place_of(world: World, policy: Policy, estimates: Estimates, j: int) -> Place:
    """The place of a job, waiting or active, in the policy's own order."""
    if policy.order in BY_SHAPE:
        return (1, rank(world, policy, estimates, j, 0))
    jobs, now_ms = world.jobs, world.now_ms
    is_running = jobs.state.item(j) == _RUNNING
    begun_ms = jobs.origin_ms.item(j) if is_running else now_ms
    lost_at_ms = loses_patience_at_ms(world, policy, j)
    if lost_at_ms <= begun_ms:
        return (0, lost_at_ms)
    return (1, rank(world, policy, estimates, j, now_ms - begun_ms))


def rank(world: World, policy: Policy, estimates: Estimates, j: int, running_ms: int) -> int:
    """What the order makes of a job that has been running for so long now."""
    return ORDERS[policy.order].rank(_Facts(world, j, running_ms, estimates), policy)


class _Facts(JobFacts):
    """A job as the scheduler knows it."""

    __slots__ = ("_estimates",)

    def __init__(self, world: World, j: int, running_ms: int, estimates: Estimates) -> None:
        super().__init__(world, j, running_ms)
        self._estimates = estimates

    @property
    def left_ms(self) -> int:
        jobs, j = self._world.jobs, self._j
        done_ms = self._running_ms * ONE_PPM // (ONE_PPM + jobs.slow_ppm.item(j))
        worked_ms = jobs.saved_ms.item(j) + done_ms * jobs.speed_ppm.item(j) // ONE_PPM
        return self._estimates.left_ms(self._world, j, worked_ms)


def loses_patience_at_ms(world: World, policy: Policy, j: int) -> int:
    """When a job loses its patience if it goes on waiting."""
    return _guarded_from_ms(world, policy, j, backfills=False)


def is_guarded(world: World, policy: Policy, j: int) -> bool:
    """Whether the starvation guard protects a waiting job: nobody may pass it any more."""
    from_ms = guarded_from_ms(world, policy, j)
    return from_ms is not None and from_ms <= world.now_ms


def guarded_from_ms(world: World, policy: Policy, j: int) -> int | None:
    """From when on the guard protects a job that goes on waiting; None: nobody has passed it."""
    from_ms = _guarded_from_ms(world, policy, j, backfills=policy.backfill != "none")
    return from_ms if from_ms < FOREVER_MS else None


def _guarded_from_ms(world: World, policy: Policy, j: int, *, backfills: bool) -> int:
    by_shape = policy.order in BY_SHAPE
    found: int = core.guarded_from(
        world.matrices.jobs, j, int(backfills), int(by_shape), policy.patience_ms,
        policy.hold_after_ms,
    )  # fmt: skip
    return found
