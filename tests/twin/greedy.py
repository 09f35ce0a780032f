"""A planner of a few lines, to drive the twin where no scheduler is wanted.

It launches what is paid for, repairs what is broken, returns what is drained, and places each
waiting job on the first free devices it finds. It is honest but not clever.
"""

from collections.abc import Callable, Iterator

from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.rows import Piece, Role
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.twin.backend import Twin

Decide = Callable[[World], Iterator[ev.Action]]


def decide(world: World) -> Iterator[ev.Action]:
    """One decision after the other; the caller folds each before it asks for the next."""
    yield from supply(world)
    for s in sorted(world.queued):
        for j in tuple(world.waiting[s]):
            pieces = _fit(world, world.shape_rows[s].roles)
            if pieces is None:
                break
            yield ev.AskedPlace(world.now_ms, j, int(world.jobs.attempt[j]) + 1, pieces)


def supply(world: World) -> Iterator[ev.Action]:
    """Launch, repair, return."""
    now_ms = world.now_ms
    for c, row in enumerate(world.contract_rows):
        known = int(world.contracts.nodes[c]) + int(world.contracts.asked_nodes[c])
        missing = row.count // row.node.devices - known
        if missing and world.contracts.is_running[c]:
            yield ev.AskedLaunch(now_ms, c, missing)
    for n in range(world.node_count):
        if world.aboard[n] or world.nodes.asked[n]:
            continue
        state = world.nodes.state[n]
        if state == NodeState.UNHEALTHY:
            yield ev.AskedRepair(now_ms, n)
        elif state == NodeState.READY and world.nodes.failed[n]:
            yield ev.AskedDrain(now_ms, n, ev.Why.DEVICE_LOST, now_ms)
            yield ev.AskedRepair(now_ms, n)
        elif state == NodeState.DRAINING:
            yield ev.AskedReturn(now_ms, n)


def run(
    twin: Twin, plan: Decide = decide, batches_at_most: int = 100_000
) -> tuple[World, list[ev.Event]]:
    """Fold, plan, carry out, until the story is over; return the World and its journal."""
    world, journal = World(), list[ev.Event]()
    for _ in range(batches_at_most):
        if twin.next_ms() is None:
            return world, journal
        step(twin, world, journal, plan)
    raise AssertionError(f"the story goes on after {batches_at_most} batches")


def step(twin: Twin, world: World, journal: list[ev.Event], plan: Decide = decide) -> None:
    """One batch."""
    for event in twin.take(world):
        fold(world, event)
        journal.append(event)
    actions = []
    for action in plan(world):
        fold(world, action)
        actions.append(action)
    journal += actions
    twin.carry_out(world, ev.Plan(tuple(actions)))


def _fit(world: World, roles: tuple[Role, ...]) -> tuple[Piece, ...] | None:
    """First fit, role by role; None when a replica finds no room, or is a MIG instance."""
    if any(role.profile for role in roles):
        return None  # slices are for the real scheduler
    taken: dict[tuple[int, int], int] = {}
    pieces = []
    for r, role in enumerate(roles):
        for _ in range(role.count):
            piece = _fit_replica(world, r, role, taken)
            if piece is None:
                return None
            pieces.append(piece)
    return tuple(pieces)


def _fit_replica(
    world: World, r: int, role: Role, taken: dict[tuple[int, int], int]
) -> Piece | None:
    for n in range(world.node_count):
        kind = world.kinds[world.nodes.kind[n]]
        is_open = world.nodes.state[n] == NodeState.READY and not world.nodes.is_spare[n]
        if not is_open or (role.kinds and kind not in role.kinds):
            continue
        devices = _free_devices(world, n, role, taken)
        if devices is not None:
            for d in devices:
                taken[n, d] = taken.get((n, d), 0) + role.milli
            return Piece(r, n, 1, sum(1 << d for d in devices))
    return None


def _free_devices(
    world: World, n: int, role: Role, taken: dict[tuple[int, int], int]
) -> list[int] | None:
    first = int(world.nodes.first_device[n])
    free = [
        d
        for d in range(int(world.nodes.devices[n]))
        if not world.devices.is_failed[first + d]
        and int(world.devices.free_milli[first + d]) - taken.get((n, d), 0) >= role.milli
    ]
    return free[: role.accelerators] if len(free) >= role.accelerators else None
