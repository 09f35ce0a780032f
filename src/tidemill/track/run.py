"""A run: what a training loop calls. It measures, and never raises, waits or prints.

The loop's thread appends to a list what it does (``log``); a second thread adds it up each second
and carries the records out (``sender``). Whatever fails in here is told in the job's log, and the
loop goes on.
"""

from __future__ import annotations

import atexit
import os
import signal
import time
from collections.abc import Iterable
from threading import RLock, current_thread, get_ident, main_thread
from time import monotonic_ns
from types import FrameType
from typing import TYPE_CHECKING, Self, TypeVar
from weakref import WeakSet

from tidemill.track import records
from tidemill.track.clock import RunClock
from tidemill.track.format import MOST, VERSION
from tidemill.track.identity import ProcessIdentity, clipped
from tidemill.track.log import (
    BEGIN_STEP,
    CODE_BITS,
    DROP_STEP,
    LEAVE,
    Happening,
    LoopLog,
)
from tidemill.track.meter import LoopPart, LoopWindow
from tidemill.track.parts import Sync, TimedBatches, TimedCheckpoint, TimedPart, TimedStep
from tidemill.track.sender import AT_EXIT_S, LOG, LostRecords, RecordSender, UnsentRecord

if TYPE_CHECKING:
    from tidemill.track.outlets import Outlet

MOST_LOGGED = 20_000
"""Entries that wait to be added up. Where the second thread hangs, the loop adds them up itself."""
MOST_KEPT = 8192
"""Records and windows that wait for the second thread, should it hang in a write."""
PPM = 1_000_000
Item = TypeVar("Item")

_RUNS: WeakSet[TrackedRun] = WeakSet()


class TrackedRun:
    """One process of a job, from its beginning to its end. Made by ``track.job``.

    Times are those of the thread that made the run: parts and steps that other threads enter are
    passed over, and the log says so of the first such step. Events (checkpoints, restarts,
    efficiency) may come from any thread.
    """

    def __init__(
        self,
        who: ProcessIdentity,
        run: str,
        outlet: Outlet | None,
        every_s: float,
        sync: Sync | None,
    ) -> None:
        self.who = who
        self.id = run
        self.last_step = 0
        """The number of the last step that was done; steps without a number count on from here."""
        self._clock = RunClock()
        self._log = LoopLog(self._clock, self._clock.now_us(), self._complain)
        self._append = self._log.entries.append
        self._sync = sync
        self._data = TimedPart(self, LoopPart.DATA)
        self._communication = TimedPart(self, LoopPart.COMMUNICATION)
        self._lock = RLock()
        self._is_folding = False
        self._is_cut_off = False
        """Its last window was cut: what the second thread does after that comes before no end."""
        self._thread = get_ident()
        self._steps_open = 0
        self._is_elsewhere_told = False
        self._seq = 0
        self._checkpoints = 0
        self._kept: list[tuple[int, str, records.Fields | LoopWindow]] = []
        self._overrun = 0
        self._is_silent = outlet is None
        self._term_before: object = None
        self._sender = (
            None
            if outlet is None
            else RecordSender(outlet, self._collect, self._tell_lost, every_s)
        )

    # What a loop calls ------------------------------------------------------------------------

    def step(
        self,
        number: int | None = None,
        *,
        tokens: int | None = None,
        samples: int | None = None,
        flops: float | None = None,
        sync: bool = False,
    ) -> TimedStep:
        """A step of training; ``number`` defaults to one more than the last, and the first is 1."""
        return TimedStep(self, number, tokens, samples, flops, self._sync if sync else None)

    def data(self, *, sync: bool = False) -> TimedPart:
        """The loop waits for its data within the block."""
        return TimedPart(self, LoopPart.DATA, self._sync) if sync else self._data

    def communication(self, *, sync: bool = False) -> TimedPart:
        """The loop waits for other ranks within the block."""
        return TimedPart(self, LoopPart.COMMUNICATION, self._sync) if sync else self._communication

    def checkpoint(self, step: int | None = None, *, size: int | None = None) -> TimedCheckpoint:
        """The loop stands still within the block and saves; ``step`` defaults to the last one."""
        return TimedCheckpoint(self, step, size)

    def checkpoint_begun(self, step: int | None = None) -> TimedCheckpoint:
        """Saving has begun and goes on beside the loop; call ``saved`` of what is returned."""
        return TimedCheckpoint(self, step, None).begun(is_async=True)

    def batches(self, loader: Iterable[Item]) -> TimedBatches[Item]:
        """The loader, with the time that each batch is waited for."""
        return TimedBatches(self, loader)

    def restored(self, step: int) -> None:
        """A checkpoint was read: the loop goes on from the state after this step."""
        self.tell("restored", step=self._count_from(step))

    def restart(self, step: int | None = None, why: str = "") -> None:
        """The loop starts again within this process, from the state after ``step``."""
        self.tell("restarted", step=self._count_from(step), why=self.text(why))

    def efficiency(
        self,
        *,
        mfu: float | None = None,
        flops_per_s: float | None = None,
        peak_flops_per_s: float | None = None,
        source: str = "",
    ) -> None:
        """How well the device is used from now on, as somebody measured or worked it out."""
        scale = 1 / records.FLOP_PER_MFLOP
        told = {
            "mfu_ppm": self.whole("mfu", mfu, scale=PPM),
            "mflop_per_s": self.whole("flops_per_s", flops_per_s, scale=scale),
            "peak_mflop_per_s": self.whole("peak_flops_per_s", peak_flops_per_s, scale=scale),
        }
        if any(amount is not None for amount in told.values()):
            self.tell("efficiency", **told, source=self.text(source))

    @property
    def trouble(self) -> str:
        """Why records cannot be sent at present; empty while all is well."""
        return self._sender.trouble if self._sender else ""

    # The life of a run ------------------------------------------------------------------------

    def begin(self, facts: records.Fields, is_sigterm_handled: bool) -> None:
        """Tell the beginning and start the second thread."""
        if self._sender is None:
            return
        self.tell("job_began", **facts)
        try:
            self._sender.start()
        except RuntimeError as error:  # no thread can be had
            self._is_silent = True
            LOG.warning("tracking: %s; the job goes on without being tracked", error)
            return
        self._sender.hurry()
        _RUNS.add(self)
        atexit.register(self.close)
        if is_sigterm_handled:
            self._take_sigterm()

    def close(self, outcome: str | None = None, error: str | None = None) -> None:
        """The end: send what there is, for two seconds at most. A second call does nothing."""
        if self._is_silent or self._sender is None:
            return
        self._fold(is_cut=True, is_last=True)
        self.tell("job_ended", outcome=outcome, error=error)
        self._fold()
        self._is_silent = True
        atexit.unregister(self.close)
        self._give_back_sigterm()
        if why := self._sender.stop():
            LOG.warning("tracking: %s", why)

    def flush(self, within_s: float = AT_EXIT_S) -> bool:
        """Have all that there is sent now; returns whether it was tried in time."""
        if self._is_silent or self._sender is None:
            return True
        ticket, end_s = self._sender.hurry(), time.monotonic() + within_s
        while self._sender.answered < ticket and time.monotonic() < end_s:
            time.sleep(0.002)
        return self._sender.answered >= ticket

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        self.close(_outcome(error), None if kind is None else clipped(kind.__name__))

    # What the parts call ----------------------------------------------------------------------

    def enter(self, part: int) -> None:
        """Enter a part."""
        if not self._is_silent and get_ident() == self._thread:
            self._append(monotonic_ns() << CODE_BITS | part)

    def leave(self, part: int) -> None:
        """Leave a part."""
        if not self._is_silent and get_ident() == self._thread:
            self._append(monotonic_ns() << CODE_BITS | LEAVE + part)
            if len(self._log.entries) > MOST_LOGGED:
                self._fold()

    def begin_step(self) -> bool:
        """Enter a step, or a step within it; returns whether this thread's steps count."""
        if get_ident() != self._thread:
            self._tell_elsewhere()
            return False
        self._steps_open += 1
        if self._steps_open == 1 and not self._is_silent:
            self._append(monotonic_ns() << CODE_BITS | BEGIN_STEP)
        return True

    def end_step(self, step: TimedStep, is_done: bool) -> None:
        """Leave a step."""
        self._steps_open -= 1
        if self._steps_open:
            return
        if is_done:
            number = None if step.number is None else self.whole("number", step.number)
            self.last_step = step.number = self.last_step + 1 if number is None else number
        if not self._is_silent:
            step.ended_ns = monotonic_ns()
            self._append(step if is_done else step.ended_ns << CODE_BITS | DROP_STEP)
            if len(self._log.entries) > MOST_LOGGED:
                self._fold()

    def checkpoint_number(self, step: int | None) -> tuple[int, int]:
        """The number of a new checkpoint of this run, and the step after which it is taken."""
        self._checkpoints += 1
        told = self.whole("step", step)
        return self._checkpoints, self.last_step if told is None else told

    def tell(self, kind: str, **fields: object) -> None:
        """Make a record of something that happens now."""
        if not self._is_silent:
            self._append(Happening(monotonic_ns(), kind, fields))
            if len(self._log.entries) > MOST_LOGGED:
                self._fold()

    def send_soon(self) -> None:
        """Have what was told sent without waiting for the next second, nor for its being sent.

        Checkpoints are rare, and a process is often killed right after one.
        """
        if not self._is_silent and self._sender is not None:
            self._sender.nudge()

    def whole(self, name: str, amount: object, most: int = MOST, scale: float = 1) -> int | None:
        """An amount as an integer; what is no amount is unknown, and told in the log."""
        return self._log.amount(name, amount, most, scale)

    def text(self, given: object) -> str | None:
        """A text of bounded length; None where there is none."""
        return clipped(given) if given else None

    # Within -----------------------------------------------------------------------------------

    def _count_from(self, step: int | None) -> int | None:
        told = self.whole("step", step)
        if told is not None:
            self.last_step = told
        return told

    def _tell_elsewhere(self) -> None:
        """Say once that steps of another thread do not count."""
        if not self._is_elsewhere_told and not self._is_silent:
            self._is_elsewhere_told = True
            self._complain(
                "steps of another thread than the one that called `track.job` are not counted (call"
                " it in the thread of the loop)"
            )

    def _complain(self, why: str) -> None:
        if self._sender is not None:
            self._sender.complain(why)

    def _fold(self, is_cut: bool = False, is_last: bool = False) -> None:
        """Add up what the loop has done; cut the window where asked, and never after the last time.

        A signal handler that closes the run while the loop is in here is passed over: it would find
        sums that are half made.
        """
        with self._lock:
            if self._is_folding:
                return
            self._is_folding = True
            try:
                self._log.fold(self._keep)
                if is_cut and not self._is_cut_off:
                    self._cut()
                self._is_cut_off |= is_last
            finally:
                self._is_folding = False

    def _cut(self) -> None:
        """Keep the window that ends now. Within the lock."""
        self._keep("steps", self._log.cut(self._clock.now_us()))

    def _keep(self, kind: str, what: records.Fields | LoopWindow) -> None:
        """Number it and keep it for the second thread. Within the lock."""
        if len(self._kept) < MOST_KEPT:
            self._kept.append((self._seq, kind, what))
        else:
            self._overrun += 1
        self._seq += 1

    def _collect(self) -> list[UnsentRecord]:
        """All that is new, as lines; called by the second thread."""
        if not self._is_silent:
            self._fold(is_cut=True)
        with self._lock:
            kept, self._kept = self._kept, []
            overrun, self._overrun = self._overrun, 0
        found = [self._line(*one) for one in kept]
        if overrun:
            found.append(self._tell_lost(LostRecords(overrun, "the outlet hung")))
        return found

    def _line(self, seq: int, kind: str, what: records.Fields | LoopWindow) -> UnsentRecord:
        if isinstance(what, LoopWindow):
            what = records.steps_fields(what, self._clock.skew_us())
        head = {"v": VERSION, "is": kind, "job": self.who.job, "run": self.id}
        return UnsentRecord(seq, records.line({**head, "rank": self.who.rank, "seq": seq, **what}))

    def _tell_lost(self, lost: LostRecords) -> UnsentRecord:
        with self._lock:
            seq, self._seq = self._seq, self._seq + 1
        told = lost._replace(why=clipped(lost.why))
        return self._line(seq, "lost", {"at_us": self._clock.now_us(), **told._asdict()})

    # Signals and forks ------------------------------------------------------------------------

    def _take_sigterm(self) -> None:
        """Flush at SIGTERM, where nobody else handles it; then end as if we had not been here."""
        if (
            current_thread() is not main_thread()
            or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        ):
            return
        self._term_before = signal.signal(signal.SIGTERM, self._at_sigterm)

    def _at_sigterm(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler
        self.flush(1.0)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _give_back_sigterm(self) -> None:
        if self._term_before is not None and current_thread() is main_thread():
            if signal.getsignal(signal.SIGTERM) == self._at_sigterm:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._term_before = None

    def be_silent(self) -> None:
        """This is a forked child: the run belongs to its parent, and the lock may be held there."""
        self._is_silent = True
        self._lock = RLock()


def _outcome(error: BaseException | None) -> str:
    """How a block of ``with track.job`` ended."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return "finished"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"


def _in_child() -> None:
    for run in list(_RUNS):
        run.be_silent()


if hasattr(os, "register_at_fork"):  # Windows has none, and does not fork
    os.register_at_fork(after_in_child=_in_child)
