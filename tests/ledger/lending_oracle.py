"""Lending, naively: one milli after the other, and one millisecond state after the other.

Between any two events every borrowed milli looks for the nearest floor that is not used, level by
level, in exact fractions; nothing is shared with the ledger but the fold. `totals` are what must be
equal: how much each team borrows from floors at each level, what is unowned, kept and unasked.
"""

from collections import Counter
from collections.abc import Iterable

from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS
from tidemill.model.rows import Queue, Share
from tidemill.model.world import World


class Naive:
    """Reads a journal; sums by kind only, since how equals divide is the ledger's own rule."""

    def __init__(self, events: Iterable[ev.Event]) -> None:
        self.world = World()
        self.lent: Counter[int] = Counter()
        self.borrowed: Counter[int] = Counter()
        self.idle: Counter[int] = Counter()
        self.kept: Counter[int] = Counter()
        now_ms = 0
        for event in events:
            for k in range(len(self.world.kinds)):
                self._pass(k, event.at_ms - now_ms)
            now_ms = event.at_ms
            fold(self.world, event)

    def _pass(self, k: int, length_ms: int) -> None:
        if not length_ms:
            return
        lent, lacking, idle, kept = 0, 0, 0, 0
        for row in self.world.queue_rows:
            if not row.parent:
                inside, out, lends, stays = self._branch(k, row)
                lent, lacking, idle, kept = lent + inside, lacking + out, idle + lends, kept + stays
        across = min(lacking, idle)
        self.lent[k] += (lent + across) * length_ms
        self.borrowed[k] += sum(self._over(k, row) for row in self.world.queue_rows) * length_ms
        free = self.world.kind_free_milli.item(k)
        self.idle[k] += min(free, idle - across + kept) * length_ms
        if idle - across + kept <= free:
            self.kept[k] += kept * length_ms

    def _branch(self, k: int, row: Queue) -> tuple[int, int, int, int]:
        """Lent inside a branch, lacking and lending outside it, and kept back in it."""
        children = [child for child in self.world.queue_rows if child.parent == row.name]
        lent, lacking, lends, kept = 0, self._over(k, row), 0, 0
        own = self._sure(k, row) - sum(self._sure(k, child) for child in children)
        if not children:
            own = max(0, own - self._used(k, row))
        for child in children:
            parts = self._branch(k, child)
            lent, lacking, lends, kept = (
                lent + parts[0], lacking + parts[1], lends + parts[2], kept + parts[3],
            )  # fmt: skip
        for source in ("own", "siblings"):
            there = own if source == "own" else lends
            part = min(lacking, there) if children else 0
            lent, lacking = lent + part, lacking - part
            if source == "own":
                own -= part
            else:
                lends -= part
        lends += own
        out = min(lends, self._share(k, row).lend_milli)
        return lent, lacking, out, kept + lends - out

    def _over(self, k: int, row: Queue) -> int:
        if any(child.parent == row.name for child in self.world.queue_rows):
            return 0
        return max(0, self._used(k, row) - self._sure(k, row))

    def _used(self, k: int, row: Queue) -> int:
        return int(self.world.used[self.world.queue_number[row.name], k])

    def _sure(self, k: int, row: Queue) -> int:
        below = [child for child in self.world.queue_rows if child.parent == row.name]
        return max(self._share(k, row).floor_milli, sum(self._sure(k, child) for child in below))

    def _share(self, k: int, row: Queue) -> Share:
        kind = self.world.kinds[k]
        return next((s for s in row.shares if s.kind == kind), Share(kind, 0, FOREVER_MS))
