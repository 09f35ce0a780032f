"""What happened, kept: a journal is the list of events that the World was folded from.

``open_journal`` gives one, in memory or in an SQLite file. Appending returns when the events are
safe; reading gives them back in order; ``replay.rebuild`` folds them into the World again.
Beside it: ``verify`` reads everything and says what is broken, ``salvage`` keeps what is intact,
``exchange`` writes and reads JSON lines and Parquet.
"""

from pathlib import Path

from tidemill.journal.base import Journal
from tidemill.journal.memory import MemoryJournal
from tidemill.journal.sqlite.journal import SqliteJournal
from tidemill.model.errors import JournalError

__all__ = ["MEMORY", "Journal", "open_journal"]

MEMORY = ":memory:"


def open_journal(where: str, *, create: bool = False) -> Journal:
    """Open the journal in a file, or a new one in memory (``:memory:``).

    Anybody may open and read; the first write makes this the one writer (see ``Journal.claim``).
    ``create`` makes a new journal where there is no file yet.
    """
    if where == MEMORY:
        return MemoryJournal()
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


def _refuse_address(where: str) -> None:
    scheme, separator, _ = where.partition("://")
    if not separator:
        return
    if scheme in {"postgresql", "postgres"}:
        raise JournalError(
            f"`{scheme}://` asks for a journal in PostgreSQL, which this version cannot keep yet",
            hint="give the path of a file; PostgreSQL comes in a later version",
        )
    raise JournalError(
        f"`{scheme}://` is not a place where a journal can be kept",
        hint="give the path of a file, or `:memory:`",
    )
