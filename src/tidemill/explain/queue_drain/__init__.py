"""Sketch: when everything that waits would start, in one pass of kernels over the queue.

For fleets and queues on which the engine's own loop would take minutes. Running jobs end when
``lengths`` and ``draws`` say; waiting ones start in today's order, each on the first kind that has
room for all of it. Without backfill nobody passes one that lost its patience (if a limit keeps it
out, nobody under that limit); with backfill everybody may, as most do. Limits, labels, CPU and
memory count.
Simpler than the engine: nobody is evicted, resized or moved, floors and fair shares stay as they
rank today, ties to a rack or a switch are not seen, and parts of devices on one node are one (MIG
instances too: that they must begin at legal slices is not seen).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidemill.explain.draws import Draw
from tidemill.explain.durations import Lengths
from tidemill.explain.play_forward import BOOT_MS, GRID_MS, LEAVE_MS, grid_of, repair_ms, round_ms
from tidemill.explain.queue_drain.columns import (
    DUE,
    FORM,
    NEED,
    PARCEL,
    PLAY,
    SIZES,
    WAITER,
    QueueDrain,
)
from tidemill.explain.queue_drain.kernels import drain
from tidemill.explain.rerun import Glance, in_order
from tidemill.model.measures import DAY_MS, FOREVER_MS, WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.reasons import NEVER, Cause
from tidemill.model.rows import Role
from tidemill.model.states import JobState, NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import eligibility

HORIZON_MS = 30 * DAY_MS
_COMING = (NodeState.ASKED, NodeState.BOOTING, NodeState.REPAIRING)


class Starts(NamedTuple):
    """When waiting jobs would start, from now, in each future; -1: not within the horizon."""

    row_of: dict[int, int]
    waits_ms: I64
    """One row per future, one column per job."""

    def of(self, j: int) -> list[int | None]:
        """The waits of one job, in each future; None: past the horizon."""
        return [None if wait < 0 else wait for wait in self.waits_ms[:, self.row_of[j]].tolist()]


def starts(
    world: World, policy: Policy, lengths: Lengths, draws: Sequence[Draw], only: int = -1,
    most: int | None = None,
) -> Starts:  # fmt: skip
    """When all that waits would start; with ``only``, no further than to that job.

    ``most``: of so many that are the first in the order.
    """
    queue = _Queue(world, policy, most)
    waits = [queue.play(lengths, draw, only) for draw in draws]
    return Starts({j: i for i, j in enumerate(queue.jobs)}, np.array(waits))


class _Active(NamedTuple):
    """A job that holds devices: since when it works, how far it is, and what it will give back."""

    queue: int
    begun_ms: int
    worked_ms: int
    is_leaving: bool
    pieces: list[tuple[int, ...]]


class _Queue:
    """The present as columns, read once for all futures."""

    def __init__(self, world: World, policy: Policy, most: int | None = None) -> None:
        self.world, self.policy = world, policy
        memo = Glance(world)
        self.jobs = [
            j for j in in_order(world, policy, memo)
            if Cause(world.shapes.cause.item(int(world.jobs.shape[j]))) not in NEVER
        ][:most]  # fmt: skip
        self._rules: dict[tuple[object, ...], int] = {}
        self._options: list[list[int]] = []
        self._flags: list[I64] = []
        self._read_shapes()
        self._active = {j: self._read_active(j) for j in world.placements}
        self._due = self._read_waiting()
        self._replicas = sum(role.fewest for j in self.jobs for role in world.shape_of(j).roles)

    def play(self, lengths: Lengths, draw: Draw, only: int) -> I64:
        """One future: the wait of every job in the order of ``jobs``."""
        world, (queues, kinds) = self.world, self.world.used.shape
        due, parcels = self._running(lengths, draw)
        waiters, hosts, forms = self._waiting(lengths, draw), self._hosts(), self._forms.copy()

        def blank(*shape: int) -> I64:
            return np.zeros(shape, np.int64)

        drain(
            world.matrices,
            QueueDrain(
                self._begin(only, due), hosts, due, self._coming(draw), parcels, waiters, forms,
                self._needs, self._choices, self._may_use, world.used.copy(),
                blank(queues, kinds), blank(kinds),
                alive=np.arange(len(waiters)), heap=blank(len(waiters), 2), free=blank(kinds),
                sizes=blank(kinds, SIZES), stuck=blank(len(forms), kinds), held=blank(kinds),
                held_under=blank(queues, kinds), freed=blank(len(hosts)),
            )
        )  # fmt: skip
        start_ms = waiters[:, WAITER.START_MS]
        return np.where(start_ms < 0, -1, start_ms - world.now_ms)

    def _begin(self, only: int, due: I64) -> I64:
        now_ms, play = self.world.now_ms, np.zeros(len(PLAY), np.int64)
        target = self.jobs.index(only) if only in self.jobs else -1
        parcels = due[-1, DUE.LAST] if len(due) else 0
        play[: PLAY.PARCELS + 1] = (
            now_ms, now_ms + HORIZON_MS, self._patience_ms(), GRID_MS, target, len(self.jobs),
            parcels,
        )  # fmt: skip
        return play

    def _patience_ms(self) -> int:
        """After how long a wait nobody passes a job."""
        return self.policy.patience_ms if self.policy.backfill == "none" else FOREVER_MS

    def _read_shapes(self) -> None:
        world = self.world
        shapes = dict.fromkeys(int(world.jobs.shape[j]) for j in self.jobs)
        self.shape_number = {s: i for i, s in enumerate(shapes)}
        rows: list[tuple[int, ...]] = []
        spans: list[tuple[int, int, int, int]] = []
        for s in shapes:
            first = len(rows)
            rows += [
                (role.accelerators, role.milli, role.fewest, role.cpu_milli, role.memory_mib,
                 self._rule(role), -1)
                for role in world.shape_rows[s].roles
            ]  # fmt: skip
            spans.append((first, len(rows), -1, 0))
        self._forms = np.array(spans, np.int64).reshape(-1, len(FORM))
        self._needs = np.array(rows, np.int64).reshape(-1, len(NEED))
        kinds = max((len(options) for options in self._options), default=1)
        self._choices = np.full((max(1, len(self._options)), max(1, kinds)), -1)
        for i, options in enumerate(self._options):
            self._choices[i, : len(options)] = options
        self._may_use = np.zeros((max(1, len(self._flags)), max(1, len(world.groups))), np.int64)
        for i, flags in enumerate(self._flags):
            self._may_use[i, : len(flags)] = flags

    def _rule(self, role: Role) -> int:
        """The number of a role's kinds and rules; equal ones are looked at once."""
        key = (role.kinds, role.rules)
        if key not in self._rules:
            self._rules[key] = len(self._options)
            options = eligibility.options(self.world, role)
            self._options.append([option.kind for option in options])
            self._flags.append(eligibility.anywhere(self.world, role).is_ok.astype(np.int64))
        return self._rules[key]

    def _hosts(self) -> I64:
        nodes, rows = self.world.nodes, self.world.node_count
        devices = self.world.devices
        free = devices.free_milli[: self.world.device_count].astype(np.int64)
        free[devices.is_failed[: self.world.device_count] != 0] = 0
        whole = np.zeros(rows, np.int64)
        if rows:
            whole = np.add.reduceat(
                (free == WHOLE_MILLI).astype(np.int64), nodes.first_device[:rows]
            )
        part = nodes.free_milli[:rows] - whole * WHOLE_MILLI
        is_open = (nodes.state[:rows] == NodeState.READY) & (nodes.is_spare[:rows] == 0)
        return np.column_stack((
            is_open, nodes.kind[:rows], nodes.group[:rows], whole, part,
            nodes.cpu_free_milli[:rows], nodes.memory_free_mib[:rows],
        ))  # fmt: skip

    def _running(self, lengths: Lengths, draw: Draw) -> tuple[I64, I64]:
        """What runs, in the order in which it ends, and the parcels that it gives back."""
        now_ms, ends = self.world.now_ms, list[tuple[int, int]]()
        for j, one in self._active.items():
            end_ms = self._end_ms(lengths, j, one, draw)
            if end_ms <= now_ms + HORIZON_MS:
                ends.append((round_ms(end_ms, end_ms - now_ms), j))
        rows, due = list[tuple[int, ...]](), list[tuple[int, int, int]]()
        for at_ms, j in sorted(ends):
            rows += self._active[j].pieces
            due.append((at_ms, self._active[j].queue, len(rows)))
        parcels = np.zeros((len(rows) + self._replicas + 1, len(PARCEL)), np.int64)
        parcels[: len(rows)] = np.array(rows, np.int64).reshape(-1, len(PARCEL))
        return np.array(due, np.int64).reshape(-1, len(DUE)), parcels

    def _read_active(self, j: int) -> _Active:
        world, jobs = self.world, self.world.jobs
        saved_ms, begun_ms = int(jobs.saved_ms[j]), int(jobs.origin_ms[j])
        if jobs.state[j] == JobState.STARTING:
            begun_ms = max(world.now_ms, int(jobs.since_ms[j]) + int(jobs.startup_ms[j]))
        worked_ms = max(0, world.now_ms - begun_ms) + saved_ms
        queue = int(world.shapes.queue[jobs.shape[j]])
        return _Active(
            queue, max(world.now_ms, begun_ms), worked_ms, bool(jobs.is_leaving[j]), self._pieces(j)
        )

    def _pieces(self, j: int) -> list[tuple[int, ...]]:
        """What a running job gives back: node, whole devices, thousandths, CPU, memory."""
        shape, rows = self.world.shape_of(j), list[tuple[int, ...]]()
        for piece in self.world.placements[j]:
            role = shape.roles[piece.role]
            milli = piece.replicas * role.replica_milli
            whole = milli // WHOLE_MILLI if role.milli == WHOLE_MILLI else 0
            rows.append((piece.node, whole, milli - whole * WHOLE_MILLI,
                         piece.replicas * role.cpu_milli,
                         piece.replicas * role.memory_mib))  # fmt: skip
        return rows

    def _end_ms(self, lengths: Lengths, j: int, one: _Active, draw: Draw) -> int:
        if one.is_leaving:
            return self.world.now_ms + LEAVE_MS
        left_ms = lengths.left_ms(self.world, j, one.worked_ms, draw)
        return FOREVER_MS if left_ms is None else one.begun_ms + left_ms

    def _waiting(self, lengths: Lengths, draw: Draw) -> I64:
        rows = []
        for j, (shape, queue, since_ms, saved_ms, startup_ms) in zip(
            self.jobs, self._due, strict=True
        ):
            left_ms = lengths.left_ms(self.world, j, saved_ms, draw)
            length_ms = FOREVER_MS // 2 if left_ms is None else left_ms + startup_ms
            rows.append((shape, queue, since_ms, length_ms, grid_of(length_ms), -1, 0, 0))
        return np.array(rows, np.int64).reshape(-1, len(WAITER))

    def _read_waiting(self) -> list[list[int]]:
        """Of each job in order: shape, queue, waiting since, work saved, time to start up."""
        jobs, mine = self.world.jobs, np.array(self.jobs, np.int64)
        shapes = jobs.shape[mine]
        numbers = np.array([self.shape_number[s] for s in shapes.tolist()], np.int64)
        columns = (
            numbers, self.world.shapes.queue[shapes], jobs.since_ms[mine], jobs.saved_ms[mine],
            jobs.startup_ms[mine],
        )  # fmt: skip
        rows: list[list[int]] = np.stack(columns, axis=1).tolist()
        return rows

    def _coming(self, draw: Draw) -> I64:
        """Nodes that will take work: booting, and those in repair."""
        nodes, rows, now_ms = self.world.nodes, self.world.node_count, self.world.now_ms
        after_ms = {NodeState.ASKED: 2 * BOOT_MS, NodeState.BOOTING: BOOT_MS}
        found = []
        for n in np.flatnonzero(np.isin(nodes.state[:rows], _COMING)).tolist():
            ms = after_ms.get(NodeState(nodes.state[n]), BOOT_MS + repair_ms(draw, n))
            found.append((max(now_ms + 1, int(nodes.since_ms[n]) + ms), n))
        found.sort()
        return np.array(found, np.int64).reshape(-1, 2)
