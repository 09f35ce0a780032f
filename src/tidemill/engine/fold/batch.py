"""Folding a batch: events in columns, many at once where they are the plain life of jobs.

The same as ``fold`` event by event, and as strict: ``core.replay`` stops before whatever is rare or
cannot be, and that one event is folded, or refused, by itself.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tidemill.core import replay, rows
from tidemill.engine.fold import room, shapes, topology
from tidemill.engine.fold.one_event import fold
from tidemill.model import codes, paging
from tidemill.model import events as ev
from tidemill.model.batch import CHANGED, Batch, Dictionary, EventColumn, JobColumn
from tidemill.model.batch.convert import to_event
from tidemill.model.columns import JOB, NONE, State
from tidemill.model.errors import EventRefused
from tidemill.model.events import Event
from tidemill.model.measures import ONE_PPM
from tidemill.model.rows import Shape
from tidemill.model.states import CONFIDENCES, JobClass
from tidemill.model.tables import I64, NEVER_PASSED
from tidemill.model.topology import NO_HOP
from tidemill.model.world import World
from tidemill.workload import progress

PLACES = np.array([CONFIDENCES.index(word) for word in codes.CONFIDENCES], np.int64)
"""Of each confidence by its number in journals, its number in columns."""
_PLAIN = frozenset(
    (replay.SUBMITTED, replay.PLACED, replay.STARTED, replay.FINISHED, replay.FAILURE,
     replay.CANCELLATION, replay.BUSY, replay.SAID_WHY, replay.PASSED, replay.WOKE, replay.EVICT,
     replay.EVICTED, replay.RELEASE, replay.SEEN, replay.STALLS, replay.EFFICIENCY,
     replay.SECURED, replay.STRAGGLER, replay.FIGURE, replay.DEVICE_ERROR,
     replay.LOAD, replay.LATENCY, replay.CANCEL, replay.HOST_USE)
)  # fmt: skip
_DECLARE = [codes.KIND_CODE[kind] for kind in (ev.QueueSet, ev.TopologySet)]
SHAPES_AHEAD = 256  # whose rows are written before they come: what is known of them may change
_COPIED = {
    JOB.ESTIMATE_MS: JobColumn.ESTIMATE,
    JOB.STARTUP_MS: JobColumn.STARTUP,
    JOB.RESTART_MS: JobColumn.RESTART,
    JOB.MFU_PPM: JobColumn.MFU,
    JOB.HOST_PPM: JobColumn.HOST,
    JOB.LINKS_PPM: JobColumn.LINKS,
    JOB.RESIZE_MS: JobColumn.RESIZE,
}


def _blank() -> I64:
    """The row of a job that nothing has happened to."""
    row: I64 = np.zeros(len(JOB), np.int64)
    row[[JOB.FIRST_PIECE, JOB.NEXT, JOB.PREVIOUS, JOB.LEAVING_FOR, JOB.IDLE_MS]] = NONE
    row[JOB.PASSED_MS] = NEVER_PASSED
    row[[JOB.BUSY_PPM, JOB.SPEED_PPM]] = ONE_PPM
    row[JOB.HOP] = NO_HOP
    return row


_BLANK = _blank()

Run = Callable[[State, I64, I64, I64, int, int], int]
"""Folds events of a batch from a number on; the number of the first that it did not."""


class Inflow:
    """What a kernel that folds needs of a World beside its columns, before and after each call.

    Jobs that come next may be written ahead, many at once: their rows are there when they come.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._names: list[str] = []
        self._users: list[str] = []
        self._first = 0
        """The number of the job of the first name."""
        self._written = 0
        self._tried = 0
        """Up to which job rows were written, or could not be."""
        self._before = 0
        """How many jobs there were before a kernel was called."""
        self._unseen = deque[Shape]()
        """The shapes that come next, and have no rows yet."""

    def foresee(
        self, first: int, jobs: I64, names: list[str], dictionary: Dictionary, room: int = 0
    ) -> None:
        """These jobs come next, unless they came already; ``first`` is the number of the first.

        Whatever is wrong with one of them is for ``fold`` to say, when its turn comes. ``room``:
        for how many jobs rows are to be made at least, if any must be.
        """
        world, end = self.world, first + len(names)
        if end <= self._tried:
            return
        came = world.job_count - first
        self._tried = end
        shares = jobs[came:, [JobColumn.MFU, JobColumn.HOST, JobColumn.LINKS]].sum(axis=1)
        new = {*names[came:]}
        is_new = len(new) == len(names) - came and not world.job_names.has_any(new)
        asked = {dictionary.shapes.rows[s] for s in set(jobs[came:, JobColumn.SHAPE].tolist())}
        is_adrift = any(one in world.shape_number and topology.is_adrift(world.topology, one)
                        for one in asked)  # fmt: skip
        if not new or not is_new or is_adrift or (shares > ONE_PPM).any():
            return
        if end > len(world.ink.w.jobs):
            world.grow(jobs=max(end, room), active=max(end, room))
        written = world.ink.w.jobs[world.job_count : end]
        self._unseen = deque(_write_jobs(world, written, jobs[came:], dictionary))
        users = jobs[came:, JobColumn.USER].tolist()
        self._names = names[came:]
        self._users = [dictionary.users.rows[user] for user in users]
        self._first, self._written = world.job_count, end
        paging.wrote(len(self._names))

    def foretell(self) -> None:
        """Write the rows of the shapes that come next, up to one that must come first.

        Not while teams or tiers are still to be declared: what is refused depends on them.
        """
        world, known = self.world, self.world.shape_number
        while self._unseen and len(world.shape_rows) - world.shape_count < SHAPES_AHEAD:
            if self._unseen[0] not in known and not shapes.foretell(world, self._unseen[0]):
                return
            self._unseen.popleft()

    @property
    def is_any_adrift(self) -> bool:
        """Whether a job came once that named a tier which there is not any more."""
        world = self.world
        came = world.shape_rows[: world.shape_count]
        return any(topology.is_adrift(world.topology, one) for one in came)

    def forget(self) -> None:
        """Nothing more is foreseen: each job that comes is folded by itself."""
        self.withdraw()
        self._unseen.clear()
        self._written = self.world.job_count

    def withdraw(self) -> None:
        """Forget the shapes that were written ahead; they may be written again."""
        self._unseen.extendleft(reversed(shapes.withdraw(self.world)))

    def ready(self, counts: I64) -> State:
        """Say what there is (``core.replay``), before a kernel folds."""
        world = self.world
        self._before = world.job_count
        counts[0] = (
            self._before, self._written, world.node_count, world.shape_count, len(world.shape_rows)
        )  # fmt: skip
        if world.sliced:
            room.know_slices(world)
        return world.ink.w

    def done(self, counts: I64, count: int, at_ms: int) -> None:
        """A kernel folded so many events, the last of them at this moment."""
        if not count:
            return
        world, before, after = self.world, self._before, counts.item(0, 0)
        world.seq += count
        world.now_ms = at_ms
        if after > before:
            names = self._names[before - self._first : after - self._first]
            users = self._users[before - self._first : after - self._first]
            world.job_names.extend(names, users)
            world.shape_count = counts.item(0, 3)

    def single(self, event: Event) -> list[int]:
        """Fold one event by itself; the jobs that it touched."""
        try:
            return fold(self.world, event)
        except EventRefused:
            self.withdraw()
            raise


class Folding:
    """A batch on its way into a World: ``plain`` and ``single`` go as far as one call can.

    ``events``: the same as messages, where they are at hand; then jobs are submitted one by one.
    ``room``: how many jobs there may be in the end, where that is known: rows that are made at once
    need not be copied into more rows, and take no memory before they are written.
    """

    def __init__(
        self, world: World, batch: Batch, events: Sequence[Event] = (), room: int = 0
    ) -> None:
        self.world, self.batch, self._events = world, batch, events
        self.at = 0
        """How many of the events were folded."""
        self._counts: I64 = np.zeros((1, replay.COUNTS), np.int64)
        self._inflow = Inflow(world)
        kinds = batch.events[:, EventColumn.KIND]
        if batch.job_names and not events and not (kinds == CHANGED).any():  # it may bring shapes
            self._inflow.foresee(
                world.job_count, batch.jobs, batch.job_names, batch.dictionary, room
            )
        declares = (kinds == _DECLARE[0]) | (kinds == _DECLARE[1])
        self._settled = int(declares.nonzero()[0].max(initial=-1))
        """The last event that declares teams or tiers."""
        self._most_pieces = int(batch.events[:, EventColumn.COUNT].max(initial=0))
        rows.make_pieces(world, self._most_pieces + 1)

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
        world, events, counts = self.world, self.batch.events, self._counts
        if events.item(self.at, EventColumn.KIND) not in _PLAIN:
            return 0
        rows.make_pieces(world, self._most_pieces)
        if self.at > self._settled:
            self._inflow.foretell()
        w = self._inflow.ready(counts)
        end = int(run(w, events, self.batch.pieces, counts, self.at, world.now_ms))
        count, self.at = end - self.at, end
        if count:
            self._inflow.done(counts, count, int(events[end - 1, EventColumn.AT]))
        return count

    def single(self) -> tuple[Event, list[int]]:
        """Fold the next event by itself; the event, and the jobs that it touched."""
        event = self._events[self.at] if self._events else to_event(self.batch, self.at)
        touched = self._inflow.single(event)
        if isinstance(event, ev.TopologySet) and self._inflow.is_any_adrift:
            self._inflow.forget()
        self.at += 1
        return event, touched

    def all(self) -> None:
        """Fold all events that are left."""
        while not self.is_over:
            if not self.plain() or not self.is_over:
                self.single()


def _write_jobs(world: World, written: I64, jobs: I64, dictionary: Dictionary) -> Iterable[Shape]:
    """Write the rows of jobs that come next; the shapes that are new with them."""
    number, is_training, unseen = _shapes(world, jobs, dictionary)
    written[:] = _BLANK
    written[:, JOB.SHAPE] = number[jobs[:, JobColumn.SHAPE]]
    for column, origin in _COPIED.items():
        written[:, column] = jobs[:, origin]
    trains = is_training[jobs[:, JobColumn.SHAPE]]
    interval, cost = jobs[:, JobColumn.INTERVAL], jobs[:, JobColumn.COST]
    written[:, JOB.INTERVAL_MS] = np.where(trains, interval, progress.CONTINUOUS)
    written[:, JOB.COST_MS] = np.where(trains, cost, 0)
    written[:, JOB.CONFIDENCE] = PLACES[jobs[:, JobColumn.CONFIDENCE]]
    written[:, JOB.MEMORY_PPM] = _memory_ppm(jobs)
    return unseen


def _shapes(world: World, jobs: I64, dictionary: Dictionary) -> tuple[I64, I64, dict[Shape, int]]:
    """The number that each shape of a dictionary has, or will have; whether it trains; who is new.

    A shape that nobody has seen is the next when its first job comes: the order is the same.
    """
    known, shapes = world.shape_number, dictionary.shapes.rows
    number, is_training = np.zeros((2, len(shapes)), np.int64)
    unseen = dict[Shape, int]()
    for s in dict.fromkeys(jobs[:, JobColumn.SHAPE].tolist()):
        found = known.get(shapes[s])
        if found is None:
            found = unseen.setdefault(shapes[s], len(known) + len(unseen))
        number[s], is_training[s] = found, shapes[s].kind is JobClass.TRAINING
    return number, is_training != 0, unseen


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
