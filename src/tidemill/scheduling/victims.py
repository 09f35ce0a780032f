"""Victims: the cheapest work to stop so that an entitled job fits, or nobody.

Rights: within a team a higher priority may stop a lower one; across teams, a job that stays within
its team's floor may take back what others borrow. Victims are tried cheapest first (priority, then
accelerator-time lost), in a bounded search; whoever turns out not to be in the way is spared.

The promise that keeps this from going round in circles: a plan never evicts a job that would fit
somewhere else once the evicting job sits. Such a job is passed over, and if there is no other way
nobody is evicted. The room that was made goes to the shape it was made for before anybody else
(``order``). So the next cycle cannot put a victim back.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tidemill.model.events import Why
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece, Shape
from tidemill.model.world import World
from tidemill.scheduling import shares
from tidemill.scheduling.fit import Options, fit, redo, undo
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.room import Room


class Stop(NamedTuple):
    """The workload layer's word on stopping jobs: what it would cost, and who is leaving anyway."""

    lost_ms: Callable[[int], int]
    leaving: frozenset[int] = frozenset()


ROUNDS = 3  # how often the search begins again without the jobs that would only be moved


class Victim(NamedTuple):
    """A job that may be stopped, what it holds, and what stopping it would lose."""

    priority: int
    lost_milli_ms: int
    job: int
    queue: int
    shape: Shape
    pieces: tuple[Piece, ...]
    why: Why


def choose(
    world: World, policy: Policy, memo: Memo, room: Room, s: int, stop: Stop
) -> list[Victim]:
    """Whom to evict so that one job of this shape fits; the room is left as it was.

    Reclaiming looks only at kinds of which the team is still owed enough: a job that took back what
    it then merely borrows could be reclaimed from in turn, and so on round the teams.
    """
    known = memo.known(world, s)
    owed = _owed(world, room, s, known.kinds) if policy.may_reclaim else ()
    if owed:
        options = _only(known.options, owed)
        candidates = _candidates(world, policy, room, s, stop, owed, reclaims=True)
        victims = _choose(world, policy, memo, room, s, options, candidates)
        if victims:
            return victims
    candidates = _candidates(world, policy, room, s, stop, known.kinds, reclaims=False)
    return _choose(world, policy, memo, room, s, known.options, candidates)


def _choose(
    world: World,
    policy: Policy,
    memo: Memo,
    room: Room,
    s: int,
    options: Options,
    candidates: list[Victim],
) -> list[Victim]:
    for _ in range(ROUNDS):
        if not candidates:
            return []
        victims, movers = _search(world, policy, memo, room, s, options, candidates)
        if not movers:
            return victims
        candidates = [victim for victim in candidates if victim.job not in movers]
    return []


def _owed(world: World, room: Room, s: int, kinds: tuple[int, ...]) -> tuple[int, ...]:
    """The kinds of which one more job of this shape would stay within the team's floor."""
    q, need = int(world.shapes.queue[s]), int(world.shapes.total_milli[s])
    return tuple(k for k in kinds if need and shares.within_floor(world, room.used, q, k, need))


def _only(options: Options, kinds: tuple[int, ...]) -> Options:
    """The options on these kinds, and those of roles that need no accelerator."""
    return tuple(tuple(o for o in role if o.kind in kinds or o.kind < 0) for role in options)


def _candidates(
    world: World,
    policy: Policy,
    room: Room,
    s: int,
    stop: Stop,
    kinds: tuple[int, ...],
    reclaims: bool,
) -> list[Victim]:
    found = []
    for t, why in _rights(world, policy, room, s, reclaims):
        jobs = world.active[t] if world.shape_rows[t].is_preemptible else {}
        staying = [j for j in jobs if not (world.jobs.is_leaving[j] or j in stop.leaving)]
        found += [_victim(world, j, t, why, stop.lost_ms(j)) for j in staying]
    usable = [v for v in found if any(int(world.nodes.kind[p.node]) in kinds for p in v.pieces)]
    return sorted(usable, key=lambda v: (v.priority, v.lost_milli_ms, -v.job))


def _rights(
    world: World, policy: Policy, room: Room, s: int, reclaims: bool
) -> list[tuple[int, Why]]:
    """The shapes whose jobs this one may evict, and by what right."""
    count, q = len(world.shape_rows), world.shapes.queue[s]
    queues, priorities = world.shapes.queue[:count], world.shapes.priority[:count]
    rights: list[tuple[int, Why]] = []
    if policy.may_preempt:
        lower = np.flatnonzero((queues == q) & (priorities < world.shapes.priority[s]))
        rights += [(t, Why.PREEMPTED) for t in lower.tolist()]
    if reclaims:
        borrows = (room.used > world.floor).any(axis=1)
        borrowed = np.flatnonzero((queues != q) & borrows[queues])
        rights += [(t, Why.RECLAIMED) for t in borrowed.tolist()]
    return rights


def _victim(world: World, j: int, t: int, why: Why, lost_ms: int) -> Victim:
    shape = world.shape_rows[t]
    return Victim(
        shape.priority, lost_ms * shape.total_milli, j, int(world.shapes.queue[t]), shape,
        world.placements[j], why,
    )  # fmt: skip


def _search(
    world: World,
    policy: Policy,
    memo: Memo,
    room: Room,
    s: int,
    options: Options,
    candidates: list[Victim],
) -> tuple[list[Victim], set[int]]:
    """Free candidates until the job fits; return the victims, or those that would only move."""
    shape, q = world.shape_rows[s], int(world.shapes.queue[s])
    spreads = policy.placement == "spread"
    freed: list[Victim] = []
    pieces: tuple[Piece, ...] = ()
    for victim in candidates:
        if len(freed) >= policy.victims_at_most:
            break
        if victim.why is Why.RECLAIMED and not _is_borrowed(world, room, victim):
            continue
        undo(room, victim.queue, victim.shape, victim.pieces)
        freed.append(victim)
        pieces = fit(room, q, shape, options, spreads).pieces
        if pieces:
            break
    victims, movers = [], set()
    if pieces:
        victims = _spare(room, freed)
        movers = _movers(world, memo, room, victims, spreads)
        undo(room, q, shape, pieces)
    for victim in freed if not pieces else victims:
        redo(room, victim.queue, victim.shape, victim.pieces)
    return victims, movers


def _is_borrowed(world: World, room: Room, victim: Victim) -> bool:
    kinds = {int(world.nodes.kind[piece.node]) for piece in victim.pieces}
    return any(shares.is_borrowing(world, room.used, victim.queue, k) for k in sorted(kinds))


def _spare(room: Room, freed: list[Victim]) -> list[Victim]:
    """Put back, dearest first, whoever can stay where it was; return the others."""
    victims = []
    for victim in reversed(freed):
        if room.could_take(victim.shape, victim.pieces):
            redo(room, victim.queue, victim.shape, victim.pieces)
        else:
            victims.append(victim)
    return victims[::-1]


def _movers(
    world: World, memo: Memo, room: Room, victims: list[Victim], spreads: bool
) -> set[int]:
    """Victims that would fit elsewhere at once: evicting them would only move them."""
    movers = set()
    for victim in victims:
        t = int(world.jobs.shape[victim.job])
        options = memo.known(world, t).options
        found = fit(room, victim.queue, victim.shape, options, spreads)
        if found.pieces:
            undo(room, victim.queue, victim.shape, found.pieces)
            movers.add(victim.job)
    return movers
