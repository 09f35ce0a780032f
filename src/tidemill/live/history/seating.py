"""Which devices each attempt holds: those that were told, else the first that are free.

Sources such as ``sacct`` say how many GPUs of a node a job had, and seldom which. Books need every
device in one place at a time, so attempts are seated in the order of time; what finds no free
device is not booked twice but counted as *over*. Parts of a device (MIG instances, shares of a
device that several use) sit beside others of their sort, as long as there is room.

Plain attempts (whole devices, one role, not told before) are seated by ``walking``, by the same
rule and on the same ``columns``; here are the others.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tidemill.live.history.walking.columns import SEAT
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import MAX_DEVICES, Role
from tidemill.model.tables import I64
from tidemill.units.mig import geometry as mig


class SeenSeat(NamedTuple):
    """Replicas of a role on a node, and their devices: the mask, and slices of a MIG instance."""

    node: int
    replicas: int
    devices: int
    role: int = 0
    slices: int = 0
    milli: int = WHOLE_MILLI
    """Of each device."""


class Seated(NamedTuple):
    """What an attempt holds, and how much of what it was shown to hold is not booked."""

    seats: list[SeenSeat]
    over_milli: int


class SeatRequest(NamedTuple):
    """How an attempt is to be seated: replicas of so many GPUs, on these nodes."""

    replicas: int
    each: int
    nodes: list[int]
    masks: list[int] | None
    is_anywhere: bool = False
    """Nobody said on which nodes: on any of these that have some free."""
    roles: list[int] | None = None
    """With these, each of the nodes has one replica of the role at its place."""
    shape: tuple[Role, ...] = ()


NO_SEAT = SeatRequest(0, 1, [], None)
_ALL = (1 << MAX_DEVICES) - 1


class Seating:
    """The devices of every node that nobody holds.

    ``kinds``: the GPU type of each node. ``held``: what jobs hold already.
    """

    def __init__(
        self,
        sizes: list[int],
        kinds: list[str],
        held: Iterable[tuple[int, list[SeenSeat]]] = (),
    ) -> None:
        self.columns: I64 = np.zeros((len(sizes), len(SEAT)), np.int64)
        """Of every node, for the kernels that seat plain attempts."""
        self.columns[:, SEAT.FREE] = [signed((1 << size) - 1) for size in sizes]
        self._kinds = kinds
        self._held: dict[int, list[SeenSeat]] = {}
        self._shares: dict[tuple[int, int], int] = {}
        """By node and device: milli of it that shares hold."""
        self._slices: dict[tuple[int, int], int] = {}
        """By node and device: slices of it that MIG instances hold."""
        for who, seats in held:
            self._held[who] = seats
            for seat in seats:
                self._claim(seat)

    def is_empty(self, n: int) -> bool:
        """Whether nobody holds a device of a node."""
        return not self.columns.item(n, SEAT.ABOARD)

    def free_devices(self, n: int) -> list[int]:
        """The devices of a node that nobody holds, the first first."""
        free = self._free(n)
        return [device for device in range(free.bit_length()) if free >> device & 1]

    def close(self, n: int, mask: int) -> None:
        """Devices that nobody holds are not free: they failed."""
        self.columns[n, SEAT.FREE] &= signed(~mask & _ALL)

    def open(self, n: int, mask: int) -> None:
        """Devices that were closed are free again."""
        self.columns[n, SEAT.FREE] |= signed(mask)

    def take(self, who: int, asked: SeatRequest) -> Seated:
        """Seat the attempt of a job."""
        if asked.roles is not None:
            return self._take_each(who, asked, asked.roles)
        seats, left, is_anywhere = list[SeenSeat](), asked.replicas, asked.is_anywhere
        has = {seat.node: seat for seat in self._held.get(who, ())}
        share, missing = _share(asked), 0
        for i, n in enumerate(asked.nodes):
            if not left:
                break
            wanted, mine = min(share, left), has.get(n, SeenSeat(n, 0, 0))
            told = (asked.masks[i] if asked.masks else 0) & ~mine.devices
            mask, more = self._find(n, wanted - mine.replicas, asked.each, told)
            count = mine.replicas + more
            if more:
                self._claim(SeenSeat(n, more, mask))
            seats += [SeenSeat(n, count, mine.devices | mask)] if count else []
            left -= count if is_anywhere else wanted
            missing += 0 if is_anywhere else wanted - count
        self._held[who] = seats
        return Seated(seats, (missing + left) * asked.each * WHOLE_MILLI)

    def leave_for(self, who: int, after: SeatRequest) -> tuple[list[int], bool]:
        """Of what a job holds, only what its next attempt holds too stays.

        The nodes that are empty now, and whether anything was left. Replicas are told apart by
        their role and node, and by nothing else: of equal ones, those on the last devices leave.
        """
        stays = Counter(zip(after.roles, after.nodes, strict=True) if after.roles else ())
        if after.roles is None and not after.is_anywhere:
            stays += Counter({(0, node): _share(after) for node in after.nodes})
        kept, gone = list[SeenSeat](), list[SeenSeat]()
        for seat in self._held.pop(who, ()):
            place = (seat.role, seat.node)
            stay, leave = _divided(seat, min(seat.replicas, max(0, stays[place])))
            stays[place] -= seat.replicas
            kept += stay
            gone += leave
        for seat in gone:
            self._release(seat)
        self._held[who] = kept
        return sorted({seat.node for seat in gone if self.is_empty(seat.node)}), bool(gone)

    def held(self, who: int) -> list[SeenSeat]:
        """What a job holds."""
        return list(self._held.get(who, ()))

    def give_back(self, who: int) -> list[int]:
        """An attempt holds nothing any more; the nodes that are empty now."""
        empty = []
        for seat in self._held.pop(who, ()):
            self._release(seat)
            if self.is_empty(seat.node):
                empty.append(seat.node)
        return empty

    def _take_each(self, who: int, asked: SeatRequest, roles: list[int]) -> Seated:
        """One replica for each of the nodes; those that sit already stay where they are."""
        seats = self._held.get(who, [])
        seated = Counter[tuple[int, int]]()
        for held in seats:
            seated[held.role, held.node] += held.replicas
        over_milli = 0
        for i, (r, n) in enumerate(zip(roles, asked.nodes, strict=True)):
            if seated[r, n] > 0:
                seated[r, n] -= 1
                continue
            role = asked.shape[r]
            seat = self._seat(r, n, role, asked.masks[i] if asked.masks else 0)
            if seat is None:
                over_milli += role.replica_milli
            else:
                self._claim(seat)
                seats.append(seat)
        self._held[who] = joined(seats)
        return Seated(self.held(who), over_milli)

    def _seat(self, r: int, n: int, role: Role, told: int) -> SeenSeat | None:
        """A place for one replica."""
        if role.profile:
            return self._instance(r, n, role)
        if role.milli < WHOLE_MILLI:
            said = told.bit_length() - 1  # of a part it may be said which device it is of
            if told and self._has_room(n, said, role.milli):
                return SeenSeat(n, 1, told, r, milli=role.milli)
            shared = (d for (node, d), used in self._shares.items()
                      if node == n and used + role.milli <= WHOLE_MILLI)  # fmt: skip
            d = min(shared, default=self._next_device(n))
            return None if d is None else SeenSeat(n, 1, 1 << d, r, milli=role.milli)
        mask, count = self._find(n, 1, role.accelerators, told)
        return SeenSeat(n, 1, mask, r) if count else None

    def _has_room(self, n: int, d: int, milli: int) -> bool:
        """Whether so much of a device is free: of one that is shared, or of an empty one."""
        used = self._shares.get((n, d))
        return bool(self._free(n) >> d & 1) if used is None else used + milli <= WHOLE_MILLI

    def _instance(self, r: int, n: int, role: Role) -> SeenSeat | None:
        """A MIG instance where one may start, on a device that has some already if there is one."""
        geometry = mig.of_kind(self._kinds[n])
        row = geometry.find(role.profile) if geometry else None
        if geometry is None or row is None or geometry.milli(row) != role.milli:
            return None
        best = mig.tables(geometry).best[geometry.profiles.index(row)]
        cut = (d for (node, d), state in self._slices.items() if node == n and best[state])
        d = min(cut, default=self._next_device(n))
        if d is None:
            return None
        return SeenSeat(n, 1, 1 << d, r, best[self._slices.get((n, d), 0)], role.milli)

    def _next_device(self, n: int) -> int | None:
        """The first free device of a node."""
        free = self._free(n)
        return (free & -free).bit_length() - 1 if free else None

    def _free(self, n: int) -> int:
        """The mask of the devices of a node that nobody holds."""
        return self.columns.item(n, SEAT.FREE) & _ALL

    def _claim(self, seat: SeenSeat) -> None:
        n, d = seat.node, seat.devices.bit_length() - 1
        self.columns[n, SEAT.FREE] &= signed(~seat.devices & _ALL)
        self.columns[n, SEAT.ABOARD] += seat.replicas
        if seat.slices:
            self._slices[n, d] = self._slices.get((n, d), 0) | seat.slices
        elif seat.milli < WHOLE_MILLI:
            self._shares[n, d] = self._shares.get((n, d), 0) + seat.milli

    def _release(self, seat: SeenSeat) -> None:
        n, d = seat.node, seat.devices.bit_length() - 1
        self.columns[n, SEAT.ABOARD] -= seat.replicas
        if seat.slices:
            self._slices[n, d] &= ~seat.slices
            if self._slices[n, d]:
                return
            del self._slices[n, d]
        elif seat.milli < WHOLE_MILLI:
            self._shares[n, d] -= seat.milli
            if self._shares[n, d]:
                return
            del self._shares[n, d]
        self.columns[n, SEAT.FREE] |= signed(seat.devices)

    def _find(self, n: int, replicas: int, each: int, told: int) -> tuple[int, int]:
        """Devices of a node for as many of the replicas as find some, and how many those are."""
        free = self._free(n)
        if told and told & ~free == 0 and told.bit_count() == replicas * each:
            return told, replicas
        count = min(replicas, free.bit_count() // each)
        mask = 0
        for _ in range(count * each):
            low = free & -free
            mask |= low
            free ^= low
        return mask, count


def _share(asked: SeatRequest) -> int:
    """How many replicas of a plain attempt sit on each of its nodes, but for the last."""
    if asked.is_anywhere:
        return asked.replicas
    return -(-asked.replicas // max(1, len(asked.nodes)))


def _divided(seat: SeenSeat, stay: int) -> tuple[list[SeenSeat], list[SeenSeat]]:
    """So many replicas that stay, on the first of their devices, and the others."""
    if stay in (0, seat.replicas):
        return ([seat], []) if stay else ([], [seat])
    first, rest = 0, seat.devices
    for _ in range(stay * seat.devices.bit_count() // seat.replicas):
        first |= rest & -rest
        rest &= rest - 1
    left = seat._replace(replicas=seat.replicas - stay, devices=rest)
    return [seat._replace(replicas=stay, devices=first)], [left]


def signed(mask: int) -> int:
    """A mask of 64 devices as a column holds it."""
    return mask - (1 << MAX_DEVICES) if mask >> (MAX_DEVICES - 1) else mask


def joined(seats: list[SeenSeat]) -> list[SeenSeat]:
    """Replicas of one role that hold whole devices of one node, as one."""
    found = dict[tuple[int, ...], SeenSeat]()
    for i, seat in enumerate(seats):
        is_part = seat.slices or seat.milli < WHOLE_MILLI
        key = (seat.role, seat.node, *([i] if is_part else ()))
        before = found.get(key, seat._replace(replicas=0, devices=0))
        found[key] = seat._replace(
            replicas=before.replicas + seat.replicas, devices=before.devices | seat.devices
        )
    return list(found.values())
