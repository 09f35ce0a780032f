"""What the plan checker knows of rows: GPU types, labels, domains, MIG profiles, who is above whom.

Read off the rows of nodes, contracts, shapes and queues, once each; by names and labels, not by the
groups and positions that the scheduler uses.
"""

import re
from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from tidemill.engine.check.columns import (
    BOND,
    BRANCH,
    END,
    GANG,
    OF,
    ON,
    SUM,
    TAKES,
    UPKEEP,
    WORTHY,
    WRONG,
    YARD,
    Facts,
    Sums,
    View,
    Yard,
)
from tidemill.engine.check.endings import SPARE
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.node_rules import NodeRules
from tidemill.model.rows import Role, Shape
from tidemill.model.states import JobClass
from tidemill.model.tables import I64, grown
from tidemill.model.topology import Bond, Topology
from tidemill.model.world import World

_PROFILE = re.compile(r"(\d)g\.\d+gb(\+me)?")
_WRONGS = 64  # broken promises of one plan, to begin with
Labels = frozenset[tuple[str, str]]
_Look = tuple[Labels, Labels]
"""Labels and taints of a node."""
_Rule = tuple[tuple[str, ...], NodeRules]


class Book:
    """The columns of the checker for one cluster state; they grow as it does."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sums, self.facts = _blank()
        self._yard = Yard(*(np.zeros((0,) * dims, np.int64) for dims in (2, 1, 1, 1, 2, 1, 1)))
        self._looks: dict[_Look, int] = {}
        self._named: set[str] = set()
        """Labels that rules name: nodes look alike whatever the others are."""
        self._rules: dict[_Rule, int] = {}
        self._domains: dict[tuple[str, ...], int] = {}
        self._likes: dict[Shape, int] = {}
        self._topology: Topology | None = None
        self._nodes = self._shapes = self._roles = self._bonds = self._kinds = 0
        self._asked_at = (0, 0, 0)
        self._read_at: tuple[object, ...] = ()
        """What there was when it was read last."""
        self._shared_at = (-1, 0, 0)

    @property
    def view(self) -> View:
        """What the checker reads of the cluster state."""
        w = self.world.matrices
        return View(
            w.at, w.jobs, w.shapes, w.roles, w.nodes, w.devices, w.contracts, w.kinds, w.queues,
            w.quotas, w.pieces, w.queued, w.active, w.run_times, w.ratios, w.log,
        )  # fmt: skip

    def read(self) -> None:
        """Take in what is new; what a plan takes is zero."""
        world = self.world
        stamp = (
            id(world.topology), len(world.node_rows), len(world.shape_rows), len(world.kinds),
            world.share_changes, len(world.queue_rows),
        )  # fmt: skip
        if stamp != self._read_at:
            self._read_rows()
            self._read_at = stamp
        self.make_names(world.job_count)
        reg = self.sums.reg
        reg[SUM.NOW], reg[SUM.WRONGS], reg[SUM.PLACED] = world.now_ms, 0, 0
        reg[SUM.JOBS], reg[SUM.NODES] = world.job_count, world.node_count
        reg[SUM.CONTRACTS], reg[SUM.SHAPES] = world.contract_count, len(world.shape_rows)

    def _read_rows(self) -> None:
        """Read the rows that are new."""
        world, reg = self.world, self.sums.reg
        if world.topology is not self._topology:
            self._topology, self._nodes = world.topology, 0
            self._shapes = self._roles = self._bonds = 0
            reg[SUM.SLICED] = 0
            self._domains.clear()
        self._name_labels()
        if self._nodes < world.node_count:
            self._read_nodes()
        if self._shapes < len(world.shape_rows):
            self._read_shapes()
        if self._kinds < len(world.kinds):
            self._read_kinds()
        if self._asked_at != (len(self._rules), len(self._looks), len(world.kinds)):
            self._ask()
        if self._shared_at != (world.share_changes, len(world.queue_rows), len(world.kinds)):
            self._read_queues()

    def _name_labels(self) -> None:
        """Nodes are read again when a label is named that was left out of how they look."""
        new = self.world.shape_rows[self._shapes :]
        named = {key for shape in new for role in shape.roles for key in role.rules.keys}
        if not named <= self._named:
            is_left_out = not (named - self._named).isdisjoint(self.world.topology.unasked)
            self._named |= named
            self._nodes = 0 if is_left_out else self._nodes

    def make_names(self, jobs: int) -> None:
        """Make room to name so many jobs."""
        if len(self.sums.named) < jobs:
            self.sums = self.sums._replace(named=grown(self.sums.named, jobs))

    def make_wrongs(self, count: int) -> None:
        """Make room for so many broken promises."""
        self.sums = self.sums._replace(wrong=grown(self.sums.wrong, count))

    def yard(self) -> Yard:
        """What would be free at another moment; what is kept of it is lost where it grows."""
        world, was = self.world, self._yard
        sizes = (world.node_count, world.device_count, len(world.kinds), len(world.placements))
        had = (len(was.yard), len(was.yard_free), len(was.hosts), len(was.ends))
        if any(size > have for size, have in zip(sizes, had, strict=True)):
            nodes, devices, _, active = (2 * size for size in sizes)
            self._yard = Yard(
                np.zeros((nodes, len(YARD)), np.int64),
                np.zeros(devices, np.int64),
                np.zeros(len(world.kinds), np.int64),
                np.zeros(len(world.kinds), np.int64),
                np.zeros((2 * active + SPARE, len(END)), np.int64),
                np.zeros(nodes, np.int64),
                np.zeros(len(UPKEEP), np.int64),
            )
        return self._yard

    def _read_nodes(self) -> None:
        world, tiers = self.world, self.world.topology.tiers
        on_node = _with_rows(self.sums.on_node, world.node_count)
        domain, left_out = self.facts.domain, {*world.topology.unasked} - self._named
        if not self._nodes:
            self._looks.clear()
            self._asked_at = (0, 0, 0)
        if domain.shape != (max(1, len(tiers)), len(on_node)):
            domain = np.zeros((max(1, len(tiers)), len(on_node)), np.int64)
            known = self.facts.domain[: len(domain), : self._nodes]  # of fewer tiers, perhaps
            domain[: len(known), : self._nodes] = known
        for n in range(self._nodes, world.node_count):
            row, contract = world.node_rows[n], world.contract_rows[world.nodes.contract.item(n)]
            labels = frozenset(
                pair for pair in (*row.labels, *contract.node.labels) if pair[0] not in left_out
            )
            look = (labels, frozenset((*row.taints, *contract.node.taints)))
            on_node[n, ON.LOOK] = self._looks.setdefault(look, len(self._looks))
            own = {**dict(contract.node.labels), **dict(row.labels)}
            for t in range(len(tiers)):
                values = _domain(world.topology, t, own, n)
                domain[t, n] = self._domains.setdefault(values, len(self._domains))
        self._nodes = world.node_count
        on_device = _with_rows(self.sums.on_device, world.device_count)
        self.sums = self.sums._replace(on_node=on_node, on_device=on_device)
        within = _with_rows(self.facts.within, len(self._domains))
        self.facts = self.facts._replace(domain=domain, within=within)

    def _read_shapes(self) -> None:
        world = self.world
        for s in range(self._shapes, len(world.shape_rows)):
            shape = world.shape_rows[s]
            of_shape = _with_rows(self.facts.of_shape, s + 1)
            is_gang = len(shape.roles) > 1
            of_shape[s, : GANG.REPLICAS] = self._add_bonds(shape.bonds if is_gang else ())
            of_shape[s, GANG.REPLICAS] = _alike(shape)
            of_shape[s, GANG.IS_INTERACTIVE] = shape.kind is JobClass.INTERACTIVE
            of_shape[s, GANG.LIKE] = self._like(shape)
            of_role = _with_rows(self.sums.of_role, self._roles + len(shape.roles))
            for role in shape.roles:
                of_role[self._roles] = self._facts_of(role, () if is_gang else shape.bonds)
                self._roles += 1
                self.sums.reg[SUM.SLICED] += bool(role.profile)
            self.sums = self.sums._replace(of_role=of_role)
            self.facts = self.facts._replace(of_shape=of_shape)
        self._shapes = len(world.shape_rows)

    def _like(self, shape: Shape) -> int:
        """The number of what a gang of one role and one size asks for; -1: it is none."""
        if len(shape.roles) > 1 or shape.roles[0].least:
            return -1
        asked = replace(shape, team="", priority=0)
        return self._likes.setdefault(asked, len(self._likes))

    def _facts_of(self, role: Role, more: tuple[Bond, ...]) -> list[int]:
        compute, media = profile(role)
        rule = (role.kinds, role.rules)
        row = [0] * len(OF)
        row[OF.COMPUTE], row[OF.MEDIA], row[OF.IS_SLICED] = compute, media, int(bool(role.profile))
        row[OF.FIRST_BOND], row[OF.END_BOND] = self._add_bonds((*role.bonds, *more))
        row[OF.RULE] = self._rules.setdefault(rule, len(self._rules))
        return row

    def _add_bonds(self, bonds: tuple[Bond, ...]) -> tuple[int, int]:
        """Write the bonds that are required; where they begin and end."""
        tiers = {tier.name: t for t, tier in enumerate(self.world.topology.tiers)}
        first = self._bonds
        required = [bond for bond in bonds if bond.is_required and bond.tier in tiers]
        rows = _with_rows(self.facts.bonds, first + len(required))
        for bond in required:
            t = tiers[bond.tier]
            rows[self._bonds] = t, bond.each, self.world.topology.tiers[t].devices
            self._bonds += 1
        self.facts = self.facts._replace(bonds=rows)
        return first, self._bonds

    def _read_kinds(self) -> None:
        self._kinds = len(self.world.kinds)
        axes = np.array([axis(kind) for kind in self.world.kinds], np.int64)
        self.facts = self.facts._replace(axes=axes)

    def _ask(self) -> None:
        """Which GPU types and looks each rule allows."""
        names, rules = self.world.kinds, len(self._rules)
        wants: I64 = np.zeros((rules, len(names)), np.int64)
        may_use: I64 = np.zeros((rules, len(self._looks)), np.int64)
        for (kinds, nodes), i in self._rules.items():
            wants[i] = [not kinds or kind in kinds for kind in names]
            may_use[i] = [_is_allowed(nodes, *look) for look in self._looks]
        self._asked_at = (*may_use.shape, len(names))
        self.facts = self.facts._replace(may_use=may_use, wants=wants)

    def _read_queues(self) -> None:
        world = self.world
        rows, kinds = world.queue_rows, world.kinds
        self._shared_at = (world.share_changes, len(rows), len(kinds))
        parents = parents_of(world)
        lends: I64 = np.full((len(rows), len(kinds)), -1, np.int64)
        for q, row in enumerate(rows):
            for share in row.shares:
                lends[q, world.kind_number[share.kind]] = share.lend_milli
        keeps = any(share.lend_milli < FOREVER_MS for row in rows for share in row.shares)
        self.sums.reg[SUM.KEEPS] = keeps
        has_floor = (world.floor > 0).any()
        self.sums.reg[SUM.IS_FLAT] = max(parents, default=-1) < 0 and not has_floor
        self.sums.reg[SUM.IS_BOUND] = has_floor or (world.limit < FOREVER_MS).any()
        queue: I64 = np.zeros((len(rows), len(BRANCH)), np.int64)
        queue[:, BRANCH.PARENT] = parents
        queue[:, BRANCH.DEPTH] = [_depth(parents, q) for q in range(len(rows))]
        queue[:, BRANCH.UPWARD] = np.argsort(-queue[:, BRANCH.DEPTH], kind="stable")
        queue[:, BRANCH.WEIGHT] = [row.weight for row in rows]
        names = ("on_team", "so_far", "lately", "leaving")
        made = {name: np.zeros(lends.shape, np.int64) for name in names}
        worth: I64 = np.zeros((len(kinds), len(WORTHY)), np.int64)
        self.sums = self.sums._replace(lends=lends, queue=queue, worth=worth, **made)


def _is_allowed(rules: NodeRules, labels: Labels, taints: Labels) -> bool:
    """Whether work with these rules may be on such a node."""
    untolerated = {
        (key, value)
        for key, value in taints
        if not {(key, value), (key, ""), ("", value), ("", "")} & {*rules.tolerates}
    }
    values = dict(labels)
    is_liked = not rules.affinity or any(
        {one.key for one in choice if not one.holds(values.get(one.key))} == set()
        for choice in rules.affinity
    )
    return {*rules.labels} <= labels and not untolerated and is_liked


def _alike(shape: Shape) -> int:
    """How many replicas a gang of one size has that may be on any node of its types, all alike.

    Those fit one after the other wherever so many fit at once. 0: it is another gang.
    """
    role, count = shape.roles[0], sum(role.count for role in shape.roles)
    is_tied = role.bonds or shape.bonds or role.labels or role.affinity
    is_cut = role.milli < WHOLE_MILLI and role.accelerators > 1 and count > role.count
    are_alike = len({replace(one, name="", count=1) for one in shape.roles}) == 1
    return 0 if role.least or is_tied or is_cut or not are_alike else count


def parents_of(world: World) -> list[int]:
    """By queue: the one above it, by name; -1: there is none."""
    return [world.queue_number[row.parent] if row.parent else -1 for row in world.queue_rows]


def profile(role: Role) -> tuple[int, int]:
    """The compute slices of a role's MIG profile, and whether it takes the media engines."""
    words = _PROFILE.fullmatch(role.profile)
    return (0, 0) if words is None else (int(words[1]), int(words[2] is not None))


def axis(kind: str) -> tuple[int, int]:
    """Memory and compute slices of a device: eight and seven, but four of each on an A30."""
    return (4, 4) if "A30" in re.split(r"[-_ ]", kind.upper()) else (8, 7)


def _domain(topology: Topology, t: int, labels: Mapping[str, str], n: int) -> tuple[str, ...]:
    """The domain of a node in a tier as the values of its labels, from the outside in."""
    values: list[str] = []
    for tier in topology.tiers[: t + 1]:
        if not tier.label:
            return (*values, f"node {n}")
        values += ["", labels[tier.label]] if tier.label in labels else [f"alone {n}"]
    return tuple(values)


def _depth(parents: list[int], q: int) -> int:
    found = 0
    while q >= 0:
        found, q = found + 1, parents[q]
    return found


def _with_rows(rows: I64, count: int) -> I64:
    return rows if len(rows) >= count else grown(rows, count)


def _blank() -> tuple[Sums, Facts]:
    sizes = {
        "reg": (len(SUM),),
        "wrong": (_WRONGS, len(WRONG)),
        "on_device": (0, len(TAKES)),
        "on_node": (0, len(ON)),
        "named": (0,),
        "of_role": (0, len(OF)),
        "queue": (0, len(BRANCH)),
        "axes": (0, 2),
        "of_shape": (0, len(GANG)),
        "bonds": (0, len(BOND)),
        "domain": (1, 0),
        "within": (0,),
    }
    made = {name: np.zeros(size, np.int64) for name, size in sizes.items()}
    nothing: I64 = np.zeros((0, 0), np.int64)
    return (
        Sums(*(made.get(name, nothing) for name in Sums._fields)),
        Facts(*(made.get(name, nothing) for name in Facts._fields)),
    )
