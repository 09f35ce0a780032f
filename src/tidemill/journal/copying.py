"""A journal copied to another place, between files and PostgreSQL: the same rows, equal checksums.

Every row is checked on the way; facts and snapshots come along. A journal of an older version is
written anew in the present one.
"""

from contextlib import nullcontext, suppress
from typing import NamedTuple

from tidemill.journal import open_journal
from tidemill.journal.base import Progress
from tidemill.journal.building import building
from tidemill.journal.faults import DamageError
from tidemill.journal.table_journal import TableJournal
from tidemill.model.errors import JournalError


class Copied(NamedTuple):
    """How many events were copied; ``stopped`` says why not all, if only a beginning was wanted."""

    events: int
    stopped: str = ""


def copy(
    source: str, target: str, *, keep_prefix: bool = False, on_progress: Progress | None = None
) -> Copied:
    """Copy a journal; the first damage stops it, and nothing is kept unless ``keep_prefix``."""
    stopped = ""
    with open_journal(source) as journal, building(target) as made:
        if not isinstance(journal, TableJournal):
            raise JournalError(f"`{source}` cannot be copied", hint="give a file or an address")
        try:
            _copy_events(journal, made, on_progress)
        except DamageError as error:
            if not keep_prefix or not len(made):
                raise
            stopped = error.message
        with suppress(DamageError) if keep_prefix else nullcontext():
            for key, value in journal.facts().items():
                made.set_meta(key, value)
        return Copied(len(made), stopped)


def _copy_events(journal: TableJournal, made: TableJournal, on_progress: Progress | None) -> None:
    rolled = journal.rolled_up()
    if rolled is not None:
        made.adopt(rolled, journal.books())
    rows, total = journal.rows(), len(journal)
    if rows is None:
        for batch in journal.batches():
            made.append_batch(batch)
            _tell(made, total, on_progress)
        return
    for some, _ in rows:
        made.append_rows(some)
        _tell(made, total, on_progress)
    stored = (journal.stored_snapshot(seq) for seq in journal.snapshot_numbers())
    made.append_rows([], [one for one in stored if one and journal.is_of_these_events(one)])


def _tell(made: TableJournal, total: int, on_progress: Progress | None) -> None:
    if on_progress is not None:
        on_progress(len(made), total)
