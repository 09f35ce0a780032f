"""Victims: the cheapest work to stop so that an entitled job fits, or nobody.

Rights (``desk.rights``): within a team a higher priority may stop a lower one; across teams, a job
that stays within its team's guaranteed quota may take back what others borrow: from siblings first,
then, within the quota of the queue above it, from cousins, and so on. The policy says how:
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

from tidemill.model.events import Why
from tidemill.model.measures import FOREVER_MS
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import elastic
from tidemill.scheduling.desk import offering, rights
from tidemill.scheduling.desk.columns import REG, Desk, Search
from tidemill.scheduling.desk.stopping import CONSIDERED, ROUNDS
from tidemill.scheduling.fit import fit, undo
from tidemill.scheduling.preemption import candidates as offers
from tidemill.scheduling.preemption import cost
from tidemill.scheduling.preemption.candidates import Victim
from tidemill.scheduling.preemption.search import Hunt, clear, kinds_of, only

__all__ = ["Choice", "Victim", "choose"]


class Choice(NamedTuple):
    """Whom to stop. ``is_final``: nothing but a change of the World could give another answer,
    before ``again_ms``, when the first of those who are protected now is so no more.
    """

    victims: list[Victim]
    is_final: bool = True
    again_ms: int = FOREVER_MS


def choose(hunt: Hunt, columns: Desk, scratch: Search, lent: Sequence[Victim] = ()) -> Choice:
    """Whom to evict so that one job of a shape fits; the room is left as it was.

    Reclaiming looks only at kinds of which the team is still owed enough: a job that took back what
    it then merely borrows could be reclaimed from in turn, and so on round the teams. A claim to a
    guaranteed quota is a right; preemption may have to be worth it (``preempt_gain_ppm``).
    ``lent``: replicas that elastic jobs would give up; they go before anybody is stopped.
    """
    reg, path = columns.reg, hunt.world.tree.paths[hunt.queue]
    reg[REG.AGAIN_MS], reg[REG.IS_FINAL] = FOREVER_MS, 1
    for reach, a in enumerate(path if hunt.policy.may_reclaim else (), 1):
        owed = _sought(hunt, columns, a) if hunt.heir.total_milli else ()
        one = hunt._replace(some=owed, reach=reach)
        victims = _choose(one, _candidates(one, columns, scratch), lent) if owed else []
        if victims:
            return Choice(victims)
    _sought(hunt, columns, -1)
    victims = _choose(hunt, _candidates(hunt, columns, scratch), lent)
    if not victims or _is_worth(hunt, victims):
        is_final = bool(victims) or bool(reg[REG.IS_FINAL])
        return Choice(victims, is_final, reg.item(REG.AGAIN_MS))
    return Choice([], is_final=False)


def judged(hunt: Hunt, rows: I64) -> Choice:
    """Victims that the compiled search found (``VICTIM`` rows), if stopping them is worth it."""
    found = named(hunt.world, rows)
    return Choice(found) if hunt.reach or _is_worth(hunt, found) else Choice([], is_final=False)


def named(world: World, rows: I64) -> list[Victim]:
    """The victims that these ``VICTIM`` rows are about."""
    found = []
    for j, t, q, priority, _, lost_ms, usd_micro, is_reclaimed, at_most, *_ in rows.tolist():
        why = Why.RECLAIMED if is_reclaimed else Why.PREEMPTED
        shape, pieces = world.shape_rows[t], world.placements[j]
        found.append(Victim(priority, lost_ms, usd_micro, j, q, shape, pieces, why, at_most))
    return found


def _choose(hunt: Hunt, candidates: list[Victim], lent: Sequence[Victim]) -> list[Victim]:
    """With what elastic jobs lend, if that spares somebody; else as if nobody were elastic."""
    if not candidates:
        return []
    lenders = {cut.job for cut in lent}
    others = [victim for victim in candidates if victim.job not in lenders]
    if lenders and others:
        found = _settle(hunt, others, offers.by_size, lent)
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
    estimate_ms = world.jobs.estimate_ms.item(heir)
    spared_ms = cost.wait_spared_ms(world, estimate_ms, [victim.job for victim in victims])
    gain = cost.usd_micro(world, hunt.heir, pieces, spared_ms)
    return cost.is_worth(gain, sum(victim.usd_micro for victim in victims), share_ppm)


def _sought(hunt: Hunt, columns: Desk, a: int) -> tuple[int, ...]:
    """The kinds of which a queue is owed enough for one more job; -1: all that it may use."""
    w, d, need = hunt.world.matrices, columns, hunt.heir.total_milli
    rights.seek(w.quotas, d.used, d.asks, d.types, d.sought, hunt.shape, a, need)
    return tuple(np.flatnonzero(d.sought).tolist())


def _candidates(hunt: Hunt, columns: Desk, scratch: Search) -> list[Victim]:
    """Who may be stopped now on the kinds that are sought; in ``REG``, when the others may."""
    w, s = hunt.world.matrices, hunt.shape
    count = rights.find_stoppable(w, columns, s, hunt.reach, hunt.heir.total_milli)
    offering.write_victims(w, columns, scratch, s, count)
    return named(hunt.world, scratch.victims[:count])


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
