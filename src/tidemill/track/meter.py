"""Where did the time of a training loop go, window by window? Pure: it is told the time.

A loop is at each instant in one part: that of the innermost block that it has entered, ``COMPUTE``
within a step, ``OTHER`` outside all blocks. ``StepMeter`` adds up the time by part and the steps
that ended, until somebody cuts the window. ``OTHER`` is what the parts leave of the window, so the
parts of a window add up to it exactly, whatever an interruption did to one of them.
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


class StepMeter:
    """Adds up one window after the other."""

    __slots__ = (
        "_amounts", "_durations", "_ended_us", "_first", "_from_us", "_in_step", "_last",
        "_mark_us", "_spent", "_stack", "_used", "step",
    )  # fmt: skip

    def __init__(self, now_us: int) -> None:
        self.step = 0
        """The number of the last step that ended; steps without a number count on from here."""
        self._stack = [int(LoopPart.OTHER)]
        self._used = [True] + [False] * (PARTS - 1)
        self._mark_us = now_us
        self._in_step = 0  # where in the stack the step is; 0: not in a step
        self._ended_us = -1  # when the last step ended; -1: there is none to count from
        self._open(now_us)

    def _open(self, now_us: int) -> None:
        self._from_us = now_us
        self._spent = [0] * PARTS
        self._durations: list[int] = []
        self._first = self._last = 0
        self._amounts = NOTHING

    def enter(self, now_us: int, part: int) -> int:
        """Enter a part; returns the ticket with which to leave it."""
        self._pass(now_us)
        self._used[part] = True
        self._stack.append(part)
        return len(self._stack) - 1

    def leave(self, now_us: int, ticket: int) -> None:
        """Leave a part, and whatever was entered in it and not left."""
        if 0 < ticket < len(self._stack):
            self._pass(now_us)
            del self._stack[ticket:]

    def begin_step(self, now_us: int) -> int:
        """Enter a step; 0 where the loop is in one already: a step within a step is the same."""
        if self._in_step:
            return 0
        self._in_step = self.enter(now_us, LoopPart.COMPUTE)
        if self._ended_us < 0:
            self._ended_us = now_us
        return self._in_step

    def drop_step(self, now_us: int, ticket: int) -> None:
        """Leave a step that an exception ended: its time counts, the step does not."""
        if ticket and ticket == self._in_step:
            self._in_step = 0
            self.leave(now_us, ticket)

    def end_step(self, now_us: int, ticket: int, number: int | None, amounts: StepAmounts) -> bool:
        """Leave a step that is done. Returns whether the window is full.

        A step took the time since the step before it ended: what happens between steps belongs to
        the next one.
        """
        if not ticket or ticket != self._in_step:
            return False
        self.drop_step(now_us, ticket)
        self.step = self.step + 1 if number is None else number
        if not self._durations:
            self._first = self.step
        self._last = self.step
        self._durations.append(now_us - self._ended_us)
        self._ended_us = now_us
        self._amounts = StepAmounts(*map(_sum, self._amounts, amounts))
        return len(self._durations) >= MOST_STEPS

    def count_from(self, step: int) -> None:
        """Go on from the state after this step: a checkpoint was read."""
        self.step = step
        self._ended_us = -1

    def cut(self, now_us: int) -> LoopWindow:
        """The window that ends now; the next one begins now."""
        self._pass(now_us)
        rest_us = now_us - self._from_us - sum(self._spent[1:])
        window = LoopWindow(
            self._from_us, now_us, (rest_us, *self._spent[1:]), tuple(self._used), self._first,
            self._last, self._durations, self._amounts,
        )  # fmt: skip
        self._open(now_us)
        return window

    def _pass(self, now_us: int) -> None:
        """Let time pass in the part that the loop is in.

        The mark is moved first: an interruption here loses a moment of this part to ``OTHER``, and
        never counts one twice.
        """
        elapsed_us = now_us - self._mark_us
        self._mark_us = now_us
        self._spent[self._stack[-1]] += elapsed_us


def _sum(so_far: int | None, more: int | None) -> int | None:
    return None if so_far is None or more is None else so_far + more
