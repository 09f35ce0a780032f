"""Speed-up: how fast an elastic gang works at another size, as a share of its full speed.

The curve is given by points (replicas, parts per million of the speed with all replicas); between
two points it is a straight line, before the first a line from nothing. Without points it is one
line: half the replicas, half the speed. Integers, rounded down, so that every reader agrees.
"""

from itertools import pairwise

from tidemill.core import rhythm
from tidemill.model.measures import ONE_PPM
from tidemill.model.rows import Piece, Shape

Points = tuple[tuple[int, int], ...]
time_ms = rhythm.time_ms


def speed_ppm(shape: Shape, replicas: int) -> int:
    """The speed of the gang with this many replicas of its elastic role; 1,000,000 is full."""
    r = shape.elastic_role
    if r is None or replicas >= shape.roles[r].count:
        return ONE_PPM
    below = (0, 0)
    for point in (*shape.speedup, (shape.roles[r].count, ONE_PPM)):
        if replicas < point[0]:
            return below[1] + (point[1] - below[1]) * (replicas - below[0]) // (point[0] - below[0])
        below = point
    return ONE_PPM


def speed_of(shape: Shape, pieces: tuple[Piece, ...]) -> int:
    """The speed of the gang as it sits."""
    r = shape.elastic_role
    if r is None:
        return ONE_PPM
    return speed_ppm(shape, sum(piece.replicas for piece in pieces if piece.role == r))


def is_curve(points: Points, count: int) -> bool:
    """Whether points rise from one to the next, below the whole gang and its full speed."""
    ends = ((0, 0), *points, (count, ONE_PPM))
    return all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(ends))


def work_ms(elapsed_ms: int, speed: int) -> int:
    """How much work, counted at full speed, was done in a time; rounded down."""
    return elapsed_ms * speed // ONE_PPM
