"""Remove a journal: exactly the files that are it, and only if it is the one that was meant."""

import os
from pathlib import Path

from tidemill.journal import files, lock, schema
from tidemill.journal.sqlite import SqliteJournal
from tidemill.model.errors import SpecError


def forget(path: Path, name: str | None = None, *, is_forced: bool = False) -> None:
    """Remove the journal of a run called ``name``, with what SQLite keeps beside it.

    Another file, and the journal of another run, are refused; with ``is_forced`` they go too. A
    journal that is being written is never removed. Where there is no file, nothing happens.
    """
    if not os.path.lexists(path):
        return
    is_journal = not path.is_symlink() and files.kind_of(path) == "journal"
    if not is_journal:
        files.refuse(path, is_forced=is_forced)
        path.unlink()
        return
    if not is_forced:
        with SqliteJournal(path) as journal:
            is_meant = name is not None and journal.meta("name") == name
        if not is_meant:
            raise SpecError(
                f"`{path}` is the Tidemill journal of another run; nothing is written over it",
                hint="give another name, or --force to replace it",
            )
    writer = lock.WriterLock(path.resolve())
    writer.take()
    try:
        for suffix in ("", *schema.BESIDE):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    finally:
        writer.release()
