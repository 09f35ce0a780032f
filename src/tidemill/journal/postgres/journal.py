"""A journal in PostgreSQL: the rows of the SQLite one, in a schema of its own on a server.

One writer: an advisory lock, held by its session and gone with it. A writer whose connection was
lost takes the lock again, and goes on only if nobody wrote meanwhile; every transaction looks at
the ``fence``, which each new writer raises, so that one that was passed over (a server that failed
over forgets its locks) cannot write on. Whoever writes by a right that passes from process to
process (a Lease) signs with it, and ends the session of the one who had it before: that one may
stand still for ever, and its session with it. Whether an append that was cut off was kept is told
by the checksum at the end of the journal.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

from tidemill.journal.batch_rows import BatchRows, Execute
from tidemill.journal.codec import Tail
from tidemill.journal.faults import OtherWriterError
from tidemill.journal.postgres import schema as schemas
from tidemill.journal.postgres import server
from tidemill.journal.postgres.address import Address
from tidemill.journal.postgres.faults import LostError
from tidemill.journal.postgres.schema import WrittenError
from tidemill.journal.postgres.server import Session
from tidemill.journal.rolled_up import RolledUp
from tidemill.journal.table_journal import TableJournal, Writing
from tidemill.model.errors import JournalError
from tidemill.model.world import World

Sync = Literal["full", "off"]
"""When the disk is waited for: at each append, or (for what is made anew) once at the end."""


class PostgresJournal(TableJournal):
    """Reads at once; the first write takes the lock that makes it the writer."""

    def __init__(
        self,
        address: Address,
        *,
        schema: str = "",
        create: bool = False,
        sync: Sync = "full",
        check_ends: bool = True,
    ) -> None:
        self.where, self._schema = address.shown, schema or schemas.name_of(address.name)
        self._session = Session(address, self._schema, is_synchronous=sync == "full")
        self._is_writer, self._fence, self._held_in = False, 0, 0
        self._right = ""
        try:
            self._session.open()
            self._number = self._found(create=create)
            schemas.check(self._session, self._schema)
            self._kept = BatchRows(self.where, self._ask)
            self._begin()
            self._tail = self._meant = self._kept.end() if check_ends else Tail()
        except LostError as lost:
            self.close()
            raise schemas.gone(address, lost) from None
        except BaseException:
            self.close()
            raise

    @classmethod
    def exists(cls, address: Address) -> bool:
        """Whether there is a journal of this name."""
        with schemas.connected(address) as session:
            return schemas.number_of(session, schemas.name_of(address.name)) is not None

    def is_being_written(self) -> bool:
        """Whether somebody holds the lock of this journal."""
        return schemas.is_locked(self._session, self._number)

    def claim(self) -> None:
        """Take the writer's lock; refused if the journal has grown since it was opened."""
        if not self._is_writer:
            self._surely(self._take)
            self._is_writer = True
        elif self._held_in != self._session.generation:
            self._surely(self._take_again)

    def take_over(self, right: str) -> None:
        """Become the writer, in the place of whoever wrote by the same right."""
        self._right = right
        try:
            self.claim()
        except WrittenError as error:
            if not schemas.writer_of(self._session).endswith(_by(right)):
                raise
            self._end_writer(error)
            self.claim()

    def _end_writer(self, error: WrittenError) -> None:
        try:
            schemas.end_writer(self._session, self._number)
        except LostError as lost:
            self._session.again(lost)
        except JournalError as refused:  # as a rule it is of another role
            raise WrittenError(
                f"{error.message}, and its session cannot be ended: {refused.message}",
                hint="let all replicas use one role of the server, or stop that process",
            ) from None

    @property
    def away(self) -> str:
        """What was said when the server went away, while it is waited for."""
        return self._session.away

    def set_meta(self, key: str, value: str) -> None:
        """Keep a small fact."""
        self._surely(lambda: super(PostgresJournal, self).set_meta(key, value))

    def save_snapshot(self, world: World, *, is_last: bool = False) -> None:
        """Keep the World as it is now."""
        self._surely(lambda: super(PostgresJournal, self).save_snapshot(world, is_last=is_last))

    def roll_up(self, rolled: RolledUp, book: bytes) -> None:
        """Put this in the place of the events before it; again where the server went away."""
        if_not = rolled.tail

        def replace() -> None:
            ends = self._ends()
            if ends is None or ends[0] != if_not:  # else it was kept before the connection broke
                super(PostgresJournal, self).roll_up(rolled, book)
            self._begin()

        self._surely(replace)

    def close(self) -> None:
        """Let go of the right to write, and of the server."""
        is_writer, self._is_writer = self._is_writer, False
        try:
            if is_writer and self._session.is_open:
                with suppress(LostError, JournalError):  # then the server knows already
                    schemas.unlock(self._session)
        finally:
            self._session.close()

    def settle(self) -> None:
        """Wait until all that was written is on the disk; see ``Sync``."""
        self._session.is_synchronous = True
        self._surely(self._touch)

    def _touch(self) -> None:
        self.claim()
        with self._transaction() as session:
            session.execute("SET LOCAL synchronous_commit = on")
            session.execute("UPDATE form SET writer = writer")

    def _has_rolled(self) -> bool:
        return True  # they are made with the others

    def _make_room_for_rolled(self, writing: Writing) -> None:
        pass

    def _found(self, *, create: bool) -> int:
        number = schemas.number_of(self._session, self._schema)
        if number is None and create:
            schemas.create(self._session, self._schema)
            number = schemas.number_of(self._session, self._schema)
        if number is None:
            raise JournalError(
                f"there is no journal `{self.where}`",
                hint="check the name; a run that starts a new journal creates it",
            )
        return number

    def _put(self, put: Callable[[Execute], Tail]) -> None:
        """Append; where the connection was lost on the way, find out first what was kept."""

        def append() -> None:
            if self._tail == self._meant or not self._was_kept():
                super(PostgresJournal, self)._put(put)

        self._meant = self._tail
        self._surely(append)

    def _was_kept(self) -> bool:
        """Whether the append that was cut off is there after all."""
        tail = self._kept.end()
        if tail == self._meant:
            self._tail = tail
        return tail == self._meant

    def _surely(self, write: Callable[[], None]) -> None:
        """Write, again and again while the server goes away and comes back."""
        while True:
            try:
                return write()
            except LostError as lost:
                self._session.again(lost)
                if self._is_writer:
                    self._keep_right()

    def _keep_right(self) -> None:
        """Be the writer again after the connection was lost."""
        end = time.monotonic() + server.PATIENCE_S
        while True:
            try:
                return self._take_again()
            except LostError as lost:
                self._session.again(lost)
            except WrittenError:  # by us, as far as a server knows that has not missed us yet
                if time.monotonic() + server.LONGEST_PAUSE_S > end:
                    raise
                time.sleep(server.LONGEST_PAUSE_S)

    def _take(self) -> None:
        schemas.lock_or_refuse(self._session, self._number)
        try:
            self._refuse_if_grown()
            self._raise_fence(None)
        except BaseException:
            schemas.unlock(self._session)
            raise

    def _take_again(self) -> None:
        if self._held_in == self._session.generation:
            return
        try:
            schemas.lock_or_refuse(self._session, self._number)
        except WrittenError:
            if self._session.ask("SELECT fence FROM form") != [(self._fence,)]:
                raise self._passed_over() from None
            raise
        if self._kept.end() not in (self._tail, self._meant):
            self._refuse_if_grown()
        self._raise_fence(self._fence)

    def _raise_fence(self, was: int | None) -> None:
        """Be the newest writer; nobody may have been it since we were."""
        with self._session.transaction() as session:
            ((fence,),) = session.execute("SELECT fence FROM form FOR UPDATE")
            if was is not None and fence != was:
                raise self._passed_over()
            who = f"process {os.getpid()} on {socket.gethostname()}{_by(self._right)}"
            session.execute("UPDATE form SET fence = ?, writer = ?", (fence + 1, who))
        self._fence, self._held_in = fence + 1, self._session.generation

    def _passed_over(self) -> OtherWriterError:
        return OtherWriterError(
            f"journal `{self.where}` has had another writer since this one lost its connection",
            hint="open it again, rebuild the cluster state, and go on from there",
        )

    def _ask(
        self, statement: str, values: tuple[object, ...] = (), *, seq: int = 0
    ) -> list[tuple[Any, ...]]:
        return self._session.ask(statement, values, seq=seq)

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        session = self._session
        if self._held_in != session.generation:
            raise LostError("the right to write was lost with the connection")
        with session.transaction(self._tail.seq):
            if session.execute("SELECT fence FROM form FOR SHARE").fetchall() != [(self._fence,)]:
                raise self._passed_over()
            yield session


def _by(right: str) -> str:
    """How a writer signs by what right it writes."""
    return f" by {right}" if right else ""
