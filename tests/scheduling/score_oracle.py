"""What the scores of placement must be, in plain Python: a few lines each, and slow.

A `Spot` is one node as scores see it. `rank` is the tuple of scores to compare, the higher the
better, and `device` the position of the device that a fraction takes.
"""

import math
from typing import NamedTuple

from tidemill.model.rows import Role
from tidemill.scheduling.scores.tables import (
    ACCELERATORS,
    CPU,
    MEMORY,
    MILLI,
    PRICE,
    WEIGHT,
    Tables,
)

CODES = ("pack", "spread", "best-fit", "dot-product", "clustering", "sharing", "fgd", "tide")


class Spot(NamedTuple):
    """A node: its kind, what is free, and whether its host is untouched."""

    kind: int
    cpu: int
    memory: int
    free: tuple[int, ...]
    is_untouched: bool = False

    def minus(self, role: Role, d: int = -1) -> "Spot":
        """The node after one replica, a fraction of it on the ``d``-th device."""
        free = list(self.free)
        if role.milli < 1000:
            free[d] -= role.milli
        else:
            for whole in [e for e, milli in enumerate(free) if milli == 1000][: role.accelerators]:
                free[whole] = 0
        cpu, memory = self.cpu - role.cpu_milli, self.memory - role.memory_mib
        return Spot(self.kind, cpu, memory, tuple(free))


def rank(spot: Spot, role: Role, tables: Tables) -> tuple[int, ...]:
    """The scores of all policies asked, in their order."""
    return tuple(score(CODES[code], spot, role, tables) for code in tables.codes.tolist())


def device(spot: Spot, role: Role, tables: Tables) -> int:
    """The device of a fraction: as the first policy that minds wants it, or the tightest."""
    for code in tables.codes.tolist():
        if CODES[code] == "fgd":
            return max(_choices(spot, role), key=lambda d: _gradient_score(spot, role, d, tables))
        if CODES[code] == "tide":
            return min(_choices(spot, role), key=lambda d: waste(spot.minus(role, d), tables))
    return _tightest(spot, role)


def score(name: str, spot: Spot, role: Role, tables: Tables) -> int:
    """The score of one policy for a node that can host the replica."""
    total, need = sum(spot.free), role.replica_milli
    cpus, millis = tables.limits[:2].tolist()
    match name:
        case "pack":
            spare = spot.free[_tightest(spot, role)] - role.milli if role.milli < 1000 else 0
            return 2**26 - 1 - (spare * 2**16 + total)
        case "spread":
            return total
        case "best-fit":
            left = (spot.cpu - role.cpu_milli) * millis + (total - need) * cpus
            return 100 * (2 * cpus * millis - left) // (2 * cpus * millis)
        case "dot-product":
            product = spot.cpu / cpus * (role.cpu_milli / cpus) + total / millis * (need / millis)
            return int(100 * (1.0 - product / 2))
        case "clustering":
            return _clustering(spot, role, total, millis)
        case "sharing":
            return _sharing(spot, role)
        case "fgd":
            return max(_gradient_score(spot, role, d, tables) for d in _choices(spot, role))
        case _:
            return _tide(spot, role, tables)


def _choices(spot: Spot, role: Role) -> list[int]:
    if role.milli >= 1000:
        return [-1]
    return [d for d, milli in enumerate(spot.free) if milli >= role.milli]


def _tightest(spot: Spot, role: Role) -> int:
    return min(_choices(spot, role), key=lambda d: spot.free[d])


def _clustering(spot: Spot, role: Role, total: int, millis: int) -> int:
    if not role.accelerators:
        return 0
    shared, whole = any(0 < milli < 1000 for milli in spot.free), 0 in spot.free
    same, other = (shared, whole) if role.milli < 1000 else (whole, shared)
    tier = {(True, False): 75, (True, True): 50, (False, False): 25, (False, True): 0}
    return tier[same, other] + 25 * (millis - total) // millis


def _sharing(spot: Spot, role: Role) -> int:
    if not role.accelerators:
        return 0
    whole = spot.free.count(1000)
    if whole == len(spot.free):
        return max(33 - whole, min(whole, 33))
    if role.milli < 1000 and (milli := spot.free[_tightest(spot, role)]) < 1000:
        return 100 - milli * 100 // 1000 // 10
    return max(50 - role.accelerators, 33)


def _gradient_score(spot: Spot, role: Role, d: int, tables: Tables) -> int:
    gain = fragments(spot, tables) - fragments(spot.minus(role, d), tables)
    thresholds = [math.ceil(10**9 * math.log(s / (100 - s))) for s in range(1, 100)]
    return sum(gain >= threshold for threshold in thresholds)


def fragments(spot: Spot, tables: Tables) -> int:
    """The free milli that no task of the mix can use, weighed by how often each arrives."""
    return sum(row[WEIGHT] * _useless(spot, row, tables.admits[j, spot.kind])
               for j, row in enumerate(tables.classes.tolist()))  # fmt: skip


def _useless(spot: Spot, row: list[int], is_admitted: bool) -> int:
    fitting = [milli for milli in spot.free if milli >= row[MILLI]]
    is_host = is_admitted and spot.cpu >= row[CPU] and len(fitting) >= row[ACCELERATORS]
    return sum(spot.free) - (sum(fitting) if is_host and row[ACCELERATORS] else 0)


def _tide(spot: Spot, role: Role, tables: Tables) -> int:
    rolls, grain = len(tables.draws), int(tables.limits[4])
    after = spot.minus(role, device(spot, role, tables))
    gain = waste(spot, tables) - waste(after, tables)
    if spot.is_untouched and role.cpu_milli:
        gain -= 20 * rolls
    lost = [
        row[PRICE] for j, row in enumerate(tables.classes.tolist())
        if _hosts(spot, j, tables) and not _hosts(after, j, tables)
    ]  # fmt: skip
    return min(max(2048 + gain // (rolls * grain) - max(lost, default=0), 0), 4095)


def _hosts(spot: Spot, j: int, tables: Tables) -> bool:
    row = tables.classes[j].tolist()
    fitting = [milli for milli in spot.free if milli >= row[MILLI]]
    is_room = spot.cpu >= row[CPU] and spot.memory >= row[MEMORY]
    return bool(tables.admits[j, spot.kind]) and is_room and len(fitting) >= row[ACCELERATORS]


def waste(spot: Spot, tables: Tables) -> int:
    """What stays empty when the node is fed each sequence of draws, all of them together.

    And what is in pieces now, as often, as far as it counts.
    """
    played = sum(_played(spot, sequence, tables) for sequence in tables.draws.tolist())
    now = fragments(spot, tables) // 1000
    return played + now * len(tables.draws) * int(tables.limits[6]) // 1_000_000


def _played(spot: Spot, sequence: list[int], tables: Tables) -> int:
    for pair in zip(sequence[::2], sequence[1::2], strict=True):
        if spot.cpu < tables.limits[2] or max(spot.free, default=0) < tables.limits[3]:
            break
        able = [j for j in pair if _hosts(spot, j, tables)]
        if able:
            role = min((_role(j, tables) for j in able), key=lambda role: _left(spot, role))
            d = _tightest(spot, role) if role.milli < 1000 else -1
            spot = spot.minus(role, d)
    return sum(spot.free)


def _role(j: int, tables: Tables) -> Role:
    row = tables.classes[j].tolist()
    return Role("x", 1, row[ACCELERATORS], row[MILLI], row[CPU], row[MEMORY])


def _left(spot: Spot, role: Role) -> int:
    if not role.accelerators:
        return 999
    return spot.free[_tightest(spot, role)] - role.milli if role.milli < 1000 else 0
