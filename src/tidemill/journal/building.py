"""A new journal that appears under its name when it is finished, or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemill.journal import files
from tidemill.journal.base import Journal
from tidemill.journal.sqlite import schema
from tidemill.journal.sqlite.journal import SqliteJournal

BATCH = 1_000  # events written at once


@contextmanager
def building(path: Path) -> Iterator[Journal]:
    """Write a new journal; if the body raises, nothing is left of it."""
    files.refuse(path, option="")
    schema.refuse_remains(path)
    with files.fresh(path) as part, SqliteJournal.create(part, sync="off") as journal:
        yield journal
