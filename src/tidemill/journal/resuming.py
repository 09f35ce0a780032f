"""Going on with a run that was interrupted, to the very journal that it would have written.

A run is told again from its beginning, and each event is compared with the one recorded; where the
record ends, events are appended. So nothing has to be remembered of the state of the backend, and a
run that is not the same one is found out at the first event that differs.
"""

from collections.abc import Sequence

from tidemill.journal import completeness
from tidemill.journal.base import Journal
from tidemill.journal.codec import kind_of
from tidemill.journal.completeness import Begun
from tidemill.model.errors import JournalError
from tidemill.model.events import Event

_ANOTHER = "give the file, the seed and the version that it was begun with, or begin another one"


class Resumed:
    """Compares what is told again with what is recorded, and keeps what is new."""

    def __init__(self, journal: Journal, again: Begun) -> None:
        refuse_other(journal, again)
        journal.claim()
        self._journal = journal
        self._recorded = journal.read()
        self.left = len(journal)
        """How many recorded events were not told again yet."""
        self._told = 0

    def append(self, events: Sequence[Event]) -> None:
        """Compare these events as far as the record goes, and keep the others."""
        known = min(len(events), self.left)
        for event in events[:known]:
            found = next(self._recorded)
            if found != event:
                raise self._differs(found, event)
            self._told += 1
        self.left -= known
        self._journal.append(events[known:])

    def finish(self) -> None:
        """The run is through; refuse a record that goes on."""
        if self.left:
            raise JournalError(
                f"journal `{self._journal.where}` has {self.left:,} more events than this run",
                hint=_ANOTHER,
            )

    def _differs(self, found: Event, event: Event) -> JournalError:
        return JournalError(
            f"journal `{self._journal.where}` is not of this run: event {self._told} is"
            f" `{kind_of(found)}` at {found.at_ms} ms there, and here"
            f" `{kind_of(event)}` at {event.at_ms} ms"
            + (" with other contents" if kind_of(found) == kind_of(event) else ""),
            hint=_ANOTHER,
        )


def refuse_other(journal: Journal, again: Begun) -> None:
    """Refuse a journal that is complete, or that another run began."""
    begun = completeness.begun(journal)
    if begun is None:
        raise JournalError(
            f"journal `{journal.where}` does not say which run began it",
            hint="it was not written by a run of this version; begin another journal",
        )
    if completeness.of(journal).state == "complete":
        raise JournalError(
            f"journal `{journal.where}` is complete; there is nothing to go on with",
            hint="read it, or give another path for a new run",
        )
    pairs = (
        ("the file or its options", begun.given, again.given),
        ("the seed", begun.seed, again.seed),
        ("the version of Tidemill", begun.version, again.version),
    )
    other = [what for what, was, now in pairs if was != now]
    if other:
        raise JournalError(
            f"journal `{journal.where}` was begun by another run: {', '.join(other)} differs",
            hint=_ANOTHER,
        )
