"""The events of a journal, as every version of the form keeps them: what a reader may ask."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from tidemill.journal.codec import Tail
from tidemill.model.batch import Batch
from tidemill.model.events import Event

Ask = Callable[..., list[tuple[Any, ...]]]
"""Asks the database: a statement, its values, and ``seq=`` of the first event that is looked at."""

MOST_EVENTS = 2**48  # ten million a second for a year; a larger number is damage


class Kept(ABC):
    """The events of one journal."""

    version: int
    snapshots_up_to: str
    """A statement that gives the numbers of the snapshots of a moment or before, newest first; it
    may give some of later moments too."""

    def __init__(self, where: str, ask: Ask) -> None:
        self.where, self.ask = where, ask

    @abstractmethod
    def count(self) -> int:
        """How many events there are, by the number of the last."""

    @abstractmethod
    def end(self) -> Tail:
        """The end of the journal, after a look at its first and its last row."""

    @abstractmethod
    def tail_at(self, seq: int) -> Tail:
        """The tail of the row that holds the last of the first ``seq`` events."""

    @abstractmethod
    def batches(self, start: int, end: int) -> Iterator[Batch]:
        """The events from number ``start`` to before ``end`` in columns, every row checked."""

    @abstractmethod
    def read(self, start: int, end: int) -> Iterator[Event]:
        """The same events, one by one."""
