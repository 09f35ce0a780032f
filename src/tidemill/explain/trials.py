"""Trials: would the scheduler place this at once? It is submitted to the real cycle, on a copy.

Everything that an answer offers ("would run now", "then it starts at once") is tried here first,
with the policy as it is: what fits the free GPUs may still have to wait behind a reservation of
backfill, a limit, or somebody who may not be passed. Bounded: where so much waits that a cycle
takes long, less is tried or nothing, and the answer says so (``untried``).
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from tidemill.core import snapshot
from tidemill.engine.cycle import CycleMemo, cycle
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.explain import quota_use, rerun, site
from tidemill.model import events as ev
from tidemill.model.errors import EventRefused
from tidemill.model.measures import count_text
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Checkpointing, Job, Queue, Shape
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.moves import Mover

BUDGET_US = 400_000  # for all trials of one answer, which may take a second in all
CYCLE_US = 8_000  # measured on 140 nodes; a cycle then costs so much more for each waiting shape:
SHAPE_US = 60
NODES_PER_US = 30  # and on each of them a microsecond more for so many nodes (0.4 ms at 10,000)


class Trials:
    """What the next cycle would do if things were otherwise; as many as the budget allows."""

    def __init__(
        self, world: World, policy: Policy, *, sweeps: bool = False, is_submitted: bool = True
    ) -> None:
        self._world, self._policy, self._sweeps = world, policy, sweeps
        self.is_submitted = is_submitted
        """Whether the job is in the queue; if not, there is nothing to cancel."""
        self._scored: Memo | None = None
        self._on: dict[tuple[int, tuple[int, ...]], bool] = {}
        self._without: dict[tuple[int, tuple[int, ...]], bool] = {}
        shapes, nodes = len(world.queued) + 1, world.node_count
        self.left = BUDGET_US // (CYCLE_US + shapes * (SHAPE_US + nodes // NODES_PER_US))
        """How many more may be tried."""
        self._is_cut = False

    def may_try(self) -> bool:
        """Whether one more may be tried; if not, that is remembered."""
        self._is_cut = self._is_cut or self.left <= 0
        return self.left > 0

    def untried(self) -> str:
        """That not all that might start now was tried, in words; nothing: it was."""
        if not self._is_cut:
            return ""
        return (
            "not all was tried that might start now instead:"
            f" on {count_text(self._world.node_count, 'node')} with"
            f" {count_text(len(self._world.queued), 'different request')} in the queue"
            " each trial is a"
            " scheduling cycle with all of them; ask `fit` about one change at a time"
        )

    def places(self, job: Job, *, without: int = -1) -> bool:
        """Whether this job, submitted now, is placed at once; ``without``: that one cancelled.

        What the cluster itself would not let in is not (of what is submitted it has counted that).
        """
        if not self.is_submitted and quota_use.refusal(self._world, job.shape):
            return False
        may, self.left = self.may_try(), self.left - 1
        if not may:
            return False
        if self._world.is_looked_on and self._is_kept_out(job, without):
            return False
        try:
            world, j = resubmitted(self._world, job, without)
        except (EventRefused, ValueError):  # nothing that could be submitted: not on offer
            return False
        return self._is_placed(world, j)

    def _is_kept_out(self, job: Job, without: int) -> bool:
        """Whether the cluster itself would not let it in, whatever is free. Pods that a job has
        already are in its quota's count: cancelled, they leave as much.
        """
        if site.ahead_in_queue(self._world, job.shape, without):
            return True
        is_new = without < 0 or not self.is_submitted
        return is_new and bool(quota_use.refusal(self._world, job.shape))

    def places_after(self, j: int, queues: Iterable[Queue]) -> bool:
        """Whether a waiting job is placed at once when teams have these shares."""
        may, self.left = self.may_try(), self.left - 1
        if not may:
            return False
        world = snapshot.branch(self._world)
        try:
            fold_all(world, [ev.QueueSet(world.now_ms, queue) for queue in queues])
        except EventRefused:
            return False
        return self._is_placed(world, j)

    def places_on(self, j: int, nodes: tuple[int, ...]) -> bool:
        """Whether a waiting job is placed at once when these nodes take work (``opened``)."""
        if (j, nodes) not in self._on:
            may, self.left = self.may_try(), self.left - 1
            self._on[j, nodes] = may and self._is_placed(opened(self._world, nodes), j)
        return self._on[j, nodes]

    def fewest_on(self, j: int, nodes: Sequence[int]) -> tuple[int, ...]:
        """The first of these nodes with which a waiting job is placed; (): too little is left to
        try, or it is not placed on all.
        """
        if not nodes or self.left <= 2 * len(nodes).bit_length():
            return ()
        return shortest(nodes, lambda some: self.places_on(j, some))

    def places_without(self, j: int, jobs: tuple[int, ...]) -> bool:
        """Whether a waiting job is placed at once when these running jobs are cancelled."""
        if (j, jobs) not in self._without:
            may, self.left = self.may_try(), self.left - 1
            self._without[j, jobs] = may and self._is_placed(stopped(self._world, jobs), j)
        return self._without[j, jobs]

    def places_moved(self, j: int, movers: Sequence[Mover]) -> bool:
        """Whether a waiting job is placed at once when these running jobs have moved."""
        may, self.left = self.may_try(), self.left - 1
        if not may:
            return False
        try:
            world = moved(self._world, movers)
        except EventRefused:
            return False
        return self._is_placed(world, j)

    def _is_placed(self, world: World, j: int) -> bool:
        """Where another scheduler decides, as if no other waited: it holds them back, not we."""
        if world.is_looked_on:
            s = world.jobs.shape.item(j)
            if rerun.alone(world, self._policy, s, sweeps=self._sweeps) is not Cause.NONE:
                return False
            options = Memo(sweeps=self._sweeps).known(world, s).options
            return not site.doubt(world, self._policy, j, options)
        memo = CycleMemo()
        memo.scheduling = Memo(sweeps=self._sweeps)
        if self._scored is not None:
            memo.scheduling.inherit_scoring(self._scored)
        self._scored = memo.scheduling
        plan = cycle(world, self._policy, memo)
        return any(isinstance(act, ev.AskedPlace) and act.job == j for act in plan.actions)


def stopped(world: World, jobs: Iterable[int]) -> World:
    """The state in which these jobs are gone."""
    made = snapshot.copy(world)
    return fold_all(made, [ev.JobCancelled(made.now_ms, j) for j in jobs])


def opened(world: World, nodes: Iterable[int]) -> World:
    """The state in which these spare, cordoned or unhealthy nodes take work, or those that boot;
    one that is full of pods too takes none when it is uncordoned.
    """
    made = snapshot.copy(world)
    for n in nodes:
        if made.nodes.is_spare[n]:
            c = int(made.nodes.contract[n])
            made.contract_rows[c] = replace(made.contract_rows[c], spares=0)
            fold(made, ev.AskedSpare(made.now_ms, n, False))
        state = made.nodes.state[n]
        is_shut = state in (NodeState.CORDONED, NodeState.UNHEALTHY)
        if state == NodeState.BOOTING or (is_shut and not made.is_full_too(n)):
            fold(made, ev.NodeMoved(made.now_ms, n, NodeState.READY))
    return made


def shortest(nodes: Sequence[int], is_enough: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
    """The fewest of these nodes, from the first on, that are enough; (): not all of them are.

    From one on twice as many each time, then between: a trial costs by the nodes that it opens.
    """
    low, high = 0, min(1, len(nodes))
    while not is_enough(tuple(nodes[:high])):
        if high == len(nodes):
            return ()
        low, high = high, min(2 * high, len(nodes))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(tuple(nodes[:middle])) else (middle, high)
    return tuple(nodes[:high])


def resubmitted(world: World, job: Job, without: int = -1) -> tuple[World, int]:
    """The cluster state in which this job was submitted now, and its number; ``without``: that one
    was cancelled. It has the same name, which an order may read.
    """
    made = snapshot.branch(world)
    if without >= 0:
        fold(made, ev.JobCancelled(made.now_ms, without))
    made.job_names.forget(job.name)
    fold(made, ev.JobSubmitted(made.now_ms, job))
    return made, made.job_count - 1


def seated(world: World, places: Iterable[ev.AskedPlace]) -> World:
    """The cluster state in which these jobs were placed."""
    return fold_all(snapshot.copy(world), places)


def moved(world: World, movers: Sequence[Mover]) -> World:
    """The cluster state in which these jobs were moved, for nobody in particular."""
    made = snapshot.copy(world)
    for victim, gained in movers:
        j, attempt = victim.job, int(world.jobs.attempt[victim.job])
        asked = ev.AskedMove(made.now_ms, j, attempt, ev.Why.MOVED, gained, victim.pieces)
        fold_all(made, [asked, ev.JobMoved(made.now_ms, j, attempt)])
    return made


def row(world: World, j: int, shape: Shape, estimate_ms: int | None = None) -> Job:
    """The job as it would be submitted again with another shape, or another estimate."""
    jobs = world.jobs
    interval_ms, cost_ms = int(jobs.interval_ms[j]), int(jobs.cost_ms[j])
    given_ms = int(jobs.estimate_ms[j]) if estimate_ms is None else estimate_ms
    return Job(
        world.job_names[j], shape, given_ms, int(jobs.startup_ms[j]), int(jobs.restart_ms[j]),
        Checkpointing(max(0, interval_ms), cost_ms), resize_ms=int(jobs.resize_ms[j]),
        user=world.job_users[j],
    )  # fmt: skip
