"""When what happens to whom, in order: sorted in parts, and merged some moments at a time.

Each moment takes 16 bytes, of long histories on disk (``model.paging``). At one time the order is
that of ``Turn``, and then of numbers: so it does not matter in which parts moments are told.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from tidemill.live.history.walking.columns import MOMENT, Turn
from tidemill.model import paging
from tidemill.model.tables import I64

AT_ONCE = 100_000
"""Moments that are merged at one time, and about as many more."""
_SAMPLED = 1_000
"""Of so many moments in order one is looked at, to find where to cut."""
_WHO_BITS = 40


class Moments:
    """At most so many moments."""

    def __init__(self, most: int) -> None:
        self._at, self._what = paging.blank(most), paging.blank(most)
        self._ends, self._sampled = [0], list[I64]()

    def add(self, told: Sequence[tuple[Turn, I64, I64]]) -> None:
        """What happens at these times to these."""
        at = np.concatenate([when for _, when, _ in told])
        what = np.concatenate([int(turn) << _WHO_BITS | whom for turn, _, whom in told])
        first, end = self._ends[-1], self._ends[-1] + len(at)
        order = np.lexsort((what, at))
        self._at[first:end], self._what[first:end] = at[order], what[order]
        self._sampled.append(at[order[::_SAMPLED]])
        self._ends.append(end)
        paging.let_go()

    def __iter__(self) -> Iterator[I64]:
        """All of them in order, as rows of ``MOMENT``."""
        seen = np.sort(np.concatenate(self._sampled))
        edges, cuts = np.unique(seen[AT_ONCE // _SAMPLED :: AT_ONCE // _SAMPLED]), list[list[int]]()
        for first, end in pairwise(self._ends):
            found = first + np.searchsorted(self._at[first:end], edges)
            cuts.append([first, *found.tolist(), end])
            paging.let_go()
        for ranges in zip(*map(pairwise, cuts), strict=True):
            some = [slice(*each) for each in ranges]
            at = np.concatenate([self._at[part] for part in some])
            what = np.concatenate([self._what[part] for part in some])
            order = np.lexsort((what, at))
            rows: I64 = np.empty((len(at), len(MOMENT)), np.int64)
            rows[:, MOMENT.AT] = at[order]
            rows[:, MOMENT.WHAT] = what[order] >> _WHO_BITS
            rows[:, MOMENT.WHO] = what[order] & ((1 << _WHO_BITS) - 1)
            del at, what, order
            paging.let_go()
            yield rows
