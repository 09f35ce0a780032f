"""The present: what the scheduler would say of waiting jobs if it looked now, and who is ahead.

The scheduler itself is asked, on the World as it is, with a memo that remembers no failure; so the
answer agrees with it by construction. To answer for one job only the shapes that can stand in its
way are shown to it: those that may hold a queue, and those it has not looked at yet.
"""

import copy
import heapq
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.explain import supply
from tidemill.model import events as ev
from tidemill.model.batch.sheet import Sheet
from tidemill.model.events import AskedPlace, CauseChanged
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.orders import BY_SHAPE
from tidemill.model.policy import Policy
from tidemill.model.reasons import NEVER, Cause
from tidemill.model.rows import CLUSTER
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import mixed_types, order, protection, shares
from tidemill.scheduling.diagnose import supply_cause
from tidemill.scheduling.elastic import smallest
from tidemill.scheduling.fairness import Fair
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.pending_queues import PendingQueues
from tidemill.scheduling.preemption.candidates import Victim
from tidemill.scheduling.schedule import CURED_BY_EVICTION, CURED_BY_WAITING, Cycle, schedule
from tidemill.scheduling.shape_eligibility import Known

NAMED = 3  # jobs ahead that are called by name
SHAPES_AT_MOST = 250  # shown to the scheduler for one job: 0.3 ms each at 10,000 nodes, measured

_MAY_HOLD = CURED_BY_WAITING | {
    Cause.NONE, Cause.BEHIND, Cause.PROMISED, Cause.RESERVED, Cause.OVER_LIMIT
}  # fmt: skip


_LACKS_NODES = frozenset({Cause.NOTHING_LAUNCHED, Cause.NOTHING_READY, Cause.NOT_ENOUGH_READY})

_OURS = frozenset({Cause.BEHIND, Cause.PROMISED, Cause.RESERVED})
"""Causes that our own order makes: where another scheduler decides, there are none."""


class Glance(Memo):
    """A memo for one state of the World: equal constraints are looked at once, failures never."""

    def __init__(self, world: World, *, sweeps: bool = False, like: "Glance | None" = None) -> None:
        """``like``: one of a cluster state with the same shapes, for the order alone."""
        super().__init__(sweeps=sweeps)
        self.forgets = True
        self.moment = (world.seq, world.now_ms)
        self._alike: dict[object, int] = {}
        self._quick: dict[int, Known] = {} if like is None else dict(like._quick)
        self._emptied: tuple[World, Memo] | None = None

    def emptied(self, world: World) -> tuple[World, Memo]:
        """The state in which nodes that are full of pods take more, and a memo of it."""
        if self._emptied is None:
            found = snapshot.copy(world)
            for n in np.flatnonzero(supply.closed(world)[supply.Place.FULL]).tolist():
                fold(found, ev.NodeMoved(found.now_ms, n, NodeState.READY))
            self._emptied = found, Memo(sweeps=self.sweeps)
        return self._emptied

    def known(self, world: World, s: int) -> Known:
        """As the scheduler's memo, but shapes that differ only in size share the work."""
        found = self._quick.get(s)
        if found is None:
            roles = world.shape_rows[s].roles
            constraints = tuple(
                (r.kinds, r.rules, r.accelerators > 0, r.profile, r.profile and r.milli)
                for r in roles
            )
            like = super().known(world, self._alike.setdefault(constraints, s))
            q, priority = int(world.shapes.queue[s]), int(world.shapes.priority[s])
            found = self._quick[s] = like._replace(queue=q, priority=priority)
            self.write(world, s, found)
        return found


class Look(NamedTuple):
    """What a look at some waiting shapes found."""

    causes: dict[int, Cause]
    placed: dict[int, AskedPlace]
    """Whom the next cycle places, and where."""


class Line(NamedTuple):
    """Who goes before a job and may use the same accelerators; who holds the queue, or -1."""

    jobs: int
    milli: int
    holder: int
    first: tuple[int, ...]
    """The first of those jobs, in order."""
    held: tuple[int, ...]
    """Kinds that it may use and that are held for the holder."""


def glance(world: World, memo: Glance | None) -> Glance:
    """The memo to use: the one given if the cluster state is still as it saw it."""
    now = (world.seq, world.now_ms)
    return memo if memo is not None and memo.moment == now else Glance(world)


def look(world: World, policy: Policy, memo: Glance, shapes: Iterable[int]) -> Look:
    """Ask the scheduler about these waiting shapes, as if no other waited. Nobody is evicted.

    Where another scheduler decides, whoever would fit and was not started is held back by it, and
    takes nothing from anybody; nor does anybody wait behind whom we would not let pass. Each shape
    that finds no room is asked about alone, those that differ in nothing that counts there once.
    """
    found = _look(world, policy, memo, shapes)
    if not world.is_looked_on:
        return found
    waits = [s for s, cause in found.causes.items() if cause not in NEVER]
    causes = found.causes | {s: Cause.NONE for s in waits if _mixes(world, memo, s)}
    if not (found.placed or _OURS & {*causes.values()}):
        return Look(causes, {})
    placed = {world.jobs.shape.item(j) for j in found.placed}
    short = [s for s, cause in causes.items() if cause in _MAY_HOLD or s in placed]
    alike, rows = dict[object, Cause](), world.node_count
    there = np.bincount(
        world.nodes.kind[:rows], world.nodes.devices[:rows], len(world.kinds)
    ).astype(np.int64) * WHOLE_MILLI  # fmt: skip
    for s in short:
        form = _alone_form(world, s, there)
        if form not in alike:
            alike[form] = alone(world, policy, s, sweeps=memo.sweeps)
        causes[s] = alike[form]
    return Look(causes, {})


def _alone_form(world: World, s: int, there: I64) -> object:
    """What counts of a shape if no other waited: not whose it is, where no quota binds it first.

    ``there``: of each GPU type, all that the cluster has; a quota beyond that binds nobody.
    """
    shape, q = world.shape_rows[s], world.shapes.queue.item(s)
    if world.tree.keeps:
        return replace(shape, priority=0)
    path = [*world.tree.paths[q]]
    left = (world.limit[path] - world.used[path]).min(axis=0)
    quota = np.minimum(left[: len(there)], there).tolist()
    return replace(shape, team="any", priority=0), tuple(quota)


def outcome(world: World, policy: Policy, j: int, *, sweeps: bool) -> tuple[Cause, int]:
    """What keeps a job out of a state that was changed, and how many are ahead of it there."""
    memo, s = Glance(world, sweeps=sweeps), world.jobs.shape.item(j)
    looked = look(world, policy, memo, rivals(world, policy, s))
    cause = from_the_ground(world, memo, s, looked.causes[s])
    cause = Cause.NONE if j in looked.placed else cause
    return cause, line(world, policy, memo, j, looked.causes).jobs


def alone(world: World, policy: Policy, s: int, *, sweeps: bool) -> Cause:
    """What keeps a shape out if no other waited; NONE: it would be placed."""
    memo = Glance(world, sweeps=sweeps)
    found = _look(world, policy, memo, [s])
    return Cause.NONE if found.placed or _mixes(world, memo, s) else found.causes[s]


def _mixes(world: World, memo: Glance, s: int) -> bool:
    """Whether a shape fits where another scheduler puts its replicas on several GPU types."""
    if not mixed_types.may_mix(world, world.shape_rows[s], memo.known(world, s).options):
        return False
    q, room = world.shapes.queue.item(s), memo.room(world)
    if world.queue_rows[q].name in world.admission.together:  # what all types use counts for each
        need = smallest(world.shape_rows[s]).total_milli
        if ((world.used + need > world.limit)[list(world.tree.paths[q])]).any():
            return False
    return mixed_types.fits(room, q, smallest(world.shape_rows[s]), memo.known(world, s).options)


def before(world: World, policy: Policy, j: int) -> list[int]:
    """Waiting jobs that fit as well as this one does, where not all of them fit together.

    Of at most so many shapes; the oldest first.
    """
    mine = world.jobs.shape.item(j)
    others = [s for s in [*world.queued][:SHAPES_AT_MOST] if s != mine]
    others = [s for s in others if world.asking(s)]
    fit = [s for s in others if alone(world, policy, s, sweeps=False) is Cause.NONE]
    found = _look(world, policy, Glance(world), [mine, *fit])
    if j in found.placed:
        return []
    return sorted(other for s in (mine, *fit) for other in world.asking(s) if other != j)


def _look(world: World, policy: Policy, memo: Glance, shapes: Iterable[int]) -> Look:
    view = copy.copy(world)
    view.queued = dict.fromkeys(shapes)
    sheet = Sheet()
    schedule(view, replace(policy, searches_per_cycle=0), memo, sheet)
    actions = sheet.actions()
    causes = {s: Cause(world.shapes.cause[s]) for s in view.queued}
    causes |= {a.shape: a.cause for a in actions if isinstance(a, CauseChanged)}
    return Look(causes, {a.job: a for a in actions if isinstance(a, AskedPlace)})


def grounded(world: World, memo: Glance, found: Look) -> dict[int, Cause]:
    """What keeps each shape out, in the order of the four questions."""
    return {s: from_the_ground(world, memo, s, cause) for s, cause in found.causes.items()}


def for_pods(world: World, memo: Glance, s: int, cause: Cause) -> Cause:
    """The cause; of a shape that only nodes full of pods could hold, that too little is free: they
    are Ready, and no repair or new node is needed for that to end.
    """
    if cause not in _LACKS_NODES or not any(map(world.is_full, world.node_words)):
        return cause
    return cause if supply_cause(*memo.emptied(world), s) in _LACKS_NODES else Cause.BUSY


def from_the_ground(world: World, memo: Glance, s: int, cause: Cause) -> Cause:
    """The cause in the order of the four questions: behind a held queue only what could run.

    The scheduler does not look at a shape behind a held queue any further, whatever else it lacks.
    """
    if cause is Cause.SCATTERED:
        return _of_its_nodes(world, memo, s)
    if cause not in (Cause.BEHIND, Cause.RESERVED):
        return cause
    lacking = supply_cause(world, memo, s)
    return cause if lacking is Cause.NONE else lacking


def _of_its_nodes(world: World, memo: Glance, s: int) -> Cause:
    """Whether what is free is scattered over nodes that it may use, or lies on others.

    The scheduler counts what is free of a GPU type, behind whatever taints; an answer does not.
    """
    is_tainted = any(group.taints for group in world.groups)
    for role, options in zip(
        smallest(world.shape_rows[s]).roles, memo.known(world, s).options, strict=True
    ):
        if not role.accelerators or not (is_tainted or role.rules.keys):
            continue
        if any(supply.free_milli(world, (one,)) >= role.total_milli for one in options):
            continue
        room = memo.room(world)
        hosts = max((room.count_hosts(role, one.is_ok) for one in options), default=0)
        return Cause.PARTIAL_GANG if hosts and role.count > 1 else Cause.BUSY
    return Cause.SCATTERED


def as_told(world: World, j: int, cause: Cause) -> Cause:
    """The cause, as far as it can be known: who is held waits for no GPU, whatever is free.

    So it is where nodes are listed by no source.

    Of them only what jobs hold is known: that nothing else is free, or that nothing so large is
    there, would be a guess. What the job's own scheduler said counts; else it just does not fit.
    """
    if world.is_held(j):
        return Cause.NOT_ELIGIBLE
    if not world.is_observed or not supply.unlisted_mask(world).any():
        return cause
    found = world.reason_of(j)
    if found is not None and found.cause:
        return Cause(found.cause)
    return Cause.BUSY if cause in NEVER else cause


def rivals(world: World, policy: Policy, s: int) -> list[int]:
    """The shape itself and those that can stand in its way, oldest first."""
    causes, lines = world.shapes.cause, PendingQueues(policy)
    found = [
        t for t in world.queued
        if t != s and causes.item(t) in _MAY_HOLD
        and (t in world.promised or causes.item(t) == Cause.NONE or policy.backfill != "none"
             or lines.first_to_lose_patience_ms(world, t) <= world.now_ms)
    ]  # fmt: skip
    found.sort(key=lambda t: world.waiting[t][0])
    return [s, *found[: SHAPES_AT_MOST - 1]]


def victims_for(world: World, policy: Policy, memo: Glance, s: int, cause: Cause) -> list[Victim]:
    """Whom the scheduler would evict for the first job of this shape; another one: nobody knows."""
    if world.is_looked_on or cause not in CURED_BY_EVICTION or not memo.may_evict(world, s):
        return []
    return Cycle(world, policy, memo, Sheet()).victims_for(s)


class Protected(NamedTuple):
    """Jobs that will be stopped for another, and when: they have not run for so long yet."""

    jobs: tuple[int, ...]
    then: World
    """The cluster state of that moment, if nothing else happens before."""


def protected_from(
    world: World, policy: Policy, memo: Glance, s: int, cause: Cause
) -> Protected | None:
    """Whom the scheduler would evict for the first job of this shape once their ``min_run`` is
    over, if nothing else changes; it is asked as of then. None: nobody, or somebody already.
    """
    if not policy.min_run_ms or not memo.may_evict(world, s):
        return None
    brave = replace(policy, min_run_ms=0)
    found = victims_for(world, brave, Glance(world, sweeps=memo.sweeps), s, cause)
    at_ms = max((protection.until_ms(world, policy, v.job, v.why) for v in found), default=0)
    if not world.now_ms < at_ms < FOREVER_MS:
        return None
    then = fold_all(snapshot.branch(world), [ev.Woke(at_ms)])
    found = victims_for(then, policy, Glance(then, sweeps=memo.sweeps), s, cause)
    return Protected(tuple(sorted(victim.job for victim in found)), then) if found else None


def spared_from(world: World, policy: Policy, s: int, cause: Cause) -> tuple[int, ...]:
    """Whom the scheduler would evict for the first job of this shape if the cluster let it: those
    that the cluster keeps, and who would go with them.
    """
    if not world.kept:
        return ()
    free = snapshot.branch(world)
    free.kept = frozenset()
    found = victims_for(free, policy, Glance(free), s, cause)
    jobs = tuple(sorted(victim.job for victim in found))
    return () if world.kept.isdisjoint(jobs) else jobs


def line(world: World, policy: Policy, memo: Glance, j: int, causes: dict[int, Cause]) -> Line:
    """Count the jobs ahead of a waiting one; of shapes not in ``causes``, what was said counts."""
    s = int(world.jobs.shape[j])
    fair = Fair(world, policy)
    mine, kinds = _key(world, fair, memo, s, j), set(memo.known(world, s).kinds)
    jobs = milli = 0
    ahead: list[tuple[order.Key, int]] = []
    holders: list[tuple[order.Key, int]] = []
    lines = memo.lines(policy)
    lines.begin(world)
    for t in world.queued:
        if kinds.isdisjoint(memo.known(world, t).kinds) or _is_elsewhere(world, s, t):
            continue
        head, asking = lines.head(world, t)[1], world.asking(t)
        if asking and head not in asking:
            head = asking[0]  # the first is held, and nobody waits behind it
        key = _key(world, fair, memo, t, head)
        if key >= mine or not asking:
            continue
        alike = policy.order in BY_SHAPE  # the oldest of a shape are its first
        named = heapq.nsmallest(NAMED, asking) if alike else asking
        early = [(key, head)]
        if len(named) > 1:
            early = [(_key(world, fair, memo, t, i), i) for i in named]
            early = [found for found in early if found[0] < mine]
        count = len(asking) if alike else len(early)
        if alike and key[:3] == mine[:3]:
            count = sum(i < j for i in asking)
        jobs += count
        milli += count * int(world.shapes.total_milli[t])
        ahead += early
        cause = causes.get(t, Cause(world.shapes.cause.item(t)))
        if t != s and _holds(world, policy, memo, s, t, head, cause):
            holders.append((key, head))
    holder = min(holders)[1] if holders else -1
    held = kinds & set(memo.known(world, int(world.jobs.shape[holder])).kinds) if holders else ()
    first = tuple(head for _, head in heapq.nsmallest(NAMED, ahead))
    return Line(jobs, milli, holder, first, tuple(sorted(held)))


def _is_elsewhere(world: World, s: int, t: int) -> bool:
    """Whether two shapes belong to different clusters: none is ahead of the other."""
    one, other = (
        {
            value
            for role in world.shape_rows[of].roles
            for key, value in role.labels
            if key == CLUSTER
        }
        for of in (s, t)
    )
    return bool(one and other) and one.isdisjoint(other)


def due_before(world: World, policy: Policy, memo: Glance, j: int, looked: Look) -> list[int]:
    """Jobs ahead of a waiting one that the next cycle places: it finds what they leave."""
    fair = Fair(world, policy)
    keys = {i: _key(world, fair, memo, int(world.jobs.shape[i]), i) for i in {*looked.placed, j}}
    return sorted(i for i in looked.placed if keys[i] < keys[j])


def in_order(world: World, policy: Policy, memo: Glance) -> list[int]:
    """Every waiting job, in the order in which the scheduler would look at them now."""
    fair = Fair(world, policy)
    keys = [(_key(world, fair, memo, s, j), j) for s in world.queued for j in world.waiting[s]]
    return [j for _, j in sorted(keys)]


def _holds(  # noqa: PLR0913, PLR0917 - two shapes and what is known of them
    world: World, policy: Policy, memo: Glance, s: int, t: int, head: int, cause: Cause
) -> bool:
    """Whether nobody of shape ``s`` passes the head of shape ``t``: a limit is that of its own."""
    if world.promised.get(t, 0) > 0:
        return True
    if not order.is_guarded(world, policy, head):
        return False
    if cause is not Cause.OVER_LIMIT:
        return cause in CURED_BY_WAITING
    limits = shares.limits_on(world, world.used, t, memo.known(world, t).kinds)
    mine = memo.known(world, s)
    return shares.are_under(world, mine.queue, mine.kinds, limits)


def _key(world: World, fair: Fair, memo: Glance, s: int, j: int) -> order.Key:
    return order.key(world, fair, world.used, memo.known(world, s), s, j)
