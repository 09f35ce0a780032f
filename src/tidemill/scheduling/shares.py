"""Shares: what a team is sure of, what it borrows, what it may never exceed. Per kind.

A placement is *entitled* when it stays within the team's floor, and *borrowed* above it. Whoever is
entitled goes before whoever borrows, and may take borrowed room back (reclaim).
"""

from tidemill.model.tables import I64
from tidemill.model.world import World


def within_limit(world: World, used: I64, q: int, k: int, milli: int) -> bool:
    """Whether the team may use this much more of the kind."""
    return bool(used[q, k] + milli <= world.limit[q, k])


def within_floor(world: World, used: I64, q: int, k: int, milli: int) -> bool:
    """Whether the team is entitled to this much more of the kind."""
    return bool(used[q, k] + milli <= world.floor[q, k])


def is_borrowing(world: World, used: I64, q: int, k: int) -> bool:
    """Whether the team uses more of the kind than it is sure of."""
    return bool(used[q, k] > world.floor[q, k])
