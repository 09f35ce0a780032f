"""Which devices each attempt holds: those that were told, else the first that are free.

Sources such as ``sacct`` say how many GPUs of a node a job had, and seldom which. Books need every
device in one place at a time, so attempts are seated in the order of time; what finds no free
device is not booked twice but counted as *over*.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidemill.model.measures import WHOLE_MILLI

Seat = tuple[int, int, int]
"""A node, replicas there, and the mask of their devices."""


class Seated(NamedTuple):
    """What an attempt holds, and how much of what it was shown to hold is not booked."""

    seats: list[Seat]
    over_milli: int


class SeatRequest(NamedTuple):
    """How an attempt is to be seated: replicas of so many GPUs, on these nodes."""

    replicas: int
    each: int
    nodes: list[int]
    masks: list[int] | None
    is_anywhere: bool = False
    """Nobody said on which nodes: on any of these that have some free."""


NO_SEAT = SeatRequest(0, 1, [], None)


class Seating:
    """The devices of every node that nobody holds."""

    def __init__(self, sizes: list[int], held: Iterable[tuple[int, list[Seat]]] = ()) -> None:
        self._free = [(1 << size) - 1 for size in sizes]
        self._held: dict[int, list[Seat]] = {}
        self._aboard = [0] * len(sizes)
        for who, seats in held:
            self._held[who] = seats
            for n, _, mask in seats:
                self._claim(n, mask)

    def is_empty(self, n: int) -> bool:
        """Whether nobody holds a device of a node."""
        return not self._aboard[n]

    def take(self, who: int, asked: SeatRequest) -> Seated:
        """Seat the attempt of a job."""
        seats, left, is_anywhere = list[Seat](), asked.replicas, asked.is_anywhere
        share = asked.replicas if is_anywhere else -(-asked.replicas // max(1, len(asked.nodes)))
        missing = 0
        for i, n in enumerate(asked.nodes):
            if not left:
                break
            wanted = min(share, left)
            mask, count = self._find(n, wanted, asked.each, asked.masks[i] if asked.masks else 0)
            if count:
                seats.append((n, count, mask))
                self._claim(n, mask)
            left -= count if is_anywhere else wanted
            missing += 0 if is_anywhere else wanted - count
        self._held[who] = seats
        return Seated(seats, (missing + left) * asked.each * WHOLE_MILLI)

    def _claim(self, n: int, mask: int) -> None:
        self._free[n] &= ~mask
        self._aboard[n] += 1

    def give_back(self, who: int) -> list[int]:
        """An attempt holds nothing any more; the nodes that are empty now."""
        empty = []
        for n, _, mask in self._held.pop(who, ()):
            self._free[n] |= mask
            self._aboard[n] -= 1
            if not self._aboard[n]:
                empty.append(n)
        return empty

    def _find(self, n: int, replicas: int, each: int, told: int) -> tuple[int, int]:
        """Devices of a node for as many of the replicas as find some, and how many those are."""
        free = self._free[n]
        if told and told & ~free == 0 and told.bit_count() == replicas * each:
            return told, replicas
        count = min(replicas, free.bit_count() // each)
        mask = 0
        for _ in range(count * each):
            low = free & -free
            mask |= low
            free ^= low
        return mask, count
