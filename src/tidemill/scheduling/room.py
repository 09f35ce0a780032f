"""Room: a scratch copy of what is free, in which a cycle tries things and takes them back.

``fit`` places a whole gang or leaves the room as it was; ``give`` and ``take`` move one job's
pieces out and in. The World itself is never written. Kernels are loaded when the first room is
made. MIG instances have loops of their own (``slices``); a device that carries some is closed to
everybody else.
"""

from functools import cache
from types import ModuleType
from typing import NamedTuple

import numpy as np

from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.rows import Piece, Role, Shape
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.tree import kept
from tidemill.model.world import World
from tidemill.scheduling import eligible, shares, slices
from tidemill.scheduling.eligible import Option
from tidemill.scheduling.scores.scoring import Scoring
from tidemill.scheduling.trees import Tree, Trees
from tidemill.units.mig import geometry as mig

TOUCHED_AT_MOST = 1 << 17  # changes remembered for the trees; then everything is looked at anew
SWEPT_AT_MOST = 128  # nodes; below, one sweep takes less than bringing a tree up to date
_NONE = np.zeros(0, np.int64)


class Room:
    """What is free, per node and device, per kind, and what teams use; writable."""

    def __init__(self, world: World, *, sweeps: bool = False) -> None:
        self.world, self._sweeps = world, sweeps
        self._loops = compiled()
        self._read = self._clean = -1
        self._before, self._touched = 0, list[int]()
        self._axis: slices.Axis | None = None
        self._copy_all(world)

    def refresh(self, world: World) -> None:
        """Start again from the World: copy what changed there, and what was tried here."""
        changed = world.changes.since(self._read) if world is self.world else None
        if changed is None or world.node_count != self.rows or len(self._touched) > TOUCHED_AT_MOST:
            self._copy_all(world)
            return
        self._read = world.changes.end
        self._copy([*self._touched[self._clean :], *changed])
        self._clean = len(self._touched)
        self._copy_books(world)

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
        self.kind_free = self._kind_working()
        self.used = np.zeros_like(self.world.used)
        if self.world.tree.keeps:
            self.below, self.kind_kept = kept(self.world.tree, self.world.guard, self.used)
        self._trees = Trees(self.rows)
        self._before, self._touched = self.version + 1, []
        self._clean = 0

    def fill(self, role: Role, is_ok: I64, scoring: Scoring) -> "Filled":
        """Place all replicas of a role on nodes of the groups that are ok, or none.

        Scores choose the node of a single replica and of each fraction; a gang of whole devices is
        put on the fewest nodes. A room that sweeps packs where scores are asked for: what fits is
        the same, and a single question needs no scores of all nodes.
        """
        if role.profile:
            return Filled(*slices.fill(self, role, is_ok))
        is_few = self.rows <= SWEPT_AT_MOST and scoring.tables is None
        one_by_one = role.count == 1 or _goes_one_by_one(role, scoring)
        if one_by_one and not (is_few or self._sweeps):
            tree = self._trees.of(role, is_ok, scoring)
            if tree is not None:
                return self._fill_by_tree(tree, role, is_ok)
        return self._fill(role, is_ok, scoring.spreads)

    def _fill_by_tree(self, tree: Tree, role: Role, is_ok: I64) -> "Filled":
        placed: list[tuple[int, int, int]] = []
        for _ in range(role.count):
            n = self._fill_one(tree, role, is_ok)
            if n < 0:
                for place in placed:
                    self._move_one(role, *place, 1)
                return Filled(len(placed), ())
            placed.append((n, 1, int(self.out_mask[0])))
        return Filled(role.count, tuple(placed))

    def _fill_one(self, tree: Tree, role: Role, is_ok: I64) -> int:
        nodes, end = self.world.nodes, len(self._touched)
        is_new = tree.read < 0 or end - tree.read > self.rows
        which = _NONE if is_new or tree.read == end else self._touched_since(tree)
        tree.read = end
        scores = tree.scoring.tables
        if scores is None:
            n: int = self._loops.fill_one(
                tree.rank, tree.winner, which, is_new, nodes.state, nodes.is_spare, nodes.group,
                nodes.first_device, nodes.devices, self.world.devices.is_failed, is_ok,
                self.cpu_free, self.memory_free, self.node_free, self.device_free, self.rows,
                role.accelerators, role.milli, role.cpu_milli, role.memory_mib,
                tree.scoring.spreads, self.out_mask,
            )  # fmt: skip
        else:
            n = compiled_scores().fill_one_loose(
                tree.rank, tree.winner, tree.is_exact, which, is_new, nodes.state, nodes.is_spare,
                nodes.group, nodes.kind, nodes.first_device, nodes.devices,
                self.world.devices.is_failed, is_ok, nodes.cpu_milli, self.cpu_free,
                self.memory_free, self.node_free, self.device_free, self._changed,
                self._trees.wasted(tree.scoring), self.rows, role.accelerators, role.milli,
                role.cpu_milli, role.memory_mib, self.out_mask, *scores,
            )  # fmt: skip
        if n >= 0:
            self._touched.append(n)
            self._changed[n] += 1
        return n

    def _touched_since(self, tree: Tree) -> I64:
        touched = self._touched[tree.read :]
        return np.array(touched if len(touched) < 2 else list(dict.fromkeys(touched)))

    def _fill(self, role: Role, is_ok: I64, spreads: bool) -> "Filled":
        world, nodes = self.world, self.world.nodes
        if role.count > len(self.out_node):
            self._allocate_out(role.count)
        found = self._loops.fill(
            nodes.state, nodes.is_spare, nodes.group, nodes.first_device, nodes.devices,
            world.devices.is_failed, is_ok, self.cpu_free, self.memory_free, self.node_free,
            self.device_free, self.rows, role.accelerators, role.milli, role.cpu_milli,
            role.memory_mib, role.count, spreads, self.hosts, self.out_node, self.out_replicas,
            self.out_mask,
        )  # fmt: skip
        if found < 0:
            return Filled(-found - 1, ())
        self._touched += self.out_node[:found].tolist()
        self._changed[self.out_node[:found]] += 1
        return Filled(role.count, self._placed(found))

    def sweep(self, role: Role, is_ok: I64, *, spreads: bool) -> "Filled":
        """As ``fill`` without scores, by one sweep over the nodes: for a room that is not kept."""
        return self._fill(role, is_ok, spreads)

    @property
    def version(self) -> int:
        """Another number whenever something in the room was taken or given since it was copied."""
        return self._before + len(self._touched)

    @property
    def columns(self) -> tuple[I64, I64, I64, I64]:
        """What is free: CPU, memory and accelerators of nodes, and each device."""
        return self.cpu_free, self.memory_free, self.node_free, self.device_free

    def touch(self, nodes: I64) -> None:
        """Note that others wrote into the columns of these nodes."""
        self._touched += nodes.tolist()
        self._changed[nodes] += 1

    @property
    def axis(self) -> slices.Axis:
        """The devices with their nodes and kinds."""
        if self._axis is None:
            self._axis = slices.axis(self.world)
        return self._axis

    def together(self, options: tuple[Option, ...]) -> I64:
        """The groups of several options as one array; the same one every time."""
        key = tuple(id(option.is_ok) for option in options)
        if key not in self._together:
            self._together[key] = (eligible.merged(self.world, options), options)
        return self._together[key][0]

    def count_hosts(self, role: Role, is_ok: I64) -> int:
        """How many replicas of a role would fit."""
        if role.profile:
            return slices.count(self, role, is_ok)
        world, nodes = self.world, self.world.nodes
        total: int = self._loops.count_hosts(
            nodes.state, nodes.is_spare, nodes.group, nodes.first_device, nodes.devices,
            world.devices.is_failed, is_ok, self.cpu_free, self.memory_free, self.node_free,
            self.device_free, self.rows, role.accelerators, role.milli, role.cpu_milli,
            role.memory_mib, self.hosts,
        )  # fmt: skip
        return total

    def book(self, q: int, shape: Shape, pieces: tuple[Piece, ...], sign: int) -> None:
        """Count pieces as used (1) or not used any more (-1) by a team."""
        kinds = self.world.nodes.kind
        for piece in pieces:
            k = int(kinds[piece.node])
            milli = sign * piece.replicas * shape.roles[piece.role].replica_milli
            if self.is_open[piece.node]:  # what leaves a closed node is free to nobody
                self.kind_free[k] -= milli
            shares.move(self.world, self, q, k, milli)

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
        for piece in pieces:
            role = shape.roles[piece.role]
            if piece.slices:
                d = self.world.nodes.first_device.item(piece.node) + piece.devices.bit_length() - 1
                self.slide(role, piece.node, d, piece.slices, sign)
            else:
                self._move_one(role, piece.node, piece.replicas, piece.devices, sign)

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
        self._has_slices = True
        self._touched.append(n)
        self._changed[n] += 1

    def _move_one(self, role: Role, n: int, replicas: int, devices: int, sign: int) -> None:
        self._loops.give(
            n, replicas, np.uint64(devices), role.accelerators, role.milli, role.cpu_milli,
            role.memory_mib, self.world.nodes.first_device, self.cpu_free, self.memory_free,
            self.node_free, self.device_free, sign,
        )  # fmt: skip
        self._touched.append(n)
        self._changed[n] += 1

    def _placed(self, count: int) -> tuple[tuple[int, int, int], ...]:
        if count == 1:
            return ((int(self.out_node[0]), int(self.out_replicas[0]), int(self.out_mask[0])),)
        columns = (self.out_node[:count], self.out_replicas[:count], self.out_mask[:count])
        return tuple(zip(*(column.tolist() for column in columns), strict=True))

    def _copy_all(self, world: World) -> None:
        rows, devices = world.node_count, world.device_count
        self._allocate(rows, devices)
        self.world = world
        np.copyto(self.cpu_free, world.nodes.cpu_free_milli[:rows])
        np.copyto(self.memory_free, world.nodes.memory_free_mib[:rows])
        np.copyto(self.node_free, world.nodes.free_milli[:rows])
        np.copyto(self.device_free, world.devices.free_milli[:devices])
        np.copyto(self.slices, world.devices.slices[:devices])
        self._has_slices = world.sliced > 0
        self._axis = None
        self._read_open()
        self._copy_books(world)
        self._read, self._clean = world.changes.end, 0
        self._before, self._touched = self.version + 1, []
        self._changed: I64 = np.zeros(rows, np.int64)
        """How often each node was touched."""
        self._trees = Trees(rows)
        self._together: dict[tuple[int, ...], tuple[I64, tuple[Option, ...]]] = {}

    def _read_open(self) -> None:
        """Which nodes take work now."""
        nodes, rows = self.world.nodes, self.rows
        is_ready = nodes.state[:rows] == NodeState.READY
        np.copyto(self.is_open, is_ready & (nodes.is_spare[:rows] == 0))

    def _copy_books(self, world: World) -> None:
        self.kind_free = world.kind_free_milli.copy()
        self.used = world.used.copy()
        self.below, self.kind_kept = world.below, world.kind_kept
        if world.tree.keeps:
            self.below, self.kind_kept = world.below.copy(), world.kind_kept.copy()

    def _kind_working(self) -> I64:
        """What works of each kind on nodes that take work; no bound where nobody keeps any back."""
        world = self.world
        if not world.tree.keeps:
            return np.full(len(world.kinds), FOREVER_MS, np.int64)
        sums, is_open = np.zeros(len(world.kinds), np.int64), self.is_open
        np.add.at(sums, world.nodes.kind[: self.rows][is_open], self.node_free[is_open])
        return sums

    def _copy(self, which: list[int]) -> None:
        """Copy these nodes; note those that were different."""
        if not which:
            return
        nodes, devices = self.world.nodes, self.world.devices
        if self._has_slices or self.world.sliced:
            for n in which:
                first = nodes.first_device.item(n)
                mine = slice(first, first + nodes.devices.item(n))
                self.slices[mine] = devices.slices[mine]
            self._has_slices = self.world.sliced > 0
        found = np.array(which)
        count = self._loops.copy_nodes(
            found, len(which), nodes.first_device, nodes.devices, nodes.state, nodes.is_spare,
            nodes.cpu_free_milli, nodes.memory_free_mib, nodes.free_milli, devices.free_milli,
            self.is_open, self.cpu_free, self.memory_free, self.node_free, self.device_free,
        )  # fmt: skip
        self._touched += found[:count].tolist()
        self._changed[found[:count]] += 1

    def _allocate(self, rows: int, devices: int) -> None:
        self.rows, self.devices = rows, devices
        self.is_open = np.zeros(rows, np.bool_)
        self.cpu_free: I64 = np.zeros(rows, np.int64)
        self.memory_free: I64 = np.zeros(rows, np.int64)
        self.node_free: I64 = np.zeros(rows, np.int64)
        self.device_free = np.zeros(devices, np.int64)
        self.slices = np.zeros(devices, np.int64)
        self.hosts: I64 = np.zeros(rows, np.int64)
        self._allocate_out(64)

    def _allocate_out(self, replicas: int) -> None:
        self.out_node = np.zeros(replicas, np.int64)
        self.out_replicas = np.zeros(replicas, np.int64)
        self.out_mask = np.zeros(replicas, np.uint64)


class Filled(NamedTuple):
    """What ``fill`` did: how many replicas fit, and (node, replicas, mask) of each piece.

    Of an instance also its slices.
    """

    hosted: int
    placed: tuple[tuple[int, ...], ...]


def compiled() -> ModuleType:
    """The kernels of placement; loaded when the first room is made."""
    from tidemill.scheduling import kernels  # noqa: PLC0415 - a cold process may do without it

    return kernels


@cache
def compiled_scores() -> ModuleType:
    """The kernels of scores; loaded when a policy first asks for them."""
    from tidemill.scheduling.scores import kernels  # noqa: PLC0415 - as above

    return kernels


def _goes_one_by_one(role: Role, scoring: Scoring) -> bool:
    """Whether every replica of a gang is placed by its own score."""
    return scoring.tables is not None and role.milli < WHOLE_MILLI
