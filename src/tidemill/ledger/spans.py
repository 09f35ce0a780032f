"""The job side of the ledger: spans of time in which a job held accelerators.

A span is written when its fate is known, as a row of integers; from time to time the rows are cut
and added up in one sweep. Sweeps are merged when they have grown as large as what was merged
before, so that a million jobs cost a few merges and not one a sweep.
"""

from array import array

from tidemill.ledger.cells import NOTHING, Cells, PackedCells, added_packed, in_order
from tidemill.ledger.span_binning import WIDTH, Window, cut
from tidemill.model.measures import FOREVER_MS
from tidemill.model.tables import I64
from tidemill.model.world import World

__all__ = ["Spans", "Window"]

SWEEP_AT = 50_000  # spans kept before they are added up: 5 MB


class Spans:
    """Spans as they come, and the cells they add up to."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._fresh = array("q")
        self._merged = NOTHING
        self._swept: list[PackedCells] = []
        self.unseen: list[tuple[int, int]] = []
        """When nobody watched the jobs either; the last one may go on."""

    def mind_sight(self, is_blind: bool, now_ms: int) -> None:
        """Whether nobody watches from now on, or still."""
        unseen = self.unseen
        goes_on = bool(unseen) and unseen[-1][1] == FOREVER_MS
        if is_blind and not goes_on:
            unseen.append((now_ms, FOREVER_MS))
        elif goes_on and not is_blind:
            unseen[-1] = unseen[-1][0], now_ms

    def add(self, world: World, spans: "array[int]") -> None:
        """Take spans whose fate is known; the fields of each are those of ``cut.HeldSpan``."""
        self._fresh.extend(spans)
        if len(self._fresh) >= SWEEP_AT * WIDTH:
            self._sweep(world)
            if sum(len(part.keys) for part in self._swept) >= len(self._merged.keys):
                self._merge()

    def add_all(self, world: World, spans: I64) -> None:
        """Take many spans at once, one a row."""
        self.add(world, array("q", spans.tobytes()))

    def cells(self, world: World, still_open: "array[int]") -> Cells:
        """Everything so far, with the spans that are still open counted as they are given."""
        self._sweep(world)
        self._merge()
        if not still_open:
            return in_order(self._merged)
        at_work = cut(world, still_open, self.window, self.unseen)
        return in_order(added_packed(self._merged, *at_work))

    def hand_over(self, world: World) -> Cells:
        """Everything whose fate is known, which is forgotten here."""
        found = self.cells(world, array("q"))
        self._merged = NOTHING
        return found

    def _sweep(self, world: World) -> None:
        if self._fresh:
            self._swept += cut(world, self._fresh, self.window, self.unseen)
            self._fresh = array("q")

    def _merge(self) -> None:
        if self._swept:
            self._merged = added_packed(self._merged, *self._swept)
            self._swept = []
