"""Trees: for each kind of request the best node is known, and kept known as nodes change.

A tournament over all nodes: every leaf holds how well its node suits the request, every match is
won by the better one (the lower number among equals), and the root is the answer. A change of one
node costs the matches on one path. Trees are brought up to date when they are asked, with the nodes
that changed since they were asked before: the cost grows with what changed, not with the fleet.
"""

import numpy as np

from tidemill.model.rows import Role
from tidemill.model.tables import I32, I64, U8

BYTES_AT_MOST = 64 << 20  # 12,500 nodes take 256 KiB a request: enough for 256 kinds of request

Key = tuple[int, int, int, int, int, bool]


class Tree:
    """The tournament of one kind of request, and how far it has read the changes."""

    __slots__ = ("is_ok", "rank", "read", "winner")

    def __init__(self, leaves: int, is_ok: U8) -> None:
        self.rank: I64 = np.zeros(leaves, np.int64)
        self.winner: I32 = np.zeros(2 * leaves, np.int32)
        self.read = -1
        self.is_ok = is_ok
        """Kept so that no other array takes its identity, which is part of the key."""


class Trees:
    """All tournaments over one room of this many nodes; beyond a bound, requests have none."""

    def __init__(self, rows: int) -> None:
        self._leaves = 1 << max(1, (rows - 1).bit_length())
        self._at_most = BYTES_AT_MOST // (16 * self._leaves)
        self._trees: dict[Key, Tree] = {}

    def of(self, role: Role, is_ok: U8, spreads: bool) -> Tree | None:
        """The tournament of a request, new if it was never asked for; None: there are too many."""
        key = (id(is_ok), role.accelerators, role.milli, role.cpu_milli, role.memory_mib, spreads)
        tree = self._trees.get(key)
        if tree is None and len(self._trees) < self._at_most:
            tree = self._trees[key] = Tree(self._leaves, is_ok)
        return tree
