"""Waiting, as it is read: when each job first started, how long it waited in all, when it ended.

A job starts when it is given its accelerators. It waits from its submission to its first start and
again after every interruption, until it is placed. The sums are kept so that order does not matter:
``balance`` takes off the beginning of a wait and adds its end, so a stretch of compiled cycles is
added up at once and gives what the single events give.
"""

from array import array

import numpy as np

from tidemill.engine.story import CANCELLED, FAILED, FINISHED, PLACED, SUBMITTED, Story
from tidemill.model.measures import FOREVER_MS
from tidemill.model.states import ACTIVE, JobState
from tidemill.model.tables import I64

NEVER = FOREVER_MS
_UNSEEN, WAITING, HOLDING, ENDED = range(4)
_ACTIVE = frozenset(int(state) for state in ACTIVE)
_WAITS = int(JobState.WAITING)


class Waiting:
    """One row per job, in the order of the journal, up to a moment and no further."""

    def __init__(self, until_ms: int) -> None:
        self.until_ms = until_ms
        self.first_ms = array("q")
        """When it was first placed; NEVER: not yet."""
        self.end_ms = array("q")
        """When it was done, failed for good or was cancelled; NEVER: not yet."""
        self.balance_ms = array("q")
        """What it waited; less the present moment while it waits."""
        self.phase = array("q")
        self.outcome = array("q")

    def note(self, j: int, state: int, at_ms: int) -> None:
        """A job was touched by an event and is in this state now."""
        if at_ms > self.until_ms:
            return
        if j >= len(self.phase):
            self._grow(j + 1)
        phase = WAITING if state == _WAITS else HOLDING if state in _ACTIVE else ENDED
        was = self.phase[j]
        if phase == was:
            return
        self.phase[j] = phase
        if phase == WAITING:
            self.balance_ms[j] -= at_ms
        elif was == WAITING:
            self.balance_ms[j] += at_ms
        if phase == HOLDING:
            self.first_ms[j] = min(self.first_ms[j], at_ms)
        elif phase == ENDED:
            self.end_ms[j], self.outcome[j] = at_ms, state

    def follow(self, job_count: int, story: Story) -> None:
        """Many events at once."""
        self._grow(job_count)
        first, end, balance, phase, outcome = (np.frombuffer(c, np.int64) for c in self._columns())
        lines = story.lines
        is_here = lines.at_ms <= self.until_ms
        kind, job, at_ms = lines.kind[is_here], lines.subject[is_here], lines.at_ms[is_here]
        is_final = (kind == FAILED) & (lines.pieces[is_here] == 1)
        begins = (kind == SUBMITTED) | ((kind == FAILED) & ~is_final)
        placed = kind == PLACED
        np.subtract.at(balance, job[begins], at_ms[begins])
        np.add.at(balance, job[placed], at_ms[placed])
        np.minimum.at(first, job[placed], at_ms[placed])
        is_open = (phase == WAITING).astype(np.int64)
        np.add.at(is_open, job[begins], 1)
        np.subtract.at(is_open, job[placed], 1)
        for ends, state in (
            (kind == FINISHED, JobState.DONE),
            (is_final, JobState.FAILED),
            (kind == CANCELLED, JobState.CANCELLED),
        ):
            end[job[ends]], outcome[job[ends]] = at_ms[ends], state
            waited = job[ends][is_open[job[ends]] > 0]
            balance[waited] += end[waited]
        is_seen = phase != _UNSEEN
        is_seen[job[begins]] = True
        now = np.where(end < NEVER, ENDED, np.where(is_open > 0, WAITING, HOLDING))
        phase[:] = np.where(is_seen, now, _UNSEEN)

    def columns(self) -> tuple[I64, I64, I64, I64, I64]:
        """First start, end, balance, phase and outcome of each job, as copies."""
        first, end, balance, phase, outcome = (np.array(c, np.int64) for c in self._columns())
        return first, end, balance, phase, outcome

    def _columns(self) -> tuple["array[int]", ...]:
        return self.first_ms, self.end_ms, self.balance_ms, self.phase, self.outcome

    def _grow(self, rows: int) -> None:
        more = max(0, rows - len(self.phase))
        for column, value in zip(self._columns(), (NEVER, NEVER, 0, _UNSEEN, 0), strict=True):
            column.extend([value] * more)
