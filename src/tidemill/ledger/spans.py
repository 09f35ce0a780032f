"""The job side of the ledger: spans of time in which a job held accelerators.

A span is written when its fate is known, as a row of integers; from time to time the rows are cut
and added up in one sweep. Sweeps are merged when they have grown as large as what was merged
before, so that a million jobs cost a few merges and not one a sweep.
"""

from collections.abc import Sequence

import numpy as np

from tidemill.ledger.cells import NOTHING, Cells, PackedCells, added_packed, in_order, packed
from tidemill.ledger.span_binning import Window, cut
from tidemill.model import paging
from tidemill.model.measures import FOREVER_MS
from tidemill.model.tables import I64
from tidemill.model.world import World

__all__ = ["Spans", "Window"]

SWEEP_AT = 16_000  # spans kept before they are added up: 2 MB, and their jobs were read just now
_MANY = 1 << 19  # cells: what is swept beside so many is put away until it is merged


class Spans:
    """Spans as they come, and the cells they add up to."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._fresh: list[I64] = []
        self._waiting = 0
        """How many spans these are."""
        self._merged = NOTHING
        self._swept: list[PackedCells] = []
        self._room, self._put = paging.blank(2, 0), 0
        """For the keys and sums of what was swept since cells were merged, if these are many."""
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

    def add(self, world: World, spans: I64) -> None:
        """Take spans whose fate is known, as ``core.accounting.columns.SPAN`` says."""
        self._fresh.append(spans.copy())
        self._waiting += len(spans)
        if self._waiting >= SWEEP_AT:
            self._sweep(world)
            if sum(len(part.keys) for part in self._swept) >= len(self._merged.keys):
                self._merge()

    def cells(self, world: World, still_open: Sequence[I64]) -> Cells:
        """Everything so far, with the spans that are still open counted as they are given."""
        self._sweep(world)
        self._merge()
        at_work = self._cut(world, still_open)
        return in_order(added_packed(self._merged, *at_work) if at_work else self._merged)

    def hand_over(self, world: World) -> Cells:
        """Everything whose fate is known, which is forgotten here."""
        found = self.cells(world, ())
        self._merged = NOTHING
        return found

    def _cut(self, world: World, spans: Sequence[I64]) -> list[PackedCells]:
        if not spans:
            return []
        return [*map(packed, cut(world, np.concatenate(spans), self.window, self.unseen))]

    def _sweep(self, world: World) -> None:
        self._swept += map(self._put_away, self._cut(world, self._fresh))
        self._fresh, self._waiting = [], 0

    def _put_away(self, cells: PackedCells) -> PackedCells:
        """The same, where long tables are, as long as there is room."""
        first, end = self._put, self._put + len(cells.keys)
        if end > self._room.shape[1]:
            return cells
        self._put, room = end, self._room[:, first:end]
        room[:] = cells.keys, cells.sums
        return PackedCells(cells.widths, *room)

    def _merge(self) -> None:
        if self._swept:
            self._merged = added_packed(self._merged, *self._swept)
            self._swept, self._put = [], 0
            if len(self._merged.keys) >= max(_MANY, self._room.shape[1]):
                self._room = paging.blank(2, 2 * len(self._merged.keys))
