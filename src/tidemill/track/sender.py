"""The thread that carries records out of a run: it may wait and fail, the loop may not.

Every second it asks for what is new (``collect``), keeps it until the outlet has taken it, and
tries again after a failure, ever more rarely. Meanwhile records wait on disk where the outlet has a
spool, and in memory where it has none. What does not fit is dropped, oldest first, counted, and
told in a record of its own once the outlet works again.
"""

import logging
from collections.abc import Callable, Sequence
from enum import Enum, auto
from itertools import count
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import NamedTuple

from tidemill.track.outlets import Outlet

MOST_WAITING = 4096
"""Records that wait for the outlet: over an hour, in less than two megabytes."""
AT_EXIT_S = 2.0
"""How long the end of a run waits for the last records to be taken."""
HANG_UP_S = 1.3
"""So long it waits for an answer; the rest is for keeping on disk what was not taken."""
MOST_COMPLAINTS = 20
"""Lines in the log of a job about its tracking, however long it runs."""

LOG = logging.getLogger("tidemill.track")


class _Order(Enum):
    """What the thread is asked for before its next second."""

    NUDGE = auto()
    """To send."""
    HURRY = auto()
    """To send at once, also after failures: somebody waits for it."""
    STOP = auto()
    """The same, and to end."""


class UnsentRecord(NamedTuple):
    """A record that is to be sent: its number, and its line."""

    seq: int
    line: bytes


class LostRecords(NamedTuple):
    """Records that nobody will read: how many, and the first and last number where it is known."""

    records: int
    why: str
    first: int | None = None
    last: int | None = None


class RecordSender:
    """Sends what ``collect`` gives it; ``tell_lost`` makes a record about what was lost."""

    def __init__(
        self,
        outlet: Outlet,
        collect: Callable[[], Sequence[UnsentRecord]],
        tell_lost: Callable[[LostRecords], UnsentRecord],
        every_s: float,
    ) -> None:
        self._outlet = outlet
        self._collect = collect
        self._tell_lost = tell_lost
        self._every_s = every_s
        self._orders: SimpleQueue[_Order] = SimpleQueue()  # its ``put`` may be called in a handler
        self._waiting: list[UnsentRecord] = []
        self._lost: LostRecords | None = None
        self._failures = 0
        self._retry_s = 0.0
        self._complaints = 0
        self._is_done = False
        self._left_in = ""
        self._is_spool_full = False
        self._asked = count(1)
        self.answered = 0
        """How many of those who asked it to hurry have had their turn."""
        self.trouble = ""
        """Why the last attempt failed; empty while all is well."""
        self._thread = Thread(target=self._work, name="tidemill-track", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def hurry(self) -> int:
        """Collect and send now; it is done when so many have been answered.

        Takes no lock: it may be called within a signal handler.
        """
        ticket = next(self._asked)
        self._orders.put(_Order.HURRY)
        return ticket

    def nudge(self) -> None:
        """Collect now, and send unless the outlet failed just before; nobody waits for it.

        One that comes while another waits its turn is the same.
        """
        if self._orders.empty():
            self._orders.put(_Order.NUDGE)

    def stop(self) -> str:
        """Send the last records and end, within two seconds; returns where some wait or were lost.

        Empty: all was taken.
        """
        self._orders.put(_Order.STOP)
        self._thread.join(HANG_UP_S)
        if not self._is_done:
            self._outlet.hang_up()
            self._thread.join(AT_EXIT_S - HANG_UP_S)
        if not self._is_done or self._waiting:
            return "the last records of this run were not taken"
        return f"the last records of this run wait in {self._left_in}" if self._left_in else ""

    def complain(self, about: str) -> None:
        """A line in the job's log, a bounded number of times."""
        self._complaints += 1
        if self._complaints <= MOST_COMPLAINTS:
            LOG.warning("tracking: %s; the job goes on", about)

    def _work(self) -> None:
        due_s = monotonic() + self._every_s
        is_last = False
        while not is_last:
            try:
                order = self._orders.get(timeout=max(0.0, due_s - monotonic()))
                is_last, is_urgent = order is _Order.STOP, order is not _Order.NUDGE
            except Empty:
                due_s = max(due_s + self._every_s, monotonic())
                is_urgent = False
            try:
                self._round(is_urgent, HANG_UP_S if is_last else 60.0, is_last=is_last)
            except Exception as error:  # noqa: BLE001 - whatever is wrong here, the job goes on
                self.complain(f"{type(error).__name__}: {error}")
            self.answered += is_urgent
        spool = self._outlet.spool
        self._left_in = spool.path if spool is not None and spool.has_some else ""
        try:
            self._outlet.close()
        except OSError as error:
            self.complain(f"the last records may be lost: {error}")
        self._is_done = True

    def _round(self, is_urgent: bool, within_s: float, *, is_last: bool) -> None:
        self._waiting += self._collect()
        if self._failures:  # an outlet that hangs may outlast this process
            self._keep()
        self._drop_to_bound()
        if not is_urgent and monotonic() < self._retry_s:
            return
        end_s = monotonic() + within_s
        try:
            self._send_all(end_s)
            if not is_last:
                self._send_left(end_s)
        except OSError as error:
            self._failed(error)
            self._keep()
            return
        if self._failures:
            LOG.warning("tracking: records are taken again")
        self._failures, self.trouble = 0, ""

    def _send_all(self, end_s: float) -> None:
        """Send the oldest first: what is on disk is older than what is in memory."""
        spool = self._outlet.spool
        while spool is not None and spool.has_some:
            if monotonic() >= end_s:
                self._keep()
                return
            lines = spool.first()
            spool.take_away(lines[: self._outlet.send(lines, end_s - monotonic())])
        while self._waiting and monotonic() < end_s:
            taken = self._outlet.send([w.line for w in self._waiting], end_s - monotonic())
            del self._waiting[:taken]
            if not self._waiting:
                self._waiting += [self._told(lost) for lost in self._all_lost()]

    def _send_left(self, end_s: float) -> None:
        """Send some of what other processes left, once nothing of this one waits."""
        spool = self._outlet.spool
        left = spool.left() if spool is not None and not self._waiting else None
        if left is None or monotonic() >= end_s:
            return
        lines, lost = left.first(), self._outlet.lost
        left.take_away(lines[: self._outlet.send(lines, end_s - monotonic())])
        self._outlet.lost = lost  # what is refused of theirs is no loss of this run

    def _keep(self) -> None:
        """Put what waits on disk, if there is a place for it."""
        spool = self._outlet.spool
        if spool is None or not self._waiting:
            return
        try:
            spool.keep([w.line for w in self._waiting])
        except OSError as error:
            if not self._is_spool_full:
                self.complain(f"records are kept in memory alone: {error}")
            self._is_spool_full = True
            return
        self._waiting.clear()
        self._is_spool_full = False

    def _all_lost(self) -> list[LostRecords]:
        """What was lost here and beyond the outlet, and has not been told."""
        lost, self._lost = self._lost, None
        beyond, self._outlet.lost = self._outlet.lost, 0
        found = [LostRecords(beyond, self._outlet.lost_why)] if beyond else []
        return [lost, *found] if lost else found

    def _told(self, lost: LostRecords) -> UnsentRecord:
        self.complain(f"{lost.records} records are lost: {lost.why}")
        return self._tell_lost(lost)

    def _failed(self, error: OSError) -> None:
        self.trouble = str(error) or type(error).__name__
        if not self._failures:
            self.complain(f"records cannot be sent now and are kept: {self.trouble}")
        self._failures += 1
        pause_s = min(2.0 ** min(self._failures - 1, 10), self._outlet.longest_pause_s)
        self._retry_s = monotonic() + pause_s

    def _drop_to_bound(self) -> None:
        """Drop the oldest but one: the very first record says which job this is."""
        over = len(self._waiting) - MOST_WAITING
        if over <= 0:
            return
        dropped = self._waiting[1 : 1 + over]
        del self._waiting[1 : 1 + over]
        before = self._lost or LostRecords(0, "the queue was full", dropped[0].seq)
        self._lost = before._replace(records=before.records + over, last=dropped[-1].seq)
