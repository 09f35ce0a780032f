"""What is going to happen, in order: time, then rank, then the order in which it was scheduled.

An entry names its subject (a job or a node) and the stamp (attempt or epoch) for which it was
meant; whoever takes it out compares the stamp, so nothing is ever searched for and removed.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from tidemill.model.events import Seen
from tidemill.model.measures import FOREVER_MS

# At one moment: claims, then ends before starts (so that what ends frees its devices and what
# starts is not ended by news from before), jobs before nodes, and the clock last.
SIGNED, CONTRACT_START, JOB_END, JOB_START, ACTIVITY, NODE_ADD, NODE_MOVE, FAULT, CONTRACT_END = (
    range(9)
)
CLOCK = 9

Entry = tuple[int, int, int, int, int, Seen]
"""at_ms, rank, serial, subject, stamp, event."""


class Agenda:
    """A heap of entries."""

    __slots__ = ("_heap", "_serial")

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._serial = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_ms(self) -> int:
        """When the first entry is due; ``FOREVER_MS`` when there is none."""
        return self._heap[0][0] if self._heap else FOREVER_MS

    def push(self, rank: int, subject: int, stamp: int, event: Seen) -> None:
        """Schedule an event for its own time."""
        self._serial += 1
        heappush(self._heap, (event.at_ms, rank, self._serial, subject, stamp, event))

    def due(self, at_ms: int) -> Entry | None:
        """Take out the first entry, if it is due at this moment."""
        heap = self._heap
        return heappop(heap) if heap and heap[0][0] == at_ms else None

    def first_ms(self, is_meant: Callable[[Entry], bool]) -> int:
        """When the first entry of some sort is due; ``FOREVER_MS`` when there is none."""
        return min((entry[0] for entry in self._heap if is_meant(entry)), default=FOREVER_MS)

    def split(self, is_meant: Callable[[Entry], bool]) -> tuple[list[Entry], int]:
        """Take out the entries of some sort; return them, and the last serial number given."""
        taken = [entry for entry in self._heap if is_meant(entry)]
        self._heap = [entry for entry in self._heap if not is_meant(entry)]
        heapify(self._heap)
        return taken, self._serial

    def join(self, entries: list[Entry], serial: int) -> None:
        """Put entries back that were taken out, or made meanwhile."""
        self._heap += entries
        heapify(self._heap)
        self._serial = serial
