"""Where did the time of a training loop go, window by window? Pure: it is told the time.

A loop is at each instant in one part: that of the innermost block that it has entered, ``COMPUTE``
within a step, ``OTHER`` outside all blocks. ``StepMeter`` adds up the time by part and the steps
that ended, until somebody cuts the window. The parts of a window add up to it exactly.
"""

from enum import IntEnum
from typing import NamedTuple

MOST_STEPS = 1000
"""Of one window: bounds what is kept for the median. Beyond it the window is cut."""


class LoopPart(IntEnum):
    """What a training loop may be doing."""

    OTHER = 0
    COMPUTE = 1
    DATA = 2
    COMMUNICATION = 3
    CHECKPOINT = 4


PARTS = len(LoopPart)
OTHER, COMPUTE = int(LoopPart.OTHER), int(LoopPart.COMPUTE)
"""Plain numbers: a name of an enumeration takes longer to look up than all else of an entry."""


class StepAmounts(NamedTuple):
    """What one step did; None: nobody said."""

    tokens: int | None = None
    samples: int | None = None
    flops: int | None = None


NOTHING = StepAmounts(0, 0, 0)


class LoopWindow(NamedTuple):
    """A stretch of time of a loop, without a gap to the one before."""

    from_us: int
    until_us: int
    spent_us: tuple[int, ...]
    """By part, in the order of ``LoopPart``; adds up to the window."""
    used: tuple[bool, ...]
    """Which parts the loop has ever told apart: the time of the others is unknown, not 0."""
    first_step: int
    last_step: int
    step_us: list[int]
    """How long each step took that ended in the window."""
    amounts: StepAmounts
    last_end_us: int | None
    """When the last of them ended; None: nobody kept it."""
    up_us: int | None
    """When the loop began to work in it, or worked again; None: it did so before, or does not."""


class StepMeter:
    """Adds up one window after the other."""

    __slots__ = (
        "_amounts", "_begun_us", "_durations", "_ended_us", "_first", "_from_us", "_is_up",
        "_last", "_mark_us", "_spent", "_stack", "_up_us", "_used",
    )  # fmt: skip

    def __init__(self, now_us: int) -> None:
        self._stack = [OTHER]
        self._used = [True] + [False] * (PARTS - 1)
        self._mark_us = now_us
        self._begun_us = now_us
        self._ended_us = -1  # when the last step ended; -1: there is none to count from
        self._is_up = False
        self._open(now_us)

    def _open(self, now_us: int) -> None:
        self._from_us = now_us
        self._spent = [0] * PARTS
        self._durations: list[int] = []
        self._first = self._last = 0
        self._amounts = NOTHING
        self._up_us: int | None = None

    def enter(self, now_us: int, part: int) -> None:
        """Enter a part."""
        self._pass(now_us)
        self._used[part] = True
        self._stack.append(part)
        if not self._is_up:
            self._is_up, self._up_us = True, self._mark_us

    def leave(self, now_us: int, part: int) -> None:
        """Leave the innermost block of this part, and whatever was entered in it and not left."""
        stack = self._stack
        if part not in stack or part == OTHER:
            return  # an interruption came before it was entered
        self._pass(now_us)
        while stack.pop() != part:
            pass

    def begin_step(self, now_us: int) -> None:
        """Enter a step."""
        self.enter(now_us, COMPUTE)
        self._begun_us = now_us

    def drop_step(self, now_us: int) -> None:
        """Leave a step that an exception ended: its time counts, the step does not."""
        self.leave(now_us, COMPUTE)

    def end_step(self, now_us: int, number: int, amounts: StepAmounts) -> bool:
        """Leave a step that is done. Returns whether the window is full.

        A step took the time since the step before it ended: what happens between steps belongs to
        the next one.
        """
        self.leave(now_us, COMPUTE)
        if not self._durations:
            self._first = number
        self._last = number
        since_us = self._begun_us if self._ended_us < 0 else self._ended_us
        self._durations.append(max(0, now_us - since_us))
        self._ended_us = now_us
        self._amounts = StepAmounts(*map(_sum, self._amounts, amounts))
        return len(self._durations) >= MOST_STEPS

    def start_again(self) -> None:
        """The next step is not counted from the last one: a checkpoint was read in between."""
        self._ended_us = -1
        self._is_up = len(self._stack) > 1
        self._up_us = self._mark_us if self._is_up else None

    def cut(self, now_us: int) -> LoopWindow:
        """The window that ends now; the next one begins now."""
        self._pass(now_us)
        now_us = self._mark_us
        window = LoopWindow(
            self._from_us, now_us, tuple(self._spent), tuple(self._used), self._first, self._last,
            self._durations, self._amounts, None if self._ended_us < 0 else self._ended_us,
            self._up_us,
        )  # fmt: skip
        self._open(now_us)
        return window

    def _pass(self, now_us: int) -> None:
        """Let time pass in the part that the loop is in.

        A time before the last one is that: the loop read the clock, and the window was cut before
        it could say so.
        """
        if now_us > self._mark_us:
            self._spent[self._stack[-1]] += now_us - self._mark_us
            self._mark_us = now_us


def _sum(so_far: int | None, more: int | None) -> int | None:
    return None if so_far is None or more is None else so_far + more
