"""Fit: place a whole gang in the room, or leave the room as it was and say what was short.

Roles are placed in order, each on one kind: the first it names that has room within the team's
limit. (A single replica that names none goes to the best node of all kinds, where the policy scores
nodes.) What comes back is either the pieces or, for the role that failed, what stood in the way on
each kind it may use. A gang with bonds (``topology``) is placed inside one domain after the other
until one holds it; all others never look at where a node is.
"""

from itertools import islice
from typing import NamedTuple

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Piece, Role, Shape
from tidemill.scheduling import shares
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fitting import books
from tidemill.scheduling.fitting.columns import Obstacle
from tidemill.scheduling.scores.scoring import PACKING, Scoring
from tidemill.scheduling.snapshot import Snapshot
from tidemill.scheduling.topology import constraints, place
from tidemill.scheduling.topology.constraints import Wishes

Options = tuple[tuple[Option, ...], ...]

PREFERRED_TRIES = 16
"""Domains of a tier that a gang of several roles tries for a mere preference, tightest first."""


class Shortage(NamedTuple):
    """The role that did not fit, and what stood in the way on each kind tried."""

    role: int
    obstacles: tuple[tuple[Option, Obstacle, int], ...]

    @property
    def is_of_nodes(self) -> bool:
        """Whether nodes alone stood in the way, whosever the gang is."""
        return all(why in (Obstacle.SHORT, Obstacle.UNFIT) for _, why, _ in self.obstacles)


class Fit(NamedTuple):
    """The pieces of a gang that fits, or the shortage of one that does not."""

    pieces: tuple[Piece, ...]
    shortage: Shortage | None


class _RolesBy(NamedTuple):
    """How roles are placed: by scores; or tied, by their ladders, inside a domain."""

    scoring: Scoring = PACKING
    wish: Wishes | None = None
    scope: tuple[int, int] = place.ANYWHERE


def fit(room: Snapshot, q: int, shape: Shape, options: Options, scoring: Scoring) -> Fit:
    """Place the gang in the room and book it, or change nothing.

    Where one role was put may break up the nodes that the next one needs whole; then it is packed.
    """
    tiers = room.world.topology.tiers
    wish = constraints.of(room.world.topology, shape) if tiers else None
    if wish is not None:
        return _fit_tied(room, q, shape, options, wish)
    found = _fit(room, q, shape, options, _RolesBy(scoring))
    if found.shortage is not None and scoring is not PACKING and len(shape.roles) > 1:
        found = _fit(room, q, shape, options, _RolesBy())
    return found


def _fit(room: Snapshot, q: int, shape: Shape, options: Options, way: _RolesBy) -> Fit:
    pieces: tuple[Piece, ...] = ()
    for r, role in enumerate(shape.roles):
        found, obstacles = _fit_role(room, q, r, role, options[r], way)
        if not found:
            undo(room, q, shape, pieces)
            return Fit((), Shortage(r, obstacles))
        if way.wish is not None:
            room.take(shape, found)
        room.book(q, shape, found, 1)
        pieces += found
    return Fit(pieces, None)


def shortage_of(room: Snapshot, q: int, shape: Shape, options: Options) -> Shortage | None:
    """What stands in the way of a gang; None: nothing. The room stays as it is.

    Replicas of one size that sit wherever there is room are counted, not placed.
    """
    if _is_counted(room, shape) and _is_hosted(room, q, shape.roles[0], options[0]):
        return None
    found = fit(room, q, shape, options, PACKING)
    if found.shortage is None:
        undo(room, q, shape, found.pieces)
    return found.shortage


def _is_counted(room: Snapshot, shape: Shape) -> bool:
    """Whether a gang fits wherever its replicas do, each by itself."""
    role, topology = shape.roles[0], room.world.topology
    wish = constraints.of(topology, shape) if topology.tiers else None
    is_tied = wish is not None and wish.is_binding
    is_cut = bool(role.profile) or (role.milli < WHOLE_MILLI and role.accelerators > 1)
    return len(shape.roles) == 1 and not is_tied and not is_cut


def _is_hosted(room: Snapshot, q: int, role: Role, options: tuple[Option, ...]) -> bool:
    """Whether some kind that nothing bars a role from hosts all its replicas."""
    return any(
        barred_by(room, q, option.kind, role.total_milli) is None
        and room.count_hosts(role, option.is_ok) >= role.count
        for option in options
    )


def undo(room: Snapshot, q: int, shape: Shape, pieces: tuple[Piece, ...]) -> None:
    """Take pieces out of the room and off the books again."""
    room.give(shape, pieces)
    room.book(q, shape, pieces, -1)


def redo(room: Snapshot, q: int, shape: Shape, pieces: tuple[Piece, ...]) -> None:
    """Put pieces that were undone into the room and on the books again."""
    room.take(shape, pieces)
    room.book(q, shape, pieces, 1)


def may_redo(room: Snapshot, q: int, shape: Shape, pieces: tuple[Piece, ...]) -> bool:
    """Whether pieces are free for a job, within limits and beside what others keep back."""
    if not room.could_take(shape, pieces):
        return False
    sums: dict[int, int] = {}
    for piece in pieces:
        k = room.world.nodes.kind.item(piece.node)
        milli = piece.replicas * shape.roles[piece.role].replica_milli
        sums[k] = sums.get(k, 0) + milli
    return all(
        shares.allow(room.world, room, room.kind_free, q, k, milli)
        for k, milli in sums.items()
        if milli
    )


def _fit_tied(room: Snapshot, q: int, shape: Shape, options: Options, wish: Wishes) -> Fit:
    """Place a gang with bonds: several roles in one domain, or each role by its own ladder."""
    flags = tuple(tuple(option.is_ok for option in role) for role in options)
    for tier, is_required in wish.scopes:
        tries = None if is_required else PREFERRED_TRIES
        for domain in islice(place.candidates(room, shape.roles, flags, tier), tries):
            found = _fit(room, q, shape, options, _RolesBy(wish=wish, scope=(tier, domain)))
            if found.shortage is None:
                return found
        if is_required:
            return _apart(room, q, shape, options, wish)
    found = _fit(room, q, shape, options, _RolesBy(wish=wish))
    if found.shortage is not None and not wish.is_binding:
        return _fit(room, q, shape, options, _RolesBy())
    return found


def _apart(room: Snapshot, q: int, shape: Shape, options: Options, wish: Wishes) -> Fit:
    """No domain holds the whole gang: what stands in its way, if not that?"""
    found = _fit(room, q, shape, options, _RolesBy(wish=wish))
    if found.shortage is not None:
        return found
    undo(room, q, shape, found.pieces)
    r = max(range(len(shape.roles)), key=lambda r: (shape.roles[r].total_milli, -r))
    count = shape.roles[r].count
    return Fit((), Shortage(r, tuple((option, Obstacle.APART, count) for option in options[r])))


def _fit_role(
    room: Snapshot, q: int, r: int, role: Role, options: tuple[Option, ...], way: _RolesBy
) -> tuple[tuple[Piece, ...], tuple[tuple[Option, Obstacle, int], ...]]:
    ranks_nodes = way.wish is None and way.scoring.ranks_nodes
    if ranks_nodes and role.count == 1 and not role.kinds and not role.profile:
        best = _best_of_all(room, q, role, options, way.scoring)
        if best:
            return (Piece(r, *best[0]),), ()
    obstacles = []
    for option in options:
        barred = barred_by(room, q, option.kind, role.total_milli)
        if barred is not None:
            obstacles.append((option, barred, 0))
            continue
        if way.wish is None:
            filled = room.fill(role, option.is_ok, way.scoring)
        else:
            filled = place.fill(room, role, option.is_ok, way.wish.ladders[r], way.scope)
        if filled.placed:
            return tuple(Piece(r, *piece) for piece in filled.placed), ()
        is_apart = way.wish is not None and filled.hosted >= role.count
        obstacle = Obstacle.APART if is_apart else Obstacle.UNFIT
        obstacles.append((option, obstacle, filled.hosted))
    return (), tuple(obstacles)


def barred_by(room: Snapshot, q: int, k: int, need: int) -> Obstacle | None:
    """What keeps a role off a kind, whichever nodes there are: its team, others', or the sum."""
    w = room.world.matrices
    found = books.barred_by(
        w.at, w.queues, w.quotas, room.used, *room.kept_back, room.kind_free, q, k, need
    )
    return None if found == Obstacle.UNFIT else Obstacle(found)


def _best_of_all(
    room: Snapshot, q: int, role: Role, options: tuple[Option, ...], scoring: Scoring
) -> tuple[tuple[int, ...], ...]:
    """Where a single replica goes when every kind that nothing bars it from is compared."""
    need = role.replica_milli
    able = tuple(o for o in options if o.kind >= 0 and barred_by(room, q, o.kind, need) is None)
    return room.fill(role, room.together(able), scoring).placed if len(able) > 1 else ()
