"""The twin's side of a stretch: which of its jobs and plans are plain, and their compiled beats.

Asked by the loop between two beats. A stretch goes up to the first thing that is not plain: a
fault, a contract, a crash to come, a wake that a plan asked for, an arrival of another sort.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from tidemill.engine import story
from tidemill.engine.fold_stretch import Stretch, is_plain, may_begin
from tidemill.engine.layout import Before
from tidemill.engine.story import Story
from tidemill.model import codes, tables
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS, ONE_PPM, WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.rows import Shape
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.memo import Memo
from tidemill.twin import kernels
from tidemill.twin.agenda import Agenda, Entry
from tidemill.twin.arrivals import Arrival
from tidemill.twin.attempts import Attempts
from tidemill.twin.coming import Coming
from tidemill.twin.event_queue.columns import ANY_ATTEMPT, JOB_END

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
    truths, startup = attempts.truths(world.job_count + len(arrivals)), plans.t.luck
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
    attempts.crashed(truths, world.job_count)
    coming.have_come(len(told.jobs))
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
        is_odd = len(arrival.crashes_ms) > 1 or bool(arrival.activity) or job.demand is not None
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
    is_meant = entry.kind in _WHAT and entry.stamp != ANY_ATTEMPT
    return is_meant and attempts.is_plain(entry.who) and is_plain(world.shape_of(entry.who))


def _heap(entries: list[Entry], room: int) -> Heap:
    heap: Heap = tables.blank(Heap, room)
    for i, entry in enumerate(sorted(entries)):
        heap.at_ms[i], heap.order[i] = entry.at_ms, entry.rank * kernels.SERIALS + entry.serial
        heap.job[i], heap.stamp[i] = entry.who, entry.stamp
        heap.what[i] = _WHAT[entry.kind] + kernels.FINAL * (
            entry.value if entry.rank == JOB_END else 0
        )
    return heap


def _entries(heap: Heap, count: int) -> list[Entry]:
    return [
        Entry(
            at_ms, order // kernels.SERIALS, order % kernels.SERIALS, j, stamp,
            _KIND[what % kernels.FINAL], int(what >= kernels.FINAL),
        )
        for at_ms, order, j, stamp, what in zip(
            *(column[:count].tolist() for column in heap), strict=True
        )
    ]  # fmt: skip


_WHAT = {
    codes.KIND_CODE[ev.JobStarted]: 0,
    codes.KIND_CODE[ev.JobFinished]: story.FINISHED,
    codes.KIND_CODE[ev.JobCancelled]: story.CANCELLED,
    codes.KIND_CODE[ev.JobFailed]: story.FAILED,
}
"""Plain entries: what compiled beats call them."""
_KIND = {what: kind for kind, what in _WHAT.items()}
