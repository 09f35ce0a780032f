"""What every journal promises, wherever it is kept. One contract suite holds all of them to it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Self

from tidemill.journal.rolled_up import RolledUp
from tidemill.model.batch import Batch
from tidemill.model.errors import JournalError
from tidemill.model.events import Event
from tidemill.model.world import World

Progress = Callable[[int, int], None]
"""Called now and then with how many events are done and how many there are (0: not known)."""

PROGRESS_EVERY = 10_000  # events: tens of milliseconds apart, too rare to cost anything


class Journal(ABC):
    """A list of events that only grows, with a few facts and snapshots beside it."""

    where: str
    """The path or address that it is kept under, for messages; never with a password."""

    @abstractmethod
    def append(self, events: Sequence[Event]) -> None:
        """Keep these events, all or none. When this returns they survive whatever happens next.

        Refused with nothing written: an event that would not read back equal, one that goes back
        in time, and any write while another process is the writer.
        """

    @abstractmethod
    def append_batch(self, batch: Batch) -> None:
        """The same for events in columns, whatever dictionary they name things by: many times
        quicker than one by one.
        """

    @abstractmethod
    def read(self, start: int = 0) -> Iterator[Event]:
        """The events from number ``start`` to what is the end now, in order."""

    @abstractmethod
    def batches(self, start: int = 0) -> Iterator[Batch]:
        """The same events in columns, a batch at a time: many times quicker than one by one."""

    def ends_before(self, at_ms: int) -> int:  # noqa: ARG002 - it keeps no rows
        """After so many events it may be read from, and all that is later than a moment is read."""
        return 0

    @abstractmethod
    def __len__(self) -> int:
        """How many events there are."""

    @abstractmethod
    def save_snapshot(self, world: World, *, is_last: bool = False) -> None:
        """Keep the World as it is after ``world.seq`` events, to rebuild from.

        ``is_last``: nothing follows it, so that one from shortly before is not needed any more.
        """

    @abstractmethod
    def latest_snapshot(self, up_to_ms: int | None = None) -> World | None:
        """The newest usable snapshot (of this moment or before); None: fold the journal whole."""

    @abstractmethod
    def meta(self, key: str) -> str | None:
        """A small fact about this journal, such as the name of its spec; None if never set."""

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Every small fact, by its key."""

    @abstractmethod
    def set_meta(self, key: str, value: str) -> None:
        """Keep a small fact; an earlier one under the same key is replaced."""

    def rolled_up(self) -> RolledUp | None:
        """What took the place of its first events, if they were rolled up."""
        return None

    def first_kept(self) -> int:
        """The number of the first event that is left: 0, unless some were rolled up."""
        rolled = self.rolled_up()
        return 0 if rolled is None else rolled.seq

    def books(self) -> list[bytes]:
        """The hourly books of what was rolled up, part by part."""
        return []

    def roll_up(self, rolled: RolledUp, book: bytes) -> None:  # noqa: ARG002 - it keeps neither
        """Put this in the place of the events before ``rolled.seq``, in one step or not at all."""
        raise JournalError(
            f"journal `{self.where}` keeps no books: it cannot be rolled up",
            hint="give a journal in a file or in PostgreSQL",
        )

    @abstractmethod
    def claim(self) -> None:
        """Become the one writer, or be refused, now instead of at the first write."""

    def take_over(self, right: str) -> None:  # noqa: ARG002 - for those who can end a session
        """Become the one writer by a right that one process has at a time, such as a Lease: whoever
        wrote by the same right writes no more. Where nobody can be made to let go, as ``claim``.
        """
        self.claim()

    @property
    def away(self) -> str:
        """What was said when its server went away, while it is waited for; "": it is there."""
        return ""

    @abstractmethod
    def is_being_written(self) -> bool:
        """Whether somebody, this process or another, is its writer now."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it; closing twice is closing once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
