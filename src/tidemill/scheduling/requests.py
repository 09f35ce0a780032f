"""What was asked of a room: the rows of requests, and the tournaments of those that have one."""

import numpy as np

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Role
from tidemill.model.tables import I64, grown
from tidemill.scheduling.fitting.columns import (
    BITS,
    NO_TREE,
    REQUEST,
    REQUEST_COLUMNS,
    SCORE,
    WASTED,
    Ground,
)
from tidemill.scheduling.scores.scoring import Scoring

BYTES_AT_MOST = 128 << 20  # 12,500 nodes take 512 KiB a request: enough for 256 of them
SWEPT_AT_MOST = 128  # nodes; below, one sweep takes less than bringing a tournament up to date
HOSTS_BYTES_AT_MOST = 32 << 20  # 12,500 nodes take 100 KB a request: enough for 335 of them
ROWS_AT_MOST = 1 << 16  # then all is forgotten

Key = tuple[int, int, int, int, int, tuple[str, ...]]


class Requests:
    """The requests of one room of so many nodes, and its forest of tournaments."""

    def __init__(self, nodes: int, groups: int) -> None:
        self.generation = 0
        """Another number when rows have another meaning."""
        self._nodes, self._leaves = nodes, 1 << max(1, (nodes - 1).bit_length())
        self._at_most = BYTES_AT_MOST // (32 * self._leaves)
        self._rows: dict[Key, int] = {}
        self._flags: list[I64] = []
        """Kept so that no other array takes the identity of one, which is part of a key."""
        self._trees = 0
        self._scoring: Scoring | None = None
        self._known: I64 | None = None
        self._requests: I64 = np.zeros((8, REQUEST_COLUMNS), np.int64)
        self._hosts: I64 = np.zeros((1, nodes), np.int64)
        self._hosting: I64 = np.zeros((1, nodes // BITS + 1), np.int64)
        self._oks: I64 = np.zeros((8, groups), np.int64)
        self._rank: I64 = np.zeros((1, self._leaves), np.int64)
        self._winner: I64 = np.zeros((1, 2 * self._leaves), np.int64)
        self._exact: I64 = np.zeros((1, self._leaves), np.int64)
        self._wasted: I64 = np.zeros((1, WASTED), np.int64)

    def blank(self) -> dict[str, I64]:
        """Its columns by name."""
        return {
            "requests": self._requests, "oks": self._oks, "hosts": self._hosts,
            "hosting": self._hosting, "rank": self._rank, "winner": self._winner,
            "exact": self._exact, "wasted": self._wasted,
        }  # fmt: skip

    def joined(self, ground: Ground) -> Ground:
        """The columns of a room with these."""
        if (
            ground.requests is self._requests
            and ground.oks is self._oks
            and ground.hosts is self._hosts
            and ground.rank is self._rank
            and ground.wasted is self._wasted
        ):
            return ground
        return ground._replace(**self.blank())

    def row(self, role: Role, is_ok: I64, scoring: Scoring) -> int:
        """The row of a request, new if it was never made."""
        self.heed(scoring)
        asks = (role.accelerators, role.milli, role.cpu_milli, role.memory_mib)
        key = (id(is_ok), *asks, scoring.names)
        r = self._rows.get(key)
        if r is None:
            r = self._rows[key] = len(self._rows)
            self._make(r, len(is_ok))
            self._flags.append(is_ok)
            self._requests[r] = 0
            self._requests[r, : REQUEST.HOST] = (*asks, _score(scoring), NO_TREE, -1, 0)
            self._requests[r, REQUEST.HOSTS_ROW] = self._hosts_row(r)
            self._oks[r] = 0
            self._oks[r, : len(is_ok)] = is_ok
        return r

    def plant(self, role: Role, r: int, scoring: Scoring) -> None:
        """Give a request a tournament, if its replicas are placed by one and it has none.

        When there are too many: none where a sweep finds the same, else one that it shares.
        """
        has_tables = scoring.tables is not None
        if self._requests[r, REQUEST.TREE] != NO_TREE:
            return
        if role.count > 1 and not (has_tables and role.milli < WHOLE_MILLI):
            return
        if self._nodes <= SWEPT_AT_MOST and not has_tables:
            return
        if self._trees < self._at_most:
            self._grow_forest(self._trees + 2)
            self._trees += 1
            self._requests[r, REQUEST.TREE] = self._trees
        elif has_tables:
            self._requests[r, [REQUEST.TREE, REQUEST.IS_SHARED]] = (0, 1)

    def forget_ranks(self) -> None:
        """Something has changed that nobody was told of."""
        self._requests[:, REQUEST.READ] = -1
        self._requests[:, REQUEST.TOTAL_AT : REQUEST.HOSTS_SUM] = 0
        self._wasted[:, 0] = -1

    def heed(self, scoring: Scoring) -> None:
        """Other tables give other ranks; what was played out holds as long as they play alike."""
        if scoring.tables is None or scoring is self._scoring:
            return
        self._scoring = scoring
        tabled = self._requests[:, REQUEST.SCORE] == SCORE.TABLES
        self._requests[tabled, REQUEST.READ] = -1
        if self._known is not scoring.tables.known:
            self._known = scoring.tables.known
            self._wasted = np.full((self._nodes, WASTED), -1, np.int64)

    def _hosts_row(self, r: int) -> int:
        """Where it is counted what each node could take of a request; 0: there are too many."""
        row = r + 1
        if row * self._nodes > HOSTS_BYTES_AT_MOST // 8:
            return 0
        if row >= len(self._hosts):
            self._hosts = grown(self._hosts, row + 1)
            self._hosting = grown(self._hosting, len(self._hosts))
        return row

    def _make(self, r: int, groups: int) -> None:
        if r >= len(self._requests):
            self._requests = grown(self._requests, r + 1)
            self._oks = grown(self._oks, r + 1)
        if groups > self._oks.shape[1]:
            wider = np.zeros((len(self._oks), groups), np.int64)
            wider[:, : self._oks.shape[1]] = self._oks
            self._oks = wider

    def _grow_forest(self, count: int) -> None:
        had = len(self._rank)
        if count <= had:
            return
        count = min(2 * count, self._at_most + 1)
        before = self._rank, self._winner, self._exact
        self._rank = np.zeros((count, self._leaves), np.int64)
        self._winner = np.zeros((count, 2 * self._leaves), np.int64)
        self._exact = np.zeros((count, self._leaves), np.int64)
        for new, old in zip((self._rank, self._winner, self._exact), before, strict=True):
            new[:had] = old[:had]

    def forget_if_many(self) -> None:
        """Begin again where far too much was asked; not while anybody still goes by a row."""
        if len(self._rows) > ROWS_AT_MOST:
            self.generation += 1
            self._rows.clear()
            self._flags.clear()
            self._trees = 0


def _score(scoring: Scoring) -> int:
    if scoring.tables is not None:
        return int(SCORE.TABLES)
    return int(SCORE.SPREAD if scoring.spreads else SCORE.PACK)
