"""The lives of the twin's jobs: what each attempt will do, if nothing interrupts it.

The World is asked whether an attempt is still the one that was meant; the truth about a job (its
work, its errors, its load) is kept here and never told.
"""

import numpy as np

from tidemill.core import rhythm
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS
from tidemill.model.states import JobState
from tidemill.model.world import Paces, World
from tidemill.twin.event_queue import heap, lives
from tidemill.twin.event_queue.agenda import Agenda, Entry
from tidemill.twin.event_queue.columns import ACTIVITY, CLOCK, JOB_START, TRUTH
from tidemill.twin.faults import Faults
from tidemill.twin.neighbours import Neighbours
from tidemill.twin.pace import Pace
from tidemill.twin.streams import Streams
from tidemill.workload import progress

_STARTING, _RUNNING = map(int, (JobState.STARTING, JobState.RUNNING))
_STARTED = codes.KIND_CODE[ev.JobStarted]
SAVED_AHEAD_MS = 1_000  # and a tenth of the cost: a save is planned to be done so long in time
_LUCKS = 4096  # luck is drawn once and looked up by job and attempt: no draw in the loop


class Attempts:
    """All jobs and what lies before them; see ``event_queue.lives`` for what is not rare."""

    def __init__(
        self, faults: Faults, streams: Streams, schedule: Agenda, neighbours: Neighbours
    ) -> None:
        self._agenda = schedule
        self._moved: list[tuple[int, int, bool]] = []
        self._saved: list[tuple[int, int]] = []
        self._pace = Pace()
        self.neighbours = neighbours
        spread = faults.startup_spread
        luck = streams.of("startup").uniform(1 - spread, 1 + spread, _LUCKS)
        races = streams.of("races").random(_LUCKS) < faults.lost_races
        schedule.renew(luck=luck, races=races.astype(np.int64))
        schedule.t.clock[CLOCK.RETRIES] = faults.retries
        schedule.t.clock[CLOCK.EVICT_MS] = faults.evict_ms

    # what is asked of them -------------------------------------------------------------------

    def place(self, world: World, j: int, attempt: int) -> None:
        """A gang that talks comes up as slow as it sits far apart."""
        self._agenda.make_room(1)
        slow_ppm = self.slow_ppm(world, j)
        lives.place(world.matrices.jobs, self._agenda.t, j, attempt, slow_ppm, world.now_ms)

    def slow_ppm(self, world: World, j: int) -> int:
        """How much longer the steps of a gang that talks take where it sits."""
        return self._pace.slow_ppm(world, j)

    @property
    def has_followers(self) -> bool:
        """Whether somebody moved, or saved, at this moment: what follows is pushed later."""
        return bool(self._moved or self._saved)

    def start_moved(self, world: World) -> None:
        """Whoever moved comes up in its new place, if that was not lost at the same moment."""
        for j, attempt, keeps_work in self._moved:
            if world.jobs.state[j] == _STARTING and world.jobs.attempt[j] == attempt:
                pause_ms = int(world.jobs.resize_ms[j])
                if keeps_work:
                    self._start(j, attempt, world.now_ms + pause_ms, self._pace.slow_ppm(world, j))
                else:
                    self.place(world, j, attempt)
        self._moved.clear()

    def warn(self, world: World, n: int, deadline_ms: int) -> None:
        """A node is going to be taken: whoever can saves as late as is safe before that."""
        jobs = world.jobs
        for j in sorted(world.aboard[n]):
            cost_ms = int(jobs.cost_ms[j])
            at_ms = deadline_ms - SAVED_AHEAD_MS - cost_ms // 10
            at_ms = max(at_ms, world.now_ms + cost_ms)
            if jobs.interval_ms[j] > 0 and at_ms < deadline_ms:
                attempt = int(jobs.attempt[j])
                self._agenda.push(ACTIVITY, j, attempt, ev.JobSaved(at_ms, j, attempt))

    def go_on_saved(self, world: World) -> None:
        """Whoever saved out of its rhythm ends at another time from now on."""
        for j, attempt in self._saved:
            if world.jobs.state[j] == _RUNNING and world.jobs.attempt[j] == attempt:
                self._foresee_end(world, j, attempt, world.paces.get(j, ()))
        self._saved.clear()

    def tell_paces(self, world: World) -> None:
        """Neighbours came or went: whose pace is another now is told at this very moment."""
        for event in self.neighbours.changes(world):
            self._agenda.push(ACTIVITY, event.job, event.attempt, event)

    # what happens to them --------------------------------------------------------------------

    def end_due(self, world: World, entry: Entry) -> ev.Seen | None:
        """A move, if this attempt is still there; the first of a moment counts."""
        j, attempt, truths = entry.who, entry.stamp, self._agenda.t.truths
        batch = self._agenda.t.clock[CLOCK.BATCH]
        if truths[j, TRUTH.ENDED_IN] == batch or world.jobs.attempt[j] != attempt:
            return None
        move = world.moving.get(j)
        if move is None or world.jobs.state.item(j) != _RUNNING:
            return None
        self._moved.append((j, attempt + 1, move.keeps_work))
        truths[j, TRUTH.DUE], truths[j, TRUTH.ENDED_IN] = 0, batch
        return ev.JobMoved(entry.at_ms, j, attempt)

    def news_due(self, world: World, entry: Entry, event: ev.Seen) -> ev.Seen | None:
        """What a running attempt tells of itself, if it is still there to tell it."""
        if isinstance(event, ev.PaceSeen):
            return self.pace_due(world, entry.who, entry.stamp, event)
        if isinstance(event, ev.JobSaved):
            return self.save_due(world, entry.who, entry.stamp, event)
        return event if self._is_there(world, entry.who, entry.stamp) else None

    def pace_due(self, world: World, j: int, attempt: int, event: ev.PaceSeen) -> ev.Seen | None:
        """A change of pace of a running attempt, which ends at another time from now on."""
        if not self._is_there(world, j, attempt):
            return None
        paces = (*world.paces.get(j, ()), (event.at_ms, event.beside_ppm))
        self._foresee_end(world, j, attempt, paces)
        return event

    def save_due(self, world: World, j: int, attempt: int, event: ev.JobSaved) -> ev.Seen | None:
        """A save on notice, if the attempt still runs and has more to lose than the save costs."""
        jobs = world.jobs
        if not self._is_there(world, j, attempt):
            return None
        interval_ms, cost_ms = int(jobs.interval_ms[j]), int(jobs.cost_ms[j])
        ran_ms = event.at_ms - cost_ms - int(jobs.origin_ms[j])
        since_ms = rhythm.since_checkpoint_ms(ran_ms, interval_ms, cost_ms)
        if ran_ms < 0 or not cost_ms < since_ms <= interval_ms:
            return None  # a checkpoint was just written, or is being written
        self._saved.append((j, attempt))
        return event

    # private ---------------------------------------------------------------------------------

    def _start(self, j: int, attempt: int, at_ms: int, slow_ppm: int) -> None:
        self._agenda.make_room(1)
        t = self._agenda.t
        heap.push(t.clock, t.entries, at_ms, JOB_START, j, attempt, _STARTED, slow_ppm)

    def _is_there(self, world: World, j: int, attempt: int) -> bool:
        t, jobs = self._agenda.t, world.matrices.jobs
        return bool(lives.is_there(t.clock, jobs, t.truths, j, _RUNNING, attempt))

    def _foresee_end(self, world: World, j: int, attempt: int, paces: Paces) -> None:
        """From now on a running attempt ends when its work is done at these paces."""
        self._agenda.make_room(1)
        jobs, t = world.jobs, self._agenda.t
        origin_ms, interval_ms, cost_ms = (
            int(column[j]) for column in (jobs.origin_ms, jobs.interval_ms, jobs.cost_ms)
        )
        at_work_ms = int(lives.left_ms(world.matrices.jobs, t.truths, j, int(jobs.slow_ppm[j])))
        if paces:
            steps = progress.steps(paces, origin_ms, interval_ms, cost_ms)
            at_work_ms = progress.time_to_do_ms(at_work_ms, steps)
        rest_ms = progress.run_ms(min(at_work_ms, FOREVER_MS), interval_ms, cost_ms)
        t.truths[j, TRUTH.DUE] = lives.push_end(t, j, attempt, origin_ms, rest_ms)
