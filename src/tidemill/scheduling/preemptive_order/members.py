"""Members: who runs if the whole fleet is planned anew, and who runs now and is not among them."""

from collections.abc import Sequence
from typing import NamedTuple

from tidemill.model.rows import Piece
from tidemill.scheduling import order
from tidemill.scheduling.fit import Shortage


class One(NamedTuple):
    """A job in the order, and pieces of it: as planned, or as it holds them now."""

    key: order.Key
    job: int
    shape: int
    pieces: tuple[Piece, ...]


class Members(NamedTuple):
    """Who is in, with planned pieces; which active jobs are not; what kept each shape out."""

    inside: Sequence[One]
    outside: list[One]
    shortages: dict[int, Shortage]
