"""What a run writes into: its journal, with a snapshot now and then as the journal grows."""

from collections.abc import Sequence

from tidemill.journal import completeness, snapshots
from tidemill.journal.base import Journal
from tidemill.journal.memory import MemoryJournal
from tidemill.journal.resuming import Resumed
from tidemill.model.batch import Batch, convert
from tidemill.model.events import Event
from tidemill.model.world import World


class RunKeeper:
    """Keeps the events of a run, and its World when a snapshot is due.

    A journal in memory takes none but the last: it is as near as its World. ``foreseen``: how many
    events there will be, where that is known.
    """

    def __init__(
        self, journal: Journal, world: World, resumed: Resumed | None = None, foreseen: int = 0
    ) -> None:
        self._journal, self._world, self._resumed = journal, world, resumed
        self._foreseen = foreseen
        self._has_snapshots = not isinstance(journal, MemoryJournal)
        self._before = 0

    def append(self, events: Sequence[Event]) -> None:
        """Keep these events; the World must have been folded from them already."""
        (self._resumed or self._journal).append(events)
        self._was_kept()

    def append_batch(self, batch: Batch) -> None:
        """The same for events in columns; a run that is told again is compared one by one."""
        if self._resumed is not None and self._resumed.left:
            self._resumed.append(convert.to_events(batch))
        else:
            self._journal.append_batch(batch)
        self._was_kept()

    def _was_kept(self) -> None:
        seq, foreseen = self._world.seq, self._foreseen
        if self._has_snapshots and snapshots.is_due(self._before, seq, foreseen):
            self._journal.save_snapshot(self._world)
        self._before = seq

    def finish(self) -> None:
        """The run is through: keep its end, and say that it was reached."""
        if self._resumed is not None:
            self._resumed.finish()
        self._journal.save_snapshot(self._world, is_last=True)
        completeness.complete(self._journal)
