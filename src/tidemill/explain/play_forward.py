"""Ahead: a backend in which the present simply goes on, for asking when something will start.

Running jobs end when ``lengths`` and ``draws`` say, nodes that are coming come, contracts start and
end; nothing new arrives and nothing new breaks. It is run by the engine's own loop, so the same
scheduler decides in the forecast as in the fleet.
"""

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import assert_never

import numpy as np

from tidemill.explain.draws import Draw
from tidemill.explain.durations import Lengths
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, FOREVER_MS, MINUTE_MS, SECOND_MS
from tidemill.model.rows import Node
from tidemill.model.states import ACTIVE, JobState, NodeState
from tidemill.model.world import World
from tidemill.provisioning import life
from tidemill.units import speedup

# A forecast has no seconds. A job ends on a round time, the coarser the longer it takes (to an
# eighth at most), so that one scheduling cycle serves several ends.
GRIDS_MS = tuple(m * MINUTE_MS for m in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440))
GRID_MS = GRIDS_MS[0]
BOOT_MS = 10 * MINUTE_MS  # from launch to Ready; an assumption, the World keeps no boot times
LEAVE_MS = 30 * SECOND_MS  # the usual grace of Kubernetes (terminationGracePeriodSeconds) and Slurm
# Repairs by the share that is not longer: 584 repairs in the InfiniteHBD trace (SIGCOMM'25).
REPAIR_MS = {100_000: 14 * MINUTE_MS, 500_000: 85 * DAY_MS // 100, 900_000: 13 * DAY_MS}

_ENDS, _STARTS, _NODES, _JOBS, _CLOCK = range(5)
_WHYS = tuple(ev.Why)
_Entry = tuple[int, int, int, ev.Seen]


class Ahead:
    """One possible future: everything takes as long as its draw says."""

    def __init__(
        self, world: World, lengths: Lengths, draw: Draw, opening: Sequence[ev.Seen]
    ) -> None:
        self._lengths, self._draw = lengths, draw
        self._begun_ms = world.now_ms
        self._agenda: list[_Entry] = []
        self._starts: list[tuple[int, int, int]] = []
        """When attempts come up; seen when something else happens, so that it takes no cycle."""
        self._serial = 0
        self._made = 0
        self._added = 0
        self._wake_ms = (
            world.now_ms + 1
        )  # layers whose memos are new know more at their second look
        self.endless: set[int] = set()
        """Jobs of which nobody can know when they end; they stay."""
        for event in opening:
            self._push(_JOBS, event)
        self._go_on(world)

    def next_ms(self) -> int | None:
        """When something happens next; None when nothing does any more."""
        at_ms = min(self._agenda[0][0] if self._agenda else FOREVER_MS, self._wake_ms)
        return at_ms if at_ms < FOREVER_MS else None

    def take(self, world: World) -> list[ev.Seen]:
        """All that happens at the next moment and still can; each job and node moves once."""
        at_ms = self.next_ms()
        assert at_ms is not None, "the simulation is over; call next_ms first"
        self._added = 0
        seen: list[ev.Seen] = []
        moved: set[tuple[str, int]] = set()
        again: list[ev.JobFinished] = []  # of jobs of which the start is seen only now
        while self._starts and self._starts[0][0] <= at_ms:
            _, j, attempt = heappop(self._starts)
            if _is_starting(world, j, attempt):
                moved.add(("job", j))
                seen.append(ev.JobStarted(at_ms, j, attempt))
        while self._agenda and self._agenda[0][0] == at_ms:
            event = heappop(self._agenda)[3]
            subject = _subject(event)
            if subject in moved and isinstance(event, ev.JobFinished):
                again.append(event)
            if subject in moved or not _can_be(world, event):
                continue
            if subject is not None:
                moved.add(subject)
            seen.append(event)
            self._follow(world, event)
        for event in again:
            self._push(_ENDS, event)
        if self._wake_ms <= at_ms:
            self._wake_ms = FOREVER_MS
            seen = seen or [ev.Woke(at_ms)]
        return seen

    def carry_out(self, world: World, plan: ev.Plan) -> None:
        """Everything that is asked for happens, in its time."""
        for action in plan.actions:
            self._answer(world, action)
        if plan.wake_at_ms < FOREVER_MS:
            self._wake_ms = min(
                self._wake_ms, self._round_up(max(plan.wake_at_ms, world.now_ms + 1))
            )

    def _round_up(self, at_ms: int) -> int:
        """The first round time for a look of which nobody knows what comes of it.

        Most find nothing: where demand waits for nodes there is one every few minutes for days.
        """
        grid_ms = grid_of(at_ms - self._begun_ms)
        return -(-at_ms // grid_ms) * grid_ms

    # what goes on of itself ------------------------------------------------------------------

    def _go_on(self, world: World) -> None:
        for j in sorted(world.placements):
            self._go_on_with_job(world, j)
        rows = world.node_count
        moving = (NodeState.READY, NodeState.CORDONED, NodeState.GONE)
        for n in np.flatnonzero(~np.isin(world.nodes.state[:rows], moving)).tolist():
            self._go_on_with_node(world, n)
        for n in np.flatnonzero(world.nodes.asked[:rows] > 0).tolist():
            self._go_on_with_asked(world, n)
        for c, row in enumerate(world.contract_rows):
            if world.contracts.is_running[c]:
                self._launch(world, c, int(world.contracts.asked_nodes[c]))
            elif row.start_ms > world.now_ms:
                self._push(_CLOCK, ev.ContractStarted(row.start_ms, c))
            if world.now_ms < row.end_ms < FOREVER_MS:
                self._push(_CLOCK, ev.ContractEnded(row.end_ms, c))

    def _go_on_with_job(self, world: World, j: int) -> None:
        now_ms, jobs = world.now_ms, world.jobs
        attempt = int(jobs.attempt[j])
        if j in world.moving:
            self._push(_ENDS, ev.JobMoved(now_ms + LEAVE_MS, j, attempt))
        elif jobs.is_leaving[j]:
            self._push(_ENDS, ev.JobEvicted(now_ms + LEAVE_MS, j, attempt))
        if jobs.state[j] == JobState.STARTING:
            at_ms = int(jobs.since_ms[j]) + _startup_ms(world, j, attempt)
            self._start(world, j, attempt, max(now_ms + 1, at_ms))
        else:
            ran_ms = now_ms - int(jobs.origin_ms[j])
            worked_ms = speedup.work_ms(ran_ms, int(jobs.speed_ppm[j])) + int(jobs.saved_ms[j])
            self._finish(world, j, attempt, now_ms, worked_ms)

    def _go_on_with_node(self, world: World, n: int) -> None:
        nodes, soon_ms = world.nodes, world.now_ms + 1
        since_ms, state = int(nodes.since_ms[n]), NodeState(nodes.state[n])
        if state is NodeState.ASKED:
            self._move(n, NodeState.BOOTING, soon_ms)
        elif state is NodeState.BOOTING:
            self._move(n, NodeState.READY, max(soon_ms, since_ms + BOOT_MS))
        elif state is NodeState.REPAIRING:
            self._move(n, NodeState.BOOTING, max(soon_ms, since_ms + repair_ms(self._draw, n)))
        elif state is NodeState.DRAINING and _WHYS[nodes.why[n]] is ev.Why.SPOT_RECLAIM:
            self._move(n, NodeState.GONE, max(soon_ms, int(nodes.deadline_ms[n])))

    def _go_on_with_asked(self, world: World, n: int) -> None:
        """A repair or a return was sent before; it is about to be seen."""
        state = NodeState(world.nodes.state[n])
        to = NodeState.REPAIRING if life.may_move(state, NodeState.REPAIRING) else NodeState.GONE
        self._move(n, to, world.now_ms + 1)

    def _follow(self, world: World, event: ev.Seen) -> None:
        match event:
            case ev.JobStarted(at_ms=at_ms, job=j, attempt=attempt):  # after a move
                self._finish(world, j, attempt, at_ms, int(world.jobs.saved_ms[j]))
            case ev.JobMoved(at_ms=at_ms, job=j, attempt=attempt):
                pause_ms = int(world.jobs.resize_ms[j])
                if not world.moving[j].keeps_work:
                    pause_ms = _startup_ms(world, j, attempt + 1)
                start_ms = at_ms + max(1, pause_ms)  # seen in a later beat than the move itself
                self._push(_STARTS, ev.JobStarted(start_ms, j, attempt + 1))
            case ev.NodeMoved(at_ms=at_ms, node=n, to=NodeState.BOOTING):
                self._move(n, NodeState.READY, at_ms + BOOT_MS)
            case ev.NodeMoved(at_ms=at_ms, node=n, to=NodeState.REPAIRING):
                self._move(n, NodeState.BOOTING, at_ms + repair_ms(self._draw, n))
            case ev.NodeAdded(at_ms=at_ms):
                self._move(world.node_count + self._added, NodeState.BOOTING, at_ms + 1)
                self._added += 1

    # what is asked for -----------------------------------------------------------------------

    def _answer(self, world: World, action: ev.Action) -> None:
        now_ms = world.now_ms
        match action:
            case ev.AskedPlace(job=j, attempt=attempt):
                self._start(world, j, attempt, now_ms + _startup_ms(world, j, attempt))
            case ev.AskedEvict(job=j, attempt=attempt):
                self._push(_ENDS, ev.JobEvicted(now_ms + LEAVE_MS, j, attempt))
            case ev.AskedMove(job=j, attempt=attempt):
                self._push(_ENDS, ev.JobMoved(now_ms + LEAVE_MS, j, attempt))
            case ev.AskedCancel(job=j):
                self._push(_ENDS, ev.JobCancelled(now_ms + LEAVE_MS, j))
            case ev.AskedLaunch(contract=c, nodes=count):
                self._launch(world, c, count)
            case ev.AskedRepair(node=n):
                self._move(n, NodeState.REPAIRING, now_ms + 1)
            case ev.AskedReturn(node=n):
                self._move(n, NodeState.GONE, now_ms + 1)
            case ev.AskedDrain() | ev.AskedSpare() | ev.AskedRelease():
                pass
            case ev.CauseChanged() | ev.HalfLifeSet() | ev.MixSampled() | ev.JobPassed():
                pass
            case _ as never:
                assert_never(never)

    def _launch(self, world: World, c: int, count: int) -> None:
        row = world.contract_rows[c]
        for _ in range(count):
            self._made += 1
            node = Node(f"{row.name} (new {self._made})", row.name)
            self._push(_NODES, ev.NodeAdded(world.now_ms + 1, node))

    def _start(self, world: World, j: int, attempt: int, at_ms: int) -> None:
        heappush(self._starts, (at_ms, j, attempt))
        self._finish(world, j, attempt, at_ms, int(world.jobs.saved_ms[j]))

    def _finish(self, world: World, j: int, attempt: int, now_ms: int, worked_ms: int) -> None:
        left_ms = self._lengths.left_ms(world, j, worked_ms, self._draw)
        if left_ms is None:
            self.endless.add(j)
        else:
            left_ms = speedup.time_ms(left_ms, int(world.jobs.speed_ppm[j]))
            self._push(_ENDS, ev.JobFinished(round_ms(now_ms + left_ms, left_ms), j, attempt))

    def _move(self, n: int, to: NodeState, at_ms: int) -> None:
        self._push(_NODES, ev.NodeMoved(at_ms, n, to))

    def _push(self, rank: int, event: ev.Seen) -> None:
        self._serial += 1
        heappush(self._agenda, (event.at_ms, rank, self._serial, event))


def round_ms(end_ms: int, left_ms: int) -> int:
    """The round time nearest to the end of what takes so long; the minute after, if it is short."""
    grid_ms = grid_of(left_ms)
    add_ms = grid_ms - 1 if grid_ms == GRID_MS else grid_ms // 2
    return (end_ms + add_ms) // grid_ms * grid_ms


def grid_of(left_ms: int) -> int:
    """The round times on which something ends that takes so long."""
    return GRIDS_MS[max(0, bisect_right(GRIDS_MS, left_ms // 8) - 1)]


def repair_ms(draw: Draw, n: int) -> int:
    """How long the repair of a node takes."""
    drawn = draw.of_node(n)
    return REPAIR_MS[min(REPAIR_MS, key=lambda share: abs(share - drawn))]


def _startup_ms(world: World, j: int, attempt: int) -> int:
    again_ms = int(world.jobs.restart_ms[j]) if attempt > 1 else 0
    return int(world.jobs.startup_ms[j]) + again_ms


def _subject(event: ev.Seen) -> tuple[str, int] | None:
    match event:
        case ev.JobStarted() | ev.JobFinished() | ev.JobCancelled():
            return ("job", event.job)
        case ev.JobEvicted() | ev.JobMoved():
            return ("job", event.job)
        case ev.NodeMoved():
            return ("node", event.node)
    return None


def _is_starting(world: World, j: int, attempt: int) -> bool:
    jobs = world.jobs
    return bool(jobs.attempt[j] == attempt and jobs.state[j] == JobState.STARTING)


def _can_be(world: World, event: ev.Seen) -> bool:
    """Whether the World would take this event: it may have been overtaken."""
    jobs = world.jobs
    match event:
        case ev.JobStarted(job=j, attempt=attempt):
            return _is_starting(world, j, attempt)
        case ev.JobFinished(job=j, attempt=attempt):
            return bool(jobs.attempt[j] == attempt and jobs.state[j] == JobState.RUNNING)
        case ev.JobEvicted(job=j, attempt=attempt):
            is_asked = bool(jobs.is_leaving[j]) and j not in world.moving
            return bool(jobs.attempt[j] == attempt) and is_asked
        case ev.JobMoved(job=j, attempt=attempt):
            return bool(jobs.attempt[j] == attempt) and j in world.moving
        case ev.JobCancelled(job=j):
            return jobs.state[j] in ACTIVE
        case ev.NodeMoved(node=n, to=to):
            return life.may_move(NodeState(world.nodes.state[n]), to)
        case ev.NodeAdded():
            return _is_room_for(world, event.node.contract)
        case ev.ContractEnded(contract=c):
            return bool(world.contracts.is_running[c])
    return True


def _is_room_for(world: World, contract: str) -> bool:
    c = world.contract_number[contract]
    row = world.contract_rows[c]
    is_room = (int(world.contracts.nodes[c]) + 1) * row.node.devices <= row.count
    return bool(world.contracts.is_running[c]) and is_room
