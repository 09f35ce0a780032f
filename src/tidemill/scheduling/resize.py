"""Resize: elastic jobs shrink before anyone is stopped, and grow into room that nobody waits for.

*Shrink*: what an elastic job holds above its least is lent. A waiting job of its own team that is
no less important may have it, and any job of another team while its own borrows. Replicas are given
up one by one, of the job with the cheapest pause first, and no more than are needed.

*Grow*: in a cycle that has nothing else to do, replicas are added one by one where they speed up
most for each accelerator, on kinds for which nobody waits. So that sizes do not swing, a job grows
only when it has worked for ``grow_after_ms`` since it last came up, and only when the pause is won
back within that time. Whoever was grown is not shrunk by the next cycle unless someone new waits,
and whoever was shrunk is not grown by it.
"""

import heapq
from collections.abc import Iterator, Sequence, Set
from enum import Enum
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.model.events import Action, AskedEvict, AskedMove, AskedPlace, CauseChanged, Why
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import NEVER, Cause
from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.scheduling import elastic
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fit import fit
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemption import cost
from tidemill.scheduling.preemption.candidates import Victim
from tidemill.scheduling.preemption.search import Hunt, clear
from tidemill.scheduling.preemptive_order.apply import may_reorder
from tidemill.scheduling.scores.scoring import PACKING
from tidemill.scheduling.snapshot import Snapshot
from tidemill.units import speedup

CUTS_AT_MOST = 256  # replicas that are looked at for one heir
GROWN_AT_MOST = 512  # replicas added in one cycle
NOBODYS = NEVER | {Cause.NOTHING_LAUNCHED, Cause.NOTHING_READY, Cause.NOT_ENOUGH_READY}
"""Causes of jobs that room on the nodes there are does not help."""
_RUNNING = int(JobState.RUNNING)


class Cuts(NamedTuple):
    """Replicas that may be given up, cheapest first; whether all that might be are at work."""

    cuts: list[Victim]
    is_final: bool


# Shrinking ------------------------------------------------------------------------------------


def cuts(hunt: Hunt, leaving: Set[int]) -> Cuts:
    """What elastic jobs could give up for the heir, one replica each."""
    world, found, is_final = hunt.world, list[tuple[int, int, int, int]](), True
    for t in hunt.memo.elastic_shapes(world):
        for j in sorted(world.active[t]):
            is_asked = world.jobs.is_leaving.item(j) or j in leaving
            if is_asked or j in world.kept or not _may_ask(hunt, t):
                continue
            if world.jobs.state.item(j) != _RUNNING:
                is_final = False
            elif _surplus(world, j):
                shape, pause_ms = world.shape_rows[t], world.jobs.resize_ms.item(j)
                price = cost.usd_micro(world, shape, world.placements[j], pause_ms)
                found.append((shape.priority, price, -j, j))
    lined_up = [cut for _, price, _, j in sorted(found) for cut in _cuts(world, j, price)]
    return Cuts(lined_up[:CUTS_AT_MOST], is_final)


def shrink(hunt: Hunt, offered: list[Victim]) -> list[Victim]:
    """The fewest of these replicas whose going lets the heir sit; nobody: they are not enough."""
    given, pieces = clear(hunt, offered, at_most=0)
    if not pieces:
        return []
    sits = hunt.seat(hunt.options)
    hunt.unseat(sits)
    for cut in given:
        hunt.put_back(cut)
    return given if sits else []


def asked(world: World, given: Sequence[Victim], heir: int) -> list[AskedMove]:
    """One action for each job that gives up replicas."""
    by_job: dict[int, list[Piece]] = {}
    for cut in given:
        by_job.setdefault(cut.job, []).extend(cut.pieces)
    return [
        AskedMove(
            world.now_ms, j, int(world.jobs.attempt[j]), Why.SHRUNK, (),
            _joined(world.placements[j], parts), heir,
        )
        for j, parts in sorted(by_job.items())
    ]  # fmt: skip


def _may_ask(hunt: Hunt, t: int) -> bool:
    """Within a team, whoever is no more important may be asked; of others ``clear`` knows."""
    world = hunt.world
    is_own = world.shapes.queue.item(t) == hunt.queue
    return not is_own or world.shapes.priority.item(t) <= hunt.heir.priority


def _surplus(world: World, j: int) -> int:
    """How many replicas a job has above its least."""
    shape = world.shape_of(j)
    r = shape.elastic_role
    return 0 if r is None else elastic.held(world.placements[j], r) - shape.roles[r].least


def _cuts(world: World, j: int, price: int) -> Iterator[Victim]:
    """The replicas that one job may give up, from where it has fewest, so that nodes get empty."""
    s = int(world.jobs.shape[j])
    shape, q = world.shape_rows[s], int(world.shapes.queue[s])
    r, pause_ms = shape.elastic_role, world.jobs.resize_ms.item(j)
    assert r is not None, "only an elastic job gives up replicas"
    left = _surplus(world, j)
    mine = [piece for piece in world.placements[j] if piece.role == r]
    for piece in sorted(mine, key=lambda p: (p.replicas, -p.node)):
        rest = piece
        for _ in range(min(left, piece.replicas)):
            part = elastic.cut(rest, shape.roles[r], 1)
            rest = Piece(r, rest.node, rest.replicas - 1, rest.devices ^ part.devices)
            left -= 1
            yield Victim(shape.priority, pause_ms, price, j, q, shape, (part,), Why.SHRUNK)


def _joined(held: tuple[Piece, ...], parts: list[Piece]) -> tuple[Piece, ...]:
    """Parts of the same piece as one."""
    joined: list[Piece] = []
    left = list(parts)
    for piece in held:
        mine: list[Piece] = []
        for part in [p for p in left if (p.role, p.node) == (piece.role, piece.node)]:
            is_mine = part.devices & ~piece.devices == 0 and part.slices == piece.slices
            if is_mine and len(mine) < piece.replicas:
                mine.append(part)
                left.remove(part)
        if mine:
            devices = sum(part.devices for part in mine)
            joined.append(Piece(piece.role, piece.node, len(mine), devices, piece.slices))
    assert not left, "a part belongs to a piece"
    return tuple(joined)


# Growing --------------------------------------------------------------------------------------


class Growth(NamedTuple):
    """What to grow now, and when to look again."""

    actions: list[Action]
    wake_ms: int = FOREVER_MS


NOTHING = Growth([])


class _Growing:
    """An elastic job that may grow, and what it was given so far."""

    def __init__(self, world: World, j: int) -> None:
        self.job, self.shape = j, world.shape_of(j)
        r = self.shape.elastic_role
        assert r is not None, "only an elastic job grows"
        self.r, self.role = r, self.shape.roles[r]
        self.had = self.size = elastic.held(world.placements[j], r)
        self.gained: list[Piece] = []

    def rank(self) -> tuple[int, int]:
        """The more speed for one more accelerator, the earlier; the whole speed is the gang's."""
        more = speedup.speed_ppm(self.shape, self.size + 1)
        return (-(more - speedup.speed_ppm(self.shape, self.size)) * self.role.count, self.job)

    def is_worth(self, pause_ms: int, within_ms: int) -> bool:
        """Whether the pause is won back within this time."""
        before = speedup.speed_ppm(self.shape, self.had)
        after = speedup.speed_ppm(self.shape, self.size)
        return bool(self.gained) and after * (within_ms - pause_ms) > before * within_ms


def grow(world: World, policy: Policy, memo: Memo, decided: Sequence[Action]) -> Growth:
    """Give idle room to elastic jobs, in a cycle that has decided nothing else about room.

    Where the order is of running jobs too, sizes stay: such a plan of the fleet knows no resizes.
    """
    if not policy.may_resize or may_reorder(policy) or not memo.elastic_shapes(world):
        return NOTHING
    ready, wake_ms = _growable(world, policy, memo)
    if not ready:
        return Growth([], wake_ms)
    if any(isinstance(action, AskedPlace | AskedEvict | AskedMove) for action in decided):
        return Growth([], world.now_ms)
    free = _uncontested(world, memo, decided)
    if not free:
        return Growth([], wake_ms)
    room = memo.room(world)
    _add_replicas(world, memo, room, ready, free)
    actions: list[Action] = [
        AskedMove(world.now_ms, g.job, int(world.jobs.attempt[g.job]), Why.GROWN, tuple(g.gained))
        for g in sorted(ready, key=lambda g: g.job)
        if g.is_worth(world.jobs.resize_ms.item(g.job), policy.grow_after_ms)
    ]
    return Growth(actions, wake_ms)


class Stays(Enum):
    """Why a job that runs below its full size does not grow: the first that holds."""

    OFF = "the policy resizes no job"
    NOT_AT_WORK = "it comes up, or is asked to stop or to move"
    TOO_SOON = "it has not worked for `grow_after` since it last came up"
    CONTESTED = "a job waits that could use its GPU type"
    NO_ROOM = "no other replica has a place"
    NOT_WORTH = "the pause would not be won back in time"
    GROWS = "nothing: it grows in the next cycle that decides nothing else"


def stays(world: World, policy: Policy, memo: Memo, j: int) -> Stays:
    """What keeps an elastic job at its size, by the rules of ``grow``; it is below its count."""
    if not policy.may_resize or may_reorder(policy):
        return Stays.OFF
    if world.jobs.is_leaving.item(j) or world.jobs.state.item(j) != _RUNNING:
        return Stays.NOT_AT_WORK
    ready, _ = _growable(world, policy, memo)
    mine = next((growing for growing in ready if growing.job == j), None)
    if mine is None:
        return Stays.TOO_SOON
    free = _uncontested(world, memo, ())
    if not _options(world, memo, mine, free):
        return Stays.CONTESTED
    _add_replicas(world, memo, memo.room(world), ready, free)
    if not mine.gained:
        return Stays.NO_ROOM
    is_worth = mine.is_worth(world.jobs.resize_ms.item(j), policy.grow_after_ms)
    return Stays.GROWS if is_worth else Stays.NOT_WORTH


def _growable(world: World, policy: Policy, memo: Memo) -> tuple[list[_Growing], int]:
    """Jobs below their count that have worked long enough; and when the next will have."""
    ready, wake_ms = list[_Growing](), FOREVER_MS
    for t in memo.elastic_shapes(world):
        for j in sorted(world.active[t]):
            if world.jobs.is_leaving.item(j) or world.jobs.state.item(j) != _RUNNING:
                continue
            growing = _Growing(world, j)
            if growing.size == growing.role.count:
                continue
            due_ms = world.jobs.origin_ms.item(j) + policy.grow_after_ms
            if due_ms <= world.now_ms:
                ready.append(growing)
            else:
                wake_ms = min(wake_ms, due_ms)
    return ready, wake_ms


def _uncontested(world: World, memo: Memo, decided: Sequence[Action]) -> set[int]:
    """Kinds for which nobody waits who could use them."""
    said = {action.shape: action.cause for action in decided if isinstance(action, CauseChanged)}
    free = set(range(len(world.kinds)))
    for s in world.queued:
        if said.get(s, Cause(int(world.shapes.cause[s]))) not in NOBODYS:
            free.difference_update(memo.known(world, s).kinds)
    return free


def _add_replicas(
    world: World, memo: Memo, room: Snapshot, ready: list[_Growing], free: set[int]
) -> None:
    """One replica at a time to whoever gains most by it, until nobody can have another."""
    heap = [(growing.rank(), growing) for growing in ready]
    heapq.heapify(heap)
    for _ in range(GROWN_AT_MOST):
        if not heap:
            break
        _, growing = heapq.heappop(heap)
        piece = _another(world, memo, room, growing, free)
        if piece is None:
            continue
        growing.gained.append(piece)
        growing.size += 1
        if growing.size < growing.role.count:
            heapq.heappush(heap, (growing.rank(), growing))


def _another(
    world: World, memo: Memo, room: Snapshot, growing: _Growing, free: set[int]
) -> Piece | None:
    """A place for one more replica, on the kind that the others of its role sit on."""
    s = int(world.jobs.shape[growing.job])
    options = _options(world, memo, growing, free)
    one: Role = replace(growing.role, count=1, least=0)
    alone = Shape(growing.shape.team, (one,), growing.shape.kind, growing.shape.priority)
    found = fit(room, int(world.shapes.queue[s]), alone, (options,), PACKING).pieces
    return replace(found[0], role=growing.r) if found else None


def _options(world: World, memo: Memo, growing: _Growing, free: set[int]) -> tuple[Option, ...]:
    """Where one more replica may sit, of kinds for which nobody waits."""
    s, held = int(world.jobs.shape[growing.job]), world.placements[growing.job]
    kinds = {int(world.nodes.kind[p.node]) for p in held if p.role == growing.r}
    return tuple(
        option
        for option in memo.known(world, s).options[growing.r]
        if option.kind in kinds & free or (option.kind < 0 and len(free) == len(world.kinds))
    )
