"""A journal in memory: for what-ifs, tests, and runs that nobody needs to see again."""

from collections.abc import Iterator, Sequence
from itertools import islice

from tidemill.core import snapshot
from tidemill.journal import codec, snapshots
from tidemill.journal.base import Journal
from tidemill.model.batch import Batch, Dictionary, EventColumn, convert
from tidemill.model.errors import JournalError
from tidemill.model.events import Event
from tidemill.model.world import World


class MemoryJournal(Journal):
    """Keeps the events themselves; gone when the process is."""

    where = ":memory:"

    def __init__(self) -> None:
        self._read: list[Event] = []
        self._unread: list[Batch] = []
        """What came in columns after those, and nobody asked for yet."""
        self._tail = codec.Tail()
        self._facts: dict[str, str] = {}
        self._snapshot: bytes | None = None
        self._is_open = True

    def append(self, events: Sequence[Event]) -> None:
        """Keep these events, all or none."""
        self.claim()
        codec.checked(events, self._tail)
        if events:
            self._tail = codec.Tail(len(self) + len(events), events[-1].at_ms)
            self._events().extend(events)

    def append_batch(self, batch: Batch) -> None:
        """The same for events in columns."""
        self.claim()
        codec.checked_batch(batch, self._tail)
        count = len(batch.events)
        if count:
            self._tail = codec.Tail(len(self) + count, batch.events.item(-1, EventColumn.AT))
            self._unread.append(batch)

    def _events(self) -> list[Event]:
        for batch in self._unread:
            self._read += convert.to_events(batch)
        self._unread.clear()
        return self._read

    def read(self, start: int = 0) -> Iterator[Event]:
        """The events from number ``start`` to what is the end now."""
        self.claim()
        events = self._events()
        return islice(events, start, len(events))

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """The same in columns, with a dictionary of what is read."""
        dictionary, events = Dictionary(), self.read(start)
        while part := list(islice(events, codec.EVENTS_PER_ROW)):
            yield convert.of_events(part, dictionary)

    def __len__(self) -> int:
        return self._tail.seq

    def save_snapshot(
        self,
        world: World,
        *,
        is_last: bool = False,  # noqa: ARG002 - there is only one here
    ) -> None:
        """Keep the World as it is now."""
        self.claim()
        snapshots.refuse_future(world, len(self))
        self._snapshot = snapshot.dump(world)

    def latest_snapshot(self, up_to_ms: int | None = None) -> World | None:
        """An independent copy of the World last kept, unless it is of a later moment."""
        if self._snapshot is None:
            return None
        world = snapshot.load(self._snapshot)
        return world if up_to_ms is None or world.now_ms <= up_to_ms else None

    def meta(self, key: str) -> str | None:
        """A small fact about this journal."""
        return self._facts.get(key)

    def facts(self) -> dict[str, str]:
        """Every small fact."""
        return dict(self._facts)

    def set_meta(self, key: str, value: str) -> None:
        """Keep a small fact."""
        self.claim()
        self._facts[key] = value

    def claim(self) -> None:
        """Nobody else can write here; only a closed journal refuses."""
        if not self._is_open:
            raise JournalError("the journal in memory is closed", hint="open another one")

    def is_being_written(self) -> bool:
        """Nobody else can see it while it is written."""
        return False

    def close(self) -> None:
        """Take no more."""
        self._is_open = False
