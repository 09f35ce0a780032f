"""Running work by its expected end, kept from cycle to cycle so that only what changed costs.

An expected end stays where it is until it has passed (see ``estimates``), so the order of the last
cycle is nearly the order of this one.
"""

import numpy as np

from tidemill.model.measures import FOREVER_MS
from tidemill.model.tables import I64, grown
from tidemill.model.world import World
from tidemill.scheduling.backfill import ends
from tidemill.scheduling.backfill.columns import (
    ENDING,
    LATE_AT_MOST,
    REGAINED,
    TALLY,
    Ends,
)
from tidemill.scheduling.estimates import Estimates
from tidemill.scheduling.fitting.columns import BITS, PART
from tidemill.scheduling.snapshot import Snapshot

FEWEST_ROWS = 16
_NO_MATRIX: I64 = np.zeros((1, 1), np.int64)


class Running:
    """What runs and ends, by when it is expected to."""

    def __init__(self, world: World, estimates: Estimates) -> None:
        self.world, self.estimates = world, estimates
        self.count = 0
        """How many are expected to end."""
        self._ends = Ends(
            np.zeros((FEWEST_ROWS, len(ENDING)), np.int64),
            np.zeros(FEWEST_ROWS, np.int64),
            np.zeros(FEWEST_ROWS, np.int64),
            np.zeros(0, np.int64),
            np.zeros(len(TALLY), np.int64),
            np.zeros(LATE_AT_MOST, np.int64),
            np.zeros((0, len(REGAINED)), np.int64),
            np.zeros((0, len(PART)), np.int64),
            np.zeros((1, 1), np.int64),
        )
        self._ends.tally[TALLY.READ] = -1

    @property
    def columns(self) -> Ends:
        """As kernels take it, with room for all that run and may come soon."""
        self._make_rows()
        return self._ends

    @property
    def _all(self) -> int:
        """How many are in order, those that move too."""
        return self._ends.tally.item(TALLY.COUNT)

    @property
    def ends_ms(self) -> I64:
        """The expected ends in order."""
        found: I64 = self._ends.rows[self._ends.order[: self.count], ENDING.AT_MS]
        return found

    @property
    def jobs(self) -> list[int]:
        """The jobs in the order of their expected ends."""
        found: list[int] = self._ends.order[: self.count].tolist()
        return found

    def read(self) -> None:
        """Bring everything up to this moment."""
        w, learnt = self.world.matrices, self.estimates.learnt(self.world)
        self._make_rows()
        ends.read_all(w, self._ends, learnt, self.world.now_ms)
        self.count = self._all
        for j in self.world.moving:
            if self._ends.rows[j, ENDING.ATTEMPT]:
                self._ends.rows[j, ENDING.AT_MS] = FOREVER_MS
                self.count -= 1
        if self.world.moving:
            ends.sort_again(self._ends.rows, self._ends.order, 0, self._all)
            self._ends.tally[TALLY.READ] = -1  # kernels do not know who moves

    def give_back(self, room: Snapshot, given: int, wanted: int) -> None:
        """Have so many of the first given back, whatever it was before; on the books too."""
        below, kept = room.below, room.kind_kept
        if not self.world.tree.keeps:
            below, kept = _NO_MATRIX, _NO_MATRIX[0]
        start, end, sign = (given, wanted, 1) if wanted > given else (wanted, given, -1)
        ends.give_back(
            self.world.matrices, self._ends, room.ground, room.used, below, kept, room.kind_free,
            start, end, sign,
        )  # fmt: skip

    def _make_rows(self) -> None:
        """Make room for all jobs there are, and for all that run."""
        rows, order, outrun, barred, *_ = self._ends
        if self.world.job_count > len(rows):
            rows = grown(rows, self.world.job_count)
        most = len(self.world.placements) + self._all
        if most > len(order):
            order, outrun = grown(order, 2 * most), grown(outrun, 2 * most)
        if self.world.device_count != len(barred):
            barred = np.zeros(self.world.device_count, np.int64)
        if (
            rows is not self._ends.rows
            or order is not self._ends.order
            or (barred is not self._ends.barred)
        ):
            self._ends = self._ends._replace(rows=rows, order=order, outrun=outrun, barred=barred)
        if len(self._ends.back) != self.world.node_count or (
            len(self._ends.back_parts) != self.world.device_count
        ):
            self._make_later(self.world.node_count, self.world.device_count)

    def _make_later(self, nodes: int, devices: int) -> None:
        """Make room for what will be free of all nodes; nothing of it is known then."""
        self._ends.tally[TALLY.KEPT] = 0
        self._ends = self._ends._replace(
            back=np.zeros((nodes, len(REGAINED)), np.int64),
            back_parts=np.zeros((devices, len(PART)), np.int64),
            later=np.zeros((1, nodes // BITS + 1), np.int64),
        )
