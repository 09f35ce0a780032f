"""Who may be stopped for a waiting shape, and whether that could be enough: in plain Python."""

from collections import Counter
from typing import NamedTuple

from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Role
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World


class Verdict(NamedTuple):
    """Whether a search is surely in vain; then, when it may not be, and whether that is final."""

    is_in_vain: bool
    again_ms: int = FOREVER_MS
    is_final: bool = True


def verdict(world: World, policy: Policy, s: int, kinds: dict[int, list[int]]) -> Verdict:
    """Of a shape with one role of one size; ``kinds``: its GPU types and the groups of each."""
    path = world.tree.paths[_queue(world, s)]
    need = world.shape_rows[s].total_milli
    hunts = [(set(kinds), 0)]
    for reach, a in enumerate(path if policy.may_reclaim else (), 1):
        owed = {k for k in kinds if world.used[a, k] + need <= world.floor[a, k]}
        hunts += [(owed, reach)] if owed else []
    again_ms, is_final = FOREVER_MS, True
    for some, reach in hunts:
        shapes = [
            t for t in range(len(world.shape_rows)) if _may_stop(world, policy, s, t, some, reach)
        ]
        sizes = sorted(world.shape_rows[t].total_milli for t in shapes for _ in world.active[t])
        most = sum(sizes[::-1][: policy.victims_at_most])
        if not shapes or sum(int(world.kind_free_milli[k]) for k in some) + most < need:
            continue
        going = []
        for t in shapes:
            for j in world.active[t]:
                on = {int(world.nodes.kind[piece.node]) for piece in world.placements[j]}
                if world.jobs.is_leaving[j] or not on & some:
                    continue
                until_ms = _until_ms(world, policy, j, _queue(world, t) != _queue(world, s))
                if until_ms <= world.now_ms:
                    going.append(j)
                else:
                    again_ms = min(again_ms, until_ms)
                    is_final = is_final and world.jobs.state[j] == JobState.RUNNING
        if going and _fits_without(world, s, {k: kinds[k] for k in some}, going):
            return Verdict(False)
    return Verdict(True, again_ms, is_final)


def _queue(world: World, s: int) -> int:
    return int(world.shapes.queue[s])


def _may_stop(world: World, policy: Policy, s: int, t: int, kinds: set[int], reach: int) -> bool:
    mine, theirs = _queue(world, s), _queue(world, t)
    if not world.active[t] or not world.shape_rows[t].is_preemptible:
        return False
    if mine == theirs:
        return policy.may_preempt and world.shape_rows[t].priority < world.shape_rows[s].priority
    path, other = list(world.tree.paths[mine]), list(world.tree.paths[theirs])
    while len(path) > 1 and len(other) > 1 and path[-1] == other[-1]:
        path.pop()
        other.pop()
    if len(path) > reach or any(
        row.parent == world.queue_rows[theirs].name for row in world.queue_rows
    ):
        return False
    need, used, floor = world.shape_rows[s].total_milli, world.used, world.floor
    return any(used[path[-1], k] + need <= floor[path[-1], k] for k in kinds) and any(
        all(used[a, k] > floor[a, k] for a in other) for k in range(len(world.kinds))
    )


def _until_ms(world: World, policy: Policy, j: int, is_reclaimed: bool) -> int:
    jobs = world.jobs
    if jobs.fruitless[j] >= policy.evictions_at_most and not is_reclaimed:
        return FOREVER_MS
    if policy.min_run_ms == 0:
        return 0
    if jobs.state[j] != JobState.RUNNING:
        return FOREVER_MS
    return int(jobs.since_ms[j]) + policy.min_run_ms * 2 ** min(4, int(jobs.evictions[j]))


def _fits_without(world: World, s: int, kinds: dict[int, list[int]], going: list[int]) -> bool:
    if any(piece.slices for j in going for piece in world.placements[j]):
        return True  # nobody counts what they would free
    cpu, memory, milli, used = (
        Counter[int](),
        Counter[int](),
        Counter[tuple[int, int]](),
        Counter[tuple[int, int]](),
    )
    for j in going:
        shape = world.shape_of(j)
        for piece in world.placements[j]:
            one = shape.roles[piece.role]
            cpu[piece.node] += piece.replicas * one.cpu_milli
            memory[piece.node] += piece.replicas * one.memory_mib
            for d in range(64):
                milli[piece.node, d] += one.milli * (piece.devices >> d & 1)
            for a in world.tree.paths[_queue(world, int(world.jobs.shape[j]))]:
                used[a, int(world.nodes.kind[piece.node])] += piece.replicas * one.replica_milli
    role, need = world.shape_rows[s].roles[0], world.shape_rows[s].total_milli
    for k, groups in kinds.items():
        hosted = 0
        for n in range(world.node_count):
            is_open = world.nodes.state[n] == NodeState.READY and not world.nodes.is_spare[n]
            if is_open and int(world.nodes.group[n]) in groups:
                free = [
                    int(world.devices.free_milli[d]) + milli[n, i]
                    for i, d in enumerate(_devices(world, n))
                    if not world.devices.is_failed[d]
                ]
                hosted += _hosts(
                    role, free, int(world.nodes.cpu_free_milli[n]) + cpu[n],
                    int(world.nodes.memory_free_mib[n]) + memory[n],
                )  # fmt: skip
        path = world.tree.paths[_queue(world, s)]
        within = all(world.used[a, k] - used[a, k] + need <= world.limit[a, k] for a in path)
        if within and hosted >= role.count:
            return True
    return False


def _devices(world: World, n: int) -> range:
    first = int(world.nodes.first_device[n])
    return range(first, first + int(world.nodes.devices[n]))


def _hosts(role: Role, free: list[int], cpu: int, memory: int) -> int:
    """How many replicas fit on one node, one after the other."""
    hosted, free = 0, list(free)
    while cpu >= role.cpu_milli and memory >= role.memory_mib:
        able = [i for i, one in enumerate(free) if one >= role.milli]
        if len(able) < role.accelerators:
            break
        for i in able[: role.accelerators]:
            free[i] -= role.milli
        cpu, memory, hosted = cpu - role.cpu_milli, memory - role.memory_mib, hosted + 1
    return hosted
