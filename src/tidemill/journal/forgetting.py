"""Make way for a new run: exactly the files of a journal, and only if it is the one meant."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from tidemill.journal import files, lock
from tidemill.journal.postgres import address, require_psycopg
from tidemill.journal.sqlite import schema
from tidemill.journal.sqlite.journal import SqliteJournal
from tidemill.model.errors import SpecError

ASIDE = ".replaced"  # the end of a name, until the new run has one that can be gone on with


def forget(where: Path | str, name: str | None = None, *, is_forced: bool = False) -> None:
    """Remove the journal of a run called ``name``, with what SQLite keeps beside it.

    Another file, and the journal of another run, are refused; with ``is_forced`` they go too. A
    journal that is being written is never removed. Where there is no file, nothing happens.
    """
    if address.is_address(str(where)):
        _postgres().forget(address.of(str(where)), name, is_forced=is_forced)
        return
    path = Path(where)
    if os.path.lexists(path):
        _refuse_unless_meant(path, name, is_forced=is_forced)
        with _unwritten(path):
            _remove(path)


@contextmanager
def replacing(
    where: Path | str, name: str | None = None, *, is_forced: bool = False
) -> Iterator[None]:
    """The same, for whoever writes another one under this name.

    What was there is put aside meanwhile: if there is nothing new at the end, it takes its name
    again. A file with something in it that is no journal is refused, whoever forces it.
    """
    if address.is_address(str(where)):
        with _postgres().replacing(address.of(str(where)), name, is_forced=is_forced):
            yield
        return
    path = Path(where)
    if not os.path.lexists(path):
        yield
        return
    _refuse_unless_meant(path, name, is_forced=is_forced)
    refuse_others(path)
    aside = path.with_name(path.name + ASIDE)
    with _unwritten(path):
        _remove(aside)
        _rename(path, aside)
    try:
        yield
    except BaseException:
        if not os.path.lexists(path):
            _rename(aside, path)
        raise
    finally:
        _remove(aside)


def refuse_others(path: Path) -> None:
    """Refuse what is neither a journal nor empty: whoever forces it."""
    if path.is_file() and path.stat().st_size and files.kind_of(path) != "journal":
        raise SpecError(
            f"`{path}` is {files.words_of(path)}, and no journal: no journal takes its place",
            hint="give another name; remove the file yourself if it is not needed",
        )


def _postgres() -> ModuleType:
    require_psycopg()
    from tidemill.journal.postgres import making  # noqa: PLC0415 - an extra

    return making


def _refuse_unless_meant(path: Path, name: str | None, *, is_forced: bool) -> None:
    if path.is_symlink() or files.kind_of(path) != "journal":
        files.refuse(path, is_forced=is_forced)
    elif not is_forced:
        with SqliteJournal(path) as journal:
            is_meant = name is not None and journal.meta("name") == name
        if not is_meant:
            raise SpecError(
                f"`{path}` is the Tidemill journal of another run; nothing is written over it",
                hint="give another name, or --force to replace it",
            )


@contextmanager
def _unwritten(path: Path) -> Iterator[None]:
    """Refused where somebody is writing a journal of this name."""
    writer = lock.WriterLock(path.resolve())
    writer.take()
    try:
        yield
    finally:
        writer.release()


def _rename(path: Path, to: Path) -> None:
    for suffix in ("", *schema.BESIDE):
        if os.path.lexists(path.with_name(path.name + suffix)):
            path.with_name(path.name + suffix).rename(to.with_name(to.name + suffix))


def _remove(path: Path) -> None:
    for suffix in ("", *schema.BESIDE):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
