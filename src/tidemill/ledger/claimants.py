"""Claimants: what each waiting shape asks for, and which contracts could give it.

One row a role that asks for accelerators. Roles with the same kinds and labels are under one rule,
and the question *which contracts may it use* is asked once a rule: again only when there are new
contracts or new groups of nodes.
"""

import numpy as np
from numpy.typing import NDArray

from tidemill.model.rows import Role
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.diagnose import could_match
from tidemill.units.mig import geometry as mig

Flags = NDArray[np.bool_]
Rule = tuple[tuple[str, ...], tuple[tuple[str, str], ...], str, int]


class Claimants:
    """Roles as columns, in the order of their shapes; those of shape s begin at first_role[s]."""

    def __init__(self) -> None:
        self.first_role: I64 = np.zeros(64, np.int64)
        self.role_milli: I64 = np.zeros(64, np.int64)
        self.role_rule: I64 = np.zeros(64, np.int64)
        self.may_use: Flags = np.zeros((0, 0), np.bool_)
        """Rule by contract."""
        self._rules: dict[Rule, int] = {}
        self._examples: list[Role] = []
        self._shapes = 0
        self._asked_at = (0, 0, 0)

    def update(self, world: World) -> None:
        """Take in what is new in the World."""
        for shape in world.shape_rows[self._shapes :]:
            self._add(tuple(role for role in shape.roles if role.accelerators))
        asked_at = (len(self._rules), world.contract_count, len(world.groups))
        if asked_at != self._asked_at:
            self._asked_at = asked_at
            self.may_use = np.array(
                [[_may_use(world, c, role) for c in range(asked_at[1])] for role in self._examples],
                np.bool_,
            ).reshape(asked_at[:2])

    def _add(self, roles: tuple[Role, ...]) -> None:
        first = int(self.first_role[self._shapes])
        self._shapes += 1
        self.first_role = with_room(self.first_role, self._shapes + 1)
        self.role_milli = with_room(self.role_milli, first + len(roles))
        self.role_rule = with_room(self.role_rule, first + len(roles))
        for r, role in enumerate(roles, start=first):
            self.role_milli[r] = role.total_milli
            self.role_rule[r] = self._rule(role)
        self.first_role[self._shapes] = first + len(roles)

    def _rule(self, role: Role) -> int:
        rule = (role.kinds, role.labels, role.profile, role.milli if role.profile else 0)
        if rule not in self._rules:
            self._rules[rule] = len(self._examples)
            self._examples.append(role)
        return self._rules[rule]


def with_room(array: I64, rows: int) -> I64:
    """The same array, or a larger one that begins with it: twice as large, so appends are cheap."""
    if rows <= len(array):
        return array
    bigger = np.zeros(max(rows, 2 * len(array)), np.int64)
    bigger[: len(array)] = array
    return bigger


def _may_use(world: World, c: int, role: Role) -> bool:
    row = world.contract_rows[c]
    if role.profile and not mig.offers(row.kind, role.profile, role.milli):
        return False
    return (not role.kinds or row.kind in role.kinds) and could_match(world, row, role)
