"""Journals that appear, go and are replaced: as ``building`` and ``forgetting`` do with files.

What is under way has a name that nobody can type (``schema.aside``), and takes its own in one step.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tidemill.journal.postgres import schema as schemas
from tidemill.journal.postgres.address import Address
from tidemill.journal.postgres.journal import PostgresJournal
from tidemill.model.errors import SpecError


@contextmanager
def building(address: Address) -> Iterator[PostgresJournal]:
    """Write a new journal that takes its name when it is finished; else nothing is left of it."""
    schema = schemas.name_of(address.name)
    part = schemas.aside(schema)
    if PostgresJournal.exists(address):
        raise _exists(address)
    try:
        with PostgresJournal(address, schema=part, create=True, sync="off") as journal:
            yield journal
            journal.settle()
        with schemas.connected(address) as session:
            if schemas.number_of(session, schema) is not None:
                raise _exists(address)
            schemas.rename(session, part, schema)
    except BaseException:
        with schemas.connected(address) as session:
            schemas.remove(session, part)
        raise


def forget(address: Address, name: str | None = None, *, is_forced: bool = False) -> None:
    """Remove the journal of a run called ``name``; that of another only with ``is_forced``."""
    with schemas.connected(address) as session:
        schema = schemas.name_of(address.name)
        if schemas.number_of(session, schema) is not None:
            _refuse_unless_meant(address, name, is_forced=is_forced)
            schemas.remove(session, schema)


@contextmanager
def replacing(
    address: Address, name: str | None = None, *, is_forced: bool = False
) -> Iterator[None]:
    """The same, for whoever writes another one; if there is none at the end, the old one stays."""
    schema = schemas.name_of(address.name)
    with schemas.connected(address) as session:
        if schemas.number_of(session, schema) is None:
            old = ""
        else:
            _refuse_unless_meant(address, name, is_forced=is_forced)
            old = schemas.aside(schema)
            schemas.rename(session, schema, old)
    try:
        yield
    except BaseException:
        with schemas.connected(address) as session:
            if old and schemas.number_of(session, schema) is None:
                schemas.rename(session, old, schema)
        raise
    finally:
        with schemas.connected(address) as session:
            if old:
                schemas.remove(session, old)


def _refuse_unless_meant(address: Address, name: str | None, *, is_forced: bool) -> None:
    if is_forced:
        return
    with PostgresJournal(address) as journal:
        is_meant = name is not None and journal.meta("name") == name
    if not is_meant:
        raise SpecError(
            f"`{address.shown}` is the Tidemill journal of another run; nothing is written over it",
            hint="give another name, or --force to replace it",
        )


def _exists(address: Address) -> SpecError:
    return SpecError(
        f"`{address.shown}` exists already; nothing is written over it",
        hint="give another name after `journal=`",
    )
