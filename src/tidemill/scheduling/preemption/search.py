"""Clearing: free jobs one after the other in the scratch room until another fits, and no more.

What is freed is put back, dearest first, wherever it leaves room even so: of the set that remains
nobody can be spared. The search is bounded by its caller.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidemill.model.events import Why
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece, Shape
from tidemill.model.world import World
from tidemill.scheduling import elastic
from tidemill.scheduling.desk import rights
from tidemill.scheduling.fit import Options, fit, may_redo, redo, undo
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemption import candidates as offers
from tidemill.scheduling.preemption.candidates import Victim
from tidemill.scheduling.scores.scoring import Scoring
from tidemill.scheduling.snapshot import Snapshot


class Hunt(NamedTuple):
    """One search: for a job of which shape, on which kinds, and from whom it takes back."""

    world: World
    policy: Policy
    memo: Memo
    room: Snapshot
    shape: int
    some: tuple[int, ...] | None = None
    """The kinds on which room is made; None: all that it may use."""
    reach: int = 0
    """How far it may take back: 0 from nobody, 1 from siblings, 2 from cousins too, and so on."""

    @property
    def kinds(self) -> tuple[int, ...]:
        """The kinds on which room is made."""
        return self.memo.known(self.world, self.shape).kinds if self.some is None else self.some

    @property
    def scoring(self) -> Scoring:
        """How nodes are chosen."""
        return self.memo.scoring(self.world, self.policy)

    @property
    def heir(self) -> Shape:
        """What has to fit: the shape at its smallest size."""
        return elastic.smallest(self.world.shape_rows[self.shape])

    @property
    def queue(self) -> int:
        """The team of the heir."""
        return int(self.world.shapes.queue[self.shape])

    @property
    def options(self) -> Options:
        """Where the heir may sit, of all kinds."""
        return self.memo.known(self.world, self.shape).options

    def seat(self, options: Options) -> tuple[Piece, ...]:
        """Place the heir in the room; no pieces: it does not fit."""
        return fit(self.room, self.queue, self.heir, options, self.scoring).pieces

    def unseat(self, pieces: tuple[Piece, ...]) -> None:
        """Take the heir out of the room again."""
        undo(self.room, self.queue, self.heir, pieces)

    def free(self, victim: Victim) -> None:
        """Take a job, or the part of it that is meant, out of the room."""
        undo(self.room, victim.queue, victim.shape, victim.pieces)

    def put_back(self, victim: Victim) -> None:
        """Put into the room what was freed."""
        redo(self.room, victim.queue, victim.shape, victim.pieces)


def clear(
    hunt: Hunt, candidates: Iterable[Victim], at_most: int
) -> tuple[list[Victim], tuple[Piece, ...]]:
    """Free candidates in order until the heir fits; return whoever cannot be spared, and its place.

    ``at_most`` is how many may be stopped; replicas that elastic jobs give up do not count. The
    victims are left out of the room, and the heir too. No pieces: it does not fit even so, and
    then the room is as it was.
    """
    options = only(hunt.options, hunt.kinds)
    stopped = 0
    freed: list[Victim] = []
    pieces: tuple[Piece, ...] = ()
    for victim in candidates:
        if victim.why is not Why.SHRUNK and stopped >= at_most:
            break
        if victim.why in _FROM_BORROWERS and not _may_take(hunt, victim):
            continue
        hunt.free(victim)
        freed.append(victim)
        stopped += victim.why is not Why.SHRUNK
        pieces = hunt.seat(options)
        if pieces:
            break
    if not pieces:
        for victim in freed:
            hunt.put_back(victim)
        return [], ()
    victims = _spare(hunt, freed)
    hunt.unseat(pieces)
    if len(victims) > 1:
        victims, pieces = _minimal(hunt, options, victims, pieces)
    return victims, pieces


def only(options: Options, kinds: tuple[int, ...]) -> Options:
    """The options on these kinds, and those of roles that need no accelerator."""
    return tuple(tuple(o for o in role if o.kind in kinds or o.kind < 0) for role in options)


def kinds_of(world: World, pieces: Iterable[Piece]) -> set[int]:
    """The kinds of accelerators that some pieces sit on."""
    return {int(world.nodes.kind[piece.node]) for piece in pieces}


_FROM_BORROWERS = frozenset({Why.RECLAIMED, Why.SHRUNK})


def _may_take(hunt: Hunt, victim: Victim) -> bool:
    """Whether a team still borrows what is to be taken; its own team may always be asked."""
    world = hunt.world
    if victim.why is Why.SHRUNK and victim.queue == hunt.queue:
        return True
    w, q, used = world.matrices, hunt.queue, hunt.room.used
    return any(
        rights.borrows(w.queues, w.quotas, used, q, victim.queue, k)
        for k in kinds_of(world, victim.pieces)
    )


def _spare(hunt: Hunt, freed: list[Victim]) -> list[Victim]:
    """Put back, last first, whoever can stay where it was; return the others."""
    victims = []
    for victim in reversed(freed):
        if may_redo(hunt.room, victim.queue, victim.shape, victim.pieces):
            hunt.put_back(victim)
        else:
            victims.append(victim)
    return victims[::-1]


def _minimal(
    hunt: Hunt, options: Options, victims: list[Victim], pieces: tuple[Piece, ...]
) -> tuple[list[Victim], tuple[Piece, ...]]:
    """Put back, dearest first, whoever leaves room even so; until nobody can be spared."""
    by_time = hunt.policy.victims == "time"
    kept, was = list(victims), 0
    while len(kept) != was:
        was = len(kept)
        for victim in sorted(kept, key=lambda v: (_dearness(v, by_time), v.job), reverse=True):
            hunt.put_back(victim)
            found = hunt.seat(options)
            if found:
                hunt.unseat(found)
                kept.remove(victim)
                pieces = found
            else:
                hunt.free(victim)
    return kept, pieces


def _dearness(victim: Victim, by_time: bool) -> tuple[int, int, int]:
    """Nobody is stopped where shrinking does; then the important, then the dear are spared."""
    price = victim.lost_ms if by_time else offers.in_usd_micro(victim)
    return (int(victim.why is not Why.SHRUNK), victim.priority, price)
