"""Elastic gangs: the sizes that a shape may have, and the largest that fits.

A shape with an elastic role works with any number of its replicas from the least to the count. It
is placed as large as it fits; whatever is asked of it as a whole (could it ever run, what must go
so that it fits) is asked of its smallest size.
"""

from functools import lru_cache

from msgspec.structs import replace

from tidemill.model.rows import Piece, Role, Shape
from tidemill.scheduling.fit import Fit, Options, fit, undo
from tidemill.scheduling.scores.scoring import Scoring
from tidemill.scheduling.snapshot import Snapshot


def smallest(shape: Shape) -> Shape:
    """The shape with the fewest replicas; itself when it is not elastic."""
    r = shape.elastic_role
    return shape if r is None else sized(shape, shape.roles[r].least)


@lru_cache(maxsize=4096)
def sized(shape: Shape, replicas: int) -> Shape:
    """The shape with exactly this many replicas of its elastic role."""
    r = shape.elastic_role
    assert r is not None, "only an elastic shape has sizes"
    role = replace(shape.roles[r], count=replicas, least=0)
    return replace(shape, roles=(*shape.roles[:r], role, *shape.roles[r + 1 :]), speedup=())


def as_placed(shape: Shape, pieces: tuple[Piece, ...]) -> Shape:
    """The shape at the size at which these pieces hold it."""
    r = shape.elastic_role
    return shape if r is None else sized(shape, held(pieces, r))


def held(pieces: tuple[Piece, ...], r: int) -> int:
    """How many replicas of a role these pieces hold."""
    return sum(piece.replicas for piece in pieces if piece.role == r)


def fit_largest(room: Snapshot, q: int, shape: Shape, options: Options, scoring: Scoring) -> Fit:
    """Place the gang as large as it fits, or change nothing; the shortage is of its smallest size.

    By halving: what fits with some number of replicas fits with fewer.
    """
    found = fit(room, q, shape, options, scoring)
    r = shape.elastic_role
    if found.shortage is None or r is None:
        return found
    low, high = shape.roles[r].least, shape.roles[r].count - 1
    best = fit(room, q, sized(shape, low), options, scoring)
    if best.shortage is not None:
        return best
    while low < high:
        middle = (low + high + 1) // 2
        undo(room, q, shape, best.pieces)
        tried = fit(room, q, sized(shape, middle), options, scoring)
        if tried.shortage is None:
            low, best = middle, tried
        else:
            high = middle - 1
            best = fit(room, q, sized(shape, low), options, scoring)
            assert best.shortage is None, "what fitted a moment ago fits again"
    return best


def cut(piece: Piece, role: Role, replicas: int) -> Piece:
    """The last so many replicas of a piece, with the highest of its devices."""
    if replicas == piece.replicas:
        return piece
    wanted, mask = replicas * role.accelerators, 0
    for d in reversed(range(piece.devices.bit_length())):
        if wanted and piece.devices >> d & 1:
            mask |= 1 << d
            wanted -= 1
    return Piece(piece.role, piece.node, replicas, mask)
