"""Scoring: which policies place, in order, and the tables they need; a function of the World.

``pack`` and ``spread`` alone need no tables and have loops of their own. The others share one
compiled score (``scores.kernels``). Policies that look ahead (``fgd``, ``tide``) need to have seen
some work: before the first look at the mix they stand aside, and with nobody else to ask the
placement is ``pack``.
"""

import numpy as np

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.placements import NodeScore, score_of
from tidemill.model.policy import Policy
from tidemill.model.rows import Role
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.scores import demand
from tidemill.scheduling.scores.demand import Asked, Fleet, Knobs
from tidemill.scheduling.scores.tables import Tables

LOOK_AHEAD = frozenset({"fgd", "tide"})
SHAPES_AT_MOST = 512  # the most frequent are looked at, and those of which hosts were counted
BY_THEMSELVES = frozenset({("pack",), ("spread",)})


class Scoring:
    """The policies to ask, the first first; equal scores go to the next, then to lower numbers."""

    __slots__ = ("names", "plan", "score", "tables")

    def __init__(
        self,
        names: tuple[str, ...],
        tables: Tables | None = None,
        score: NodeScore | None = None,
        plan: demand.Outline | None = None,
    ) -> None:
        is_bare = names in BY_THEMSELVES or score is not None
        assert (tables is None) == is_bare, f"{names} and tables do not match"
        self.names, self.tables = names, tables
        self.score = score
        """Of a plug-in: asked in Python."""
        self.plan = plan
        """What the tables were made of."""

    @property
    def ranks_nodes(self) -> bool:
        """Whether nodes of all GPU types are compared by a score."""
        return self.tables is not None or self.score is not None

    @property
    def spreads(self) -> bool:
        """Whether the replicas of a gang go to different nodes."""
        return self.names == ("spread",)


PACKING = Scoring(("pack",))
SPREADING = Scoring(("spread",))


def names_of(policy: Policy) -> tuple[str, ...]:
    """The names of a policy's placement, each once."""
    found = policy.placement
    return (found,) if isinstance(found, str) else tuple(dict.fromkeys(found)) or ("pack",)


def looks_ahead(policy: Policy) -> bool:
    """Whether placement needs to know what arrives."""
    return not LOOK_AHEAD.isdisjoint(names_of(policy))


def of(
    world: World, policy: Policy, held: Scoring | None = None, roles: "KnownRoles | None" = None
) -> Scoring:
    """The scoring of a policy now; the one that is held if it still says the same.

    ``roles``: those that were known before.
    """
    names = names_of(policy)
    if not world.mix_changes:
        names = tuple(name for name in names if name not in LOOK_AHEAD) or ("pack",)
    score = score_of(names)
    if score is not None:
        return held if held is not None and held.score is score else Scoring(names, score=score)
    if names in BY_THEMSELVES:
        return SPREADING if names == ("spread",) else PACKING
    knobs = Knobs(
        policy.placement_rollouts, policy.placement_grain_milli, policy.placement_host_price_ppm,
        policy.placement_fragment_ppm,
    )  # fmt: skip
    known_roles = roles or KnownRoles()
    plan = demand.outline(names, known_roles.asked(world), known_roles.fleet(world), knobs)
    known = None
    if held is not None and held.tables is not None and held.plan is not None:
        if plan.scores_as(held.plan):
            return held
        if held.names == names and plan.plays_as(held.plan):
            known = held.tables.known
    return Scoring(names, demand.made(plan, world.node_count, known), plan=plan)


class KnownRoles:
    """The roles of all shapes, and which of them ask for the same of a node; grows with a World.

    And how large its nodes are.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._distinct: list[Role] = []
        self._rows: I64 = np.zeros((0, 3), np.int64)
        """A row for each role: its shape, its number, its replicas."""
        self._shapes = 0
        self._nodes: tuple[object, int] = (None, 0)
        self._largest = (0, 0)
        """CPU and accelerators of the largest of these nodes."""

    def fleet(self, world: World) -> Fleet:
        """What the tables need to know of the supply; free as when the mix was last looked at."""
        rows, nodes = world.node_count, world.nodes
        if self._nodes[0] is not world.node_rows or self._nodes[1] != rows:
            cpu, devices = nodes.cpu_milli[:rows], nodes.devices[:rows]
            self._largest = int(cpu.max(initial=0)), int(devices.max(initial=0)) * WHOLE_MILLI
            self._nodes = world.node_rows, rows
        kinds, free, turnover = tuple(world.kinds), world.mix_free_milli, world.mix_turnover_ppm
        return Fleet(kinds, *self._largest, rows, free, turnover)

    def asked(self, world: World) -> list[Asked]:
        """What arrived, and how many nodes could host it: of the frequent, and of the counted."""
        self._update(world)
        count, shapes = len(world.shape_rows), world.shapes
        rows = self._rows
        if count > SHAPES_AT_MOST:
            is_chosen = shapes.hosts[:count] > 0
            is_chosen[np.argsort(-shapes.mixed[:count], kind="stable")[:SHAPES_AT_MOST]] = True
            rows = rows[is_chosen[rows[:, 0]]]
        shape, number, replicas = rows.T
        found: I64 = np.zeros((3, len(self._distinct)), np.int64)
        np.add.at(found[0], number, shapes.mixed[shape] * replicas)
        np.add.at(found[1], number, shapes.noted[shape] * replicas)
        np.maximum.at(found[2], number, shapes.hosts[shape])
        asked = zip(self._distinct, found.T.tolist(), strict=True)
        return [Asked(role, *sums) for role, sums in asked if any(sums)]

    def _update(self, world: World) -> None:
        if self._shapes == len(world.shape_rows):
            return
        if self._shapes > len(world.shape_rows):
            self._rows, self._shapes = self._rows[:0], 0
        rows = [
            (s, self._number(role), role.count)
            for s in range(self._shapes, len(world.shape_rows))
            for role in world.shape_rows[s].roles
        ]
        self._rows = np.concatenate([self._rows, np.array(rows, np.int64)])
        self._shapes = len(world.shape_rows)

    def _number(self, role: Role) -> int:
        asked = (role.cpu_milli, role.memory_mib, role.accelerators, role.milli, role.kinds)
        number = self._numbers.setdefault(asked, len(self._distinct))
        if number == len(self._distinct):
            self._distinct.append(role)
        return number
