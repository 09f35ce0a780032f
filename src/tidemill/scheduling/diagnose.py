"""Diagnose: the one cause for which a shape waits, from the ground up.

First what waiting cannot cure (nothing claimed, no such label, too large), then what supply lacks
now, then the shortage that the fit met. ``explain`` asks the same questions to put them into words.
"""

from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from tidemill.model.reasons import Cause
from tidemill.model.rows import Role, Shape
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import contract_capacity, mixed_types, shares
from tidemill.scheduling.elastic import smallest
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fit import Shortage, shortage_of
from tidemill.scheduling.fitting.columns import Obstacle
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.snapshot import Snapshot
from tidemill.scheduling.topology import feasibility


def diagnose(world: World, memo: Memo, room: Snapshot, s: int, shortage: Shortage) -> Cause:
    """Why the jobs of this shape wait."""
    memo.remember_limit(
        s, any(why in (Obstacle.LIMIT, Obstacle.KEPT) for _, why, _ in shortage.obstacles)
    )
    supply = supply_cause(world, memo, s)
    return supply if supply is not Cause.NONE else _shortage_cause(world, room, s, shortage)


def supply_cause(world: World, memo: Memo, s: int) -> Cause:
    """What contracts and nodes lack for this shape even if nothing else ran; NONE: nothing."""
    known = memo.supply_cause(world, s)
    if known is None:
        known = ever_cause(world, smallest(world.shape_rows[s]))
        if known is Cause.NONE:
            known = _ready_cause(world, memo, s)
        memo.remember_supply(world, s, known)
        memo.asks.judge(world, s)
    return known


def fits_when_others_end(world: World, memo: Memo, s: int) -> bool:
    """Whether a shape would fit if everything but services had ended: only then waiting helps."""
    known = memo.outlasts(world, s)
    if known is None:
        room, q = memo.lasting_room(world), int(world.shapes.queue[s])
        shape = smallest(world.shape_rows[s])
        known = shortage_of(room, q, shape, memo.known(world, s).options) is None
        memo.remember_outlasts(world, s, known)
    return known


def ever_cause(world: World, shape: Shape) -> Cause:
    """Why no wait will help, judged by the contracts alone; NONE: it could run some day."""
    for role in shape.roles:
        claimed = contract_capacity.running_contracts(world, role)
        if not claimed:
            return Cause.NOTHING_CLAIMED
        hosts = contract_capacity.hosts_by_kind(world, role, claimed)
        if not hosts:
            return Cause.IMPOSSIBLE_LABEL
        if not any(hosts.values()):
            return Cause.IMPOSSIBLE_SIZE
        if mixed_types.most(world, hosts) < role.count:
            return _too_wide(world, shape)
    every = contract_capacity.running_contracts(world, Role())
    devices = sum(contract_capacity.nodes_in_use(world, row) * row.node.devices for row in every)
    if shape.total_milli > devices * contract_capacity.PER_DEVICE:
        return _too_wide(world, shape)
    if feasibility.lack(world, shape) is not None:
        return Cause.IMPOSSIBLE_TOPOLOGY
    return limit_cause(world, shape)


def _too_wide(world: World, shape: Shape) -> Cause:
    """A gang larger than the fleet; if its team may not use as much either, that comes first: nodes
    that are added would be none that it may use.
    """
    return Cause.OVER_LIMIT_ALWAYS if is_over_limits(world, shape) else Cause.IMPOSSIBLE_GANG


def is_over_limits(world: World, shape: Shape) -> bool:
    """Whether maximum quotas alone keep a gang out, whatever nodes there are of its GPU types."""
    q = world.queue_of(shape)
    is_of_all = world.queue_rows[q].name in world.admission.together
    for role in shape.roles:
        kinds = _numbers(world, role)
        most = max if is_of_all or not world.is_looked_on else sum
        if role.total_milli and kinds and role.total_milli > most(_mosts(world, q, kinds)):
            return True
    every = {k for role in shape.roles if role.total_milli for k in _numbers(world, role)}
    total = max if is_of_all else sum
    return bool(every) and shape.total_milli > total(_mosts(world, q, every))


def _numbers(world: World, role: Role) -> list[int]:
    return [world.kind_number[kind] for kind in contract_capacity.kinds_that_hold(world, role)]


def _mosts(world: World, q: int, kinds: Iterable[int]) -> list[int]:
    """The most that a queue may ever use of each of these kinds."""
    return [shares.most_milli(world, q, k)[0] for k in kinds]


def limit_cause(world: World, shape: Shape) -> Cause:
    """Whether quotas keep a gang off every GPU type that could hold it; NONE: off not all."""
    if is_over_limits(world, shape):
        return Cause.OVER_LIMIT_ALWAYS
    q = world.queue_of(shape)
    for role in shape.roles:
        kinds = [kind for kind in role.kinds or world.kinds if kind in world.kind_number]
        if world.is_looked_on and len(kinds) > 1:
            continue  # each type may have a part of it
        barred = {kind for kind in kinds if not may_ever(world, q, world.kind_number[kind], role)}
        if (
            role.total_milli
            and barred
            and barred.issuperset(contract_capacity.kinds_that_hold(world, role))
        ):
            return Cause.OVER_LIMIT_ALWAYS
    return Cause.NONE


def may_ever(world: World, q: int, k: int, role: Role) -> bool:
    """Whether limits, and what others keep back of all that is claimed, ever leave it enough."""
    need = role.total_milli
    if need > shares.most_milli(world, q, k)[0]:
        return False
    return not world.tree.keeps or need <= unkept_milli(world, q, k, need)


def unkept_milli(world: World, q: int, k: int, need: int) -> int:
    """What contracts claim of a kind less what others keep back from a queue when nothing runs."""
    claimed = claimed_milli(world, k)
    idle = shares.when_idle(world)
    kept = int(idle.kind_kept[k])
    return max(claimed, kept) - shares.kept_after(world, idle, q, k, need)


def claimed_milli(world: World, k: int) -> int:
    """What contracts claim of a kind, less their spares."""
    return sum(
        contract_capacity.nodes_in_use(world, row) * row.node.devices * contract_capacity.PER_DEVICE
        for row in world.contract_rows
        if row.end_ms > world.now_ms and world.kind_number[row.kind] == k
    )


def _ready_cause(world: World, memo: Memo, s: int) -> Cause:
    room, q = memo.empty_room(world), int(world.shapes.queue[s])
    shape = smallest(world.shape_rows[s])
    shortage = shortage_of(room, q, shape, memo.known(world, s).options)
    if shortage is None or mixed_types.fits(room, q, shape, memo.known(world, s).options):
        return Cause.NONE
    if _is_limited_everywhere(world, shape.roles[shortage.role], shortage):
        return Cause.OVER_LIMIT_ALWAYS
    states = _states(world, memo, s, shortage.role)
    if not (states > NodeState.ASKED).any():
        return Cause.NOTHING_LAUNCHED
    if not (states == NodeState.READY).any():
        return Cause.NOTHING_READY
    return Cause.NOT_ENOUGH_READY


def _is_limited_everywhere(world: World, role: Role, shortage: Shortage) -> bool:
    """Whether a limit alone keeps a role off every kind that could hold it, though nothing runs."""
    limited = {option.kind for option, why, _ in shortage.obstacles if why is Obstacle.LIMIT}
    claimed = {world.kind_number[kind] for kind in contract_capacity.kinds_that_hold(world, role)}
    return limited >= claimed


def _states(world: World, memo: Memo, s: int, r: int) -> I64:
    is_ok = np.zeros(len(world.groups) + 1, bool)
    for option in memo.known(world, s).options[r]:
        is_ok[: len(option.is_ok)] |= option.is_ok.astype(bool)
    nodes, rows = world.nodes, world.node_count
    states: I64 = nodes.state[:rows][is_ok[nodes.group[:rows]]]
    present: I64 = states[states != NodeState.GONE]
    return present


def _shortage_cause(world: World, room: Snapshot, s: int, shortage: Shortage) -> Cause:
    role = smallest(world.shape_rows[s]).roles[shortage.role]
    found = where_it_could_be(world, role, shortage)
    kinds = [obstacle for _, obstacle in found]
    if kinds and all(obstacle is Obstacle.LIMIT for obstacle in kinds):
        return Cause.OVER_LIMIT
    if Obstacle.APART in kinds:
        return Cause.TOPOLOGY
    for option, obstacle in found:
        if obstacle is Obstacle.UNFIT:
            return binding(room, role, option.is_ok)
    if Obstacle.KEPT in kinds:
        return Cause.KEPT_BACK
    for option, obstacle in found:
        if obstacle is Obstacle.SHORT and role.count > 1 and room.count_hosts(role, option.is_ok):
            return Cause.PARTIAL_GANG
    return Cause.BUSY


def where_it_could_be(
    world: World, role: Role, shortage: Shortage
) -> list[tuple[Option, Obstacle]]:
    """What kept a role off the GPU types that could ever hold it; nobody waits for the others."""
    found = [(option, why) for option, why, _ in shortage.obstacles]
    flags = contract_capacity.holding(world, role, [option.kind for option, _ in found])
    return [each for each, is_holding in zip(found, flags, strict=True) if is_holding]


def binding(room: Snapshot, role: Role, is_ok: I64) -> Cause:
    """Enough accelerators are free, yet it does not fit: what would have to be ignored?"""
    if role.accelerators == 0:
        return Cause.CPU_BINDS if role.cpu_milli else Cause.MEMORY_BINDS
    if _hosted(room, role, is_ok, cpu_milli=0) >= role.count:
        return Cause.CPU_BINDS
    if _hosted(room, role, is_ok, memory_mib=0) >= role.count:
        return Cause.MEMORY_BINDS
    if _hosted(room, role, is_ok, cpu_milli=0, memory_mib=0) >= role.count:
        return Cause.HOST_BINDS
    return Cause.SCATTERED


def _hosted(room: Snapshot, role: Role, is_ok: I64, **ignored: int) -> int:
    return room.count_hosts(replace(role, **ignored), is_ok)
