"""Room: a scratch copy of what is free, in which a cycle tries things and takes them back.

``fit`` places a whole gang or leaves the room as it was; ``give`` and ``take`` move one job's
pieces out and in. The World itself is never written. What is free is columns (``fitting``), over
which kernels place; MIG instances have loops of their own (``slices``), and a device that carries
some is closed to everybody else.
"""

from typing import NamedTuple

import numpy as np

from tidemill.model.columns import DEVICE, NODE
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.placements import FreeNode, NodeScore
from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.tree import kept
from tidemill.model.world import World
from tidemill.scheduling import eligibility, slices
from tidemill.scheduling.eligibility import Option
from tidemill.scheduling.fitting import books, node_ranking, sweeps
from tidemill.scheduling.fitting.columns import BITS, CALL, OUT, PART, REQUEST, SORT, SPOT, Ground
from tidemill.scheduling.requests import Requests
from tidemill.scheduling.scores.scoring import PACKING, Scoring
from tidemill.scheduling.scores.tables import BLANK
from tidemill.units.mig import geometry as mig

REMEMBERED = 4096  # touches, at the least; and four of each node
PIECES = 64  # to begin with
ALL_BITS = (1 << 64) - 1
_NOTHING: I64 = np.zeros((1, 0), np.int64)


class Snapshot:
    """What is free, per node and device, per kind, and what teams use; writable."""

    def __init__(self, world: World, *, sweeps: bool = False) -> None:
        self.world, self._sweeps = world, sweeps
        self.ground: Ground
        """What is free, as kernels take it."""
        self._is_laid_out = False
        self._axis: slices.Axis | None = None
        self.kind_free = self._kept = _NOTHING[0]
        self.used = self._below = _NOTHING
        self._keeps = False
        self._copy_all(world)

    def refresh(self, world: World) -> None:
        """Start again from the World: copy what changed there, and what was tried here."""
        if self.lay_out(world):
            w, (regs, spots, parts, touched, *_) = world.matrices, self.ground
            read, clean, logged = regs.item(CALL.READ), regs.item(CALL.CLEAN), world.changes.end
            sweeps.copy_changed(
                w.nodes, w.devices, w.log, regs, touched, spots, parts, clean, read, logged
            )
            regs[CALL.READ], regs[CALL.CLEAN] = logged, self.version
            self._copy_books(world)

    def lay_out(self, world: World) -> bool:
        """Have columns for a World; whether these have been there, and are to be brought up to now.

        If not, they are as the World is.
        """
        is_known = world is self.world and world.changes.are_known_since(
            self.ground.regs.item(CALL.READ)
        )
        if not is_known or world.node_count != self.rows or world.topology != self._topology:
            self._copy_all(world)
            return False
        self.requests.forget_if_many()
        if self.used.shape != world.used.shape or self._keeps != world.tree.keeps:
            self._copy_books(world)
        return True

    def take_over(self, other: "Snapshot") -> None:
        """Be as another room of the same cluster state is now."""
        own, its = self.ground, other.ground
        for mine, theirs in (
            (own.spots, its.spots), (own.parts, its.parts), (self.kind_free, other.kind_free),
            (self.used, other.used),
        ):  # fmt: skip
            np.copyto(mine, theirs)
        if self.world.tree.keeps:
            np.copyto(self.below, other.below)
            np.copyto(self.kind_kept, other.kind_kept)
        self.requests.forget_ranks()

    def empty(self) -> None:
        """Pretend that nothing runs: every working device is free. Nothing older is kept."""
        nodes, rows = self.world.nodes, self.rows
        self._read_open()
        np.copyto(self.cpu_free, nodes.cpu_milli[:rows])
        np.copyto(self.memory_free, nodes.memory_mib[:rows])
        working = nodes.devices[:rows] - nodes.failed[:rows]
        np.multiply(working, WHOLE_MILLI, out=self.node_free)
        self.device_free[:] = WHOLE_MILLI
        self.slices[:] = 0
        self.kind_free[:] = self._kind_working()
        self.used[:] = 0
        if self.world.tree.keeps:
            self.below, self.kind_kept = kept(self.world.tree, self.world.guard, self.used)
        self.requests.forget_ranks()
        self.ground.regs[CALL.TOUCHED] += 1
        self.ground.regs[CALL.CLEAN] = self.version

    # Placing -----------------------------------------------------------------------------------

    def fill(self, role: Role, is_ok: I64, scoring: Scoring) -> "Filled":
        """Place all replicas of a role on nodes of the groups that are ok, or none.

        Scores choose the node of a single replica and of each fraction; a gang of whole devices is
        put on the fewest nodes. A room that sweeps packs where scores are asked for: what fits is
        the same, and a single question needs no scores of all nodes.
        """
        if role.profile:
            return Filled(*slices.fill(self, role, is_ok))
        if scoring.score is not None and not self._sweeps:
            return self._fill_scored(role, is_ok, scoring.score)
        r = self.request(role, is_ok, scoring, is_placed=True)
        tables = BLANK if scoring.tables is None else scoring.tables
        return self._filled(
            role, node_ranking.seat(self.world.matrices, self.ground, tables, r, role.count)
        )

    def _fill_scored(self, role: Role, is_ok: I64, score: NodeScore) -> "Filled":
        """``fill`` by the score of a plug-in, asked about each node that hosts a replica."""
        if role.count > 1 and role.milli == WHOLE_MILLI:
            return self.sweep(role, is_ok)
        total, r = self.count_hosts(role, is_ok), self.request(role, is_ok, PACKING)
        if total < role.count:
            return Filled(total, ())
        for i in range(role.count):
            hosts = self.ground.hosts[self.ground.requests.item(r, REQUEST.HOSTS_ROW)]
            able = np.flatnonzero(hosts[: self.rows] > 0).tolist()
            best = max(able, key=lambda n: (score(self.free_node(n), role), -n))
            sweeps.put_hosted(self.world.matrices, self.ground, r, i, best, 1)
        return self._filled(role, role.count)

    def free_node(self, n: int) -> FreeNode:
        """A node as a plug-in sees it."""
        world, nodes = self.world, self.world.nodes
        row, first = world.node_rows[n], nodes.first_device.item(n)
        contract = world.contract_rows[nodes.contract.item(n)]
        free = self.device_free[first : first + nodes.devices.item(n)]
        return FreeNode(
            row.name, contract.kind, dict((*contract.node.labels, *row.labels)),
            tuple(free.tolist()), self.cpu_free.item(n), self.memory_free.item(n),
        )  # fmt: skip

    def request(self, role: Role, is_ok: I64, scoring: Scoring, *, is_placed: bool = False) -> int:
        """The row of what each replica of a role asks for, with room for its pieces.

        With a tournament, if it is to be placed by one.
        """
        if self._sweeps and scoring.tables is not None:
            scoring = PACKING
        r = self.requests.row(role, is_ok, scoring)
        self.make_pieces(role.count)
        if is_placed and not self._sweeps:
            self.requests.plant(role, r, scoring)
        self.ground = self.requests.joined(self.ground)
        return r

    def make_pieces(self, replicas: int) -> None:
        """Make room for the pieces of so many replicas."""
        if replicas > len(self.ground.out):
            self.ground = self.ground._replace(out=_blank(2 * replicas, len(OUT)))

    def heed(self, scoring: Scoring) -> None:
        """From now on nodes are ranked by these scores."""
        self.requests.heed(scoring)
        self.ground = self.requests.joined(self.ground)

    def sweep(self, role: Role, is_ok: I64) -> "Filled":
        """As ``fill`` without scores, by one sweep over the nodes: for a room that is not kept."""
        r = self.request(role, is_ok, PACKING)
        found = sweeps.fill(self.world.matrices, self.ground, r, role.count, 0)
        return self._filled(role, found)

    def count_hosts(self, role: Role, is_ok: I64) -> int:
        """How many replicas of a role would fit."""
        if role.profile:
            return int(slices.hosts(self, role, is_ok).sum())
        r = self.request(role, is_ok, PACKING)
        return int(sweeps.count_hosts(self.world.matrices, self.ground, r))

    def hosts(self, role: Role, is_ok: I64) -> I64:
        """How many replicas of a role each node would take; a copy."""
        if role.profile:
            return slices.hosts(self, role, is_ok)
        self.count_hosts(role, is_ok)
        h = self.ground.requests.item(self.request(role, is_ok, PACKING), REQUEST.HOSTS_ROW)
        return self.ground.hosts[h, : self.rows].copy()

    def _filled(self, role: Role, found: int) -> "Filled":
        return Filled(-found - 1, ()) if found < 0 else Filled(role.count, self.placed(found))

    def placed(self, count: int) -> tuple[tuple[int, int, int], ...]:
        """The pieces that were found last: node, replicas and mask."""
        rows = self.ground.out[:count].tolist()
        return tuple((n, replicas, mask & ALL_BITS) for n, replicas, mask in rows)

    def together(self, options: tuple[Option, ...]) -> I64:
        """The groups of several options as one array; the same one every time."""
        key = tuple(id(option.is_ok) for option in options)
        if key not in self._together:
            self._together[key] = (eligibility.merged(self.world, options), options)
        return self._together[key][0]

    # What is free ------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Another number whenever something in the room was taken or given since it was copied."""
        touched: int = self.ground.regs.item(CALL.TOUCHED)
        return touched

    @property
    def axis(self) -> slices.Axis:
        """The devices with their nodes and kinds."""
        if self._axis is None:
            self._axis = slices.axis(self.world)
        return self._axis

    def book(self, q: int, shape: Shape, pieces: tuple[Piece, ...], sign: int) -> None:
        """Count pieces as used (1) or not used any more (-1) by a team."""
        kinds, sums = self.world.nodes.kind, dict[int, int]()
        for piece in pieces:
            k = kinds.item(piece.node)
            milli = sign * piece.replicas * shape.roles[piece.role].replica_milli
            if self.is_open[piece.node]:  # what leaves a closed node is free to nobody
                self.kind_free[k] -= milli
            sums[k] = sums.get(k, 0) + milli
        for k, milli in sums.items():
            self.count_used(q, k, milli)

    def count_used(self, q: int, k: int, milli: int) -> None:
        """Book that a queue, and all that is above it, uses this much more of a kind, or less."""
        w = self.world.matrices
        books.count_used(w.at, w.queues, w.quotas, self.used, *self.kept_back, q, k, milli)

    @property
    def kept_back(self) -> tuple[I64, I64]:
        """What queues keep back, below each and by kind, as kernels take it."""
        is_kept = self.world.tree.keeps
        return (self.below, self.kind_kept) if is_kept else (_NOTHING, _NOTHING[0])

    def give(self, shape: Shape, pieces: tuple[Piece, ...]) -> None:
        """Free the devices of pieces."""
        self._move(shape, pieces, 1)

    def take(self, shape: Shape, pieces: tuple[Piece, ...]) -> None:
        """Take the devices of pieces again."""
        self._move(shape, pieces, -1)

    def could_take(self, shape: Shape, pieces: tuple[Piece, ...]) -> bool:
        """Whether pieces that were given could be taken again as they were."""
        if any(piece.slices for piece in pieces):
            return slices.could_take(self, shape, pieces)
        self._move(shape, pieces, -1)
        nodes = sorted({piece.node for piece in pieces})
        first, count = self.world.nodes.first_device, self.world.nodes.devices
        is_open = all(
            self.cpu_free[n] >= 0
            and self.memory_free[n] >= 0
            and self.device_free[first[n] : first[n] + count[n]].min() >= 0
            for n in nodes
        )
        self._move(shape, pieces, 1)
        return is_open

    def _move(self, shape: Shape, pieces: tuple[Piece, ...], sign: int) -> None:
        nodes, (regs, spots, parts, touched, *_) = self.world.matrices.nodes, self.ground
        for piece in pieces:
            role = shape.roles[piece.role]
            if piece.slices:
                d = self.world.nodes.first_device.item(piece.node) + piece.devices.bit_length() - 1
                self.slide(role, piece.node, d, piece.slices, sign)
            else:
                sweeps.give(
                    nodes, regs, touched, spots, parts, piece.node, piece.replicas,
                    signed(piece.devices), role.accelerators, role.milli, role.cpu_milli,
                    role.memory_mib, sign,
                )  # fmt: skip

    def slide(self, role: Role, n: int, d: int, mask: int, sign: int) -> None:
        """Take an instance's slices of a device (-1) or give them back, with its CPU and memory."""
        k = self.world.nodes.kind.item(n)
        part = mig.of_kind(self.world.kinds[k])
        assert part is not None, "only a part that divides carries instances"
        before = self.slices.item(d)
        after = before | mask if sign < 0 else before & ~mask
        was, now = mig.left_milli(part, before), mig.left_milli(part, after)
        self.slices[d], self.device_free[d] = after, 0 if after else WHOLE_MILLI
        self.node_free[n] += now.free - was.free
        if self.is_open[n]:  # the books move what it holds itself; what it strands is free no more
            self.kind_free[k] -= now.stranded - was.stranded
        self.cpu_free[n] += sign * role.cpu_milli
        self.memory_free[n] += sign * role.memory_mib
        sweeps.touch(self.ground.regs, self.ground.touched, self.ground.spots, n)

    # Copying -----------------------------------------------------------------------------------

    def _copy_all(self, world: World) -> None:
        self.world = world
        self._allocate(world)
        w, ground = world.matrices, self.ground
        nodes, devices = w.nodes[: self.rows], w.devices[: self.devices]
        ground.spots[:, SPOT.FREE] = nodes[:, NODE.FREE_MILLI]
        ground.spots[:, SPOT.CPU] = nodes[:, NODE.CPU_FREE_MILLI]
        ground.spots[:, SPOT.MEMORY] = nodes[:, NODE.MEMORY_FREE_MIB]
        ground.parts[:, PART.FREE] = devices[:, DEVICE.FREE_MILLI]
        ground.parts[:, PART.SLICES] = devices[:, DEVICE.SLICES]
        self._axis = None
        self._read_open()
        self._copy_books(world)
        ground.regs[CALL.READ], ground.regs[CALL.CLEAN] = world.changes.end, self.version
        self._together: dict[tuple[int, ...], tuple[I64, tuple[Option, ...]]] = {}

    def _read_open(self) -> None:
        """Which nodes take work now."""
        nodes, rows = self.world.nodes, self.rows
        is_ready = nodes.state[:rows] == NodeState.READY
        self.is_open[:] = is_ready & (nodes.is_spare[:rows] == 0)

    def _copy_books(self, world: World) -> None:
        """What is free of each kind and used by each team, in the same arrays while they fit."""
        self._keeps = world.tree.keeps
        self.kind_free = _copied(self.kind_free, world.kind_free_milli)
        self.used = _copied(self.used, world.used)
        self.below, self.kind_kept = world.below, world.kind_kept
        if world.tree.keeps:
            self._below = self.below = _copied(self._below, world.below)
            self._kept = self.kind_kept = _copied(self._kept, world.kind_kept)

    def _kind_working(self) -> I64:
        """What works of each kind on nodes that take work; no bound where nobody keeps any back."""
        world = self.world
        if not world.tree.keeps:
            return np.full(len(world.kinds), FOREVER_MS, np.int64)
        sums, is_open = np.zeros(len(world.kinds), np.int64), self.is_open != 0
        np.add.at(sums, world.nodes.kind[: self.rows][is_open], self.node_free[is_open])
        return sums

    def _allocate(self, world: World) -> None:
        rows, devices = world.node_count, world.device_count
        self.rows, self.devices, self._topology = rows, devices, world.topology
        before = self.version + 1 if self._is_laid_out else 0
        self._is_laid_out = True
        tiers, size = len(world.domains), 1 << max(REMEMBERED, 4 * rows).bit_length()
        self.requests = Requests(rows, max(1, len(world.groups)))
        self.ground = self.requests.joined(
            Ground(
                regs=np.array([before, rows, *[0] * (len(CALL) - 2)], np.int64),
                spots=_blank(rows, len(SPOT)), parts=_blank(devices, len(PART)),
                touched=np.zeros(size, np.int64), **self.requests.blank(),
                reserved=np.zeros(rows // BITS + 1, np.int64),
                caps=_blank(tiers + 1, rows), gaps=_blank(tiers + 1, rows),
                portions=_blank(tiers + 1, rows),
                parent=world.parent.copy(),
                domains=np.array([len(tier) for tier in world.domains], np.int64),
                able=np.zeros(rows, np.int64),
                sorting=_blank(max(rows, 64), len(SORT)), out=_blank(PIECES, len(OUT)),
            )
        )  # fmt: skip
        spots, parts = self.ground.spots, self.ground.parts
        self.node_free: I64 = spots[:, SPOT.FREE]
        self.cpu_free: I64 = spots[:, SPOT.CPU]
        self.memory_free: I64 = spots[:, SPOT.MEMORY]
        self.is_open: I64 = spots[:, SPOT.IS_OPEN]
        self.device_free: I64 = parts[:, PART.FREE]
        self.slices: I64 = parts[:, PART.SLICES]


class Filled(NamedTuple):
    """What ``fill`` did: how many replicas fit, and (node, replicas, mask) of each piece.

    Of an instance also its slices.
    """

    hosted: int
    placed: tuple[tuple[int, ...], ...]


def signed(mask: int) -> int:
    """A mask of 64 bits as a column holds it."""
    return mask - (1 << 64) if mask >> 63 else mask


def _copied(old: I64, new: I64) -> I64:
    """What is in the new array, in the old one if it has room for exactly that."""
    if old.shape != new.shape:
        return new.copy()
    old[:] = new
    return old


def _blank(rows: int, columns: int) -> I64:
    return np.zeros((rows, columns), np.int64)
