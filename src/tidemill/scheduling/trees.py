"""Trees: for each kind of request the best node is known, and kept known as nodes change.

A tournament over all nodes: every leaf holds how well its node suits the request, every match is
won by the better one (the lower number among equals), and the root is the answer. A change of one
node costs the matches on one path. Trees are brought up to date when they are asked, with the nodes
that changed since they were asked before: the cost grows with what changed, not with the fleet.
"""

import numpy as np

from tidemill.model.rows import Role
from tidemill.model.tables import I64
from tidemill.scheduling.scores.scoring import Scoring

BYTES_AT_MOST = 64 << 20  # 12,500 nodes take 256 KiB a request: enough for 256 kinds of request

WASTED = 5  # columns of what is known of a node, see ``wasted``

Key = tuple[int, int, int, int, int, tuple[str, ...]]


class Tree:
    """The tournament of one kind of request, and how far it has read the changes."""

    __slots__ = ("is_exact", "is_ok", "rank", "read", "scoring", "winner")

    def __init__(self, leaves: int, is_ok: I64, scoring: Scoring) -> None:
        self.rank: I64 = np.zeros(leaves, np.int64)
        self.winner: I64 = np.zeros(2 * leaves, np.int64)
        self.is_exact = np.zeros(leaves, np.bool_)
        """Whether a rank is a score, or only a bound on it (see ``scores.kernels``)."""
        self.read = -1
        self.is_ok = is_ok
        """Kept so that no other array takes its identity, which is part of the key."""
        self.scoring = scoring


class Trees:
    """All tournaments over one room of this many nodes; beyond a bound, requests have none."""

    def __init__(self, rows: int) -> None:
        self._leaves = 1 << max(1, (rows - 1).bit_length())
        self._at_most = BYTES_AT_MOST // (16 * self._leaves)
        self._trees: dict[Key, Tree] = {}
        self._rows = rows
        self._known: I64 | None = None
        self._wasted: I64 = np.zeros((0, WASTED), np.int64)

    def of(self, role: Role, is_ok: I64, scoring: Scoring) -> Tree | None:
        """The tournament of a request, new if it was never asked for.

        When there are too many: None where a sweep finds the same, else one that is not kept.
        """
        asks = (role.accelerators, role.milli, role.cpu_milli, role.memory_mib)
        key = (id(is_ok), *asks, scoring.names)
        tree = self._trees.get(key)
        if tree is None:
            if len(self._trees) >= self._at_most:
                return None if scoring.tables is None else Tree(self._leaves, is_ok, scoring)
            tree = self._trees[key] = Tree(self._leaves, is_ok, scoring)
        if tree.scoring is not scoring:
            tree.scoring, tree.read = scoring, -1
        return tree

    def wasted(self, scoring: Scoring) -> I64:
        """What is known of each node: at which touch, and its waste (``scores.kernels.look``).

        It holds as long as what was played out does.
        """
        assert scoring.tables is not None, "only scores with tables waste"
        if self._known is not scoring.tables.known:
            self._known = scoring.tables.known
            self._wasted = np.full((self._rows, WASTED), -1, np.int64)
        return self._wasted
