"""Whether a journal is sound, all of it: every row, every event folded, every snapshot compared.

Returns a report instead of raising where damage is found; a file that cannot be a journal (absent,
of another program, of a newer version or with a policy of one) is an error.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from tidemill.core import snapshot
from tidemill.engine.fold import one_event
from tidemill.journal import completeness, files, policies, snapshots
from tidemill.journal.base import PROGRESS_EVERY, Progress
from tidemill.journal.completeness import Completeness
from tidemill.journal.faults import RESTORE, DamageError, StrangeFileError, rescue
from tidemill.journal.postgres import address, require_psycopg
from tidemill.journal.postgres.address import Address
from tidemill.journal.replay import CANNOT_BE, refusal
from tidemill.journal.snapshots import Stored
from tidemill.journal.sqlite import intact
from tidemill.journal.sqlite.journal import SqliteJournal
from tidemill.journal.sqlite.schema import cut
from tidemill.journal.table_journal import TableJournal
from tidemill.model.world import World

_OTHER = "the snapshot before it was taken of other events"


class Fault(NamedTuple):
    """What is wrong, and the number of the event where it is; None where it is at no event."""

    seq: int | None
    found: str


class Report(NamedTuple):
    """What was read and what was found; ``events`` are the intact ones, before any damage."""

    path: str
    events: int
    last_ms: int
    digest: str
    snapshots: int | None
    """How many there are; None where that could not be read."""
    faults: tuple[Fault, ...]
    extent: Completeness | None = None
    """Whether the run that wrote it was completed; None where that could not be read."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    @property
    def hint(self) -> str:
        """What to do about it; empty if nothing is wrong."""
        if not self.faults:
            return ""
        return rescue(self.path) if self.events else RESTORE


def verify(where: Path | str, *, on_progress: Progress | None = None) -> Report:
    """Read a journal whole and report; it may be written meanwhile, the end is what it is now."""
    if address.is_address(str(where)):
        return _verify_server(address.of(str(where)), on_progress)
    path, reading = Path(where), _Reading()
    if files.is_rolled_up(path):
        with SqliteJournal(path, check_ends=False) as journal:
            return reading.to_damage(journal, on_progress).report(str(where))
    try:
        with SqliteJournal(path, check_ends=False) as journal:
            broken = [found for found in (*journal.storage_faults(), cut(path)) if found]
            reading.faults += (Fault(None, found) for found in broken)
            reading.all(journal, on_progress)
        if broken:  # SQLite may pass over what is behind a broken page
            reading.world = intact.of(path).world
    except DamageError as error:
        found = intact.of(path)
        if isinstance(error, StrangeFileError) and not found.world.seq:
            raise intact.placed(error) from error
        reading.world = found.world
        reading.faults.append(Fault(found.world.seq if found.why else None, error.found))
    return reading.report(str(where))


def _verify_server(where: Address, on_progress: Progress | None) -> Report:
    """The same of a journal in PostgreSQL: what follows the first damage is not looked for."""
    require_psycopg()
    from tidemill.journal.postgres.journal import PostgresJournal  # noqa: PLC0415 - an extra

    with PostgresJournal(where, check_ends=False) as journal:
        return _Reading().to_damage(journal, on_progress).report(where.shown)


class _Reading:
    """What was found so far."""

    def __init__(self) -> None:
        self.world, self.faults = World(), list[Fault]()
        self._stored: list[int] | None = None
        self._extent: Completeness | None = None

    def to_damage(self, journal: TableJournal, on_progress: Progress | None) -> Self:
        """Read up to the first damage, and note it; what follows it is not looked for."""
        try:
            self.faults += (Fault(None, found) for found in journal.storage_faults())
            self.all(journal, on_progress)
        except DamageError as error:
            self.faults.append(Fault(self.world.seq, error.found))
        return self

    def all(self, journal: TableJournal, on_progress: Progress | None) -> None:
        """Read everything, up to the first damage."""
        rolled = journal.rolled_up()
        journal.books()
        world = self.world = self.world if rolled is None else rolled.world(journal.where)
        stored = self._stored = journal.snapshot_numbers()
        for _ in _folded(journal, world, on_progress):
            if world.seq in stored and (kept := journal.stored_snapshot(world.seq)):
                self.faults += _snapshot_faults(journal, kept, world)
        self.faults += (Fault(s, _OTHER) for s in stored if not 0 <= s <= world.seq)
        policies.of(journal.facts(), journal.where)
        self._extent = completeness.of(journal)

    def report(self, where: str) -> Report:
        """All of it."""
        world, stored = self.world, self._stored
        return Report(
            where, world.seq, world.now_ms, snapshot.digest(world),
            None if stored is None else len(stored), tuple(self.faults), self._extent,
        )  # fmt: skip


def _folded(journal: TableJournal, world: World, on_progress: Progress | None) -> Iterator[None]:
    """Fold every event, and stop before the first and after each to be looked at."""
    total = len(journal)
    yield
    for event in journal.read(world.seq):
        try:
            one_event.fold(world, event)
        except CANNOT_BE as error:
            raise DamageError(journal.where, world.seq, refusal(error)) from error
        if on_progress and (world.seq % PROGRESS_EVERY == 0 or world.seq == total):
            on_progress(world.seq, total)
        yield


def _snapshot_faults(journal: TableJournal, stored: Stored, world: World) -> Iterator[Fault]:
    if found := snapshots.fault(stored):
        yield Fault(stored.seq, f"the snapshot before it: {found}")
    elif not journal.is_of_these_events(stored):
        yield Fault(stored.seq, _OTHER)
    elif stored.layout == snapshot.LAYOUT and snapshot.digest(world) != stored.digest:
        yield Fault(
            stored.seq, "the snapshot before it is not the cluster state that the events give"
        )
