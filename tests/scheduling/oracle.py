"""What the placement kernels must do, in plain Python: a few lines each, and slow.

A `Yard` is the free side of a fleet as lists. `hosts` says how many replicas each node takes,
`fill` places a role or nothing, `give` moves one piece in or out. Ties go to the lower node.
"""

from dataclasses import dataclass

from tidemill.model.rows import Role

PLENTY = 1 << 30
Placed = tuple[int, int, int]


@dataclass
class Yard:
    """Nodes that take work (or not), and what is free on them; one entry a node."""

    is_open: list[bool]
    cpu: list[int]
    memory: list[int]
    free: list[list[int]]
    is_failed: list[list[bool]]

    def node_free(self, n: int) -> int:
        pairs = zip(self.free[n], self.is_failed[n], strict=True)
        return sum(free for free, is_failed in pairs if not is_failed)

    def fitting(self, n: int, milli: int) -> list[int]:
        """Devices with this much left."""
        devices = enumerate(zip(self.free[n], self.is_failed[n], strict=True))
        return [d for d, (free, is_failed) in devices if free >= milli and not is_failed]


def hosts(yard: Yard, role: Role) -> list[int]:
    """How many replicas of a role each node takes."""
    return [_on_node(yard, role, n) if yard.is_open[n] else 0 for n in range(len(yard.cpu))]


def fill(yard: Yard, role: Role, spreads: bool) -> list[Placed] | None:
    """Place all replicas as (node, replicas, device mask) and take the room; or None."""
    can = hosts(yard, role)
    if sum(can) < role.count:
        return None
    placed, left = [], role.count
    while left:
        if spreads or role.milli < 1000 or left == 1:
            n, batch = min(_able(can), key=lambda n: (_score(yard, role, n, spreads), n)), 1
        else:
            n = min(_able(can), key=lambda n: (-min(can[n], left), yard.node_free(n), n))
            batch = min(can[n], left)
        placed.append((n, batch, _take(yard, role, n, batch)))
        can[n] -= batch
        left -= batch
    return placed


def give(yard: Yard, role: Role, piece: Placed, sign: int) -> None:
    """Give a piece back (1) or take it again (-1)."""
    n, replicas, mask = piece
    for d in range(len(yard.free[n])):
        yard.free[n][d] += sign * role.milli * (mask >> d & 1)
    yard.cpu[n] += sign * replicas * role.cpu_milli
    yard.memory[n] += sign * replicas * role.memory_mib


def _on_node(yard: Yard, role: Role, n: int) -> int:
    most = PLENTY
    if role.accelerators:
        shares = [yard.free[n][d] // role.milli for d in yard.fitting(n, role.milli)]
        most = sum(shares) // role.accelerators
    if role.cpu_milli:
        most = min(most, yard.cpu[n] // role.cpu_milli)
    return min(most, yard.memory[n] // role.memory_mib) if role.memory_mib else most


def _able(can: list[int]) -> list[int]:
    return [n for n, count in enumerate(can) if count]


def _score(yard: Yard, role: Role, n: int, spreads: bool) -> tuple[int, int]:
    if spreads:
        return (0, -yard.node_free(n))
    if role.milli == 1000:
        return (0, yard.node_free(n))
    return (min(yard.free[n][d] for d in yard.fitting(n, role.milli)), yard.node_free(n))


def _take(yard: Yard, role: Role, n: int, replicas: int) -> int:
    fitting = yard.fitting(n, role.milli)
    if role.milli < 1000:
        fitting.sort(key=lambda d: (yard.free[n][d], d))
    mask = sum(1 << d for d in fitting[: replicas * role.accelerators])
    give(yard, role, (n, replicas, mask), -1)
    return mask
