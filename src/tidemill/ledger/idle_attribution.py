"""Claimants: what each waiting shape asks for, and which lots of free accelerators could give it.

One row per role, in the order of the shapes, as the cluster state numbers roles. Roles with the
same kinds and labels, for which the same kinds are too small, are under one rule, and what a rule
may use is asked once: which lots, and which kinds the scheduler takes it to be able to use. It is
asked again only when there are new contracts, kinds or groups of nodes.

A lot is what is free of a contract on groups of nodes that no rule tells apart. A role that may use
several lots of a contract takes them in their order: those behind most taints first, which the
fewest others may use; then by the age of their groups. Only neighbours in that order are one lot,
so that no rule which comes later changes what was claimed before.
"""

from collections.abc import Iterator
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tidemill.core.accounting.columns import DEMAND, LOT
from tidemill.model.node_rules import NodeRules
from tidemill.model.rows import MAX_DEVICES, Contract, Role, Shape
from tidemill.model.tables import I64, grown
from tidemill.model.world import Group, World
from tidemill.scheduling import eligibility
from tidemill.scheduling.contract_capacity import SmallKinds
from tidemill.units.mig import geometry as mig

Rule = tuple[tuple[str, ...], NodeRules, str, int, tuple[str, ...]]
_ANYWHERE: Rule = ((), NodeRules(), "", -1, ())
"""The rule of roles that ask for no accelerator: they may sit on any kind."""


class Claimants:
    """Roles as columns (``DEMAND``), and what their rules may use."""

    def __init__(self) -> None:
        self.demands: I64 = np.zeros((64, len(DEMAND)), np.int64)
        self.may_use: I64 = np.zeros((0, 0), np.int64)
        """Rule by lot."""
        self.lots: I64 = np.zeros((0, len(LOT)), np.int64)
        self.lot_of: I64 = np.zeros((0, 0), np.int64)
        """Contract by group of nodes."""
        self.reach: I64 = np.zeros((0, 0), np.int64)
        """Rule by kind."""
        self._rules: dict[Rule, int] = {}
        self._small = SmallKinds([])
        self._examples: list[Role] = []
        self._shapes = self.roles = 0
        self._asked_at = (0, 0, 0, 0)
        self._allowed: dict[NodeRules, list[bool]] = {}
        """By group of nodes: whether its labels and taints are such as the rules allow."""
        self._too_large: list[tuple[int, Shape]] = []
        """Shapes with a replica larger than any node that is paid for, and their first roles."""

    @property
    def is_parted(self) -> bool:
        """Whether a contract has several lots."""
        return len(self.lots) > len(self.lot_of)

    def update(self, world: World) -> list[Role]:
        """Take in what is new in the World; the roles that are."""
        shapes = world.shape_rows[self._shapes :]
        new = [role for shape in shapes for role in shape.roles]
        self._shapes = len(world.shape_rows)
        if self.roles + len(new) > len(self.demands):
            self.demands = grown(self.demands, self.roles + len(new))
        for r, role in enumerate(new, start=self.roles):
            self.demands[r] = (role.total_milli, 0, -1)
        self._give_rules(world, new)
        firsts = accumulate((len(shape.roles) for shape in shapes), initial=self.roles)
        self._claim_nothing(world, [*zip(firsts, shapes, strict=False), *self._too_large])
        self.roles += len(new)
        asked_at = (
            len(self._rules), world.contract_count, len(world.groups), len(world.kinds)
        )  # fmt: skip
        if asked_at != self._asked_at:
            self._asked_at = asked_at
            self._ask(world)
        return new

    def _give_rules(self, world: World, new: list[Role]) -> None:
        """Put roles under rules: the new ones, and all where contracts are new."""
        first, roles = self.roles, new
        if world.contract_count != self._asked_at[1]:
            self._small = SmallKinds([*world.contract_rows])
            if len(world.kinds) > 1:
                first, roles = 0, [role for shape in world.shape_rows for role in shape.roles]
        for r, role in enumerate(roles, start=first):
            self.demands[r, DEMAND.RULE] = self._rule(role)

    def _claim_nothing(self, world: World, shapes: list[tuple[int, Shape]]) -> None:
        """Of these shapes, those that fit on no node ask for nothing of what is free."""
        most = max((row.node.devices for row in world.contract_rows), default=MAX_DEVICES)
        self._too_large = []
        for first, shape in shapes:
            is_too_large = max(role.accelerators for role in shape.roles) > most
            self._too_large += [(first, shape)] if is_too_large else []
            for r, role in enumerate(shape.roles, start=first):
                self.demands[r, DEMAND.MILLI] = 0 if is_too_large else role.total_milli

    def _ask(self, world: World) -> None:
        rules, _, _, kinds = self._asked_at
        self.reach = np.zeros((rules, kinds), np.int64)
        for i, role in enumerate(self._examples):
            if not role.accelerators:
                self.reach[i] = 1
                continue
            self.reach[i, [option.kind for option in eligibility.options(world, role)]] = 1
        self._part(world)

    def _part(self, world: World) -> None:
        """Part contracts into lots, and say which rule may use which."""
        rules, contracts, groups, _ = self._asked_at
        allowed = np.zeros((rules, groups), bool)
        for i, role in enumerate(self._examples):
            allowed[i] = self._groups_for(world, role) if role.accelerators else False
        self.lot_of = np.zeros((contracts, max(1, groups)), np.int64)
        columns, owners = list[NDArray[np.bool_]](), list[int]()
        for c, row in enumerate(world.contract_rows):
            may = np.array([_is_offered(row, *each) for each in self._under_rules()], bool)
            first = len(columns)
            for g in _in_order(world, row):
                column = allowed[:, g] & may
                if len(columns) == first or (column != columns[-1]).any():
                    columns.append(column)
                    owners.append(c)
                self.lot_of[c, g] = len(columns) - 1
            if len(columns) == first:  # nothing of it was ever seen
                columns.append(np.zeros(rules, bool))
                owners.append(c)
        self.may_use = np.array(columns, np.int64).reshape(len(columns), rules).T.copy()
        self.lots = np.zeros((len(owners), len(LOT)), np.int64)
        self.lots[:, LOT.CONTRACT] = owners

    def _under_rules(self) -> Iterator[tuple[Role, Rule]]:
        """One role of each rule, and the rule."""
        return zip(self._examples, self._rules, strict=True)

    def _groups_for(self, world: World, role: Role) -> list[bool]:
        """By group of nodes: whether the role may be on it; groups are only ever added."""
        known = self._allowed.setdefault(role.rules, [])
        known += [role.rules.allow(g.labels, g.taints) for g in world.groups[len(known) :]]
        return known

    def _rule(self, role: Role) -> int:
        milli, small = role.milli if role.profile else 0, self._small.of(role)
        rule = (role.kinds, role.rules, role.profile, milli, small)
        if not role.accelerators:
            rule = _ANYWHERE
        if rule not in self._rules:
            self._rules[rule] = len(self._examples)
            self._examples.append(role)
        return self._rules[rule]


def _is_offered(row: Contract, role: Role, rule: Rule) -> bool:
    """Whether a contract is of a kind, and of parts, that a role asks for; not of one too small."""
    if role.profile and not mig.offers(row.kind, role.profile, role.milli):
        return False
    if row.kind in rule[-1]:
        return False
    return not role.kinds or row.kind in role.kinds


def _in_order(world: World, row: Contract) -> list[int]:
    """The groups of nodes that a contract may have, in the order in which they are claimed."""

    def place(g: int) -> tuple[int, int]:
        return -len(world.groups[g].taints), g

    def is_of(group: Group) -> bool:
        return group.pool == row.pool and world.kinds[group.kind] == row.kind

    return sorted((g for g, group in enumerate(world.groups) if is_of(group)), key=place)
