"""What happened, kept: a journal is the list of events that the World was folded from.

``open_journal`` gives one, in memory, in an SQLite file or in PostgreSQL. Appending returns when
the events are safe; reading gives them back in order; ``replay.rebuild`` folds them into the World
again. Beside it: ``verify`` reads everything and says what is broken, ``salvage`` keeps what is
intact, ``copying`` takes one to another place,
``exchange`` writes and reads JSON lines and Parquet.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.journal import spilling
from tidemill.journal.base import Journal
from tidemill.journal.memory import MemoryJournal
from tidemill.journal.postgres import address, require_psycopg
from tidemill.journal.sqlite.journal import SqliteJournal
from tidemill.model.errors import JournalError

if TYPE_CHECKING:
    from tidemill.journal.postgres.journal import PostgresJournal

__all__ = ["MEMORY", "Journal", "exists", "open_journal"]

MEMORY = ":memory:"


def open_journal(where: str, *, create: bool = False) -> Journal:
    """Open the journal in a file, in PostgreSQL (``postgresql://…?journal=NAME``), or a new one in
    memory (``:memory:``).

    Anybody may open and read; the first write makes this the one writer (see ``Journal.claim``).
    ``create`` makes a new journal where there is none yet. Whoever opens one may have long tables.
    """
    spilling.spill()
    if where == MEMORY:
        return MemoryJournal()
    if address.is_address(where):
        return _in_postgres()(address.of(where), create=create)
    _refuse_address(where)
    path = Path(where)
    if not path.exists():
        if not create:
            raise JournalError(
                f"there is no journal `{where}`",
                hint="check the path; a run that starts a new journal creates it",
            )
        return SqliteJournal.create(path)
    return SqliteJournal(path)


def exists(where: str) -> bool:
    """Whether something stands where a new journal would be made."""
    if address.is_address(where):
        return _in_postgres().exists(address.of(where))
    return where != MEMORY and os.path.lexists(where)


def _in_postgres() -> "type[PostgresJournal]":
    require_psycopg()
    from tidemill.journal.postgres.journal import PostgresJournal  # noqa: PLC0415 - an extra

    return PostgresJournal


def _refuse_address(where: str) -> None:
    scheme, separator, _ = where.partition("://")
    if separator:
        raise JournalError(
            f"`{scheme}://` is not a place where a journal can be kept",
            hint=f"give the path of a file, `:memory:`, or {address.EXAMPLE}",
        )
