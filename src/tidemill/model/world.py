"""The World: everything that is known now, as folded from the journal.

All that changes often is in one set of matrices (``columns.State``), which only the fold writes,
through ``world.ink``. The core reads sealed views of it by name (``world.jobs``, ``world.nodes``,
…), the chains in it as sequences (``views``), and plain containers for what is rare. Three things
are kept up to date beside the rows so that nobody scans the fleet to know them: the accelerator
levels of each contract, the free accelerators of each kind, and the use of each team.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tidemill.model import history, paging, tables
from tidemill.model.admission import NO_ADMISSION, Admission
from tidemill.model.claim_sharers import ClaimSharer
from tidemill.model.columns import (
    AT,
    CONTRACT,
    DEVICE,
    JOB,
    KIND,
    MEASURED,
    MIG_STATES,
    NODE,
    PIECE,
    QUEUE,
    QUOTA,
    ROLE,
    SHAPE,
    State,
)
from tidemill.model.job_names import JobNames, Texts
from tidemill.model.quota_use import QuotaUse
from tidemill.model.reasons import Cause
from tidemill.model.rows import Contract, Node, Piece, Queue, Shape
from tidemill.model.site_rules import NO_RULES, SiteRules
from tidemill.model.states import JobState, Level
from tidemill.model.tables import I64, Contracts, Devices, Jobs, Nodes, Shapes
from tidemill.model.topology import UNDECLARED
from tidemill.model.tree import Tree
from tidemill.model.views import (
    Aboard,
    Active,
    IdleJobs,
    LeavingJobs,
    Placements,
    PromisedShapes,
    Queued,
    Waiting,
)


def is_among(node: str, prefix: str) -> bool:
    """Whether a node is one of those that nobody watches by this word (``SightLost``)."""
    return node == prefix or (prefix.endswith("/") and node.startswith(prefix))


PAST_BITS = 20
"""Binary places of a decayed mean of milli: 100,000 accelerators still fit in 64 bits."""


class Group(NamedTuple):
    """Nodes that no constraint can tell apart: same kind, pool, labels and taints."""

    kind: int
    pool: str
    labels: frozenset[tuple[str, str]]
    taints: frozenset[tuple[str, str]] = frozenset()


class Domain(NamedTuple):
    """One part of a tier: nodes of one label value inside a domain of the tier around it.

    A node without the label is an island, a domain of its own (``island``: its number, else -1).
    """

    parent: int
    value: str
    island: int


class Changes:
    """Which nodes changed, in order: a copy that knows how far it read needs no full look.

    Bounded: old entries are written over, and whoever had not read them yet must look at
    everything.
    """

    __slots__ = ("_world",)
    KEPT = 1 << 16

    def __init__(self, world: "World") -> None:
        self._world = world

    @property
    def end(self) -> int:
        """The position after the last entry."""
        return self._world.ink.w.at.item(AT.LOGGED)

    def add(self, n: int) -> None:
        """Note that a node changed."""
        w = self._world.ink.w
        w.log[w.at[AT.LOGGED] % self.KEPT] = n
        w.at[AT.LOGGED] += 1

    def forget(self) -> None:
        """Much has changed: everybody must look at everything."""
        at = self._world.ink.w.at
        at[AT.LOGGED] += 1
        at[AT.LOG_FIRST] = at[AT.LOGGED]

    def are_known_since(self, position: int) -> bool:
        """Whether all changes since a position are still known."""
        first = self._world.ink.w.at.item(AT.LOG_FIRST)
        return bool(position >= first and self.end - position <= self.KEPT)


class SeenReason(NamedTuple):
    """What another scheduler said of a waiting job, after so many attempts."""

    attempt: int
    cause: int
    layer: int
    words: str
    held_ms: int = 0
    """Of one that is held: since when."""


class Move(NamedTuple):
    """A running job that changes its place: pieces it holds already, and those it will leave."""

    gained: tuple[Piece, ...]
    lost: tuple[Piece, ...]
    keeps_work: bool
    """A resize loses nothing; a move to another place loses what was not saved."""


Paces = tuple[tuple[int, int], ...]
"""Since when, and by how many ppm longer each step takes beside others; in order of time."""


def _blank() -> State:
    """A state in which nothing is known."""
    rows = {
        "jobs": (64, len(JOB)),
        "shapes": (64, len(SHAPE)),
        "roles": (64, len(ROLE)),
        "nodes": (64, len(NODE)),
        "devices": (512, len(DEVICE)),
        "contracts": (8, len(CONTRACT)),
        "levels": (8, len(Level)),
        "kinds": (0, len(KIND)),
        "queues": (0, len(QUEUE)),
        "quotas": (0, 0, len(QUOTA)),
        "pieces": (0, len(PIECE)),
        "queued": (64,),
        "active": (64,),
        "log": (Changes.KEPT,),
        "position": (0, 64),
        "blocks": (0,),
        "slices": (0, 2 * MIG_STATES),
        "run_times": (0, history.SIZES, history.STEPS),
        "ratios": (0, history.STEPS),
        "found": (64, len(PIECE)),
    }
    state = State(
        np.zeros(len(AT), np.int64), *(np.zeros(size, np.int64) for size in rows.values())
    )
    state.at[AT.FREE_PIECE] = -1
    return state


class Ink:
    """The writable side of the state. ``engine.fold`` alone may use it."""

    __slots__ = (
        "_shown", "contracts", "devices", "jobs", "lent", "nodes", "parent", "shapes", "w",
    )  # fmt: skip

    def __init__(self, state: State | None = None, lent: Mapping[str, I64] | None = None) -> None:
        self.parent: I64 = np.zeros((0, 64), np.int64)
        self._shown: dict[type[Any], tuple[Any, Any]] = {}
        self.lent = lent or {}
        """The matrices that are another World's, by name: to be read alone, and so in ``w``.
        (Kernels that only read take them as they are: a read-only array is another type.)"""
        self.renew(state or _blank())

    def renew(self, state: State) -> None:
        """Other matrices: one of them has grown. ``World.seal`` must follow."""
        before: State | None = getattr(self, "w", None)
        self.w = state
        if before is None or before.jobs is not state.jobs:
            self.jobs = tables.of_matrix(Jobs, state.jobs)
        if before is None or before.nodes is not state.nodes:
            self.nodes = tables.of_matrix(Nodes, state.nodes)
        if before is None or before.devices is not state.devices:
            self.devices = tables.of_matrix(Devices, state.devices)
        if before is None or before.contracts is not state.contracts:
            self.contracts = tables.of_matrix(Contracts, state.contracts)
        if before is None or before.shapes is not state.shapes:
            self.shapes = tables.of_matrix(Shapes, state.shapes)

    def shown(self, table: tables.Table) -> tables.Table:
        """One of these tables to read; the same as before if it has not grown."""
        of, shown = self._shown.get(type(table), (None, None))
        if of is not table or shown is None:
            shown = tables.sealed(table)
            self._shown[type(table)] = table, shown
        found: tables.Table = shown
        return found


FULL = "takes no more "
"""How words begin that are said of a node that is in order and takes nothing more for now."""


class World:
    """All that is known, at ``now_ms``, after ``seq`` events."""

    scheduler: str = ""
    """The name under which a scheduler of ours decides on this live cluster; "": none does."""
    is_live: bool = False
    """Whether a real cluster told the events, on which another scheduler decides."""
    kept: frozenset[int] = frozenset()
    """Jobs that their cluster lets nobody stop for another now (a disruption budget)."""
    keepers: Mapping[int, str] = MappingProxyType({})
    """By such a job: what keeps it, in words; none: nobody said."""
    cluster_kinds: Mapping[str, str] = MappingProxyType({})
    """By cluster (of one: ""), which kind it is: `kubernetes` or `slurm`; none: nobody said."""
    rules_of: Mapping[str, str] = MappingProxyType({})
    """Where the policy of a scheduler of ours is: `file` or `object` by its name."""
    site: SiteRules = NO_RULES
    """For whom its cluster keeps nodes, and what its partitions allow."""
    quota_use: tuple[QuotaUse, ...] = ()
    """What of quotas is used up, where their cluster counts work that waits too."""
    claim_sharers: tuple[ClaimSharer, ...] = ()
    """Pods that share the claims (DRA) of jobs, and are none themselves."""

    admission: Admission = NO_ADMISSION
    """By which queues and quotas another scheduler lets work in, whatever teams are."""

    def __init__(self) -> None:
        self.now_ms, self.seq, self.device_count, self.shape_count = 0, 0, 0, 0
        self.job_names = JobNames()
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
        """Labels of tiers, or declared unasked, that no job asks for: groups leave them out."""
        self.shape_rows: list[Shape] = []  # after ``shape_count``: no job came yet, they are next
        self.shape_number: dict[Shape, int] = {}
        self.paces: dict[int, Paces] = {}
        """Running jobs that neighbours on their devices slow, or slowed since they came up."""
        self.reasons: dict[int, SeenReason] = {}
        """What other schedulers said of waiting jobs; ``reason_of`` knows if it still holds."""
        self.node_words: dict[int, str] = {}
        """Why nodes are out, as their own cluster says; for answers, and in no event."""
        self.moving: dict[int, Move] = {}
        """Jobs asked to move, grow or shrink that were not yet seen to have done so."""
        self.request_changes = 0
        """How often waiting jobs came to request something else."""
        self.share_changes = 0
        """How often the shares of teams changed."""
        self.unseen = frozenset[str]()
        """With which the names of nodes begin that nobody watches."""
        self.mix_point = 0
        """How many jobs had arrived at the last look at the mix."""
        self.mix_changes = 0
        """How often the mix was looked at: the tables of placement policies are made anew."""
        self.mix_free_milli = 0
        """What was free at the last look at the mix."""
        self.mix_turnover_ppm = 0
        """Of the jobs of late that were placed, how many had left again, as of some look."""
        self.ink = Ink()
        self.bind()
        self.seal()

    def bind(self) -> None:
        """Make the views of this World its own; needed again for a copy."""
        self.queued: Collection[int] = Queued(self)
        """Shapes that have a waiting job."""
        self.waiting = Waiting(self)
        """Waiting jobs of each shape, oldest first."""
        self.placements = Placements(self)
        """Where each active job sits."""
        self.aboard = Aboard(self)
        """Active jobs of each node."""
        self.active = Active(self)
        """Active jobs of each shape."""
        self.idle = IdleJobs(self)
        """Running jobs that do nothing, and since when."""
        self.leaving_for = LeavingJobs(self)
        """Jobs asked to leave, and for which shape (-1: for nobody)."""
        self.promised = PromisedShapes(self)
        """Shapes that room is being made for, and how many evictions are still to be seen."""
        self.changes = Changes(self)
        """Nodes changed of late; a hint for whoever keeps a copy, no part of the state."""

    def grow(self, **rows: int) -> None:
        """Make room for this many rows in some tables."""
        w = self.ink.w
        self.renew(**{name: tables.grown(getattr(w, name), count) for name, count in rows.items()})

    def renew(self, **matrices: I64) -> None:
        """Take other matrices in place of these."""
        self.ink.renew(self.ink.w._replace(**matrices))
        self.seal()

    def seal(self) -> None:
        """Show the core read-only views of the columns; needed again after they grew."""
        ink, w = self.ink, self.ink.w
        self.jobs = ink.shown(ink.jobs)
        self.nodes = ink.shown(ink.nodes)
        self.devices = ink.shown(ink.devices)
        self.contracts = ink.shown(ink.contracts)
        self.shapes = ink.shown(ink.shapes)
        sealed = tables.sealed_array
        self.levels: I64 = sealed(w.levels)
        self.used: I64 = sealed(w.quotas[:, :, QUOTA.USED])
        self.floor: I64 = sealed(w.quotas[:, :, QUOTA.FLOOR])
        self.limit: I64 = sealed(w.quotas[:, :, QUOTA.LIMIT])
        self.guard: I64 = sealed(w.quotas[:, :, QUOTA.GUARD])
        self.below: I64 = sealed(w.quotas[:, :, QUOTA.BELOW])
        """What the queues below each one keep back of what is free."""
        self.past: I64 = sealed(w.quotas[:, :, QUOTA.PAST])
        """The decayed mean of what queues used above their floors, as of ``past_ms``."""
        self.past_ms: I64 = sealed(w.queues[:, QUEUE.PAST_MS])
        self.kind_free_milli: I64 = sealed(w.kinds[:, KIND.FREE_MILLI])
        """Free accelerators of each kind on nodes that take new work."""
        self.kind_freed: I64 = sealed(w.kinds[:, KIND.FREED])
        """How often something of this kind became free: what failed before may fit after."""
        self.kind_taken: I64 = sealed(w.kinds[:, KIND.TAKEN])
        """How often something of this kind was taken: there may be new victims since."""
        self.kind_kept: I64 = sealed(w.kinds[:, KIND.KEPT_MILLI])
        """What all queues together keep back of what is free."""
        self.queue_freed: I64 = sealed(w.queues[:, QUEUE.FREED])
        """How often this team, or one below it, gave something back or left; or shares changed."""
        self.ended: I64 = sealed(w.queues[:, QUEUE.ENDED])
        """How many jobs of this team ended after they ran: its history is so long."""
        self.returns: I64 = sealed(w.shapes[:, SHAPE.RETURNS])
        """How often a job of this shape came back to wait: its place in the order may be new."""
        self.position: I64 = sealed(w.position)
        """Tier by node: in which domain a node is, for each tier that goes by a label."""
        self.parent: I64 = sealed(ink.parent)
        """Tier by domain: in which domain of the tier around it a domain is."""
        self.run_times: I64 = sealed(w.run_times)
        """How many jobs of a team and size ran for how long (see ``history``)."""
        self.ratios: I64 = sealed(w.ratios)
        """How many jobs of a team ran for how many millionths of their owner's guess."""

    @property
    def matrices(self) -> State:
        """The columns as kernels take them. For those that only read; the fold alone writes."""
        ink = self.ink
        return ink.w._replace(**ink.lent) if ink.lent else ink.w

    @property
    def supply_changes(self) -> int:
        """How often contracts or nodes changed: supply decisions are looked at again after."""
        return self.ink.w.at.item(AT.SUPPLY_CHANGES)

    @property
    def half_life_ms(self) -> int:
        """How fast past use is forgotten; 0: it is not counted."""
        return self.ink.w.at.item(AT.HALF_LIFE_MS)

    @property
    def lasting_changes(self) -> int:
        """How often a service took or left its place: services do not end by themselves."""
        return self.ink.w.at.item(AT.LASTING_CHANGES)

    @property
    def is_observed(self) -> bool:
        """Whether this is a live cluster: its nodes, and pods of others, are as they were seen."""
        return self.is_live or self.ink.w.at.item(AT.SEEN) > 0 or bool(self.scheduler)

    @property
    def is_looked_on(self) -> bool:
        """Whether another scheduler decides here: causes and starts are not ours to say."""
        return self.is_observed and not self.scheduler

    def is_unseen(self, node: str) -> bool:
        """Whether nobody watches a node of this name."""
        return any(is_among(node, prefix) for prefix in self.unseen)

    def queue_of(self, shape: Shape) -> int:
        """The queue whose quota counts a shape: the one that admits it, if it is one here; or its
        team's.
        """
        q = self.queue_number.get(shape.quota)
        return self.queue_number[shape.team] if q is None else q

    def reason_of(self, j: int) -> SeenReason | None:
        """Why another scheduler says that a job waits, if it said so in this wait."""
        found = self.reasons.get(j)
        waits = self.jobs.state.item(j) in (JobState.WAITING, JobState.STARTING)
        is_of_now = self.ink.w.jobs.item(j, JOB.SAID) != 0
        return found if waits and is_of_now else None

    def is_held(self, j: int) -> bool:
        """Whether another scheduler says that a job waits for something else than GPUs now."""
        found = self.reason_of(j)
        is_said = found is not None and found.cause == Cause.NOT_ELIGIBLE
        return is_said or self.shapes.cause.item(self.jobs.shape.item(j)) == Cause.NOT_ELIGIBLE

    def is_full(self, n: int) -> bool:
        """Whether a node is in order and takes nothing more for now, whatever is free there."""
        return self.node_words.get(n, "").startswith(FULL)

    def is_full_too(self, n: int) -> bool:
        """Whether a node that is cordoned would take nothing more if it were not."""
        return FULL in self.node_words.get(n, "") and not self.is_full(n)

    def is_tainted(self, n: int) -> bool:
        """Whether a node is out for a taint that its cluster set, and nobody cordoned it."""
        return self.node_words.get(n, "").startswith("tainted ")

    def asking(self, s: int) -> list[int]:
        """The waiting jobs of a shape that GPUs would start, oldest first."""
        if not self.reasons and self.shapes.cause.item(s) != Cause.NOT_ELIGIBLE:
            return [*self.waiting[s]]
        return [j for j in self.waiting[s] if not self.is_held(j)]

    @property
    def sliced(self) -> int:
        """How many devices carry MIG instances."""
        return self.ink.w.at.item(AT.SLICED)

    @property
    def job_number(self) -> Mapping[str, int]:
        """The numbers of jobs by their names."""
        return self.job_names.numbers

    @property
    def job_users(self) -> Texts:
        """Who submitted each job; "": nobody said."""
        return self.job_names.users

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

    def next_waiting(self, j: int) -> int:
        """The waiting job of the same shape that comes after this one; -1: there is none."""
        return self.ink.w.jobs.item(j, JOB.NEXT)

    def paid_milli(self, c: int) -> int:
        """Accelerators paid for under this contract now."""
        if not self.contracts.is_running[c]:
            return 0
        contracts = self.contracts
        return max(int(contracts.committed_milli[c]), int(contracts.launched_milli[c]))

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
            "shapes": (self.shapes, self.shape_count),
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
            "groups": [(g.kind, g.pool, sorted(g.labels), sorted(g.taints)) for g in self.groups],
            "topology": self.topology,
            "domains": self.domains,
            "hidden_labels": self.hidden_labels,
            "position": self.position[:, : self.node_count if self.domains else 0],
            "shape_rows": self.shape_rows[: self.shape_count],
            "waiting": [list(jobs) for jobs in self.waiting],
            "placements": sorted(self.placements.items()),
            "idle": sorted(self.idle.items()),
            "paces": sorted(self.paces.items()),
            "promised": sorted(self.promised.items()),
            "leaving_for": sorted(self.leaving_for.items()),
            "moving": sorted(self.moving.items()),
            "kind_free_milli": self.kind_free_milli,
            "kind_freed": self.kind_freed,
            "kind_taken": self.kind_taken,
            "queue_freed": self.queue_freed,
            "returns": self.returns[: self.shape_count],
            "ended": self.ended,
            "lasting_changes": self.lasting_changes,
            "share_changes": self.share_changes,
            "supply_changes": self.supply_changes,
            "mix_point": self.mix_point,
            "mix_changes": self.mix_changes,
            "mix_free_milli": self.mix_free_milli,
            "mix_turnover_ppm": self.mix_turnover_ppm,
            "sliced": self.sliced,
            "levels": self.levels[: self.contract_count, : Level.UNSEEN],
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
        said = [(j, found) for j in sorted(self.reasons) if (found := self.reason_of(j))]
        if self.ink.w.at.item(AT.SEEN) or said:
            state["observed"] = (self.ink.w.at.item(AT.SEEN), self._told([JOB.OVER_MILLI]), said)
        if races := self._told([JOB.RACES]):
            state["races"] = races
        if self.unseen:
            free = self.levels[: self.contract_count, Level.UNSEEN]
            state["unseen"] = (sorted(self.unseen), free)
        measured = self._told(MEASURED)
        if measured or self.ink.w.at[AT.BLIND]:
            state["measured"] = (self.ink.w.at.item(AT.BLIND), measured)
        return state

    def _told(self, columns: list[JOB]) -> list[tuple[int, ...]]:
        """The jobs that have anything in some columns, with what they have there."""
        found = list[tuple[int, ...]]()
        for some in paging.stretches(self.job_count):
            told = self.ink.w.jobs[some, columns]
            for i in np.flatnonzero(told.any(axis=1)).tolist():
                found.append((some.start + i, *told[i].tolist()))
        return found
