"""A new journal that appears under its name when it is finished, or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemill.journal import schema
from tidemill.journal.base import Journal
from tidemill.journal.sqlite import SqliteJournal
from tidemill.model.errors import JournalError

BATCH = 1_000  # events written at once


@contextmanager
def building(path: Path) -> Iterator[Journal]:
    """Write a new journal; if the body raises, nothing is left of it."""
    refuse_existing(path)
    part = schema.part_of(path)
    schema.remove(part)
    try:
        with SqliteJournal.create(part, sync="off") as journal:
            yield journal
        schema.settle(part, path)
    finally:
        schema.remove(part)


def refuse_existing(path: Path) -> None:
    """Refuse to write over a file: nothing is lost by a wrong name."""
    if path.exists():
        raise JournalError(
            f"`{path}` exists already", hint="give a new name, or move that file away first"
        )
