"""What is going to happen: the owner of the twin's columns (``event_queue``).

The plain life of jobs is rows, pushed and taken out by kernels. Whatever has more to say than a row
(a node, a contract, a team, a save on notice) is kept here as an event, under its serial.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.core.replay import COUNTS
from tidemill.model import codes
from tidemill.model.batch import EventColumn, PieceColumn
from tidemill.model.events import Seen
from tidemill.model.measures import FOREVER_MS
from tidemill.model.tables import grown
from tidemill.twin.event_queue import heap
from tidemill.twin.event_queue.columns import CLOCK, ENTRY, LOAD, TRUTH, Outside


class Entry(NamedTuple):
    """One thing that is going to happen, as Python reads it (``ENTRY``)."""

    at_ms: int
    rank: int
    serial: int
    who: int
    stamp: int
    kind: int
    value: int


class Agenda:
    """The queue of what will happen, and the other columns of the twin."""

    __slots__ = ("_events", "t")

    def __init__(self) -> None:
        self.t = _blank()
        """As kernels take it; another one after something grew."""
        self._events: dict[int, Seen] = {}

    def __len__(self) -> int:
        return self.t.clock.item(CLOCK.ENTRIES)

    @property
    def next_ms(self) -> int:
        """When the first entry is due; ``FOREVER_MS`` when there is none."""
        return self.t.entries.item(0, ENTRY.AT) if len(self) else FOREVER_MS

    def push(self, rank: int, who: int, stamp: int, event: Seen) -> None:
        """Schedule an event for its own time."""
        self.make_room(1)
        kind = codes.KIND_CODE[type(event)]
        t = self.t
        serial = heap.push(t.clock, t.entries, event.at_ms, rank, who, stamp, kind, 0)
        self._events[int(serial)] = event

    def pop(self) -> tuple[Entry, Seen | None]:
        """Take out the first entry; with its event, if it is more than a row."""
        entry = Entry(*self.t.entries[0].tolist())
        heap.pop(self.t.clock, self.t.entries)
        return entry, self._events.pop(entry.serial, None)

    def make_room(self, more: int) -> None:
        """See to it that so many entries can be pushed."""
        entries = self.t.entries
        if self.t.clock.item(CLOCK.ENTRIES) + more > len(entries):
            self.renew(entries=grown(entries, len(self) + more))

    def renew(self, **matrices: NDArray[Any]) -> None:
        """Take other matrices in place of these; the same where they are these already."""
        if any(getattr(self.t, name) is not matrix for name, matrix in matrices.items()):
            self.t = self.t._replace(**matrices)


def _blank() -> Outside:
    """Nothing is going to happen."""
    return Outside(
        clock=np.zeros(len(CLOCK), np.int64),
        entries=np.zeros((256, len(ENTRY)), np.int64),
        truths=np.zeros((64, len(TRUTH)), np.int64),
        crashes=np.zeros(16, np.int64),
        loads=np.zeros((1, len(LOAD)), np.int64),
        levels=np.zeros(0, np.int64),
        luck=np.ones(1),
        races=np.zeros(1, np.int64),
        events=np.zeros((0, len(EventColumn)), np.int64),
        event_pieces=np.zeros((0, len(PieceColumn)), np.int64),
        counts=np.zeros((1, COUNTS), np.int64),
        asked=np.zeros((0, len(EventColumn)), np.int64),
    )
