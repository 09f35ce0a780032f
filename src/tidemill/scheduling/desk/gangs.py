"""Gangs of several roles, or of several sizes, as rows (``MEMBER``): one per role and size.

Gangs that ask for the same, whosoever they are, have the same rows; they hold until requests have
other rows in the room.
"""

import numpy as np

from tidemill.model.rows import Shape
from tidemill.model.tables import I64, grown
from tidemill.scheduling.desk.columns import MEMBER, SEATING, UNKNOWN
from tidemill.scheduling.elastic import sized

ROWS = 64  # to begin with
SIZES_AT_MOST = 64  # of a gang whose sizes have rows of their own

Key = tuple[object, ...]


class GangRows:
    """The rows of gangs, and where one sits that was fitted."""

    def __init__(self) -> None:
        self.members: I64 = np.zeros((ROWS, len(MEMBER)), np.int64)
        self.seats: I64 = np.zeros((ROWS, len(SEATING)), np.int64)
        self._first: dict[Key, int] = {}
        self._end = 0

    def forget(self) -> None:
        """Requests have other rows in the room."""
        self._first.clear()
        self._end = 0

    def first(self, key: Key) -> int:
        """The first row of the gangs that ask for this; UNKNOWN: they have none."""
        return self._first.get(key, UNKNOWN)

    def write(self, key: Key, rows: list[tuple[int, ...]]) -> int:
        """Write the rows of a gang, those of its smallest size first; the first of them."""
        first = self._first[key] = self._end
        self._end += len(rows)
        if self._end > len(self.members):
            self.members = grown(self.members, self._end)
        self.members[first : self._end] = rows
        return first

    def make_seats(self, replicas: int) -> None:
        """Make room for a gang of so many replicas."""
        if replicas > len(self.seats):
            self.seats = grown(self.seats, replicas)


def sizes(shape: Shape) -> list[Shape]:
    """A gang at each of its sizes, the smallest first; none: it is not fitted role by role.

    It is where it has several roles, or an elastic one, but no MIG instances.
    """
    r = shape.elastic_role
    if any(role.profile for role in shape.roles) or (r is None and len(shape.roles) == 1):
        return []
    if r is None:
        return [shape]
    least, most = shape.roles[r].least, shape.roles[r].count
    if most - least >= SIZES_AT_MOST:
        return []
    return [sized(shape, count) for count in range(least, most + 1)]
