"""What to say when the server cannot be used. psycopg's own errors end here."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from tidemill.journal.faults import AwayError, DamageError
from tidemill.journal.postgres.address import Address
from tidemill.model.errors import JournalError

UNREACHABLE = "check the address, and that the server runs and can be reached"
_RIGHTS = (
    "ask for the right; a new journal needs CREATE on the database, a reader needs USAGE on the"
    " schema of the journal and SELECT on its tables"
)
_ENTRY = (
    "check the user and the password ($PGPASSWORD, ~/.pgpass), and who may connect from here"
    " (pg_hba.conf)"
)
_LATER = "try again; nothing that was acknowledged is lost"
_HINTS: tuple[tuple[type[psycopg.Error], str], ...] = (
    (errors.InsufficientPrivilege, _RIGHTS),
    (errors.DiskFull, "free some space on the server; nothing that was acknowledged is lost"),
    (errors.LockNotAvailable, "another session holds it locked; try again"),
    (errors.ReadOnlySqlTransaction, "this server is a standby: write to the primary"),
    (errors.QueryCanceled, _LATER),
    (errors.TooManyConnections, _LATER),
    (errors.UndefinedTable, "it was removed meanwhile; open it again"),
    (psycopg.OperationalError, UNREACHABLE),
)


_COMING_UP = re.compile("starting up|shutting down|recovery mode")
_REFUSED = (
    (re.compile("password|authentication|pg_hba"), _ENTRY),
    (re.compile('database ".*" does not exist'), "create it with `createdb`, or give another one"),
    (re.compile('role ".*" does not exist'), "create it with `createuser`, or give another user"),
)
"""What a server said that let nobody in, and what to do; in English unless it speaks otherwise."""


class LostError(Exception):
    """The connection is gone; what was under way was kept whole, or not at all."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


def said(error: BaseException, address: Address) -> str:
    """What the server or libpq said, in one line and without passwords."""
    text = " ".join(str(error).split())
    for secret in sorted(address.secrets.values(), key=len, reverse=True):
        if secret:
            text = text.replace(secret, "…")
    return text or type(error).__name__


def is_lost(error: psycopg.Error, connection: psycopg.Connection | None) -> bool:
    """Whether the server went away, or is on its way up: worth another try."""
    if isinstance(
        error,
        errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow
        | errors.IdleInTransactionSessionTimeout,
    ):  # fmt: skip
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    if connection is None:  # libpq gives no code for a connection that was refused
        return _COMING_UP.search(str(error)) is not None
    return connection.closed


@contextmanager
def kindly(
    address: Address, connection: psycopg.Connection | None = None, seq: int = 0
) -> Iterator[None]:
    """Turn psycopg's errors into ours; ``seq`` is the first event that was being looked at."""
    try:
        yield
    except psycopg.Error as error:
        text = said(error, address)
        if is_lost(error, connection):
            raise LostError(text) from None  # whose traceback has what libpq was given
        for kind, hint in ((psycopg.OperationalError, _refused(text)), *_HINTS):
            if hint and isinstance(error, kind):
                message = f"journal `{address.shown}` cannot be used now: {text}"
                is_away = hint == UNREACHABLE
                raise (AwayError if is_away else JournalError)(message, hint=hint) from None
        if isinstance(error, errors.DataCorrupted | errors.IndexCorrupted):
            raise DamageError(address.shown, seq, text) from None
        message = f"journal `{address.shown}` cannot be used: the server said: {text}"
        raise JournalError(message, hint="look into the log of the server") from None


def _refused(text: str) -> str:
    return next((hint for told, hint in _REFUSED if told.search(text)), "")
