"""A connection that outlives the server: when it is lost, that is said, and it is made again.

Statements are written as SQLite takes them (``?`` for a value). Reading goes on as if nothing had
happened; whoever writes is told (``LostError``), for it must find out what was kept.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import psycopg
from psycopg import conninfo

from tidemill.journal.faults import AwayError
from tidemill.journal.postgres.address import Address
from tidemill.journal.postgres.faults import LostError, kindly
from tidemill.model import names
from tidemill.model.errors import JournalError

PATIENCE_S = 60.0  # a server that is restarted is back in seconds, one that fails over in tens
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.5
CONNECT_S = 10
_SETTINGS: dict[str, str | int] = {
    "application_name": "tidemill",
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 30,  # seconds: a peer that vanished is noticed, here and by the server
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
_PREPARE = (
    "SET lock_timeout = '5s'",
    "SET idle_in_transaction_session_timeout = '60s'",
)
_SYNCHRONOUS = """SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off'"""
_NOT_AT_ONCE = "SET synchronous_commit = off"


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{names.visible(text, one_line=True)}\n")
    sys.stderr.flush()


tell: Callable[[str], None] = _to_stderr
"""Where it is said that a server went away and came back."""


class Answered(Protocol):
    """What a statement gives."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Row by row."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All of it."""


class Session:
    """A connection to one server, with the tables of one schema in sight."""

    def __init__(self, address: Address, schema: str, *, is_synchronous: bool = True) -> None:
        self.address, self._schema = address, schema
        self.is_synchronous = is_synchronous
        """Whether a transaction that returns is on the disk; else it will be within a second."""
        self._connection: psycopg.Connection | None = None
        self._is_writing = False
        self.generation = 0
        """How often it was connected: what a session held is gone with it."""
        self.away = ""
        """What was said when the server went away, while it is waited for; "": it is there."""

    def open(self) -> None:
        """Connect; a server that is just starting is waited for."""
        try:
            self._connect()
        except LostError as lost:
            self.again(lost)

    def _connect(self) -> None:
        self._drop()
        address = self.address
        given = {key: value for key, value in _SETTINGS.items() if f"{key}=" not in address.server}
        with kindly(address):
            told = conninfo.make_conninfo(address.server, **given, **address.secrets)
            made = psycopg.connect(told, autocommit=True)
        self._connection, self.generation = made, self.generation + 1
        with kindly(address, made):
            for statement in (*_PREPARE, _SYNCHRONOUS if self.is_synchronous else _NOT_AT_ONCE):
                made.execute(statement)
            made.execute("SELECT set_config('search_path', %s, false)", (f'"{self._schema}"',))

    def again(self, lost: LostError) -> None:
        """Connect again after the connection was lost; refused when that takes too long."""
        self.away = lost.said
        try:
            self._again(lost)
        finally:
            self.away = ""

    def _again(self, lost: LostError) -> None:
        shown, end, pause = self.address.shown, time.monotonic() + PATIENCE_S, FIRST_PAUSE_S
        tell(f"journal `{shown}`: the server went away ({lost.said}); trying again for"
             f" {PATIENCE_S:.0f} s")  # fmt: skip
        while True:
            try:
                self._connect()
                break
            except (LostError, JournalError) as error:
                found = error.said if isinstance(error, LostError) else error.message
                is_refused = not isinstance(error, LostError | AwayError)
                if is_refused or time.monotonic() + pause > end:
                    raise JournalError(
                        f"journal `{shown}`: the server went away and did not come back in"
                        f" {PATIENCE_S:.0f} s: {found}",
                        hint="start it; nothing that was acknowledged is lost",
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        tell(f"journal `{shown}`: the server is back; going on")

    def ask(
        self, statement: str, values: tuple[object, ...] = (), *, seq: int = 0
    ) -> list[tuple[Any, ...]]:
        """All rows of a statement that writes nothing; tried again when the connection is lost."""
        while True:
            try:
                return self.execute(statement, values, seq=seq).fetchall()
            except LostError as lost:
                if self._is_writing:  # what was written before is gone: all of it must be again
                    raise
                self.again(lost)

    def execute(self, statement: str, values: tuple[object, ...] = (), *, seq: int = 0) -> Answered:
        """Run one statement, once."""
        connection = self._open()
        text = statement.replace("?", "%s")
        with kindly(self.address, connection, seq):
            return connection.execute(text, values or None, binary=True)

    @contextmanager
    def transaction(self, seq: int = 0, *, is_kept: bool = True) -> Iterator["Session"]:
        """All that is executed in the block is kept, or nothing; LostError: one of the two.

        Without ``is_kept`` it is nothing in any case.
        """
        connection = self._open()
        self._is_writing = True
        try:
            undo = not is_kept
            with kindly(self.address, connection, seq), connection.transaction(force_rollback=undo):
                yield self
        finally:
            self._is_writing = False

    def close(self) -> None:
        """Let go of the server."""
        self._drop()

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed since."""
        return self._connection is not None

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> psycopg.Connection:
        if self._connection is None:
            raise JournalError(f"journal `{self.address.shown}` is closed", hint="open it again")
        return self._connection
