"""Offers: in which order jobs that may be stopped are tried, so that the cheapest set is found.

Two ways to line them up: *flat*, whoever is cheapest for what it frees first; and *by node*, for a
job that needs much of one node: the cheapest node to free goes first, with just those of its jobs
that have to go, rather than cheap jobs scattered over many nodes. A gang counts whole wherever one
of its members is in the way; once it goes, the other nodes that it sat on are cheaper.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tidemill.model.events import Why
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling import eligibility
from tidemill.scheduling.fit import Options
from tidemill.scheduling.slices import hosted
from tidemill.scheduling.snapshot import Snapshot

_READY = int(NodeState.READY)


class Victim(NamedTuple):
    """A job that may be stopped, what it holds, and what stopping it would lose."""

    priority: int
    lost_ms: int
    usd_micro: int
    job: int
    queue: int
    shape: Shape
    pieces: tuple[Piece, ...]
    why: Why
    at_most: int = 0
    """Milli-GPU-seconds of work that may be lost beside that, where nobody knows; else 0."""

    @property
    def milli(self) -> int:
        """Accelerators that it holds."""
        roles = self.shape.roles
        return sum(piece.replicas * roles[piece.role].replica_milli for piece in self.pieces)


Price = Callable[[Victim], int]


def in_usd_micro(victim: Victim) -> int:
    """What stopping it costs."""
    return victim.usd_micro


def as_one(_: Victim) -> int:
    """Every victim counts the same: an order in which time plays no part."""
    return 1


def by_size(candidates: list[Victim]) -> Iterator[Victim]:
    """The least important first, then the largest; time plays no part in it."""
    yield from sorted(candidates, key=lambda v: (v.priority, -v.milli, -v.job))


def by_time(candidates: list[Victim]) -> Iterator[Victim]:
    """The least important first, then whoever loses least time for each accelerator it frees."""
    yield from sorted(candidates, key=lambda v: (v.priority, v.lost_ms, -v.job))


def by_density(candidates: list[Victim]) -> Iterator[Victim]:
    """The least important first, then the fewest dollars for each accelerator that is freed."""
    yield from sorted(
        candidates, key=lambda v: (v.priority, v.usd_micro * 1000 // max(1, v.milli), -v.job)
    )


def by_node(
    room: Snapshot, role: Role, is_ok: I64, candidates: list[Victim], price: Price
) -> Iterator[Victim]:
    """Node by node, the cheapest to free for one replica of this role first; then the others.

    Only nodes of the groups that are ok, and that take work, are worth freeing.
    """
    gone: set[int] = set()
    aboard = _aboard(room, is_ok, candidates)
    offers = (_offer(room, role, n, aboard[n], gone, price) for n in sorted(aboard))
    heap = [offer for offer in offers if offer]
    heapq.heapify(heap)
    done: set[int] = set()
    while heap:
        offer = heapq.heappop(heap)
        if offer.node in done:
            continue
        done.add(offer.node)
        going = [victim for victim in offer.victims if victim.job not in gone]
        gone.update(victim.job for victim in going)
        yield from going
        for n in sorted({n for victim in going for n in _nodes(victim.pieces)} - done):
            if n not in aboard:
                continue
            again = _offer(room, role, n, aboard[n], gone, price)
            if again:
                heapq.heappush(heap, again)
    yield from (victim for victim in by_size(candidates) if victim.job not in gone)


def widest(world: World, shape: Shape, options: Options) -> tuple[Role, I64]:
    """The role that asks most of one node, and the groups of nodes on which it may sit."""
    roles = shape.roles
    r = max(range(len(roles)), key=lambda r: (roles[r].replica_milli, roles[r].total_milli, -r))
    return roles[r], eligibility.merged(world, options[r])


def total(victims: Iterable[Victim]) -> tuple[int, int, int, int, tuple[int, ...]]:
    """By what a set is judged: its most important victim, its dollars, what it may lose beside
    those, its size; ties by number.
    """
    chosen = list(victims)
    return (
        max(victim.priority for victim in chosen),
        sum(victim.usd_micro for victim in chosen),
        sum(victim.at_most for victim in chosen),
        len(chosen),
        tuple(sorted(victim.job for victim in chosen)),
    )


def _aboard(room: Snapshot, is_ok: I64, candidates: list[Victim]) -> dict[int, list[Victim]]:
    nodes, found = room.world.nodes, dict[int, list[Victim]]()
    for victim in candidates:
        for n in _nodes(victim.pieces):
            if nodes.state[n] == _READY and not nodes.is_spare[n] and is_ok[nodes.group[n]]:
                found.setdefault(n, []).append(victim)
    return found


class _Offer(NamedTuple):
    """A node, and who has to leave it so that one replica fits; the smaller, the better."""

    priority: int
    price: int
    node: int
    victims: tuple[Victim, ...]


def _offer(
    room: Snapshot, role: Role, n: int, aboard: list[Victim], gone: set[int], price: Price
) -> _Offer | None:
    """The cheapest jobs to take off one node for one replica; None: it would not fit even so.

    Greedy, cheapest first; then, dearest first, whoever is not needed after all stays.
    """
    here = _Here(room, n)
    for victim in aboard:
        if victim.job in gone:
            here.free(victim, 1)
    going: list[Victim] = []
    for victim in sorted(aboard, key=lambda v: (v.priority, price(v), -v.job)):
        if victim.job in gone:
            continue
        if here.hosts(role):
            break
        here.free(victim, 1)
        going.append(victim)
    if not here.hosts(role):
        return None
    for victim in going[::-1]:
        here.free(victim, -1)
        if here.hosts(role):
            going.remove(victim)
        else:
            here.free(victim, 1)
    if not going:
        return None
    priority = max(victim.priority for victim in going)
    return _Offer(priority, sum(map(price, going)), n, tuple(going))


class _Here:
    """What is free on one node while jobs are taken off it."""

    def __init__(self, room: Snapshot, n: int) -> None:
        nodes, devices = room.world.nodes, room.world.devices
        first, count = nodes.first_device.item(n), nodes.devices.item(n)
        self.node, self.count = n, count
        self.device: list[int] = room.device_free[first : first + count].tolist()
        for d in range(count):
            if devices.is_failed[first + d]:
                self.device[d] = -(1 << 30)
        self.cpu, self.memory = int(room.cpu_free[n]), int(room.memory_free[n])
        self.world = room.world
        self.slices: list[int] = room.slices[first : first + count].tolist()

    def free(self, victim: Victim, sign: int) -> None:
        for piece in victim.pieces:
            if piece.node != self.node:
                continue
            role = victim.shape.roles[piece.role]
            self.cpu += sign * piece.replicas * role.cpu_milli
            self.memory += sign * piece.replicas * role.memory_mib
            mask = piece.devices
            if piece.slices:
                d = mask.bit_length() - 1
                self.slices[d] ^= piece.slices
                if self.device[d] >= 0:
                    self.device[d] = 0 if self.slices[d] else WHOLE_MILLI
                continue
            while mask:
                low = mask & -mask
                self.device[low.bit_length() - 1] += sign * role.milli
                mask ^= low

    def hosts(self, role: Role) -> bool:
        if self.cpu < role.cpu_milli or self.memory < role.memory_mib:
            return False
        if role.profile:
            return any(
                free >= 0 and hosted(self.world, self.node, state, free, role)
                for state, free in zip(self.slices, self.device, strict=True)
            )
        return sum(free >= role.milli for free in self.device) >= role.accelerators


def _nodes(pieces: tuple[Piece, ...]) -> list[int]:
    return sorted({piece.node for piece in pieces})
