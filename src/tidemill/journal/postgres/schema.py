"""The tables of a journal: a schema of its own per journal, whose name begins with ``tidemill_``.

So one database has many journals, each with its own rights, dumped (``pg_dump -n``) and dropped by
itself. ``form`` says which version of this it is, and who wrote last: ``fence`` counts the writers.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex

from tidemill.journal.faults import AwayError, OtherWriterError
from tidemill.journal.postgres.address import Address
from tidemill.journal.postgres.faults import LostError
from tidemill.journal.postgres.server import Session
from tidemill.model.errors import JournalError

VERSION = 1
_TRIES, _PAUSE_S = 10, 0.02  # a server notices within milliseconds that a writer was killed
LOCK_CLASS = 0x54644D6C  # "TdMl": the first half of the key of our advisory locks

_TABLES = (
    "TABLE {}.form (version integer NOT NULL, fence bigint NOT NULL, writer text NOT NULL)",
    """TABLE {}.batches (
        seq bigint PRIMARY KEY, events bigint NOT NULL, first_ms bigint NOT NULL,
        last_ms bigint NOT NULL, added bytea, body bytea NOT NULL, crc bigint NOT NULL)""",
    """TABLE {}.snapshots (
        seq bigint PRIMARY KEY, crc bigint NOT NULL, layout bigint NOT NULL,
        digest text NOT NULL, body bytea NOT NULL)""",
    """TABLE {}.rolled (
        seq bigint PRIMARY KEY, at_ms bigint NOT NULL, crc bigint NOT NULL, names bytea,
        layout bigint NOT NULL, digest text NOT NULL, state bytea NOT NULL,
        ledger bytea NOT NULL, told bigint NOT NULL)""",
    "TABLE {}.books (seq bigint PRIMARY KEY, body bytea NOT NULL, crc bigint NOT NULL)",
    "TABLE {}.facts (key text PRIMARY KEY, value text NOT NULL, crc bigint NOT NULL)",
)
_PACKED = {"batches": ("added", "body"), "snapshots": ("body",), "books": ("body",),
           "rolled": ("names", "state", "ledger")}  # fmt: skip
"""What is packed already: the server would try in vain."""

_WRITTEN = (
    "UPDATE form SET writer = writer WHERE false",
    "UPDATE facts SET value = value WHERE false",
    *(f"INSERT INTO {table} SELECT * FROM {table} WHERE false"
      for table in ("batches", "snapshots", "facts")),
    "DELETE FROM snapshots WHERE false",
)  # fmt: skip
"""What whoever appends does, to no row: the server judges the right to it all the same."""

_NUMBER = "SELECT oid::bigint FROM pg_namespace WHERE nspname = ?"
_HELD = """FROM pg_locks WHERE locktype = 'advisory' AND granted
    AND classid = ?::bigint::oid AND objid = ?::bigint::oid AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
_HAS_FORM = "SELECT count(*) FROM pg_tables WHERE schemaname = ? AND tablename = 'form'"


class WrittenError(OtherWriterError):
    """Somebody else is the writer of a journal."""


def name_of(journal: str) -> str:
    """The schema that keeps a journal."""
    return f"tidemill_{journal}"


@contextmanager
def connected(address: Address) -> Iterator[Session]:
    """A session for a while."""
    session = Session(address, name_of(address.name))
    session.open()
    try:
        yield session
    except LostError as lost:
        raise gone(address, lost) from None
    finally:
        session.close()


def gone(address: Address, lost: LostError) -> JournalError:
    """What to say when the server went away and nothing can be gone on with."""
    return AwayError(
        f"journal `{address.shown}`: the server went away: {lost.said}",
        hint="start it, and try again; nothing that was acknowledged is lost",
    )


def number_of(session: Session, schema: str) -> int | None:
    """The number that the server gave a schema; None: there is no such journal."""
    found = session.ask(_NUMBER, (schema,))
    return int(found[0][0]) if found else None


def create(session: Session, schema: str) -> None:
    """Make an empty journal, whole or not at all; one that somebody just made is left as it is."""
    with session.transaction():
        _make(session, schema)


def rehearse(session: Session, schema: str) -> None:
    """Make a journal where there is none, write as its writer does, and take all of it back.

    Refused as the writer would be. Nobody waits for it: it changes no row that is there.
    """
    with session.transaction(is_kept=False):
        _make(session, schema)
        check(session, schema)
        for statement in _WRITTEN:
            session.execute(statement)


def _make(session: Session, schema: str) -> None:
    quoted = f'"{schema}"'
    session.execute("SELECT pg_advisory_xact_lock(?, hashtext(?))", (LOCK_CLASS, schema))
    if number_of(session, schema) is not None:
        return
    session.execute(f"CREATE SCHEMA {quoted}")
    for table in _TABLES:
        session.execute(f"CREATE {table.format(quoted)}")
    for table, columns in _PACKED.items():
        for column in columns:
            session.execute(
                f"ALTER TABLE {quoted}.{table} ALTER COLUMN {column} SET STORAGE EXTERNAL"
            )
    session.execute(f"INSERT INTO {quoted}.form VALUES (?, 0, ?)", (VERSION, ""))


def check(session: Session, schema: str) -> None:
    """Refuse a schema that is no journal, or one of a later version."""
    where = session.address.shown
    if not session.ask(_HAS_FORM, (schema,))[0][0]:
        raise JournalError(
            f"`{where}` is not a Tidemill journal: the schema `{schema}` has other tables",
            hint="give another name after `journal=`",
        )
    found = session.ask(f'SELECT version FROM "{schema}".form')
    version = found[0][0] if found else 0
    if version > VERSION:
        raise JournalError(
            f"journal `{where}` has version {version}; this Tidemill knows version {VERSION}",
            hint="use the newer Tidemill that wrote it",
        )


def is_locked(session: Session, number: int) -> bool:
    """Whether somebody writes the journal in the schema with this number."""
    return bool(session.ask(f"SELECT count(*) {_HELD}", (LOCK_CLASS, number))[0][0])


def end_writer(session: Session, number: int) -> None:
    """End the session of whoever writes a journal, whatever its process does; for its role."""
    session.execute(f"SELECT pg_terminate_backend(pid) {_HELD}", (LOCK_CLASS, number)).fetchall()


def writer_of(session: Session) -> str:
    """Who signed as the writer last; "": nobody yet."""
    found = session.ask("SELECT writer FROM form")
    return str(found[0][0]) if found else ""


def lock_or_refuse(session: Session, number: int) -> None:
    """Become the writer of the journal in a schema, until the session ends; or say who is."""
    for _ in range(_TRIES):
        statement = "SELECT pg_try_advisory_lock(?, ?::bigint::oid::integer)"
        if session.execute(statement, (LOCK_CLASS, number)).fetchall()[0][0]:
            return
        time.sleep(_PAUSE_S)
    raise WrittenError(
        f"journal `{session.address.shown}` is being written by"
        f" {writer_of(session) or 'another process'}",
        hint="a journal has one writer at a time: stop that one, or write to another journal",
    )


def unlock(session: Session) -> None:
    """Let another one write, now: the server needs a moment to see that a session has ended."""
    session.execute("SELECT pg_advisory_unlock_all()")


def remove(session: Session, schema: str) -> None:
    """Remove a journal that nobody writes; nothing happens where there is none."""
    number = number_of(session, schema)
    if number is not None:
        lock_or_refuse(session, number)
        with session.transaction():
            session.execute(f'DROP SCHEMA "{schema}" CASCADE')


def rename(session: Session, schema: str, to: str) -> None:
    """Give a journal that nobody else writes another name, which nobody has."""
    number = number_of(session, schema)
    assert number is not None, schema
    lock_or_refuse(session, number)
    with session.transaction():
        session.execute(f'ALTER SCHEMA "{schema}" RENAME TO "{to}"')


def aside(schema: str) -> str:
    """A name for what is being made, or about to be replaced: of no journal that can be named."""
    return f"{schema}~{token_hex(4)}"
