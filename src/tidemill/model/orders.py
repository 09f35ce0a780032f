"""Queueing orders: one row per order, and in it the one function that ranks a job.

A smaller rank goes first; equal ranks go by the job's number, the oldest first. The function reads
what ``JobFacts`` gives and nothing else, so that a rank does not change while its job waits. The
scheduler and the plan checker each work out the facts by themselves and ask the same row; ledger,
forecast and explanations ask the scheduler.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tidemill.model.policy import Policy
    from tidemill.model.world import World


class JobFacts(ABC):
    """What an order may read of a job: nothing of it changes while the job waits."""

    __slots__ = ("_j", "_running_ms", "_world")

    def __init__(self, world: "World", j: int, running_ms: int) -> None:
        self._world, self._j, self._running_ms = world, j, running_ms

    @property
    def name(self) -> str:
        """What the job is called."""
        return self._world.job_names[self._j]

    @property
    def user(self) -> str:
        """Who submitted it; empty where nobody said."""
        return self._world.job_users[self._j]

    @property
    def team(self) -> str:
        """The queue that it was submitted to."""
        return self._world.shape_of(self._j).team

    @property
    def job_class(self) -> str:
        """``training``, ``inference`` or ``interactive``."""
        return self._world.shape_of(self._j).kind

    @property
    def priority(self) -> int:
        """Its priority: higher is more urgent."""
        return self._world.shapes.priority.item(self._world.jobs.shape.item(self._j))

    @property
    def submit_ms(self) -> int:
        """When it was submitted, in ms since the journal began."""
        return self._world.jobs.submit_ms.item(self._j)

    @property
    def accelerator_milli(self) -> int:
        """What it requests in all, in thousandths of an accelerator."""
        return self._world.shapes.total_milli.item(self._world.jobs.shape.item(self._j))

    @property
    def ran_ms(self) -> int:
        """How long it has run so far, in ms, all attempts together."""
        return self._world.jobs.ran_ms.item(self._j) + self._running_ms

    @property
    @abstractmethod
    def left_ms(self) -> int:
        """How much longer it is expected to run, in ms, by the policy's estimates."""


Rank = Callable[[JobFacts, "Policy"], int]


class QueueOrder(NamedTuple):
    """One order."""

    rank: Rank
    is_by_shape: bool = False
    """Whether jobs that ask for the same rank alike, so that the oldest of them is the first. The
    compiled cycle knows two of these by heart; it asks Python for every other order."""


def _oldest(job: JobFacts, policy: "Policy") -> int:  # noqa: ARG001 - as every row's function
    return 0


def _by_priority(job: JobFacts, policy: "Policy") -> int:  # noqa: ARG001
    return -job.priority


def _shortest(job: JobFacts, policy: "Policy") -> int:  # noqa: ARG001
    return job.left_ms


def _smallest(job: JobFacts, policy: "Policy") -> int:  # noqa: ARG001
    return job.left_ms * job.accelerator_milli


def _attained(job: JobFacts, policy: "Policy") -> int:
    had = job.ran_ms * job.accelerator_milli // 1000
    return sum(had >= step for step in policy.attained_steps_ms)


ORDERS: dict[str, QueueOrder] = {
    "fifo": QueueOrder(_oldest, is_by_shape=True),
    "priority": QueueOrder(_by_priority, is_by_shape=True),
    "shortest": QueueOrder(_shortest),
    "smallest": QueueOrder(_smallest),
    "attained": QueueOrder(_attained),
}
"""By name, as a policy's ``order`` says it."""

BY_SHAPE = frozenset(name for name, row in ORDERS.items() if row.is_by_shape)
"""Orders in which the oldest of a shape is always its first."""
