"""Victims: the cheapest work to stop so that an entitled job fits, or nobody.

Rights: within a team a higher priority may stop a lower one; across teams, a job that stays within
its team's floor may take back what others borrow: from siblings first, then, within the floor of
the queue above it, from cousins, and so on. How victims are searched is the policy's word:
``time`` tries them by lost time and takes the first set that makes room; ``dollars`` decides
*whether* there is a set by orders in which time plays no part (so that a search in vain stays in
vain until something changes), and *whom* by the cheapest of several orders (``offers``). Either
way the search is bounded, and nobody is stopped whose sparing still leaves room.

The promise that keeps this from going round in circles: a plan never evicts a job that would fit
somewhere else once the evicting job sits. Such a job is passed over, and if there is no other way
nobody is evicted. The room that was made goes to the shape it was made for before anybody else
(``order``). So the next cycle cannot put a victim back.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.model.events import Why
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import elastic, protection, shares
from tidemill.scheduling.fit import fit, undo
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemption import candidates as offers
from tidemill.scheduling.preemption import cost
from tidemill.scheduling.preemption.candidates import Victim
from tidemill.scheduling.preemption.search import Hunt, clear, kinds_of, only
from tidemill.scheduling.snapshot import Snapshot

__all__ = ["Choice", "Stop", "Victim", "choose"]

ROUNDS = 3  # how often the search begins again without the jobs that would only be moved
CONSIDERED = 4096  # candidates looked at for the cheapest set: the least important, then youngest


class Stop(NamedTuple):
    """The workload layer's word on stopping jobs: what it would cost, and who is leaving anyway."""

    lost_ms: Callable[[int], int]
    leaving: frozenset[int] = frozenset()
    lent: tuple[Victim, ...] = ()
    """Replicas that elastic jobs would give up; they go before anybody is stopped."""


class Choice(NamedTuple):
    """Whom to stop. ``is_final``: nothing but a change of the World could give another answer,
    before ``again_ms``, when the first of those who are protected now is so no more.
    """

    victims: list[Victim]
    is_final: bool = True
    again_ms: int = FOREVER_MS


NONE = Choice([])


def choose(world: World, policy: Policy, memo: Memo, room: Snapshot, s: int, stop: Stop) -> Choice:
    """Whom to evict so that one job of this shape fits; the room is left as it was.

    Reclaiming looks only at kinds of which the team is still owed enough: a job that took back what
    it then merely borrows could be reclaimed from in turn, and so on round the teams. A claim to a
    floor is a right; preemption may have to be worth it (``preempt_gain_ppm``).
    """
    kinds, path = memo.known(world, s).kinds, world.tree.paths[int(world.shapes.queue[s])]
    again_ms, is_final = FOREVER_MS, True
    for reach, a in enumerate(path if policy.may_reclaim else (), 1):
        owed = _owed(world, room, s, kinds, a)
        hunt = Hunt(world, policy, memo, room, s, owed, reach)
        found = _candidates(hunt, stop) if owed else NONE
        again_ms, is_final = min(again_ms, found.again_ms), is_final and found.is_final
        victims = _choose(hunt, found.victims, stop)
        if victims:
            return Choice(victims)
    hunt = Hunt(world, policy, memo, room, s, kinds)
    found = _candidates(hunt, stop)
    again_ms, is_final = min(again_ms, found.again_ms), is_final and found.is_final
    victims = _choose(hunt, found.victims, stop)
    if not victims or _is_worth(hunt, victims):
        return Choice(victims, is_final or bool(victims), again_ms)
    return Choice([], is_final=False)


def judged(hunt: Hunt, rows: I64) -> Choice:
    """Victims that the compiled search found (``VICTIM`` rows), if stopping them is worth it."""
    found = named(hunt.world, rows)
    return Choice(found) if hunt.reach or _is_worth(hunt, found) else Choice([], is_final=False)


def named(world: World, rows: I64) -> list[Victim]:
    """The victims that these ``VICTIM`` rows are about."""
    found = []
    for j, t, q, priority, _, lost_ms, usd_micro, is_reclaimed, *_ in rows.tolist():
        why = Why.RECLAIMED if is_reclaimed else Why.PREEMPTED
        shape, pieces = world.shape_rows[t], world.placements[j]
        found.append(Victim(priority, lost_ms, usd_micro, j, q, shape, pieces, why))
    return found


def _choose(hunt: Hunt, candidates: list[Victim], stop: Stop) -> list[Victim]:
    """With what elastic jobs lend, if that spares somebody; else as if nobody were elastic."""
    if not candidates:
        return []
    lenders = {cut.job for cut in stop.lent}
    others = [victim for victim in candidates if victim.job not in lenders]
    if lenders and others:
        found = _settle(hunt, others, offers.by_size, stop.lent)
        if found:
            return found
    if hunt.policy.victims == "time":
        return _settle(hunt, candidates, offers.by_time)
    candidates.sort(key=lambda v: (v.priority, -v.job))
    candidates = candidates[:CONSIDERED]
    timeless = [_settle(hunt, candidates, order) for order in _orders(hunt, offers.as_one)]
    if not any(timeless):
        return []
    priced = [_settle(hunt, candidates, order) for order in _orders(hunt, offers.in_usd_micro)]
    return min((found for found in (*timeless, *priced) if found), key=offers.total)


_Order = Callable[[list[Victim]], Iterator[Victim]]


def _orders(hunt: Hunt, price: offers.Price) -> list[_Order]:
    """The orders to try: flat, and by node for the role that takes most."""
    flat = offers.by_size if price is offers.as_one else offers.by_density
    role, is_ok = offers.widest(hunt.world, hunt.heir, only(hunt.options, hunt.kinds))
    if not role.accelerators:
        return [flat]

    def by_node(candidates: list[Victim]) -> Iterator[Victim]:
        return offers.by_node(hunt.room, role, is_ok, candidates, price)

    return [flat, by_node]


def _settle(
    hunt: Hunt, candidates: list[Victim], order: _Order, lent: Sequence[Victim] = ()
) -> list[Victim]:
    """Search in this order; begin again without those that would only be moved."""
    for _ in range(ROUNDS):
        if not candidates:
            return []
        victims, movers = _search(hunt, [*lent, *order(candidates)])
        if not movers:
            return victims
        candidates = [victim for victim in candidates if victim.job not in movers]
    return []


def _is_worth(hunt: Hunt, victims: list[Victim]) -> bool:
    """Whether what the heir wins covers the share of the loss that the policy asks for."""
    share_ppm = hunt.policy.preempt_gain_ppm
    if not share_ppm:
        return True
    world, heir = hunt.world, hunt.world.waiting[hunt.shape][0]
    for victim in victims:
        hunt.free(victim)
    pieces = hunt.seat(hunt.options)
    hunt.unseat(pieces)
    for victim in victims:
        hunt.put_back(victim)
    spared_ms = cost.wait_spared_ms(world, heir, [victim.job for victim in victims])
    gain = cost.usd_micro(world, hunt.heir, pieces, spared_ms)
    return cost.is_worth(gain, sum(victim.usd_micro for victim in victims), share_ppm)


def _owed(world: World, room: Snapshot, s: int, kinds: tuple[int, ...], a: int) -> tuple[int, ...]:
    """The kinds of which one more job of this shape would stay within the floor of a queue."""
    need = elastic.smallest(world.shape_rows[s]).total_milli
    return tuple(k for k in kinds if need and shares.is_entitled(world, room.used, a, k, need))


def _candidates(hunt: Hunt, stop: Stop) -> Choice:
    """Who may be stopped now, and when the others may: at a moment, or once they have come up."""
    world, found, again_ms, is_final = hunt.world, list[Victim](), FOREVER_MS, True
    rights = _rights(hunt)
    if not _could_be_enough(hunt, rights):
        return NONE
    is_leaving = world.jobs.is_leaving.item
    for t, why in rights:
        is_sure = {*hunt.memo.known(world, t).kinds} <= {*hunt.kinds}
        for j in world.active[t]:
            if is_leaving(j) or j in stop.leaving:
                continue
            if is_sure or not kinds_of(world, world.placements[j]).isdisjoint(hunt.kinds):
                until_ms = protection.until_ms(world, hunt.policy, j, why)
                if until_ms > world.now_ms:
                    again_ms = min(again_ms, until_ms)
                    is_final = is_final and protection.is_up(world, j)
                else:
                    lost_ms = protection.price_ms(world, j, stop.lost_ms(j))
                    found.append(_victim(world, j, t, why, lost_ms))
    return Choice(found, is_final, again_ms)


def _could_be_enough(hunt: Hunt, rights: list[tuple[int, Why]]) -> bool:
    """Whether even the largest jobs that may be evicted could make enough room; a quick no."""
    world, left = hunt.world, hunt.policy.victims_at_most
    room_milli = sum(hunt.room.kind_free[k] for k in hunt.kinds)
    need_milli = hunt.heir.total_milli
    sizes = sorted(((world.shapes.total_milli.item(t), t) for t, _ in rights), reverse=True)
    for milli, t in sizes:
        if room_milli >= need_milli:
            break
        taken = min(left, len(world.active[t]))
        room_milli += taken * milli
        left -= taken
    return bool(rights) and room_milli >= need_milli


def _rights(hunt: Hunt) -> list[tuple[int, Why]]:
    """The shapes whose jobs this one may evict, and by what right."""
    world, s = hunt.world, hunt.shape
    count, q = len(world.shape_rows), world.shapes.queue[s]
    queues, priorities = world.shapes.queue[:count], world.shapes.priority[:count]
    rights: list[tuple[int, Why]] = []
    if hunt.policy.may_preempt:
        lower = np.flatnonzero((queues == q) & (priorities < world.shapes.priority[s]))
        rights += [(t, Why.PREEMPTED) for t in lower.tolist()]
    if hunt.reach:
        borrows = _borrowers(hunt, int(q))
        borrowed = np.flatnonzero((queues != q) & borrows[queues])
        rights += [(t, Why.RECLAIMED) for t in borrowed.tolist()]
    rows, active = world.shape_rows, world.active
    return [(t, why) for t, why in rights if active[t] and rows[t].is_preemptible]


def _borrowers(hunt: Hunt, q: int) -> NDArray[np.bool_]:
    """For each queue, whether it borrows what this one may take back from it."""
    world, used = hunt.world, hunt.room.used
    borrows: NDArray[np.bool_] = np.any(used > world.floor, axis=1)
    if world.tree.depth > 1:
        need = hunt.heir.total_milli
        for other in np.flatnonzero(borrows).tolist():
            mine, theirs, distance = shares.part(world, q, other)
            borrows[other] = (
                world.tree.is_leaf[other]
                and distance <= hunt.reach
                and any(shares.is_entitled(world, used, mine, k, need) for k in hunt.kinds)
                and bool(np.any(np.all(used[[*theirs]] > world.floor[[*theirs]], axis=0)))
            )
    return borrows


def _victim(world: World, j: int, t: int, why: Why, lost_ms: int) -> Victim:
    shape, pieces = world.shape_rows[t], world.placements[j]
    usd_micro = cost.usd_micro(world, shape, pieces, lost_ms)
    q = world.shapes.queue.item(t)
    return Victim(shape.priority, lost_ms, usd_micro, j, q, shape, pieces, why)


def _search(hunt: Hunt, candidates: list[Victim]) -> tuple[list[Victim], set[int]]:
    """Free candidates until the job fits; return the victims, or those that would only move."""
    victims, pieces = clear(hunt, candidates, hunt.policy.victims_at_most)
    if not pieces:
        return [], set()
    is_room, movers = _rehearse(hunt, victims)
    for victim in victims:
        hunt.put_back(victim)
    return (victims if is_room else []), movers


def _rehearse(hunt: Hunt, victims: list[Victim]) -> tuple[bool, set[int]]:
    """What the next cycle would do in this room, now that the victims are gone.

    Whether the job would sit where it may, and which victims would then fit elsewhere at once:
    evicting those would only move them.
    """
    pieces = hunt.seat(hunt.options)
    used = kinds_of(hunt.world, (piece for piece in pieces if piece.devices))
    is_room = bool(pieces) and (not hunt.reach or used <= {*hunt.kinds})
    movers = _movers(hunt, victims) if is_room else set()
    hunt.unseat(pieces)
    return is_room, movers


def _movers(hunt: Hunt, victims: list[Victim]) -> set[int]:
    """Victims that would fit elsewhere, beside the job that they make room for."""
    world, room, movers = hunt.world, hunt.room, set()
    for victim in victims:
        if victim.why is Why.SHRUNK:
            continue
        options = hunt.memo.known(world, int(world.jobs.shape[victim.job])).options
        shape = elastic.smallest(victim.shape)
        found = fit(room, victim.queue, shape, options, hunt.scoring)
        if found.pieces:
            undo(room, victim.queue, shape, found.pieces)
            movers.add(victim.job)
    return movers
