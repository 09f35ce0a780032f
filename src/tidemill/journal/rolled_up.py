"""Where a journal begins whose first events were rolled up: what their place was taken by.

The events before a moment are gone. What is left of them: the cluster state that they led to and
the state of the ledger (from both of which the later events fold on), the dictionary that they
built, the checksum that the next row follows from, and books by the hour (``ledger.books``), which
are bytes here. Unlike a snapshot this is no shortcut: it is all there is, and it is checked.
"""

from typing import NamedTuple
from zlib import crc32

from tidemill.core import snapshot
from tidemill.journal import snapshots
from tidemill.journal.codec import Tail
from tidemill.journal.faults import DamageError
from tidemill.journal.snapshots import Stored
from tidemill.model.errors import JournalError
from tidemill.model.world import World

TAKE = """SELECT seq, at_ms, crc, names, layout, digest, state, ledger, told FROM rolled"""
TAKE_ENDS = "SELECT seq, at_ms, crc, names FROM rolled"
PUT = "INSERT INTO rolled VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
BOOKS = "SELECT seq, body, crc FROM books ORDER BY seq"
PUT_BOOK = "INSERT INTO books VALUES (?, ?, ?)"


class RolledUp(NamedTuple):
    """The end of what was rolled up: ``seq`` events, the last at ``at_ms``; ``crc`` of its row."""

    seq: int
    at_ms: int
    crc: int
    names: bytes | None
    """The dictionary after these events, as a row adds it."""
    layout: int
    """Of ``state``, as for snapshots."""
    digest: str
    state: bytes
    """The cluster state, packed."""
    ledger: bytes
    """What the ledger had not settled yet (``ledger.carried``)."""
    told: int = 0
    """A checksum over all of it."""

    @property
    def tail(self) -> Tail:
        """What the first row that is left follows."""
        return Tail(self.seq, self.at_ms, self.crc)

    def signed(self) -> "RolledUp":
        """The same with its checksum."""
        return self._replace(told=self._sum())

    def check(self, where: str) -> None:
        """Refuse what was changed: nothing can stand in for it."""
        if self.told != self._sum():
            raise DamageError(where, self.seq, "what was rolled up before it was damaged")

    def _sum(self) -> int:
        head = repr((self.seq, self.at_ms, self.crc, self.layout, self.digest)).encode()
        return crc32(self.ledger, crc32(self.state, crc32(self.names or b"", crc32(head))))

    def world(self, where: str) -> World:
        """The cluster state from which later events fold on."""
        self.check(where)
        if self.layout != snapshot.LAYOUT:
            raise JournalError(
                f"journal `{where}` was rolled up by a Tidemill whose cluster state has layout"
                f" {self.layout}; this one has layout {snapshot.LAYOUT}",
                hint="use the version that rolled it up",
            )
        world = snapshots.unpack(Stored(self.seq, self.crc, self.layout, self.digest, self.state))
        if world is None:
            raise DamageError(where, self.seq, "the cluster state before it cannot be read")
        return world


class GoneError(JournalError):
    """Events were asked for that were rolled up."""

    def __init__(self, where: str, asked: str, moment: str) -> None:
        super().__init__(
            f"journal `{where}` has no events before {moment} any more, and {asked}; they were"
            " rolled up into hourly books",
            hint="`tidemill ledger` still adds them up by whole hours, and `tidemill journal copy`"
            " copies all that is left",
        )


def book_sum(seq: int, body: bytes) -> int:
    """The checksum of a part of the books."""
    return crc32(body, crc32(str(seq).encode()))
