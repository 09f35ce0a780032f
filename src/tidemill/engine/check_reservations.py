"""The second reader of reservations: does whoever passes delay the first that waits?

By the rows, and by the estimates known: the first in the order that does not fit on a kind would
fit at some moment if nobody passed it. At that moment, whoever passed it in this plan and is taken
to run on must leave it its room. That is the whole promise of ``easy``, and the first part of the
one of ``conservative``. Said for gangs of one role under orders that do not read run times, where
neither floors nor shares decide who is first; of anything else nothing is said.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tidemill.engine import check_order
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.states import JobClass, NodeState
from tidemill.model.world import World

_SAID = ev.SaidWhy | ev.SaidMix | ev.SaidHalfLife | ev.JobPassed
Key = tuple[int, int]


class _Waiting(NamedTuple):
    """A job that is not placed, and its place in the order."""

    key: Key
    job: int


def broken(world: World, policy: Policy, actions: Sequence[ev.Action]) -> list[str]:
    """The jobs that would be delayed by whoever passes them, in words."""
    places = [action for action in actions if isinstance(action, ev.AskedPlace)]
    if not places or not _is_judged(world, policy, actions):
        return []
    taken = {action.job for action in places}
    last = max(_key(world, policy, j) for j in taken)
    first = (_first_waiting(world, policy, s, taken) for s in world.queued)
    passed = sorted(one for one in first if one is not None and one.key < last)
    claimed: set[str] = set()
    found = []
    for one in passed:
        kinds = _kinds(world, world.shape_of(one.job))
        if claimed.isdisjoint(kinds):
            claimed |= kinds
            if _is_delayed(world, policy, one, places):
                found.append(f"job `{world.job_names[one.job]}` is delayed by who passes it")
    return found


def _is_judged(world: World, policy: Policy, actions: Iterable[ev.Action]) -> bool:
    """Whether the order is plain enough to say who is first, and nothing but placing goes on.

    Who makes room, or takes nodes away, changes what was counted on.
    """
    if policy.backfill == "none" or policy.fairness != "none":
        return False
    if policy.order not in ("fifo", "priority") or world.promised or world.leaving_for:
        return False
    if not all(isinstance(action, ev.AskedPlace | _SAID) for action in actions):
        return False
    if any(role.profile for shape in world.shape_rows for role in shape.roles):
        return False
    return not (world.floor > 0).any() and all(not row.parent for row in world.queue_rows)


def _key(world: World, policy: Policy, j: int) -> Key:
    return (-world.shape_of(j).priority if policy.order == "priority" else 0, j)


def _first_waiting(world: World, policy: Policy, s: int, taken: set[int]) -> _Waiting | None:
    j = next((j for j in world.waiting[s] if j not in taken), None)
    return None if j is None else _Waiting(_key(world, policy, j), j)


def _kinds(world: World, shape: Shape) -> set[str]:
    wanted = [role.kinds or world.kinds for role in shape.roles]
    return {kind for kinds in wanted for kind in kinds}


def _is_delayed(
    world: World, policy: Policy, one: _Waiting, places: Sequence[ev.AskedPlace]
) -> bool:
    """Whether it would fit at some moment but for those who pass it in this plan."""
    shape = world.shape_of(one.job)
    role = shape.roles[0]
    is_plain = len(shape.roles) == 1 and not (role.least or role.bonds or shape.bonds)
    if not is_plain or role.labels or _is_limited(world, shape, places):
        return False
    yard = _Yard(world, role)
    before = [action for action in places if _key(world, policy, action.job) < one.key]
    after = [action for action in places if _key(world, policy, action.job) > one.key]
    for action in before:
        yard.move(world.shape_of(action.job), action.pieces, -1)
    if yard.fits():
        return False
    ends = _Ends(world, policy)
    at_ms = _fits_at_ms(world, ends, yard)
    if at_ms is None:
        return False
    if _is_overdue(world, policy, one.job):
        kinds = _kinds(world, shape)
        return any(kinds & _kinds(world, world.shape_of(action.job)) for action in after)
    for action in after:
        if ends.if_placed_ms(action.job) > at_ms:
            yard.move(world.shape_of(action.job), action.pieces, -1)
    return not yard.fits()


def _is_overdue(world: World, policy: Policy, j: int) -> bool:
    """Whether a job was first passed so long ago that nobody may pass it any more."""
    passed_ms = int(world.jobs.passed_ms[j])
    return 0 <= passed_ms <= world.now_ms - policy.hold_after_ms


def _fits_at_ms(world: World, ends: "_Ends", yard: "_Yard") -> int | None:
    """When enough has ended; what has is given back in the yard."""
    in_order = sorted((ends.of_active_ms(j), j) for j in world.placements)
    for i, (end_ms, j) in enumerate(in_order):
        if end_ms >= FOREVER_MS:
            return None
        yard.move(world.shape_of(j), world.placements[j], 1)
        is_last = i + 1 == len(in_order) or in_order[i + 1][0] > end_ms
        if is_last and yard.fits():
            return end_ms
    return None


def _is_limited(world: World, shape: Shape, places: Sequence[ev.AskedPlace]) -> bool:
    """Whether its team's limit may keep it off a kind that it may use: then nothing is said."""
    q = world.queue_number[shape.team]
    shapes = [world.shape_of(action.job) for action in places]
    more = shape.total_milli + sum(one.total_milli for one in shapes if one.team == shape.team)
    return any(world.used[q, k] + more > world.limit[q, k] for k in range(len(world.kinds)))


class _Ends:
    """When jobs are expected to end, by their guesses and what history told of their like."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.world, self.policy = world, policy
        self.first_ms: dict[tuple[int, int], int] = {}

    def of_active_ms(self, j: int) -> int:
        """When a job that is there ends."""
        world, jobs = self.world, self.world.jobs
        if world.shape_of(j).kind is JobClass.INFERENCE or j in world.moving:
            return FOREVER_MS
        if jobs.is_leaving.item(j):
            return world.now_ms
        up_ms = jobs.startup_ms.item(j) + (jobs.restart_ms.item(j) if jobs.attempt[j] > 1 else 0)
        return self._end_ms(j, jobs.placed_ms.item(j) + up_ms, max(1, jobs.speed_ppm.item(j)))

    def if_placed_ms(self, j: int) -> int:
        """When a waiting job ends if it is placed now."""
        jobs = self.world.jobs
        up_ms = jobs.startup_ms.item(j) + (jobs.restart_ms.item(j) if jobs.attempt[j] else 0)
        return self._end_ms(j, self.world.now_ms + up_ms, 1_000_000)

    def _end_ms(self, j: int, begin_ms: int, speed_ppm: int) -> int:
        now_ms, jobs = self.world.now_ms, self.world.jobs
        done_ms = jobs.saved_ms.item(j) + max(0, now_ms - begin_ms) * speed_ppm // 1_000_000
        left_ms = self._total_ms(j, done_ms) - done_ms
        return int(max(begin_ms, now_ms) + left_ms * 1_000_000 // speed_ppm)

    def _total_ms(self, j: int, done_ms: int) -> int:
        jobs, policy = self.world.jobs, self.policy
        like = (jobs.shape.item(j), jobs.estimate_ms.item(j))
        if like not in self.first_ms:
            counts = check_order.told(self.world, policy, j)
            self.first_ms[like] = check_order.first_ms(policy, like[1], counts)
        if self.first_ms[like] > max(done_ms, jobs.reached_ms.item(j)):
            return self.first_ms[like]
        return check_order.expected_ms(self.world, policy, j, done_ms)


class _Yard:
    """What is free for one role, node by node; kinds are counted apart."""

    def __init__(self, world: World, role: Role) -> None:
        self.world, self.role = world, role
        nodes, rows = world.nodes, world.node_count
        self.cpu = nodes.cpu_free_milli[:rows].tolist()
        self.memory = nodes.memory_free_mib[:rows].tolist()
        is_ok = world.devices.is_failed[: world.device_count] == 0
        self.free = np.where(is_ok, world.devices.free_milli[: world.device_count], 0).tolist()
        self.failed = (~is_ok).tolist()
        wanted = {k for k, kind in enumerate(world.kinds) if kind in (role.kinds or world.kinds)}
        is_open = (nodes.state[:rows] == NodeState.READY) & (nodes.is_spare[:rows] == 0)
        self.kind = np.where(is_open, nodes.kind[:rows], -1).tolist()
        self.sums = dict.fromkeys(wanted, 0)
        self.hosted = [0] * rows
        for n in range(rows):
            self._count(n)

    def fits(self) -> bool:
        """Whether some kind hosts the whole gang."""
        return any(count >= self.role.count for count in self.sums.values())

    def move(self, shape: Shape, pieces: Iterable[Piece], sign: int) -> None:
        """Give back (1) or take (-1) what pieces hold."""
        for piece in pieces:
            role, n = shape.roles[piece.role], piece.node
            self.cpu[n] += sign * piece.replicas * role.cpu_milli
            self.memory[n] += sign * piece.replicas * role.memory_mib
            first, mask = self.world.nodes.first_device.item(n), piece.devices
            while mask:
                d = first + (mask & -mask).bit_length() - 1
                self.free[d] += 0 if self.failed[d] else sign * role.milli
                mask &= mask - 1
            self._count(n)

    def _count(self, n: int) -> None:
        """How many replicas a node hosts now."""
        if self.kind[n] not in self.sums:
            return
        role, nodes = self.role, self.world.nodes
        most = role.count
        if role.accelerators:
            first = nodes.first_device.item(n)
            free = self.free[first : first + nodes.devices.item(n)]
            whole = sum(milli // role.milli for milli in free)
            most = min(most, whole // role.accelerators)
        if role.cpu_milli:
            most = min(most, self.cpu[n] // role.cpu_milli)
        if role.memory_mib:
            most = min(most, self.memory[n] // role.memory_mib)
        most = max(0, most)
        self.sums[self.kind[n]] += most - self.hosted[n]
        self.hosted[n] = most
