"""A new journal that appears under its name when it is finished, or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemill.journal import files
from tidemill.journal.postgres import address, require_psycopg
from tidemill.journal.sqlite import schema
from tidemill.journal.sqlite.journal import SqliteJournal
from tidemill.journal.table_journal import TableJournal

BATCH = 1_000  # events written at once


@contextmanager
def building(where: Path | str) -> Iterator[TableJournal]:
    """Write a new journal; if the body raises, nothing is left of it."""
    if address.is_address(str(where)):
        require_psycopg()
        from tidemill.journal.postgres import making  # noqa: PLC0415 - an extra

        with making.building(address.of(str(where))) as journal:
            yield journal
        return
    path = Path(where)
    files.refuse(path, option="")
    schema.refuse_remains(path)
    with files.fresh(path) as part, SqliteJournal.create(part, sync="off") as journal:
        yield journal
