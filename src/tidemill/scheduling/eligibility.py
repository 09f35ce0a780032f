"""Eligible: which groups of nodes a role may use at all, by kind, MIG profile, labels and
taints.

Nodes of one group cannot be told apart by any constraint, so the question is asked once per group
and role, and remembered until there are more groups.
"""

from typing import NamedTuple

import numpy as np

from tidemill.model.rows import Role
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.units.mig import geometry as mig


class Option(NamedTuple):
    """One kind a role may run on, and its groups as flags."""

    kind: int
    is_ok: I64


def options(world: World, role: Role) -> tuple[Option, ...]:
    """The kinds a role may run on, in the order it names them; any: the cheapest first."""
    kinds = [world.kind_number[k] for k in role.kinds if k in world.kind_number]
    found, rules = [], role.rules
    for k in kinds if role.kinds else _cheapest_first(world):
        if not takes_type(world.kinds[k], role):
            continue
        is_ok = np.array(
            [group.kind == k and rules.allow(group.labels, group.taints) for group in world.groups],
            np.int64,
        )
        if is_ok.any():
            found.append(Option(k, is_ok))
    return tuple(found)


def takes_type(kind: str, role: Role) -> bool:
    """Whether a role may run on a GPU type, if labels and taints let it."""
    if role.kinds and kind not in role.kinds:
        return False
    return not role.profile or mig.offers(kind, role.profile, role.milli)


def _cheapest_first(world: World) -> list[int]:
    """All kinds by what contracts pay for one an hour on average; then the most plentiful first.

    So a job that does not care leaves what is dear or scarce to those who need it.
    """
    counts, costs = [0] * len(world.kinds), [0] * len(world.kinds)
    for row in world.contract_rows:
        k = world.kind_number[row.kind]
        counts[k] += row.count
        costs[k] += row.count * row.rate_usd_micro
    rates = [cost // max(1, count) for cost, count in zip(costs, counts, strict=True)]
    return sorted(range(len(world.kinds)), key=lambda k: (rates[k], -counts[k], k))


def anywhere(world: World, role: Role) -> Option:
    """All groups of all kinds a role may run on, as one option (kind -1): for CPU-only roles."""
    return Option(-1, merged(world, options(world, role)))


def merged(world: World, parts: tuple[Option, ...]) -> I64:
    """The groups of several options together."""
    flags = np.zeros(max(1, len(world.groups)), np.int64)
    for part in parts:
        flags |= part.is_ok
    return flags
