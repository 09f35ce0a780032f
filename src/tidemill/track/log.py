"""What a loop did, in the order in which it did it, until the second thread adds it up.

All that the loop's thread does is to append: a reading of the clock with what happens then, or a
step that is done. ``list.append`` needs no lock and can be interrupted by a signal handler that
appends as well. ``LoopLog.fold`` feeds it to a ``StepMeter``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from tidemill.track.amounts import whole
from tidemill.track.clock import RunClock
from tidemill.track.format import MOST
from tidemill.track.meter import MOST_STEPS, PARTS, LoopWindow, StepAmounts, StepMeter
from tidemill.track.parts import TimedStep
from tidemill.track.records import FLOP_PER_MFLOP

CODE_BITS = 4
LEAVE = PARTS  # enter part p: p; leave it: LEAVE + p
BEGIN_STEP = 2 * PARTS
DROP_STEP = 2 * PARTS + 1
assert DROP_STEP < 1 << CODE_BITS
CODE = (1 << CODE_BITS) - 1

MOST_PER_STEP = MOST // MOST_STEPS
"""An amount of one step, so that the sum of a window is a number too."""


class Happening(NamedTuple):
    """Something that becomes a record of its own."""

    at_ns: int
    kind: str
    fields: dict[str, Any]


class LoopLog:
    """The entries that are not added up yet, and the meter that adds them up."""

    def __init__(self, clock: RunClock, now_us: int, complain: Callable[[str], None]) -> None:
        self.entries: list[int | TimedStep | Happening] = []
        self._clock = clock
        self._meter = StepMeter(now_us)
        self._complain = complain
        self._complained: set[str] = set()

    def fold(self, keep: Callable[[str, dict[str, Any] | LoopWindow], None]) -> None:
        """Add up what there is; windows that are full and happenings are handed to ``keep``.

        Called within the lock of the run; the loop may append meanwhile.
        """
        count = len(self.entries)
        batch = self.entries[:count]
        del self.entries[:count]
        us = self._clock.us
        for entry in batch:
            if isinstance(entry, int):
                self._moment(us(entry >> CODE_BITS), entry & CODE)
            elif isinstance(entry, TimedStep):
                now_us = us(entry.ended_ns)
                assert entry.number is not None, "the loop's thread has counted it"
                if self._meter.end_step(now_us, entry.number, self._amounts(entry)):
                    keep("steps", self._meter.cut(now_us))
            else:
                if entry.kind in {"restored", "restarted"}:  # what was before it is told apart
                    keep("steps", self._meter.cut(us(entry.at_ns)))
                    self._meter.start_again()
                keep(entry.kind, {"at_us": us(entry.at_ns), **entry.fields})

    def cut(self, now_us: int) -> LoopWindow:
        """The window that ends now."""
        return self._meter.cut(now_us)

    def _moment(self, now_us: int, code: int) -> None:
        if code < LEAVE:
            self._meter.enter(now_us, code)
        elif code < BEGIN_STEP:
            self._meter.leave(now_us, code - LEAVE)
        elif code == BEGIN_STEP:
            self._meter.begin_step(now_us)
        else:
            self._meter.drop_step(now_us)

    def _amounts(self, step: TimedStep) -> StepAmounts:
        return StepAmounts(
            self.amount("tokens", step.tokens, MOST_PER_STEP),
            self.amount("samples", step.samples, MOST_PER_STEP),
            self.amount("flops", step.flops, MOST_PER_STEP * FLOP_PER_MFLOP),
        )

    def amount(self, name: str, given: object, most: int = MOST, scale: float = 1) -> int | None:
        """An amount as an integer; what is no amount is unknown, and complained of once."""
        if given is None:
            return None
        value = whole(given, most, scale)
        if value is None and name not in self._complained:
            self._complained.add(name)
            number = isinstance(given, int | float)
            shown = f"{given:g}" if number else f"a {type(given).__name__}"
            self._complain(f"{name} is {shown}, and has to be a number from 0 to {most / scale:g}")
        return value
