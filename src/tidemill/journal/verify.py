"""Whether a journal is sound, all of it: every row, every event folded, every snapshot compared.

Returns a report instead of raising where damage is found; a file that cannot be a journal (absent,
of another program, of a newer version) is an error.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tidemill.engine import fold
from tidemill.journal import snapshots
from tidemill.journal.base import PROGRESS_EVERY, Progress
from tidemill.journal.faults import DamageError, rescue
from tidemill.journal.replay import CANNOT_BE, refusal
from tidemill.journal.snapshots import Stored
from tidemill.journal.sqlite import SqliteJournal
from tidemill.model import snapshot
from tidemill.model.world import World


class Fault(NamedTuple):
    """What is wrong, and the number of the event where it is."""

    seq: int
    found: str


class Report(NamedTuple):
    """What was read and what was found; ``events`` are those before the first fault."""

    path: str
    events: int
    last_ms: int
    digest: str
    snapshots: int
    faults: tuple[Fault, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    @property
    def hint(self) -> str:
        """What to do about it; empty if nothing is wrong."""
        return rescue(self.path) if self.faults else ""


def verify(path: Path | str, *, on_progress: Progress | None = None) -> Report:
    """Read a journal whole and report; it may be written meanwhile, the end is what it is now."""
    world, faults, compared = World(), list[Fault](), 0
    try:
        with SqliteJournal(Path(path)) as journal:
            faults += _page_faults(journal)
            stored = {kept.seq: kept for kept in journal.stored_snapshots()}
            compared = len(stored)
            faults += (Fault(s.seq, f) for s in stored.values() if (f := _own_fault(journal, s)))
            for _ in _folded(journal, world, on_progress):
                if world.seq in stored and (f := _difference(world, stored[world.seq])):
                    faults.append(Fault(world.seq, f))
    except DamageError as error:
        faults.append(Fault(error.seq, error.found))
    digest = snapshot.digest(world)
    return Report(str(path), world.seq, world.now_ms, digest, compared, tuple(faults))


def _page_faults(journal: SqliteJournal) -> Iterator[Fault]:
    """What SQLite finds in its own structure."""
    for text in journal.page_faults():
        yield Fault(0, text)


def _folded(journal: SqliteJournal, world: World, on_progress: Progress | None) -> Iterator[None]:
    total = len(journal)
    yield
    for event in journal.read():
        try:
            fold.fold(world, event)
        except CANNOT_BE as error:
            raise DamageError(journal.where, world.seq, refusal(error)) from error
        if on_progress and (world.seq % PROGRESS_EVERY == 0 or world.seq == total):
            on_progress(world.seq, total)
        yield


def _own_fault(journal: SqliteJournal, stored: Stored) -> str:
    if found := snapshots.fault(stored):
        return f"the snapshot after it: {found}"
    if not journal.is_of_these_events(stored):
        return "the snapshot after it was taken of other events"
    return ""


def _difference(world: World, stored: Stored) -> str:
    if stored.layout != snapshot.LAYOUT or snapshot.digest(world) == stored.digest:
        return ""
    return "the snapshot after it differs from what the events fold into"
