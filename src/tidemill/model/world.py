"""The World: everything that is known now, as folded from the journal.

The core reads the sealed tables (``world.jobs``, ``world.nodes``, …) and the plain containers; only
``engine.fold`` writes, through ``world.ink``. Three things are kept up to date beside the rows so
that nobody scans the fleet to know them: the accelerator levels of each contract, the free
accelerators of each kind, and the use of each team.
"""

from collections import deque
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from tidemill.model import history, tables
from tidemill.model.rows import Contract, Node, Piece, Queue, Shape
from tidemill.model.tables import I32, I64
from tidemill.model.topology import UNDECLARED
from tidemill.model.tree import Tree

PAST_BITS = 20
"""Binary places of a decayed mean of milli: 100,000 accelerators still fit in 64 bits."""


class Level(IntEnum):
    """Where a launched accelerator of a contract is; each is in exactly one of these."""

    ALLOCATED = 0
    READY = 1
    SPARE = 2
    BOOTING = 3
    UNHEALTHY = 4
    CORDONED = 5
    DRAINING = 6
    REPAIRING = 7
    FAILED = 8
    STRANDED = 9


class Group(NamedTuple):
    """Nodes that no constraint can tell apart: same kind, pool and labels."""

    kind: int
    pool: str
    labels: frozenset[tuple[str, str]]


class Domain(NamedTuple):
    """One part of a tier: nodes of one label value inside a domain of the tier around it.

    A node without the label is an island, a domain of its own (``island``: its number, else -1).
    """

    parent: int
    value: str
    island: int


class Changes:
    """Which nodes changed, in order: a copy that knows how far it read needs no full look.

    Bounded: old entries are dropped, and whoever had not read them yet must look at everything.
    """

    __slots__ = ("first", "nodes")
    KEPT = 1 << 16

    def __init__(self) -> None:
        self.first = 0
        self.nodes: list[int] = []

    @property
    def end(self) -> int:
        """The position after the last entry."""
        return self.first + len(self.nodes)

    def add(self, n: int) -> None:
        """Note that a node changed."""
        self.nodes.append(n)
        if len(self.nodes) > 2 * self.KEPT:
            del self.nodes[: self.KEPT]
            self.first += self.KEPT

    def forget(self) -> None:
        """Much has changed: everybody must look at everything."""
        self.first, self.nodes = self.end + 1, []

    def since(self, position: int) -> list[int] | None:
        """The nodes changed since a position; None: too long ago to know."""
        return self.nodes[position - self.first :] if position >= self.first else None


class Move(NamedTuple):
    """A running job that changes its place: pieces it holds already, and those it will leave."""

    gained: tuple[Piece, ...]
    lost: tuple[Piece, ...]
    keeps_work: bool
    """A resize loses nothing; a move to another place loses what was not saved."""


Paces = tuple[tuple[int, int], ...]
"""Since when, and by how many ppm longer each step takes beside others; in order of time."""


class Ink:
    """The writable side of the World's columns. ``engine.fold`` alone may use it."""

    __slots__ = (
        "below", "contracts", "devices", "floor", "guard", "jobs", "kind_kept", "levels", "limit",
        "nodes", "parent", "past", "past_ms", "position", "ratios", "run_times", "shapes", "used",
    )  # fmt: skip

    def __init__(self) -> None:
        self.jobs = tables.empty(tables.Jobs, 64)
        self.nodes = tables.empty(tables.Nodes, 64)
        self.devices = tables.empty(tables.Devices, 512)
        self.contracts = tables.empty(tables.Contracts, 8)
        self.shapes = tables.empty(tables.Shapes, 64)
        self.levels: I64 = np.zeros((8, len(Level)), np.int64)
        self.used: I64 = np.zeros((0, 0), np.int64)
        self.floor: I64 = np.zeros((0, 0), np.int64)
        self.limit: I64 = np.zeros((0, 0), np.int64)
        self.guard: I64 = np.zeros((0, 0), np.int64)
        self.below: I64 = np.zeros((0, 0), np.int64)
        self.kind_kept: I64 = np.zeros(0, np.int64)
        self.past: I64 = np.zeros((0, 0), np.int64)
        self.past_ms: I64 = np.zeros(0, np.int64)
        self.position: I32 = np.zeros((0, 64), np.int32)
        self.parent: I32 = np.zeros((0, 64), np.int32)
        self.run_times: I32 = np.zeros((0, history.SIZES, history.STEPS), np.int32)
        self.ratios: I32 = np.zeros((0, history.STEPS), np.int32)


class World:
    """All that is known, at ``now_ms``, after ``seq`` events."""

    def __init__(self) -> None:  # noqa: PLR0915 - the World is made of this many things
        self.now_ms = 0
        self.seq = 0
        self.job_names: list[str] = []
        self.job_users: list[str] = []
        """Who submitted each job; "": nobody said."""
        self.job_number: dict[str, int] = {}
        self.node_rows: list[Node] = []
        self.node_number: dict[str, int] = {}
        self.contract_rows: list[Contract] = []
        self.contract_number: dict[str, int] = {}
        self.queue_rows: list[Queue] = []
        self.queue_number: dict[str, int] = {}
        self.tree = Tree()
        """Who is above whom among the queues."""
        self.kinds: list[str] = []
        self.kind_number: dict[str, int] = {}
        self.groups: list[Group] = []
        self.group_number: dict[Group, int] = {}
        self.topology = UNDECLARED
        self.domains: list[list[Domain]] = []
        """The domains of each tier that goes by a label, in the order in which they appeared."""
        self.domain_number: list[dict[Domain, int]] = []
        self.hidden_labels: tuple[str, ...] = ()
        """Labels that say where a node is and that no job asks for: groups leave them out."""
        self.shape_rows: list[Shape] = []
        self.shape_number: dict[Shape, int] = {}
        self.waiting: list[deque[int]] = []
        """Waiting jobs of each shape, oldest first."""
        self.queued: dict[int, None] = {}
        """Shapes that have a waiting job."""
        self.placements: dict[int, tuple[Piece, ...]] = {}
        """Where each active job sits."""
        self.aboard: list[dict[int, None]] = []
        """Active jobs of each node."""
        self.active: list[dict[int, None]] = []
        """Active jobs of each shape."""
        self.idle: dict[int, int] = {}
        """Running jobs that do nothing, and since when."""
        self.paces: dict[int, Paces] = {}
        """Running jobs that neighbours on their devices slow, or slowed since they came up."""
        self.promised: dict[int, int] = {}
        """Shapes that room is being made for, and how many evictions are still to be seen."""
        self.leaving_for: dict[int, int] = {}
        """Jobs asked to leave, and for which shape (-1: for nobody)."""
        self.moving: dict[int, Move] = {}
        """Jobs asked to move, grow or shrink that were not yet seen to have done so."""
        self.kind_free_milli: list[int] = []
        """Free accelerators of each kind on nodes that take new work."""
        self.kind_freed: list[int] = []
        """How often something of this kind became free: what failed before may fit after."""
        self.kind_taken: list[int] = []
        """How often something of this kind was taken: there may be new victims since."""
        self.queue_freed: list[int] = []
        """How often this team, or one below it, gave something back or left; or shares changed."""
        self.returns: list[int] = []
        """How often a job of this shape came back to wait: its place in the order may be new."""
        self.ended: list[int] = []
        """How many jobs of this team ended after they ran: its history is so long."""
        self.lasting_changes = 0
        """How often a service took or left its place: services do not end by themselves."""
        self.share_changes = 0
        """How often the shares of teams changed."""
        self.half_life_ms = 0
        """How fast past use is forgotten; 0: it is not counted."""
        self.supply_changes = 0
        """How often contracts or nodes changed: supply decisions are looked at again after."""
        self.mix_point = 0
        """How many jobs had arrived at the last look at the mix."""
        self.mix_changes = 0
        """How often the mix was looked at: the tables of placement policies are made anew."""
        self.mix_free_milli = 0
        """What was free at the last look at the mix."""
        self.mix_turnover_ppm = 0
        """Of the jobs of late that were placed, how many had left again, as of some look."""
        self.device_count = 0
        self.sliced = 0
        """How many devices carry MIG instances."""
        self.changes = Changes()
        """Nodes changed of late; a hint for whoever keeps a copy, no part of the state."""
        self.ink = Ink()
        self.seal()

    def seal(self) -> None:
        """Show the core read-only views of the columns; needed again after they grew."""
        ink = self.ink
        self.jobs = tables.sealed(ink.jobs)
        self.nodes = tables.sealed(ink.nodes)
        self.devices = tables.sealed(ink.devices)
        self.contracts = tables.sealed(ink.contracts)
        self.shapes = tables.sealed(ink.shapes)
        self.levels: I64 = tables.sealed_array(ink.levels)
        self.used: I64 = tables.sealed_array(ink.used)
        self.floor: I64 = tables.sealed_array(ink.floor)
        self.limit: I64 = tables.sealed_array(ink.limit)
        self.guard: I64 = tables.sealed_array(ink.guard)
        self.below: I64 = tables.sealed_array(ink.below)
        """What the queues below each one keep back of what is free."""
        self.kind_kept: I64 = tables.sealed_array(ink.kind_kept)
        """What all queues together keep back of what is free."""
        self.past: I64 = tables.sealed_array(ink.past)
        """The decayed mean of what queues used above their floors, as of ``past_ms``."""
        self.past_ms: I64 = tables.sealed_array(ink.past_ms)
        self.position: I32 = tables.sealed_array(ink.position)
        """Tier by node: in which domain a node is, for each tier that goes by a label."""
        self.parent: I32 = tables.sealed_array(ink.parent)
        """Tier by domain: in which domain of the tier around it a domain is."""
        self.run_times: I32 = tables.sealed_array(ink.run_times)
        """How many jobs of a team and size ran for how long (see ``history``)."""
        self.ratios: I32 = tables.sealed_array(ink.ratios)
        """How many jobs of a team ran for how many millionths of their owner's guess."""

    @property
    def job_count(self) -> int:
        """How many jobs were ever submitted."""
        return len(self.job_names)

    @property
    def node_count(self) -> int:
        """How many nodes were ever added; those that are gone keep their number."""
        return len(self.node_rows)

    @property
    def contract_count(self) -> int:
        """How many contracts were ever signed."""
        return len(self.contract_rows)

    def paid_milli(self, c: int) -> int:
        """Accelerators paid for under this contract now."""
        if not self.contracts.is_running[c]:
            return 0
        if self.contracts.is_reserved[c]:
            return int(self.contracts.count_milli[c])
        return int(self.contracts.launched_milli[c])

    def shape_of(self, j: int) -> Shape:
        """The shape of a job, as a row."""
        return self.shape_rows[int(self.jobs.shape[j])]

    def state(self) -> dict[str, Any]:
        """Everything the World holds, as plain comparable values (see ``snapshot``)."""
        rows: dict[str, tuple[Any, int]] = {
            "jobs": (self.jobs, self.job_count),
            "nodes": (self.nodes, self.node_count),
            "devices": (self.devices, self.device_count),
            "contracts": (self.contracts, self.contract_count),
            "shapes": (self.shapes, len(self.shape_rows)),
        }
        state: dict[str, Any] = {
            name: {column: getattr(table, column)[:count] for column in table._fields}
            for name, (table, count) in rows.items()
        }
        state |= {
            "now_ms": self.now_ms,
            "seq": self.seq,
            "job_names": self.job_names,
            "job_users": self.job_users,
            "node_rows": self.node_rows,
            "contract_rows": self.contract_rows,
            "queue_rows": self.queue_rows,
            "kinds": self.kinds,
            "groups": [(g.kind, g.pool, sorted(g.labels)) for g in self.groups],
            "topology": self.topology,
            "domains": self.domains,
            "hidden_labels": self.hidden_labels,
            "position": self.position[:, : self.node_count if self.domains else 0],
            "shape_rows": self.shape_rows,
            "waiting": [list(jobs) for jobs in self.waiting],
            "placements": sorted(self.placements.items()),
            "aboard": [sorted(jobs) for jobs in self.aboard],
            "active": [sorted(jobs) for jobs in self.active],
            "idle": sorted(self.idle.items()),
            "paces": sorted(self.paces.items()),
            "promised": sorted(self.promised.items()),
            "leaving_for": sorted(self.leaving_for.items()),
            "moving": sorted(self.moving.items()),
            "kind_free_milli": self.kind_free_milli,
            "kind_freed": self.kind_freed,
            "kind_taken": self.kind_taken,
            "queue_freed": self.queue_freed,
            "returns": self.returns,
            "ended": self.ended,
            "lasting_changes": self.lasting_changes,
            "share_changes": self.share_changes,
            "supply_changes": self.supply_changes,
            "mix_point": self.mix_point,
            "mix_changes": self.mix_changes,
            "mix_free_milli": self.mix_free_milli,
            "mix_turnover_ppm": self.mix_turnover_ppm,
            "sliced": self.sliced,
            "levels": self.levels[: self.contract_count],
            "used": self.used,
            "floor": self.floor,
            "limit": self.limit,
            "guard": self.guard,
            "below": self.below,
            "kind_kept": self.kind_kept,
            "past": self.past,
            "past_ms": self.past_ms,
            "half_life_ms": self.half_life_ms,
            "run_times": self.run_times,
            "ratios": self.ratios,
        }
        return state
