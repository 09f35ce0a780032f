"""Folding a batch: events in columns, many at once where they are the plain life of jobs.

The same as ``fold`` event by event, and as strict: ``core.replay`` stops before whatever is rare or
cannot be, and that one event is folded, or refused, by itself.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tidemill.core import replay, rows
from tidemill.engine import fold_room
from tidemill.engine.fold import fold
from tidemill.model import codes
from tidemill.model.batch import Batch, EventColumn, JobColumn
from tidemill.model.batch.convert import to_event
from tidemill.model.columns import JOB, NONE, State
from tidemill.model.events import Event
from tidemill.model.measures import ONE_PPM
from tidemill.model.rows import Shape
from tidemill.model.states import CONFIDENCES, JobClass
from tidemill.model.tables import I64, NEVER_PASSED
from tidemill.model.topology import NO_HOP
from tidemill.model.world import World
from tidemill.workload import progress

_CONFIDENCES = np.array([CONFIDENCES.index(word) for word in codes.CONFIDENCES], np.int64)
_PLAIN = frozenset(
    (replay.SUBMITTED, replay.PLACED, replay.STARTED, replay.FINISHED, replay.FAILURE,
     replay.SAID_WHY, replay.PASSED, replay.WOKE)
)  # fmt: skip
_COPIED = {
    JOB.ESTIMATE_MS: JobColumn.ESTIMATE,
    JOB.STARTUP_MS: JobColumn.STARTUP,
    JOB.RESTART_MS: JobColumn.RESTART,
    JOB.MFU_PPM: JobColumn.MFU,
    JOB.HOST_PPM: JobColumn.HOST,
    JOB.LINKS_PPM: JobColumn.LINKS,
    JOB.RESIZE_MS: JobColumn.RESIZE,
}


Run = Callable[[State, I64, I64, I64, int, int], int]
"""Folds events of a batch from a number on; the number of the first that it did not."""


class Folding:
    """A batch on its way into a World: ``plain`` and ``single`` go as far as one call can.

    ``events``: the same as messages, where they are at hand; then jobs are submitted one by one.
    """

    def __init__(self, world: World, batch: Batch, events: Sequence[Event] = ()) -> None:
        self.world, self.batch, self._events = world, batch, events
        self.at = 0
        """How many of the events were folded."""
        self._first_job = world.job_count
        self._counts: I64 = np.zeros((1, 4), np.int64)
        self._counts[0, 1] = self._first_job if events else self._write_jobs()
        self._most_pieces = int(batch.events[:, EventColumn.COUNT].max(initial=0))
        rows.make_pieces(world, self._most_pieces + 1)
        if world.sliced:
            fold_room.know_slices(world)

    @property
    def is_over(self) -> bool:
        """Whether all events were folded."""
        return self.at >= len(self.batch.events)

    @property
    def next_ms(self) -> int:
        """When the next event happens; there must be one."""
        return int(self.batch.events[self.at, EventColumn.AT])

    def plain(self, run: Run = replay.replay) -> int:
        """Fold the plain events that come next, all at once; how many there were.

        ``run``: the kernel that folds them, or one that does more on the way.
        """
        world, events = self.world, self.batch.events
        if world.half_life_ms:
            return 0  # past use is settled before every change, one by one
        if events.item(self.at, EventColumn.KIND) not in _PLAIN:
            return 0
        rows.make_pieces(world, self._most_pieces)
        before, counts = world.job_count, self._counts
        counts[0, 0], counts[0, 2] = before, world.node_count
        counts[0, 3] = len(world.shape_rows)
        end = int(run(world.ink.w, events, self.batch.pieces, counts, self.at, world.now_ms))
        count, self.at = end - self.at, end
        if count:
            world.seq += count
            world.now_ms = int(events[end - 1, EventColumn.AT])
            if counts[0, 0] > before:
                self._write_names(before, int(counts[0, 0]))
        return count

    def single(self) -> tuple[Event, list[int]]:
        """Fold the next event by itself; the event, and the jobs that it touched."""
        event = self._events[self.at] if self._events else to_event(self.batch, self.at)
        touched = fold(self.world, event)
        self.at += 1
        return event, touched

    def all(self) -> None:
        """Fold all events that are left."""
        while not self.is_over:
            if not self.plain() or not self.is_over:
                self.single()

    def _write_names(self, before: int, after: int) -> None:
        world, batch, first = self.world, self.batch, self._first_job
        names = batch.job_names[before - first : after - first]
        users = batch.jobs[before - first : after - first, JobColumn.USER].tolist()
        world.job_names += names
        world.job_users += [batch.dictionary.users.rows[user] for user in users]
        world.job_number.update(zip(names, range(before, after), strict=True))

    def _write_jobs(self) -> int:
        """Write the rows of the jobs that come in this batch; up to which row that was done.

        Whatever is wrong with one of them is for ``fold`` to say, when its turn comes.
        """
        world, batch, first = self.world, self.batch, self._first_job
        jobs, names = batch.jobs, batch.job_names
        if not names:
            return first
        shares = jobs[:, [JobColumn.MFU, JobColumn.HOST, JobColumn.LINKS]].sum(axis=1)
        is_new = len({*names}) == len(names) and world.job_number.keys().isdisjoint(names)
        if not is_new or (shares > ONE_PPM).any():
            return first
        end = first + len(names)
        if end > len(world.ink.w.jobs):
            world.grow(jobs=end, active=end)
        number, is_training = self._shapes()
        written = world.ink.w.jobs[first:end]
        written[:] = 0
        written[:, [JOB.FIRST_PIECE, JOB.NEXT, JOB.PREVIOUS]] = NONE
        written[:, JOB.PASSED_MS] = NEVER_PASSED
        written[:, [JOB.BUSY_PPM, JOB.SPEED_PPM]] = ONE_PPM
        written[:, JOB.HOP] = NO_HOP
        written[:, JOB.SHAPE] = number[jobs[:, JobColumn.SHAPE]]
        for column, origin in _COPIED.items():
            written[:, column] = jobs[:, origin]
        trains = is_training[jobs[:, JobColumn.SHAPE]]
        interval, cost = jobs[:, JobColumn.INTERVAL], jobs[:, JobColumn.COST]
        written[:, JOB.INTERVAL_MS] = np.where(trains, interval, progress.CONTINUOUS)
        written[:, JOB.COST_MS] = np.where(trains, cost, 0)
        written[:, JOB.CONFIDENCE] = _CONFIDENCES[jobs[:, JobColumn.CONFIDENCE]]
        written[:, JOB.MEMORY_PPM] = _memory_ppm(jobs)
        return end

    def _shapes(self) -> tuple[I64, I64]:
        """The number that each shape of the dictionary has, or will have; whether it trains.

        A shape that nobody has seen is the next when its first job comes: the order is the same.
        """
        known, shapes = self.world.shape_number, self.batch.dictionary.shapes.rows
        number, is_training = np.zeros((2, len(shapes)), np.int64)
        unseen = dict[Shape, int]()
        for s in dict.fromkeys(self.batch.jobs[:, JobColumn.SHAPE].tolist()):
            found = known.get(shapes[s])
            if found is None:
                found = unseen.setdefault(shapes[s], len(known) + len(unseen))
            number[s], is_training[s] = found, shapes[s].kind is JobClass.TRAINING
        return number, is_training != 0


def columns_of(world: World) -> State:
    """The columns of a cluster state, for kernels that read them and write to others."""
    return world.ink.w


def fold_batch(world: World, batch: Batch) -> World:
    """Write all events of a batch into the World and return it."""
    Folding(world, batch).all()
    return world


def _memory_ppm(jobs: I64) -> I64:
    """The memory-bound share of each job as a column holds it; as ``Efficiency`` says."""
    attainable = jobs[:, JobColumn.ATTAINABLE]
    mfu, host, links = (jobs[:, c] for c in (JobColumn.MFU, JobColumn.HOST, JobColumn.LINKS))
    longer = mfu * (ONE_PPM - attainable) // np.maximum(1, attainable)
    found: I64 = np.where(attainable > 0, np.minimum(longer, ONE_PPM - mfu - host - links), -1)
    return found
