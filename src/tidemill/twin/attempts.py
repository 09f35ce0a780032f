"""The lives of the twin's jobs: what each attempt will do, if nothing interrupts it.

The World is asked whether an attempt is still the one that was meant; the truth about a job (its
work, its errors, its load) is kept here and never told.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.engine import story
from tidemill.model import events as ev
from tidemill.model import tables
from tidemill.model.measures import ONE_PPM
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.world import Paces, World
from tidemill.twin import agenda
from tidemill.twin.agenda import Agenda
from tidemill.twin.arrivals import Arrival, Ending, Spell, Tide
from tidemill.twin.faults import Faults
from tidemill.twin.neighbours import Neighbours, Sharing
from tidemill.twin.pace import Pace
from tidemill.twin.streams import Streams
from tidemill.units import speedup
from tidemill.workload import progress

_WAITING, _STARTING, _RUNNING = map(int, (JobState.WAITING, JobState.STARTING, JobState.RUNNING))
_LIVE = (_WAITING, _STARTING, _RUNNING)
_OWN_ENDS = (ev.JobFinished, ev.JobFailed, ev.JobCancelled)
SAVED_AHEAD_MS = 1_000  # and a tenth of the cost: a save is planned to be done so long in time
_LUCKS = 4096  # start-up luck is drawn once and looked up by job and attempt: no draw in the loop


class Truth(NamedTuple):
    """What only the twin knows of a job that does not simply run and finish; see ``Arrival``."""

    ending: Ending
    crashes_ms: tuple[int, ...]
    activity: Tide | Spell | None


class Truths(NamedTuple):
    """The same by the number of the job, for compiled beats; one crash at most is foreseen."""

    work_ms: I64
    ending: I64
    """The kind of event that ends it; see ``engine.story``."""
    crash_ms: I64
    crashes: I64
    retries: I64
    """The first row: how many crashes are forgiven."""


_STORY_OF = {
    Ending.FINISHED: story.FINISHED,
    Ending.FAILED: story.FAILED,
    Ending.CANCELLED: story.CANCELLED,
}


def is_plain(crashes_ms: tuple[int, ...], activity: Tide | Spell | None) -> bool:
    """Whether compiled beats can tell the life of such a job."""
    return len(crashes_ms) <= 1 and activity is None


class Attempts:
    """All jobs and what lies before them."""

    def __init__(
        self, faults: Faults, streams: Streams, schedule: Agenda, sharing: Sharing = "time-slice"
    ) -> None:
        self._faults = faults
        self._agenda = schedule
        self._work_ms = array("q")
        self._special: dict[int, Truth] = {}
        self._crashes: dict[int, int] = {}
        self._ended: set[int] = set()
        self._moved: list[tuple[int, int, bool]] = []
        self._saved: list[tuple[int, int]] = []
        self._pace = Pace()
        self.neighbours = Neighbours(sharing)
        self._due: dict[int, ev.Seen] = {}
        """The end that holds, of jobs whose pace changed since they came up."""
        spread = faults.startup_spread
        self._startup = streams.of("startup").uniform(1 - spread, 1 + spread, _LUCKS).tolist()

    def new_batch(self) -> None:
        """Forget which jobs the batch before this one ended: the World knows them now."""
        if self._ended:
            self._ended.clear()

    def submit(self, arrival: Arrival) -> ev.JobSubmitted:
        """A job comes; its number is the order of its coming."""
        at_ms, job, work_ms, ending, crashes_ms, activity = arrival
        if ending or crashes_ms or activity:
            self._special[len(self._work_ms)] = Truth(ending, crashes_ms, activity)
        if job.demand is not None:
            self.neighbours.came(len(self._work_ms), job.demand)
        self._work_ms.append(work_ms)
        return ev.JobSubmitted(at_ms, job)

    def is_plain(self, j: int) -> bool:
        """Whether a job runs and ends, in whatever way, without a load of its own."""
        if self.neighbours.knows(j):
            return False
        special = self._special.get(j)
        return special is None or is_plain(special.crashes_ms, special.activity)

    def truths(self, coming: Sequence[Arrival]) -> Truths:
        """What only the twin knows, of all jobs so far and of those that come next."""
        known, rows = len(self._work_ms), len(self._work_ms) + len(coming)
        truths: Truths = tables.blank(Truths, rows)
        truths.retries[:1] = self._faults.retries
        truths.work_ms[:known] = self._work_ms
        truths.work_ms[known:] = [arrival.work_ms for arrival in coming]
        truths.ending[:] = _STORY_OF[Ending.FINISHED]
        for j, crashes in self._crashes.items():
            truths.crashes[j] = crashes
        for j, special in self._special.items():
            truths.ending[j] = _STORY_OF[special.ending]
            truths.crash_ms[j] = max(1, *special.crashes_ms) if special.crashes_ms else 0
        for j, arrival in enumerate(coming, start=known):
            if arrival.ending or arrival.crashes_ms:
                truths.ending[j] = _STORY_OF[arrival.ending]
                truths.crash_ms[j] = max(1, *arrival.crashes_ms) if arrival.crashes_ms else 0
        return truths

    def startup(self) -> NDArray[np.float64]:
        """The luck of start-up times, looked up by job and attempt."""
        return np.array(self._startup)

    def came(self, arrivals: Sequence[Arrival], truths: Truths) -> None:
        """Plain jobs came, and crashed so often."""
        for j, arrival in enumerate(arrivals, start=len(self._work_ms)):
            if arrival.ending or arrival.crashes_ms:
                self._special[j] = Truth(arrival.ending, arrival.crashes_ms, None)
        self._work_ms.extend(arrival.work_ms for arrival in arrivals)
        for j in np.flatnonzero(truths.crashes).tolist():
            self._crashes[j] = truths.crashes.item(j)

    # what is asked of them -------------------------------------------------------------------

    def place(self, world: World, j: int, attempt: int) -> None:
        """The gang comes up after its start-up time, and its restart time if it ran before."""
        jobs = world.jobs
        wait_ms = int(jobs.startup_ms[j])
        if attempt > 1:
            wait_ms += int(jobs.restart_ms[j])
        wait_ms = int(wait_ms * self._startup[(31 * j + attempt) % _LUCKS])
        slow_ppm = self._pace.slow_ppm(world, j)
        event = ev.JobStarted(world.now_ms + wait_ms, j, attempt, slow_ppm)
        self._agenda.push(agenda.JOB_START, j, attempt, event)

    def evict(self, j: int, attempt: int, now_ms: int) -> None:
        """The attempt leaves after its grace."""
        event = ev.JobEvicted(now_ms + self._faults.evict_ms, j, attempt)
        self._agenda.push(agenda.JOB_END, j, attempt, event)

    def move(self, j: int, attempt: int, now_ms: int) -> None:
        """The attempt changes its place after its grace."""
        event = ev.JobMoved(now_ms + self._faults.evict_ms, j, attempt)
        self._agenda.push(agenda.JOB_END, j, attempt, event)

    def start_moved(self, world: World) -> None:
        """Whoever moved comes up in its new place, if that was not lost at the same moment."""
        for j, attempt, keeps_work in self._moved:
            if world.jobs.state[j] == _STARTING and world.jobs.attempt[j] == attempt:
                pause_ms = int(world.jobs.resize_ms[j])
                if keeps_work:
                    slow_ppm = self._pace.slow_ppm(world, j)
                    event = ev.JobStarted(world.now_ms + pause_ms, j, attempt, slow_ppm)
                    self._agenda.push(agenda.JOB_START, j, attempt, event)
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
                self._agenda.push(agenda.ACTIVITY, j, attempt, ev.JobSaved(at_ms, j, attempt))

    def go_on_saved(self, world: World) -> None:
        """Whoever saved out of its rhythm ends at another time from now on."""
        for j, attempt in self._saved:
            if world.jobs.state[j] == _RUNNING and world.jobs.attempt[j] == attempt:
                self._foresee_end(world, j, attempt, world.paces.get(j, ()))
        self._saved.clear()

    @property
    def has_other_ends(self) -> bool:
        """Whether some job ends at another time than was foreseen when it came up."""
        return bool(self._due)

    def tell_paces(self, world: World) -> None:
        """Neighbours came or went: whose pace is another now is told at this very moment."""
        for event in self.neighbours.changes(world):
            self._agenda.push(agenda.ACTIVITY, event.job, event.attempt, event)

    def cancel(self, j: int, now_ms: int) -> None:
        """The job ends, whichever attempt it is in."""
        self._agenda.push(agenda.JOB_END, j, -1, ev.JobCancelled(now_ms, j))

    # what happens to them --------------------------------------------------------------------

    def end_due(self, world: World, j: int, attempt: int, event: ev.Seen) -> ev.Seen | None:
        """An end, if this attempt is still there to meet it; the first of a batch counts."""
        if j in self._ended or not _may_end(world, j, attempt, event):
            return None
        if isinstance(event, _OWN_ENDS) and attempt != -1 and self._due.get(j, event) is not event:
            return None  # its pace has changed since this end was foreseen
        self._due.pop(j, None)
        self._ended.add(j)
        if isinstance(event, ev.JobMoved):
            self._moved.append((j, attempt + 1, world.moving[j].keeps_work))
        if isinstance(event, ev.JobFailed):
            self._crashes[j] = self._crashes.get(j, 0) + 1
        return event

    def start_due(self, world: World, j: int, attempt: int, event: ev.Seen) -> list[ev.Seen]:
        """A start, if the attempt was not stopped before; and its load, if it is not full."""
        jobs = world.jobs
        if jobs.state[j] != _STARTING or jobs.attempt[j] != attempt or j in self._ended:
            return []
        assert isinstance(event, ev.JobStarted)
        left_ms = self._left_ms(world, j, event.slow_ppm)
        rest_ms = progress.run_ms(left_ms, int(jobs.interval_ms[j]), int(jobs.cost_ms[j]))
        now_ms = event.at_ms
        special = self._special.get(j)
        self._due.pop(j, None)
        end = self._end(special, j, attempt, now_ms, rest_ms)
        self._agenda.push(agenda.JOB_END, j, attempt, end)
        if special is None:
            return [event]
        return [event, *self._load(special, j, attempt, now_ms, int(jobs.saved_ms[j]))]

    def news_due(self, world: World, j: int, attempt: int, event: ev.Seen) -> ev.Seen | None:
        """What a running attempt tells of itself, if it is still there to tell it."""
        match event:
            case ev.PaceSeen():
                return self.pace_due(world, j, attempt, event)
            case ev.JobSaved():
                return self.save_due(world, j, attempt, event)
            case _:
                return self.activity_due(world, j, attempt, event)

    def pace_due(self, world: World, j: int, attempt: int, event: ev.PaceSeen) -> ev.Seen | None:
        """A change of pace of a running attempt, which ends at another time from now on."""
        jobs = world.jobs
        if jobs.state[j] != _RUNNING or jobs.attempt[j] != attempt or j in self._ended:
            return None
        paces = (*world.paces.get(j, ()), (event.at_ms, event.beside_ppm))
        self._foresee_end(world, j, attempt, paces)
        return event

    def save_due(self, world: World, j: int, attempt: int, event: ev.JobSaved) -> ev.Seen | None:
        """A save on notice, if the attempt still runs and has more to lose than the save costs."""
        jobs = world.jobs
        if jobs.state[j] != _RUNNING or jobs.attempt[j] != attempt or j in self._ended:
            return None
        interval_ms, cost_ms = int(jobs.interval_ms[j]), int(jobs.cost_ms[j])
        ran_ms = event.at_ms - cost_ms - int(jobs.origin_ms[j])
        since_ms = ran_ms % (interval_ms + cost_ms)
        if ran_ms < 0 or not cost_ms < since_ms <= interval_ms:
            return None  # a checkpoint was just written, or is being written
        self._saved.append((j, attempt))
        return event

    def activity_due(self, world: World, j: int, attempt: int, event: ev.Seen) -> ev.Seen | None:
        """A change of load of a running attempt; a tide schedules its next one."""
        jobs = world.jobs
        if jobs.state[j] != _RUNNING or jobs.attempt[j] != attempt or j in self._ended:
            return None
        activity = self._special[j].activity
        if isinstance(activity, Tide):
            self._next_tide(activity, j, attempt, event.at_ms)
        assert isinstance(event, ev.ActivitySeen)
        return event if event.busy_ppm != jobs.busy_ppm[j] else None

    # private ---------------------------------------------------------------------------------

    def _foresee_end(self, world: World, j: int, attempt: int, paces: Paces) -> None:
        """From now on a running attempt ends when its work is done at these paces."""
        jobs = world.jobs
        origin_ms, interval_ms, cost_ms = (
            int(column[j]) for column in (jobs.origin_ms, jobs.interval_ms, jobs.cost_ms)
        )
        at_work_ms = self._left_ms(world, j, int(jobs.slow_ppm[j]))
        if paces:
            steps = progress.steps(paces, origin_ms, interval_ms, cost_ms)
            at_work_ms = progress.time_to_do_ms(at_work_ms, steps)
        rest_ms = progress.run_ms(at_work_ms, interval_ms, cost_ms)
        end = self._end(self._special.get(j), j, attempt, origin_ms, rest_ms)
        self._due[j] = end
        self._agenda.push(agenda.JOB_END, j, attempt, end)

    def _left_ms(self, world: World, j: int, slow_ppm: int) -> int:
        """How long an attempt works, alone on its devices, where it sits."""
        left_ms = max(1, self._work_ms[j] - int(world.jobs.saved_ms[j]))
        left_ms = speedup.time_ms(left_ms, int(world.jobs.speed_ppm[j]))
        return progress.slowed_ms(left_ms, slow_ppm)

    def _end(
        self, special: Truth | None, j: int, attempt: int, now_ms: int, rest_ms: int
    ) -> ev.Seen:
        if special is None:
            return ev.JobFinished(now_ms + rest_ms, j, attempt)
        crashes = self._crashes.get(j, 0)
        if crashes < len(special.crashes_ms) and special.crashes_ms[crashes] < rest_ms:
            return self._crash(j, attempt, now_ms + max(1, special.crashes_ms[crashes]))
        end_ms = now_ms + rest_ms
        match special.ending:
            case Ending.FINISHED:
                return ev.JobFinished(end_ms, j, attempt)
            case Ending.CANCELLED:
                return ev.JobCancelled(end_ms, j)
            case Ending.FAILED:
                return self._crash(j, attempt, end_ms)

    def _crash(self, j: int, attempt: int, at_ms: int) -> ev.JobFailed:
        is_final = self._crashes.get(j, 0) >= self._faults.retries
        return ev.JobFailed(at_ms, j, attempt, is_final=is_final)

    def _load(
        self, special: Truth, j: int, attempt: int, now_ms: int, saved_ms: int
    ) -> list[ev.Seen]:
        match special.activity:
            case Tide() as tide:
                self._next_tide(tide, j, attempt, now_ms)
                busy_ppm = tide.level_ppm(now_ms)
            case Spell(active_ms, busy_ppm):
                if saved_ms < active_ms:
                    idle = ev.ActivitySeen(now_ms + active_ms - saved_ms, j, attempt, 0)
                    self._agenda.push(agenda.ACTIVITY, j, attempt, idle)
                else:
                    busy_ppm = 0
            case None:
                return []
        return [] if busy_ppm == ONE_PPM else [ev.ActivitySeen(now_ms, j, attempt, busy_ppm)]

    def _next_tide(self, tide: Tide, j: int, attempt: int, now_ms: int) -> None:
        at_ms = tide.next_ms(now_ms)
        event = ev.ActivitySeen(at_ms, j, attempt, tide.level_ppm(at_ms))
        self._agenda.push(agenda.ACTIVITY, j, attempt, event)


def _may_end(world: World, j: int, attempt: int, event: ev.Seen) -> bool:
    """Whether the World would take this end: of this attempt, or of the job in any state (-1)."""
    state = int(world.jobs.state[j])
    if attempt == -1:
        return state in _LIVE
    if world.jobs.attempt[j] != attempt:
        return False
    if isinstance(event, ev.JobEvicted):
        is_asked = bool(world.jobs.is_leaving[j]) and j not in world.moving
        return is_asked and state in (_STARTING, _RUNNING)
    if isinstance(event, ev.JobMoved):
        return j in world.moving and state == _RUNNING
    return state == _RUNNING
