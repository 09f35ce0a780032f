"""Which records have been read: numbers by run, kept as stretches, so that memory follows gaps."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from tidemill.model.errors import SpecError

MOST_STRETCHES = 100_000
"""Of one run. Records come nearly in order; more gaps than this is a file of something else."""


class SeqGap(NamedTuple):
    """Numbers of a run that were never read: records that are lost, or have not come yet."""

    run: str
    rank: int
    first: int
    last: int


class SeenNumbers:
    """A set of numbers from 0, as sorted stretches that do not touch."""

    __slots__ = ("_begins", "_ends")

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []  # exclusive

    def add(self, number: int) -> bool:
        """Add a number; returns whether it is new."""
        at = bisect_right(self._begins, number)  # stretches before ``at`` begin at or before it
        if at and number < self._ends[at - 1]:
            return False
        joins_left = bool(at) and self._ends[at - 1] == number
        joins_right = at < len(self._begins) and self._begins[at] == number + 1
        if joins_left and joins_right:
            self._ends[at - 1] = self._ends.pop(at)
            self._begins.pop(at)
        elif joins_left:
            self._ends[at - 1] = number + 1
        elif joins_right:
            self._begins[at] = number
        else:
            self._insert(at, number)
        return True

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._begins, number)
        return bool(at) and number < self._ends[at - 1]

    def _insert(self, at: int, number: int) -> None:
        if len(self._begins) >= MOST_STRETCHES:
            raise SpecError(
                f"the records of one run have more than {MOST_STRETCHES:,} gaps",
                hint="the run id was used twice, or the file was not written by tidemill.track",
            )
        self._begins.insert(at, number)
        self._ends.insert(at, number + 1)

    def missing(self) -> Iterator[tuple[int, int]]:
        """First and last number of each stretch that is missing below the highest."""
        end = 0
        for begin, next_end in zip(self._begins, self._ends, strict=True):
            if begin > end:
                yield end, begin - 1
            end = next_end


class SeenRecords:
    """The records that were read, by run and rank."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], SeenNumbers] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: str, rank: int, seq: int) -> bool:
        """Note a record; returns whether it is the first with its number."""
        seen = self._runs.get((run, rank))
        if seen is None:
            seen = self._runs[run, rank] = SeenNumbers()
        return seen.add(seq)

    def has(self, run: str, rank: int, seq: int) -> bool:
        """Whether a record was noted."""
        seen = self._runs.get((run, rank))
        return seen is not None and seq in seen

    def gaps(self) -> list[SeqGap]:
        """All numbers that are missing, by run and rank."""
        return [
            SeqGap(run, rank, first, last)
            for (run, rank), seen in sorted(self._runs.items())
            for first, last in seen.missing()
        ]
