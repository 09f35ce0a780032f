"""Moves: the fewest, cheapest moves of running work that let a scattered-out job fit, or none.

When enough is free but in the wrong places, work that holds a little of a node goes elsewhere, and
the node is whole again. A mover's new place is reserved at once, so it must be free now and must
not be what the heir will take; the mover leaves its old place, comes up in the new one as its next
attempt, and loses what it had not saved. So a move is planned only when the heir wins more than
that (``worth``), and nobody is moved again before it has worked for a while.

The search is bounded: the emptiest nodes of those that could host a replica, and few movers.
"""

from collections.abc import Iterator, Sequence, Set
from itertools import islice
from typing import NamedTuple

import numpy as np

from tidemill.model.events import Why
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece, Role
from tidemill.model.states import JobState, NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import elastic
from tidemill.scheduling.fit import fit, may_redo, redo, undo
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemption import candidates as offers
from tidemill.scheduling.preemption import cost as worth
from tidemill.scheduling.preemption.candidates import Victim
from tidemill.scheduling.preemption.search import Hunt, clear
from tidemill.scheduling.snapshot import Snapshot

NODES_AT_MOST = 64  # nodes whose work is looked at: the emptiest that could host a replica
ROUNDS = 4  # how often the search begins again without the jobs that find no other place
_RUNNING, _READY = int(JobState.RUNNING), int(NodeState.READY)


class Mover(NamedTuple):
    """A job that goes elsewhere, what it loses by it, and where it goes."""

    victim: Victim
    gained: tuple[Piece, ...]


class Moves(NamedTuple):
    """Who moves, what it loses and what it wins. ``is_final``: time alone changes nothing, before
    ``again_ms``, when the first job may be moved that has not worked for long enough yet.
    """

    movers: tuple[Mover, ...]
    cost_usd_micro: int = 0
    gain_usd_micro: int = 0
    is_final: bool = True
    again_ms: int = FOREVER_MS


def plan(
    world: World, policy: Policy, memo: Memo, room: Snapshot, s: int, leaving: Set[int]
) -> Moves:
    """The moves to make so that one job of this shape fits; the room is left as it was.

    Moves that are not worth their price are not made, but their price and worth are told.
    ``leaving``: jobs that are asked to go already, or that are left where they are.
    """
    found = _begun(world, policy, memo, room, s, leaving)
    if found is None:
        return Moves(())
    hunt, role, is_ok, candidates, is_final, again_ms = found
    able = _able(hunt, candidates)
    timeless = _settle(hunt, role, is_ok, able, offers.as_one)
    if not timeless:  # whether there are any moves is not a question of prices; see ``victims``
        return Moves((), is_final=is_final, again_ms=again_ms)
    priced = _settle(hunt, role, is_ok, able, offers.in_usd_micro)
    sets = [movers for movers in (timeless, priced) if movers]
    movers = min(sets, key=lambda movers: offers.total(mover.victim for mover in movers)[1:])
    return _judged(hunt, movers)


def stops(
    world: World, policy: Policy, memo: Memo, room: Snapshot, s: int, leaving: Set[int]
) -> tuple[Victim, ...]:
    """Who would have to stop so that one job of this shape fits, wherever they go; none: nobody
    that may be stopped. The scheduler does not ask this of anybody: it is for people to judge.
    """
    found = _begun(world, policy, memo, room, s, leaving)
    if found is None or not found.candidates:
        return ()
    order = offers.by_node(room, found.role, found.is_ok, found.candidates, offers.in_usd_micro)
    victims, _ = clear(found.hunt, list(order), policy.moves_at_most)
    for victim in victims:
        found.hunt.put_back(victim)
    return tuple(victims)


class _Begun(NamedTuple):
    """A search for moves: for whom, by which role, on which nodes, and who may be moved."""

    hunt: Hunt
    role: Role
    is_ok: I64
    candidates: list[Victim]
    is_final: bool
    again_ms: int


def _begun(
    world: World, policy: Policy, memo: Memo, room: Snapshot, s: int, leaving: Set[int]
) -> _Begun | None:
    """What a search looks at; None: too little is free, wherever it is, or no GPU is requested."""
    hunt = Hunt(world, policy, memo, room, s)
    if not any(room.kind_free[k] >= hunt.heir.total_milli for k in hunt.kinds):
        return None
    role, is_ok = offers.widest(world, hunt.heir, hunt.options)
    if not role.accelerators:
        return None
    return _Begun(hunt, role, is_ok, *_candidates(hunt, role, is_ok, leaving))


def _judged(hunt: Hunt, movers: tuple[Mover, ...]) -> Moves:
    """The moves with their price and worth; none of them when they are not worth it."""
    world, heir = hunt.world, hunt.world.waiting[hunt.shape][0]
    jobs = [mover.victim.job for mover in movers]
    cost = sum(mover.victim.usd_micro for mover in movers)
    pieces = _seat_without(hunt, movers)
    spared_ms = worth.wait_spared_ms(world, world.jobs.estimate_ms.item(heir), jobs)
    gain = worth.usd_micro(world, hunt.heir, pieces, spared_ms)
    if worth.is_worth(gain, cost, hunt.policy.move_gain_ppm):
        return Moves(movers, cost, gain)
    return Moves((), cost, gain, is_final=False)


def _candidates(
    hunt: Hunt, role: Role, is_ok: I64, leaving: Set[int]
) -> tuple[list[Victim], bool, int]:
    """Jobs on the emptiest nodes that may be moved; whether all have come up; when the next may."""
    world, policy = hunt.world, hunt.policy
    found: dict[int, Victim] = {}
    is_final, again_ms = True, FOREVER_MS
    for n in _emptiest(hunt, role, is_ok):
        for j in sorted(world.aboard[n]):
            shape = world.shape_of(j)
            is_going = world.jobs.is_leaving.item(j) or j in leaving
            if j in found or is_going or not shape.is_preemptible:
                continue
            may_ms = world.jobs.since_ms.item(j) + policy.moves_apart_ms
            if world.jobs.state.item(j) != _RUNNING:
                is_final = False
                continue
            if may_ms > world.now_ms:
                again_ms = min(again_ms, may_ms)
                continue
            found[j] = _victim(world, j)
    return list(found.values()), is_final, again_ms


def _able(hunt: Hunt, candidates: list[Victim]) -> list[Victim]:
    """The jobs that fit elsewhere with everybody where it is: that is where they would go.

    Many searches are in vain because nobody does, and this is a hundredth of the search. Jobs that
    ask for the same, and whom quotas mean the same, are asked about once.
    """
    world, found = hunt.world, dict[tuple[object, ...], bool]()
    able = list[Victim]()
    for victim in candidates:
        like = hunt.memo.like(world, world.jobs.shape.item(victim.job))
        key = (like, victim.shape.roles)
        if key not in found:
            pieces = _another_place(hunt, victim)
            undo(hunt.room, victim.queue, victim.shape, pieces)
            found[key] = bool(pieces)
        if found[key]:
            able.append(victim)
    return able


def _emptiest(hunt: Hunt, role: Role, is_ok: I64) -> list[int]:
    """Nodes that are large enough for a replica but not free enough, the emptiest first."""
    nodes, rows, room = hunt.world.nodes, hunt.world.node_count, hunt.room
    working = nodes.devices[:rows] - nodes.failed[:rows]
    may = (nodes.state[:rows] == _READY) & (nodes.is_spare[:rows] == 0)
    may &= (is_ok[nodes.group[:rows]] > 0) & (working >= role.accelerators)
    may &= (nodes.cpu_milli[:rows] >= role.cpu_milli) & (nodes.memory_mib[:rows] >= role.memory_mib)
    here = np.flatnonzero(may)
    order = np.argsort(-room.node_free[here], kind="stable")
    busy = [n for n in here[order].tolist() if hunt.world.aboard[n]]
    return busy[:NODES_AT_MOST]


def _victim(world: World, j: int) -> Victim:
    pieces, lost_ms = world.placements[j], worth.lost_ms(world, j)
    shape = elastic.as_placed(world.shape_of(j), pieces)
    usd_micro = worth.usd_micro(world, shape, pieces, lost_ms)
    q = int(world.shapes.queue[world.jobs.shape[j]])
    return Victim(shape.priority, lost_ms, usd_micro, j, q, shape, pieces, Why.MOVED)


def _settle(
    hunt: Hunt, role: Role, is_ok: I64, candidates: list[Victim], price: offers.Price
) -> tuple[Mover, ...]:
    """Search by node at these prices; begin again without those that find no other place."""
    for _ in range(ROUNDS):
        if not candidates:
            return ()
        at_most = hunt.policy.moves_at_most
        order: Iterator[Victim] = offers.by_node(hunt.room, role, is_ok, candidates, price)
        victims, pieces = clear(hunt, list(islice(order, at_most)), at_most)
        if not pieces:
            return ()
        movers, stuck = _seat_elsewhere(hunt, victims)
        if not stuck:
            return movers
        candidates = [victim for victim in candidates if victim.job not in stuck]
    return ()


def _seat_elsewhere(hunt: Hunt, victims: list[Victim]) -> tuple[tuple[Mover, ...], set[int]]:
    """A place for each that is out of the room, beside the heir; or those that find none.

    The victims are put back. Whatever place was found must also be free now, with everybody where
    it is, because it is reserved before anybody leaves.
    """
    heir = hunt.seat(hunt.options)
    movers, stuck = list[Mover](), set[int]()
    for victim in sorted(victims, key=lambda v: (-v.milli, v.job)):
        gained = _another_place(hunt, victim)
        if gained:
            movers.append(Mover(victim, gained))
        else:
            stuck.add(victim.job)
    for mover in movers:
        undo(hunt.room, mover.victim.queue, mover.victim.shape, mover.gained)
    hunt.unseat(heir)
    for victim in victims:
        hunt.put_back(victim)
    if not heir:
        return (), {victim.job for victim in victims}
    return _reserved(hunt, movers, stuck)


def _another_place(hunt: Hunt, victim: Victim) -> tuple[Piece, ...]:
    options = hunt.memo.known(hunt.world, int(hunt.world.jobs.shape[victim.job])).options
    return fit(hunt.room, victim.queue, victim.shape, options, hunt.scoring).pieces


def _reserved(
    hunt: Hunt, movers: list[Mover], stuck: set[int]
) -> tuple[tuple[Mover, ...], set[int]]:
    """Whether all new places can be had at once while the old ones are still held."""
    room, taken = hunt.room, list[Mover]()
    for mover in movers:
        victim = mover.victim
        if may_redo(room, victim.queue, victim.shape, mover.gained):
            redo(room, victim.queue, victim.shape, mover.gained)
            taken.append(mover)
        else:
            stuck.add(victim.job)
    is_room = not stuck and bool(_seat_without(hunt, taken))
    for mover in taken:
        undo(room, mover.victim.queue, mover.victim.shape, mover.gained)
    if not stuck and not is_room:
        stuck = {mover.victim.job for mover in movers}
    return tuple(movers), stuck


def _seat_without(hunt: Hunt, movers: Sequence[Mover]) -> tuple[Piece, ...]:
    """Where the next cycle, when all have moved, places the heir; nowhere: no pieces."""
    for mover in movers:
        hunt.free(mover.victim)
    pieces = hunt.seat(hunt.options)
    hunt.unseat(pieces)
    for mover in movers:
        hunt.put_back(mover.victim)
    return pieces
