"""The twin's side of a stretch: which of its jobs and plans are plain, and their compiled beats.

Asked by the loop between two beats. A stretch goes up to the first thing that is not plain: a
fault, a contract, a crash to come, a wake that a plan asked for, an arrival of another sort.
"""

from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from tidemill.engine import story
from tidemill.engine.fold_stretch import Stretch, is_plain, may_begin
from tidemill.engine.layout import Before
from tidemill.engine.story import Story
from tidemill.model import events as ev
from tidemill.model import tables
from tidemill.model.measures import FOREVER_MS, ONE_PPM, WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.rows import Shape
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.memo import Memo
from tidemill.twin import agenda, kernels
from tidemill.twin.agenda import Agenda, Entry
from tidemill.twin.arrivals import Arrival
from tidemill.twin.attempts import Attempts
from tidemill.twin.attempts import is_plain as plain_life

WORTH_IT = 2_000  # arrivals; a shorter stretch is not worth laying out, nor compiling for
ARRIVALS_AT_ONCE = 100_000


class Arrivals(NamedTuple):
    """Coming jobs: when."""

    at_ms: I64


class Heap(NamedTuple):
    """The agenda of plain jobs; see ``kernels``."""

    at_ms: I64
    order: I64
    job: I64
    stamp: I64
    what: I64


class Coming:
    """Arrivals one by one, with a look ahead."""

    def __init__(self, arrivals: Iterator[Arrival]) -> None:
        self._rest = arrivals
        self._ahead: deque[Arrival] = deque()

    def first(self) -> Arrival | None:
        """The next arrival, which stays; None: there is no more."""
        if not self._ahead:
            self._ahead.extend(islice(self._rest, 1))
        return self._ahead[0] if self._ahead else None

    def take(self) -> Arrival:
        """The next arrival, which is taken."""
        return self._ahead.popleft()

    def ahead(self, count: int) -> list[Arrival]:
        """Up to this many next arrivals, which stay."""
        self._ahead.extend(islice(self._rest, max(0, count - len(self._ahead))))
        return list(islice(self._ahead, count))


def run(  # noqa: PLR0913, PLR0917 - everything a twin is made of, laid out for compiled beats
    world: World,
    policy: Policy,
    memo: Memo,
    coming: Coming,
    attempts: Attempts,
    plans: Agenda,
    until_ms: int,
) -> tuple[Before, Story] | None:
    """Run plain beats up to a moment; None when something that is not plain comes first."""
    is_plain_entry = partial(_is_plain_entry, world, attempts)
    until_ms = min(until_ms, plans.first_ms(lambda entry: not is_plain_entry(entry)))
    if attempts.neighbours.are_any or attempts.has_other_ends:
        return None
    if not _may_begin(world, policy, memo) or not _is_worth_it(world, coming, until_ms):
        return None
    arrivals, until_ms = _plain_arrivals(world, coming.ahead(ARRIVALS_AT_ONCE), until_ms)
    waiting = _waiting(world)
    if len(arrivals) + waiting < WORTH_IT:
        return None
    entries, serial = plans.split(is_plain_entry)
    events = 4 * len(arrivals) + 4 * (len(entries) + waiting) + 1024
    stretch = Stretch(world, policy, memo, [arrival.job for arrival in arrivals], events)
    if not stretch.may_run:
        stretch.give_up()
        plans.join(entries, serial)
        return None
    heap = _heap(entries, len(entries) + waiting + len(arrivals) + 1)
    stretch.at[kernels.HEAP], stretch.at[kernels.SERIAL] = len(entries), serial
    truths, startup = attempts.truths(arrivals), attempts.startup()
    times = np.array([arrival.at_ms for arrival in arrivals], np.int64)
    while True:
        stopped = kernels.stretch(
            until_ms, Arrivals(times), truths, startup, *stretch.columns, heap, stretch.pieces,
            stretch.lines,
        )  # fmt: skip
        if stopped == kernels.AT_MIX:
            stretch.look_at_mix()
        elif stopped == kernels.AFTER_MIX:
            stretch.take_scores()
        else:
            break
    told = stretch.finish()
    attempts.came(arrivals[: len(told.jobs)], truths)
    for _ in told.jobs:
        coming.take()
    plans.join(_entries(heap, int(stretch.at[kernels.HEAP])), int(stretch.at[kernels.SERIAL]))
    return (stretch.before, told) if len(told) else None


def _may_begin(world: World, policy: Policy, memo: Memo) -> bool:
    if not may_begin(world, policy) or memo.watches:
        return False
    return all(is_plain(world.shape_rows[s]) for s in world.queued)


def _is_worth_it(world: World, coming: Coming, until_ms: int) -> bool:
    """Whether enough is ahead before something else happens, for what is to be laid out.

    Arrivals count; and where nothing else will ever happen, those who wait.
    """
    wanted = max(WORTH_IT, len(world.placements) // 32)
    ahead = coming.ahead(wanted)
    if len(ahead) < wanted and until_ms >= FOREVER_MS:
        return len(ahead) + _waiting(world) >= wanted
    return len(ahead) == wanted and ahead[-1].at_ms < until_ms


def _waiting(world: World) -> int:
    return sum(len(world.waiting[s]) for s in world.queued)


def _plain_arrivals(
    world: World, arrivals: list[Arrival], until_ms: int
) -> tuple[list[Arrival], int]:
    """The arrivals up to the first that is not plain, and until when they are all there is."""
    seen: set[str] = set()
    good: dict[int, bool] = {}
    for i, arrival in enumerate(arrivals):
        job = arrival.job
        fine = good.get(id(job.shape))
        if fine is None:
            fine = good[id(job.shape)] = _is_plain_shape(world, job.shape)
        is_odd = not plain_life(arrival.crashes_ms, arrival.activity) or job.demand is not None
        is_new = job.name not in world.job_number and job.name not in seen
        shares = job.efficiency
        is_whole = shares.mfu_ppm + shares.host_ppm + shares.links_ppm <= ONE_PPM
        if arrival.at_ms >= until_ms or is_odd or not (fine and is_new and is_whole):
            return arrivals[:i], min(until_ms, arrival.at_ms)
        seen.add(job.name)
    if len(arrivals) == ARRIVALS_AT_ONCE:
        return arrivals[:-1], min(until_ms, arrivals[-1].at_ms)
    return arrivals, until_ms


def _is_plain_shape(world: World, shape: Shape) -> bool:
    is_known = shape.team in world.queue_number
    role = shape.roles[0]
    return is_known and is_plain(shape) and (role.milli == WHOLE_MILLI or role.accelerators == 1)


def _is_plain_entry(world: World, attempts: Attempts, entry: Entry) -> bool:
    _, rank, _, j, _, event = entry
    if rank not in (agenda.JOB_END, agenda.JOB_START) or not attempts.is_plain(j):
        return False
    return isinstance(event, _PLAIN) and is_plain(world.shape_of(j))


def _heap(entries: list[Entry], room: int) -> Heap:
    heap: Heap = tables.blank(Heap, room)
    for i, (at_ms, rank, serial, j, stamp, event) in enumerate(
        sorted(entries, key=itemgetter(0, 1, 2))
    ):
        heap.at_ms[i], heap.order[i] = at_ms, rank * kernels.SERIALS + serial
        heap.job[i], heap.stamp[i], heap.what[i] = j, stamp, _what(event)
    return heap


def _what(event: ev.Seen) -> int:
    match event:
        case ev.JobFinished():
            return story.FINISHED
        case ev.JobCancelled():
            return story.CANCELLED
        case ev.JobFailed(is_final=is_final):
            return story.FAILED + kernels.FINAL * is_final
        case _:
            return 0


def _entries(heap: Heap, count: int) -> list[Entry]:
    return [
        (at_ms, *divmod(order, kernels.SERIALS), j, stamp, _event(at_ms, j, stamp, what))
        for at_ms, order, j, stamp, what in zip(
            *(column[:count].tolist() for column in heap), strict=True
        )
    ]


def _event(at_ms: int, j: int, stamp: int, what: int) -> ev.Seen:
    match what % kernels.FINAL:
        case story.FINISHED:
            return ev.JobFinished(at_ms, j, stamp)
        case story.CANCELLED:
            return ev.JobCancelled(at_ms, j)
        case story.FAILED:
            return ev.JobFailed(at_ms, j, stamp, is_final=what >= kernels.FINAL)
        case _:
            return ev.JobStarted(at_ms, j, stamp)


_PLAIN = ev.JobStarted | ev.JobFinished | ev.JobFailed | ev.JobCancelled
