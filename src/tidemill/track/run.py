"""A run: what a training loop calls. It measures, and never raises, waits or prints.

The loop's thread adds up times under a lock that is held for microseconds; a second thread cuts a
window each second and carries the records out (``sender``). Whatever fails in here is told in the
job's log, and the loop goes on.
"""

from __future__ import annotations

import atexit
import os
import signal
import time
from collections.abc import Callable, Iterable
from threading import RLock, current_thread, get_ident, main_thread
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

from tidemill.track import records
from tidemill.track.amounts import whole
from tidemill.track.clock import RunClock
from tidemill.track.format import MOST, VERSION
from tidemill.track.identity import ProcessIdentity, clipped
from tidemill.track.meter import MOST_STEPS, LoopPart, LoopWindow, StepAmounts, StepMeter
from tidemill.track.parts import Sync, TimedBatches, TimedCheckpoint, TimedPart, TimedStep
from tidemill.track.sender import AT_EXIT_S, LOG, LostRecords, RecordSender, UnsentRecord

if TYPE_CHECKING:
    from tidemill.track.outlets import Outlet

MOST_KEPT = 8192
"""Records and windows that wait for the second thread, should it hang in a write."""
PPM = 1_000_000
Answer = TypeVar("Answer")
Item = TypeVar("Item")

_RUNS: WeakSet[TrackedRun] = WeakSet()


class TrackedRun:
    """One process of a job, from its beginning to its end. Made by ``track.job``.

    Times are those of the thread that made the run: parts and steps that other threads enter are
    passed over. Events (checkpoints, restarts, efficiency) may come from any thread.
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
        self._clock = RunClock()
        self._meter = StepMeter(self._clock.now_us())
        self._sync = sync
        self._lock = RLock()
        self._is_inside = False
        self._thread = get_ident()
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
        return TimedPart(self, LoopPart.DATA, self._sync if sync else None)

    def communication(self, *, sync: bool = False) -> TimedPart:
        """The loop waits for other ranks within the block."""
        return TimedPart(self, LoopPart.COMMUNICATION, self._sync if sync else None)

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
        self.tell(
            "efficiency",
            mfu_ppm=self.whole(mfu, PPM, PPM),
            mflop_per_s=self.whole(flops_per_s, scale=1 / records.FLOP_PER_MFLOP),
            peak_mflop_per_s=self.whole(peak_flops_per_s, scale=1 / records.FLOP_PER_MFLOP),
            source=self.text(source),
        )

    @property
    def last_step(self) -> int:
        """The number of the last step that ended; 0 before the first."""
        return self._meter.step

    @property
    def trouble(self) -> str:
        """Why records cannot be sent at present; empty while all is well."""
        return self._sender.trouble if self._sender else ""

    # The life of a run ------------------------------------------------------------------------

    def begin(self, facts: records.Fields, is_sigterm_handled: bool) -> None:
        """Tell the beginning and start the second thread."""
        if self._sender is None:
            return
        _RUNS.add(self)
        self.tell("job_began", **facts)
        self._sender.start()
        self._sender.hurry()
        atexit.register(self.close)
        if is_sigterm_handled:
            self._take_sigterm()

    def close(self, outcome: str | None = None, error: str | None = None) -> None:
        """The end: send what there is, for two seconds at most. A second call does nothing."""
        if self._is_silent or self._sender is None:
            return
        self._add_window(self._clock.now_us())
        self.tell("job_ended", outcome=outcome, error=error)
        self._is_silent = True
        atexit.unregister(self.close)
        self._give_back_sigterm()
        if not self._sender.stop():
            LOG.warning("tracking: the last records of this run were not taken in %s s", AT_EXIT_S)

    def flush(self, within_s: float = AT_EXIT_S) -> bool:
        """Have all that there is sent now; returns whether it was tried in time."""
        if self._is_silent or self._sender is None:
            return True
        before, end_s = self._sender.rounds, time.monotonic() + within_s
        self._sender.hurry()
        while self._sender.rounds <= before and time.monotonic() < end_s:
            time.sleep(0.002)
        return self._sender.rounds > before

    def __enter__(self) -> TrackedRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(_outcome(error), None if kind is None else clipped(kind.__name__))

    # What the parts call ----------------------------------------------------------------------

    def enter_part(self, part: LoopPart) -> int:
        """Enter a part; returns its ticket, 0 where nothing is measured."""
        return self._in_loop(self._meter.enter, part) or 0

    def leave_part(self, ticket: int) -> None:
        """Leave a part."""
        if ticket:
            self._in_loop(self._meter.leave, ticket)

    def begin_step(self) -> int:
        """Enter a step; returns its ticket, 0 where nothing is measured."""
        return self._in_loop(self._meter.begin_step) or 0

    def end_step(self, ticket: int, step: TimedStep | None) -> None:
        """Leave a step; None: it was not done."""
        if not ticket:
            return
        if step is None:
            self._in_loop(self._meter.drop_step, ticket)
            return
        most = MOST // MOST_STEPS  # so that the sum of a window is a number too
        amounts = StepAmounts(
            self.whole(step.tokens, most),
            self.whole(step.samples, most),
            self.whole(step.flops, most * records.FLOP_PER_MFLOP),
        )
        if self._in_loop(self._meter.end_step, ticket, self.whole(step.number), amounts):
            self._in_loop(self._add_window)

    def checkpoint_number(self, step: int | None) -> tuple[int, int]:
        """The number of a new checkpoint of this run, and the step after which it is taken."""
        with self._lock:
            self._checkpoints += 1
            told = self.whole(step)
            return self._checkpoints, self._meter.step if told is None else told

    def tell(self, kind: str, **fields: object) -> None:
        """Make a record of something that happens now."""
        if self._is_silent:
            return
        with self._lock:
            self._keep(kind, {"at_us": self._clock.now_us(), **fields})

    def whole(self, amount: object, most: int = MOST, scale: float = 1) -> int | None:
        """An amount as an integer; what is no amount is unknown, and told in the log."""
        if amount is None:
            return None
        value = whole(amount, most, scale)
        if value is None:
            self._passed_over(f"a {type(amount).__name__} that is no amount was given")
        return value

    def text(self, given: object) -> str | None:
        """A text of bounded length; None where there is none."""
        return clipped(given) if given else None

    # Within -----------------------------------------------------------------------------------

    def _in_loop(self, act: Callable[..., Answer], *args: object) -> Answer | None:
        """Do something to the meter at the time that it is now; None where that cannot be.

        A signal handler that tracks while the loop is in here is passed over: it would find sums
        that are half made.
        """
        if self._is_silent or get_ident() != self._thread:
            return None
        with self._lock:
            if self._is_inside:
                return None
            self._is_inside = True
            try:
                return act(self._clock.now_us(), *args)
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end a job
                self._passed_over(f"{type(error).__name__}: {error}")
                return None
            finally:
                self._is_inside = False

    def _count_from(self, step: int | None) -> int | None:
        told = self.whole(step)
        if told is not None:
            with self._lock:
                self._meter.count_from(told)
        return told

    def _passed_over(self, why: str) -> None:
        if self._sender is not None:
            self._sender.complain(why)

    def _add_window(self, now_us: int) -> None:
        with self._lock:
            self._keep("steps", self._meter.cut(now_us))

    def _keep(self, kind: str, what: records.Fields | LoopWindow) -> None:
        """Number it and keep it for the second thread. Within the lock.

        The number is taken first: a signal handler that comes in between takes the next.
        """
        seq = self._seq
        self._seq = seq + 1
        if len(self._kept) < MOST_KEPT:
            self._kept.append((seq, kind, what))
        else:
            self._overrun += 1

    def _collect(self) -> list[UnsentRecord]:
        """All that is new, as lines; called by the second thread."""
        if not self._is_silent:
            self._add_window(self._clock.now_us())
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
        self.flush(0.5)
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


os.register_at_fork(after_in_child=_in_child)
