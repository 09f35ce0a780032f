"""The supply side of the ledger: accelerators that no job holds, integrated over time.

Between two moments nothing changes, so each level counts ``milli × ms``. Levels of a contract that
are a bucket as they are go straight there; READY ones are divided among what waits. The loop is one
compiled call a beat; what it reads is looked up again only when the World grew.
"""

from typing import Any, NamedTuple, Self

import numpy as np

from tidemill.engine.layout import Before
from tidemill.engine.story import STARTED, Story
from tidemill.ledger import kernels
from tidemill.ledger.buckets import CLAIMED_AS, OF_LEVEL, Bucket
from tidemill.ledger.claimants import Claimants
from tidemill.ledger.cut import NOT_RUNNING, WIDTH, Window
from tidemill.model.errors import SpecError
from tidemill.model.measures import FOREVER_MS
from tidemill.model.states import Level
from tidemill.model.tables import I64
from tidemill.model.world import World

BINS_AT_MOST = 100_000  # eleven years by the hour; each holds contracts × buckets × teams numbers

_CLAIMED_AS = np.array(CLAIMED_AS, np.int64)
_BUCKET_OF_LEVEL = np.array([OF_LEVEL.get(level, -1) for level in Level], np.int64)

_Stamp = tuple[int, int, int, int, int]


class Moving(NamedTuple):
    """What changes from event to event."""

    levels: I64
    used: I64
    waiting: I64
    head: I64
    cause: I64


def _moving(world: World) -> Moving:
    shapes = world.shapes
    return Moving(world.levels, world.used, shapes.waiting, shapes.head, shapes.cause)


class OpenJobs(NamedTuple):
    """Per job: its pieces, the chain of its queue, and since when it is in its phase."""

    first: I64
    pieces: I64
    after: I64
    last: I64
    since_ms: I64
    origin_ms: I64
    attempt: I64

    @classmethod
    def before(cls, world: World, before: Before) -> Self:
        """As they were before a stretch."""
        rows = len(world.jobs.state)
        return cls(
            before.aboard.first.copy(), before.aboard.pieces.copy(), before.after.copy(),
            before.last.copy(), np.zeros(rows, np.int64), np.full(rows, NOT_RUNNING, np.int64),
            before.attempt.copy(),
        )  # fmt: skip


class Supply:
    """Sums per time bin of what is paid, and of what is paid but in no job's hands."""

    def __init__(self, orders_by_priority: bool) -> None:
        self.paid: dict[int, I64] = {}
        """Paid milli × ms per contract."""
        self.unheld: dict[int, I64] = {}
        """Milli × ms per contract, bucket, team + 1 (0: nobody)."""
        self._by_priority = orders_by_priority
        self._claimants = Claimants()
        self._is_promised = np.zeros(64, np.bool_)
        self._has_promised = False
        self._levels: I64 | None = None
        self._stamp: _Stamp | None = None
        self._columns: tuple[Any, ...] = ()

    def integrate(self, world: World, bin_number: int, dt_ms: int) -> None:
        """Count the World as it is for this long."""
        stamp = (
            bin_number,
            len(world.contract_rows),
            len(world.shape_rows),
            len(world.groups),
            len(world.queue_rows),
        )
        if stamp != self._stamp or world.levels is not self._levels:
            self._look_again(world, stamp, _moving(world))
        if world.promised or self._has_promised:
            self._is_promised[:] = False
            self._is_promised[list(world.promised)] = True
            self._has_promised = bool(world.promised)
        kernels.integrate(dt_ms, *self._columns)

    def follow(self, window: Window, world: World, before: Before, story: Story,
               jobs: OpenJobs, now_ms: int) -> tuple[I64, int]:  # fmt: skip
        """Count a whole story from its beginning; return the spans of its jobs.

        And how many attempts of training jobs were stopped at work inside the window.
        """
        self._is_promised[:] = self._has_promised = False  # or it would not be a plain story
        moving = Moving(
            before.levels.copy(), before.used.copy(), before.waiting.copy(), before.head.copy(),
            before.cause.copy(),
        )  # fmt: skip
        most_pieces = max(1, int(story.lines.pieces.max()), int(before.aboard.pieces.max()))
        ends = 2 * int((story.lines.kind >= STARTED).sum())
        most = ends * min(world.contract_count, most_pieces)
        spans, written = np.zeros((most, WIDTH), np.int64), np.zeros(1, np.int64)
        cut_short = np.zeros(1, np.int64)
        milli = np.array([shape.roles[0].replica_milli for shape in world.shape_rows], np.int64)
        i = 0
        while i < len(story):
            number, edge_ms, counts = _bin(window, now_ms)
            stamp = (number, world.contract_count, len(world.shape_rows), len(world.groups),
                     len(world.queue_rows))  # fmt: skip
            self._look_again(world, stamp, moving)
            i, now_ms = kernels.follow(
                i, now_ms, edge_ms, counts, window.start_ms, window.end_ms, int(Bucket.STARTING),
                int(Bucket.RESTART), int(Bucket.REWORK), story.lines, story.pieces,
                world.jobs.shape, world.jobs.interval_ms, world.jobs.cost_ms,
                world.nodes.contract, world.nodes.kind, milli, jobs.first, jobs.pieces, jobs.after,
                jobs.last, jobs.since_ms, jobs.origin_ms, jobs.attempt, spans, written, cut_short,
                *self._columns,
            )  # fmt: skip
        self._stamp = None
        return spans[: int(written[0])], int(cut_short[0])

    def _look_again(self, world: World, stamp: _Stamp, moving: Moving) -> None:
        """Find the columns again; ``World.seal`` makes new views of all of them at once."""
        number, count, shapes, _, teams = stamp
        self._stamp, self._levels = stamp, world.levels
        paid = row_of(self.paid, number, (count,))
        unheld = row_of(self.unheld, number, (count, len(Bucket), teams + 1))
        waits, contracts, roles = world.shapes, world.contracts, self._claimants
        roles.update(world)
        room = len(waits.queue)
        if room > len(self._is_promised):
            self._is_promised, self._has_promised = np.zeros(room, np.bool_), True
        self._columns = (
            count, shapes, self._by_priority,
            int(Level.READY), int(Bucket.NOT_LAUNCHED), int(Bucket.NO_DEMAND),
            moving.levels, contracts.is_running, contracts.is_reserved, contracts.count_milli,
            contracts.launched_milli, contracts.kind,
            moving.waiting, waits.priority, waits.queue, moving.head, moving.cause,
            self._is_promised,
            roles.first_role, roles.role_milli, roles.role_rule, roles.may_use,
            moving.used, world.floor, _BUCKET_OF_LEVEL, _CLAIMED_AS,
            np.zeros(count, np.int64), np.zeros(room, np.int64), np.zeros(room, np.int64),
            paid, unheld,
        )  # fmt: skip


def _bin(window: Window, now_ms: int) -> tuple[int, int, bool]:
    """The bin that a moment begins or lies in, where it ends, and whether it counts."""
    if now_ms < window.start_ms:
        return 0, window.start_ms, False
    if now_ms >= window.end_ms:
        return (window.end_ms - 1 - window.start_ms) // window.bin_ms, FOREVER_MS, False
    number = (now_ms - window.start_ms) // window.bin_ms
    return number, min(window.end_ms, window.start_ms + (number + 1) * window.bin_ms), True


def row_of(bins: dict[int, I64], number: int, shape: tuple[int, ...]) -> I64:
    """The array of a bin, enlarged when contracts or teams were added."""
    array = bins.get(number)
    if array is None:
        if len(bins) >= BINS_AT_MOST:
            raise SpecError(
                f"the window has more than {BINS_AT_MOST:,} time bins",
                hint="ask for wider bins, or for a shorter window",
            )
        array = bins[number] = np.zeros(shape, np.int64)
    elif array.shape != shape:
        bigger = np.zeros(shape, np.int64)
        bigger[tuple(slice(0, n) for n in array.shape)] = array
        array = bins[number] = bigger
    return array
