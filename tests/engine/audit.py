"""An auditor: recomputes everything the World keeps beside its rows, from the placements alone.

`audit(world)` asserts that whatever fold maintains step by step equals what plain Python adds up
from scratch. Slow and simple on purpose.
"""

from collections import Counter
from typing import Any

import numpy as np

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Piece, Queue, Share
from tidemill.model.states import ACTIVE, HOSTING, LAUNCHED, JobState, Level, NodeState
from tidemill.model.tables import I64, U64
from tidemill.model.whys import Why
from tidemill.model.world import World
from tidemill.units.mig import geometry


def audit(world: World) -> None:
    """Assert every invariant of a World."""
    audit_tables(world)
    audit_devices(world)
    audit_levels(world)
    audit_teams(world)
    audit_jobs(world)
    audit_gangs(world)


def audit_tables(world: World) -> None:
    """Columns have equal lengths, their declared types, and room for their rows."""
    check(world.jobs, world.job_count)
    check(world.nodes, world.node_count)
    check(world.devices, world.device_count)
    check(world.contracts, world.contract_count)
    check(world.shapes, len(world.shape_rows))


def check(table: Any, rows: int) -> None:
    """Assert what every table keeps: equal lengths, declared types, room for its rows."""
    for name, column in zip(table._fields, table, strict=True):
        dtype = {I64: np.int64, U64: np.uint64}[type(table).__annotations__[name]]
        assert column.dtype == dtype, f"{name} is {column.dtype}"
        assert len(column) == len(table[0]) >= rows, f"{name} has {len(column)} rows"


def audit_devices(world: World) -> None:
    """Nothing is over-committed, and what is free is what the placements leave."""
    milli, cpu, memory = _taken(world)
    slices = sliced(world)
    assert world.sliced == len(slices)
    for n in range(world.node_count):
        nodes, first, free, stranded = world.nodes, int(world.nodes.first_device[n]), 0, 0
        for d in range(int(nodes.devices[n])):
            left = WHOLE_MILLI - milli[n, d]
            assert left >= 0, f"device {d} of node {n} is over-committed by {-left} milli"
            is_failed = bool(world.devices.is_failed[first + d])
            assert not (is_failed and milli[n, d]), f"failed device {d} of node {n} is in use"
            assert world.devices.slices[first + d] == slices.get((n, d), 0)
            if (n, d) in slices:
                assert world.devices.free_milli[first + d] == 0, "a cut device is closed to others"
                lost = stranded_milli(world.kinds[int(nodes.kind[n])], slices[n, d])
                stranded += lost
                free += left - lost
                continue
            assert world.devices.free_milli[first + d] == left
            free += 0 if is_failed else left
        assert nodes.free_milli[n] == free
        assert nodes.stranded_milli[n] == stranded
        failed = world.devices.is_failed[first : first + int(nodes.devices[n])]
        assert nodes.failed[n] == int(failed.sum())
        assert 0 <= nodes.cpu_free_milli[n] == nodes.cpu_milli[n] - cpu[n]
        assert 0 <= nodes.memory_free_mib[n] == nodes.memory_mib[n] - memory[n]


def audit_levels(world: World) -> None:
    """Each launched accelerator is in exactly one level; free accelerators of a kind add up."""
    milli, _, _ = _taken(world)
    kind_free: Counter[int] = Counter()
    launched: Counter[int] = Counter()
    levels: Counter[tuple[int, int]] = Counter()
    nodes_of: Counter[int] = Counter()
    for n in range(world.node_count):
        state, c = NodeState(world.nodes.state[n]), int(world.nodes.contract[n])
        nodes_of[c] += state is not NodeState.GONE
        if state not in LAUNCHED:
            continue
        launched[c] += int(world.nodes.devices[n]) * WHOLE_MILLI
        levels[c, Level.FAILED] += int(world.nodes.failed[n]) * WHOLE_MILLI
        levels[c, Level.ALLOCATED] += sum(milli[n, d] for d in range(int(world.nodes.devices[n])))
        stranded = int(world.nodes.stranded_milli[n])
        is_ready = _level(world, n) is Level.READY
        levels[c, Level.STRANDED if is_ready else _level(world, n)] += stranded
        levels[c, _level(world, n)] += int(world.nodes.free_milli[n])
        if _level(world, n) is Level.READY:
            kind_free[int(world.nodes.kind[n])] += int(world.nodes.free_milli[n])
    for c in range(world.contract_count):
        assert [levels[c, level] for level in Level] == world.levels[c].tolist()
        assert world.levels[c].sum() == launched[c] == world.contracts.launched_milli[c]
        assert world.contracts.nodes[c] == nodes_of[c]
        assert launched[c] <= world.contracts.count_milli[c]
        if launched[c]:
            assert world.contracts.is_running[c], "nodes are launched under no running contract"
    assert [kind_free[k] for k in range(len(world.kinds))] == world.kind_free_milli.tolist()


def audit_teams(world: World) -> None:
    """What teams use is what their placements hold."""
    used: Counter[tuple[int, int]] = Counter()
    for j, pieces in world.placements.items():
        q = int(world.shapes.queue[world.jobs.shape[j]])
        for piece in (*pieces, *_gained(world, j)):
            k = int(world.nodes.kind[piece.node])
            milli = piece.replicas * world.shape_of(j).roles[piece.role].replica_milli
            for row in _line(world, world.queue_rows[q]):
                used[world.queue_number[row.name], k] += milli
    shape = (len(world.queue_rows), len(world.kinds))
    assert world.used.shape == world.floor.shape == world.limit.shape == shape
    for q in range(shape[0]):
        assert world.used[q].tolist() == [used[q, k] for k in range(shape[1])]
        for k, kind in enumerate(world.kinds):
            audit_share(world, q, k, kind)
    for k, kind in enumerate(world.kinds):
        tops = [row for row in world.queue_rows if not row.parent]
        assert world.kind_kept[k] == sum(_kept(world, row, kind) for row in tops)


def audit_share(world: World, q: int, k: int, kind: str) -> None:
    """A queue's floor, limit and what is kept below it are those that the rows say."""
    row = world.queue_rows[q]
    share = _share(row, kind)
    sure = _sure(world, row, kind)
    assert world.floor[q, k] == sure
    assert world.limit[q, k] == min(share.limit_milli, sure + share.borrow_milli)
    assert world.below[q, k] == sum(_kept(world, child, kind) for child in _children(world, row))


def _line(world: World, row: Queue) -> list[Queue]:
    above = world.queue_rows[world.queue_number[row.parent]] if row.parent else None
    return [row, *_line(world, above)] if above else [row]


def _children(world: World, row: Queue) -> list[Queue]:
    return [child for child in world.queue_rows if child.parent == row.name]


def _share(row: Queue, kind: str) -> Share:
    return next((share for share in row.shares if share.kind == kind), Share(kind))


def _sure(world: World, row: Queue, kind: str) -> int:
    below = sum(_sure(world, child, kind) for child in _children(world, row))
    return max(_share(row, kind).floor_milli, below)


def _kept(world: World, row: Queue, kind: str) -> int:
    below = sum(_kept(world, child, kind) for child in _children(world, row))
    used = int(world.used[world.queue_number[row.name], world.kind_number[kind]])
    keeps = max(0, _sure(world, row, kind) - _share(row, kind).lend_milli)
    return max(keeps - used, below)


def audit_jobs(world: World) -> None:
    """Every job is in the one list that its state says, and the lists hold nothing else."""
    by_state: dict[JobState, list[int]] = {state: [] for state in JobState}
    for j in range(world.job_count):
        by_state[JobState(world.jobs.state[j])].append(j)
    waiting = [j for jobs in world.waiting for j in jobs]
    active = [j for jobs in world.active for j in jobs]
    assert sorted(waiting) == by_state[JobState.WAITING]
    assert sorted(active) == sorted(j for state in ACTIVE for j in by_state[state])
    assert sorted(active) == sorted(world.placements)
    for s, jobs in enumerate(world.waiting):
        assert list(jobs) == sorted(jobs), "waiting jobs of a shape are out of order"
        assert all(world.jobs.shape[j] == s for j in (*jobs, *world.active[s]))
        assert world.shapes.waiting[s] == len(jobs)
        assert (s in world.queued) == bool(jobs)
        if jobs:
            assert world.shapes.head[s] == jobs[0]
    for n, jobs_aboard in enumerate(world.aboard):
        on_node = {
            j for j, ps in world.placements.items()
            if any(p.node == n for p in (*ps, *_gained(world, j)))
        }  # fmt: skip
        assert set(jobs_aboard) == on_node
        assert not on_node or world.nodes.state[n] in HOSTING
    assert all(world.jobs.state[j] == JobState.RUNNING for j in world.idle)
    assert all(s in world.queued for s in world.promised)
    assert all(world.jobs.state[j] == JobState.RUNNING for j in world.moving)
    assert set(world.moving) <= set(world.leaving_for)
    leaving = {j for j in range(world.job_count) if world.jobs.is_leaving[j]}
    assert leaving == set(world.leaving_for) <= set(active)
    for s, count in world.promised.items():
        assert 0 <= count <= sum(to == s for to in world.leaving_for.values())


def audit_gangs(world: World) -> None:
    """Every gang is whole: a role has its count of replicas, an elastic one at least its least."""
    for j, pieces in world.placements.items():
        roles = world.shape_of(j).roles
        replicas: Counter[int] = Counter()
        for piece in pieces:
            replicas[piece.role] += piece.replicas
            assert piece.devices.bit_count() == piece.replicas * roles[piece.role].accelerators
        for r, role in enumerate(roles):
            assert (role.least or role.count) <= replicas[r] <= role.count


def _taken(world: World) -> tuple[Counter[tuple[int, int]], Counter[int], Counter[int]]:
    milli: Counter[tuple[int, int]] = Counter()
    cpu: Counter[int] = Counter()
    memory: Counter[int] = Counter()
    for j, pieces in world.placements.items():
        for piece in (*pieces, *_gained(world, j)):
            role = world.shape_of(j).roles[piece.role]
            for d in range(64):
                if piece.devices >> d & 1:
                    milli[piece.node, d] += role.milli
            cpu[piece.node] += piece.replicas * role.cpu_milli
            memory[piece.node] += piece.replicas * role.memory_mib
    return milli, cpu, memory


def sliced(world: World) -> dict[tuple[int, int], int]:
    """The slices that instances take of each device; nobody else is on it, and none overlap."""
    found: dict[tuple[int, int], int] = {}
    others: set[tuple[int, int]] = set()
    for j, pieces in world.placements.items():
        for piece in (*pieces, *_gained(world, j)):
            where = [(piece.node, d) for d in range(64) if piece.devices >> d & 1]
            if not piece.slices:
                others.update(where)
                continue
            assert len(where) == piece.replicas == 1, "an instance is one replica on one device"
            assert not found.get(where[0], 0) & piece.slices, "instances overlap"
            found[where[0]] = found.get(where[0], 0) | piece.slices
    assert not others & found.keys(), "a device is cut and shared"
    return found


def stranded_milli(kind: str, state: int) -> int:
    """Free slices that no legal placement of any profile covers, the slow way."""
    part = geometry.of_kind(kind)
    assert part is not None
    usable: set[int] = set()
    for row in part.profiles:
        for start in row.starts:
            run = range(start, start + row.memory)
            if not any(state >> i & 1 for i in run) and not (row.is_media and state >> 8):
                usable.update(run)
    free = {i for i in range(part.memory) if not state >> i & 1}
    return len(free - usable) * WHOLE_MILLI // part.memory


def _gained(world: World, j: int) -> tuple[Piece, ...]:
    """What a job holds beside its placement: the place it moves to."""
    return world.moving[j].gained if j in world.moving else ()


def _level(world: World, n: int) -> Level:
    state = NodeState(world.nodes.state[n])
    if world.is_unseen(world.node_rows[n].name):
        return Level.UNSEEN
    if state is NodeState.READY:
        return Level.SPARE if world.nodes.is_spare[n] else Level.READY
    if state is NodeState.CORDONED and list(Why)[world.nodes.why.item(n)] is Why.NODE_LOST:
        return Level.UNHEALTHY
    return Level[state.name]
