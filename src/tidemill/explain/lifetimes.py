"""Lifetimes: how long things of one kind last, from those that ended and those that still go on.

``Lived`` is one distribution (Kaplan and Meier, JASA 53, 1958). ``RunHistory`` is the history of a
kind in the order of submission, of which each simulated future takes another stretch: jobs that
come together are short together or long together (sweeps, failures, another project), so that what
waits now may all be shorter than what ended. A stretch is as long as the queue; stretches are
ranked by their mean, and the futures take them from short to long, evenly, with the usual one in
the middle (a block bootstrap, after Künsch, Annals of Statistics 17, 1989, without chance).
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np

from tidemill.explain.draws import Draw
from tidemill.model.measures import FOREVER_MS, ONE_PPM
from tidemill.model.tables import I64

LEAST = 25  # samples of a stretch; of fewer a tenth is no more than two of them
PARTS = 4  # stretches begin at every fourth of their length
FEWEST_STRETCHES = 3  # that do not overlap; a shorter history is taken as a whole


class Lived(NamedTuple):
    """How long something lasts: ended values in order, and what share does not outlast each."""

    values: list[int]
    gone: list[float]
    longest: int
    """The longest that was seen, ended or not."""

    def quantile(self, share_ppm: int, past: int = 0) -> int | None:
        """What this share of those that outlast ``past`` does not exceed; None: none is known."""
        first = bisect_right(self.values, past)
        if first == len(self.values):
            return None
        gone = self.gone[first - 1] if first else 0.0
        wanted = gone + (1.0 - gone) * share_ppm / ONE_PPM
        i = bisect_left(self.gone, wanted - 1e-9, first)
        if i < len(self.values):
            return self.values[i]
        return self.longest + self.longest * share_ppm // ONE_PPM


def lived(ended: I64, going: I64) -> Lived:
    """From values that ended and values that others have reached and not ended at."""
    values, reached = np.sort(ended), np.sort(going)
    count = len(values)
    at_risk = count - np.arange(count) + len(reached) - np.searchsorted(reached, values)
    longest = max((int(part[-1]) for part in (values, reached) if len(part)), default=0)
    gone: list[float] = (1.0 - np.cumprod(1.0 - 1.0 / at_risk)).tolist()
    return Lived(values.tolist(), gone, longest)


class RunTimes(NamedTuple):
    """Values in the order of submission, and the numbers of the jobs that have them."""

    jobs: I64
    values: I64


class RunHistory:
    """The history of one kind of job."""

    def __init__(self, ended: RunTimes, going: RunTimes, waiting: int) -> None:
        self._ended, self._going = ended, going
        self.whole = lived(ended.values, going.values)
        count = len(ended.jobs)
        self._length = max(LEAST, min(waiting, count // FEWEST_STRETCHES))
        self._first = self._ranked() if count >= FEWEST_STRETCHES * LEAST else None
        self._kept: dict[int, Lived] = {}

    def of(self, draw: Draw) -> Lived:
        """The distribution in one future."""
        if self._first is None:
            return self.whole
        rank = (2 * draw.future + 1) * len(self._first) // (2 * draw.futures)
        first = int(self._first[rank])
        if first not in self._kept:
            low, high = self._range(first)
            some = (self._going.jobs >= low) & (self._going.jobs < high)
            self._kept[first] = lived(
                self._ended.values[first : first + self._length], self._going.values[some]
            )
        return self._kept[first]

    def _range(self, first: int) -> tuple[int, int]:
        """The numbers of the jobs of a stretch: from the first to before the last."""
        jobs, last = self._ended.jobs, first + self._length
        low = int(jobs[first]) if first else 0
        return low, int(jobs[last]) if last < len(jobs) else FOREVER_MS

    def _ranked(self) -> I64:
        """Where stretches begin, by the time that one of them takes per job that ended."""
        last = len(self._ended.jobs) - self._length
        step = max(1, self._length // PARTS)
        firsts = np.append(np.arange(0, last, step), last)
        bounds = np.array([self._range(int(first)) for first in firsts])
        ended = np.concatenate([[0], np.cumsum(self._ended.values)])
        going = np.concatenate([[0], np.cumsum(self._going.values)])
        spans = np.searchsorted(self._going.jobs, bounds)
        taken = (
            ended[firsts + self._length] - ended[firsts] + going[spans[:, 1]] - going[spans[:, 0]]
        )
        order: I64 = firsts[np.argsort(taken, kind="stable")]
        return order
