"""Claimants: what each waiting shape asks for, and which contracts could give it.

One row per role, in the order of the shapes, as the cluster state numbers roles. Roles with the
same kinds and labels are under one rule, and what a rule may use is asked once: which contracts
could give it, and which kinds the scheduler takes it to be able to use. It is asked again only when
there are new contracts, kinds or groups of nodes.
"""

import numpy as np

from tidemill.core.accounting.columns import DEMAND
from tidemill.model.node_rules import NodeRules
from tidemill.model.rows import Role
from tidemill.model.tables import I64, grown
from tidemill.model.world import World
from tidemill.scheduling import eligibility
from tidemill.scheduling.diagnose import could_match
from tidemill.units.mig import geometry as mig

Rule = tuple[tuple[str, ...], NodeRules, str, int]
_ANYWHERE: Rule = ((), NodeRules(), "", -1)
"""The rule of roles that ask for no accelerator: they may sit on any kind."""


class Claimants:
    """Roles as columns (``DEMAND``), and what their rules may use."""

    def __init__(self) -> None:
        self.demands: I64 = np.zeros((64, len(DEMAND)), np.int64)
        self.may_use: I64 = np.zeros((0, 0), np.int64)
        """Rule by contract."""
        self.reach: I64 = np.zeros((0, 0), np.int64)
        """Rule by kind."""
        self._rules: dict[Rule, int] = {}
        self._examples: list[Role] = []
        self._shapes = self.roles = 0
        self._asked_at = (0, 0, 0, 0)

    def update(self, world: World) -> list[Role]:
        """Take in what is new in the World; the roles that are."""
        new = [role for shape in world.shape_rows[self._shapes :] for role in shape.roles]
        self._shapes = len(world.shape_rows)
        if self.roles + len(new) > len(self.demands):
            self.demands = grown(self.demands, self.roles + len(new))
        for r, role in enumerate(new, start=self.roles):
            self.demands[r] = (role.total_milli, self._rule(role), -1)
        self.roles += len(new)
        asked_at = (
            len(self._rules), world.contract_count, len(world.groups), len(world.kinds)
        )  # fmt: skip
        if asked_at != self._asked_at:
            self._asked_at = asked_at
            self._ask(world)
        return new

    def _ask(self, world: World) -> None:
        rules, contracts, _, kinds = self._asked_at
        self.may_use = np.zeros((rules, contracts), np.int64)
        self.reach = np.zeros((rules, kinds), np.int64)
        for i, role in enumerate(self._examples):
            if not role.accelerators:
                self.reach[i] = 1
                continue
            self.may_use[i] = [_may_use(world, c, role) for c in range(contracts)]
            self.reach[i, [option.kind for option in eligibility.options(world, role)]] = 1

    def _rule(self, role: Role) -> int:
        rule = (role.kinds, role.rules, role.profile, role.milli if role.profile else 0)
        if not role.accelerators:
            rule = _ANYWHERE
        if rule not in self._rules:
            self._rules[rule] = len(self._examples)
            self._examples.append(role)
        return self._rules[rule]


def _may_use(world: World, c: int, role: Role) -> bool:
    row = world.contract_rows[c]
    if role.profile and not mig.offers(row.kind, role.profile, role.milli):
        return False
    return (not role.kinds or row.kind in role.kinds) and could_match(world, row, role)
