"""Who comes: arrivals read ahead, a block at a time, into rows.

What only the twin knows of a job goes into its truth, under the number that it will have; what it
will tell when it comes is a row of ``JobColumn``, so that many are submitted at once. A stream is
never read further than a block beyond what has happened.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import Dictionary, JobColumn
from tidemill.model.batch.convert import of_jobs
from tidemill.model.errors import SpecError
from tidemill.model.measures import FOREVER_MS
from tidemill.model.tables import I64, grown
from tidemill.twin.arrivals import Arrival, Ending, Spell, Tide
from tidemill.twin.event_queue.agenda import Agenda
from tidemill.twin.event_queue.columns import CLOCK, LOAD, TRUTH
from tidemill.twin.neighbours import Neighbours

AT_ONCE = 1_024  # arrivals: what is read is held in memory, and written ahead in the cluster state
_KIND = {
    Ending.FINISHED: codes.KIND_CODE[ev.JobFinished],
    Ending.FAILED: codes.KIND_CODE[ev.JobFailed],
    Ending.CANCELLED: codes.KIND_CODE[ev.JobCancelled],
}


class Coming:
    """Arrivals that were read and have not come yet, and those still to be read."""

    def __init__(self, arrivals: Iterator[Arrival], agenda: Agenda, neighbours: Neighbours) -> None:
        self._rest, self._agenda, self._neighbours = arrivals, agenda, neighbours
        self._error: SpecError | None = None
        self._tides: dict[Tide, int] = {}
        self._loads = self._crashes = 0
        self.dictionary = Dictionary()
        self.first = 0
        """The number of the job of the first row."""
        self.jobs: I64 = np.zeros((0, len(JobColumn)), np.int64)
        self.names: list[str] = []

    @property
    def next_ms(self) -> int:
        """When the next job comes; ``FOREVER_MS`` when there is no more."""
        t = self._agenda.t
        came = t.clock.item(CLOCK.CAME)
        if came == t.clock.item(CLOCK.READ) and (t.clock[CLOCK.IS_EXHAUSTED] or not self.read()):
            return FOREVER_MS
        return self._agenda.t.truths.item(came, TRUTH.AT)

    def read(self, count: int = 0) -> int:
        """Read so many arrivals more (0: a block), or as many as there are; how many there were."""
        self._forget()
        block = self._block(count or AT_ONCE)
        clock = self._agenda.t.clock
        if not block:
            clock[CLOCK.IS_EXHAUSTED] = 1
            return 0
        jobs, names = of_jobs([arrival.job for arrival in block], self.dictionary)
        self._write_truths(clock.item(CLOCK.READ), block, jobs)
        self.jobs = np.concatenate([self.jobs, jobs]) if len(self.jobs) else jobs
        self.names += names
        clock[CLOCK.READ] += len(block)
        return len(block)

    def _block(self, count: int) -> list[Arrival]:
        """The next arrivals. What is wrong with one is said when those before it have come."""
        if self._error is not None:
            raise self._error
        block: list[Arrival] = []
        try:
            block.extend(islice(self._rest, count))  # those before a wrong one are kept
        except SpecError as error:
            if not block:
                raise
            self._error = error
        return block

    def _forget(self) -> None:
        """Drop the rows of jobs that have come and were told."""
        came = self._agenda.t.clock.item(CLOCK.CAME) - self.first
        if came:
            self.jobs, self.names = self.jobs[came:], self.names[came:]
            self.first += came

    def _write_truths(self, first: int, block: list[Arrival], jobs: I64) -> None:
        end = first + len(block)
        if end > len(self._agenda.t.truths):
            self._agenda.renew(truths=grown(self._agenda.t.truths, end))
        rows = self._agenda.t.truths[first:end]
        at, _, work, endings, crashes, activities, forgiving = zip(*block, strict=True)
        rows[:, TRUTH.AT], rows[:, TRUTH.WORK_MS] = at, work
        rows[:, TRUTH.ENDING] = [*map(_KIND.__getitem__, endings)]
        rows[:, TRUTH.TALKS] = self._talk(jobs)
        is_plain = not any(crashes) and not any(activities) and forgiving.count(None) == len(block)
        if is_plain and not jobs[:, JobColumn.HAS_DEMAND].any():
            return
        for i, (_, job, _, _, crashes_ms, activity, forgiven) in enumerate(block):
            if crashes_ms:
                rows[i, TRUTH.FIRST_CRASH], rows[i, TRUTH.CRASHES] = self._put(crashes_ms)
            if forgiven is not None:
                self._forgive(rows[i], forgiven)
            if activity:
                rows[i, TRUTH.LOAD] = self._load(activity)
            if job.demand is not None:
                self._neighbours.came(first + i, job.demand)

    def _talk(self, jobs: I64) -> NDArray[np.bool_]:
        """Whether each job says how much of its time it is on links; see ``pace``."""
        shapes, numbers = self.dictionary.shapes.rows, jobs[:, JobColumn.SHAPE]
        known = {s: shapes[s].parallelism is not None for s in {*numbers.tolist()}}
        found: NDArray[np.bool_] = jobs[:, JobColumn.LINKS] != 0
        return found | np.isin(numbers, [s for s, is_parallel in known.items() if is_parallel])

    def _put(self, crashes_ms: tuple[int, ...]) -> tuple[int, int]:
        """Keep how long attempts live that crash; where, and how many."""
        first, crashes = self._crashes, self._agenda.t.crashes
        self._crashes += len(crashes_ms)
        if self._crashes > len(crashes):
            self._agenda.renew(crashes=grown(crashes, self._crashes))
        self._agenda.t.crashes[first : self._crashes] = crashes_ms
        return first, len(crashes_ms)

    def _forgive(self, truth: I64, crashes: int) -> None:
        """Let it begin as if it had crashed before, so that only so many are left to forgive."""
        before = max(0, self._agenda.t.clock.item(CLOCK.RETRIES) - crashes)
        truth[TRUTH.CRASHED] = before
        truth[TRUTH.CRASHES] += before
        truth[TRUTH.FIRST_CRASH] -= before

    def _load(self, activity: Tide | Spell) -> int:
        """The row of a load; services that go by the same clock have the same."""
        if isinstance(activity, Spell):
            return self._put_load({LOAD.ACTIVE_MS: activity[0], LOAD.BUSY_PPM: activity[1]})
        if activity not in self._tides:
            levels = self._agenda.t.levels
            self._tides[activity] = self._put_load(
                {
                    LOAD.STEP_MS: activity.step_ms,
                    LOAD.FIRST: len(levels),
                    LOAD.STEPS: len(activity.levels_ppm),
                }
            )
            added = np.array(activity.levels_ppm, np.int64)
            self._agenda.renew(levels=np.concatenate([levels, added]))
        return self._tides[activity]

    def _put_load(self, columns: dict[LOAD, int]) -> int:
        self._loads += 1
        if self._loads >= len(self._agenda.t.loads):
            self._agenda.renew(loads=grown(self._agenda.t.loads, self._loads + 1))
        for column, value in columns.items():
            self._agenda.t.loads[self._loads, column] = value
        return self._loads
