"""The life of jobs and machines in the order of time, as batches of events.

At one moment machines change first, then attempts end, then jobs are submitted, seated and started.
An attempt that ends the moment it starts ends last.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tidemill.live.history import by_job
from tidemill.live.history.attempt_columns import COLUMNS, AttemptColumns, is_begun
from tidemill.live.history.attempts import Sorted, SortedParts
from tidemill.live.history.moments import Moments
from tidemill.live.history.node_states import NodeMove, NodeSight, NodeStates
from tidemill.live.history.rows import NEVER_UP_MS, AttemptEnd, SeenNode
from tidemill.live.history.walking.columns import ATTEMPT, MOMENT, SEATED, WALK, Turn
from tidemill.live.history.walking.moments import walk
from tidemill.live.history.writing import LONGEST_REASON, EventWriter
from tidemill.model import events as ev
from tidemill.model import paging
from tidemill.model.batch import Batch, Dictionary, EventColumn, PieceColumn
from tidemill.model.measures import FOREVER_MS
from tidemill.model.reasons import Cause, Layer
from tidemill.model.rows import Shape
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World

BATCH_ROWS = 100_000
_AT_ONCE = 256  # moments: those of the first jobs are all over the tables, which go by name
_COLUMNS = tuple(dict.fromkeys((
    *COLUMNS, "submit_ms", "up_ms", "is_up_told", "job", "reason", "reason_cause", "reason_layer",
    "reason_ms", "needed",
)))  # fmt: skip
"""What is asked of attempts: where they were, when something happened, and why they wait."""


_IS_HELD = pl.col("reason_cause") == int(Cause.NOT_ELIGIBLE)

NOT_ASKED = "not asked for again yet"
"""Why a job does not wait for GPUs between an attempt and the next, where nobody says more."""


class ToldSpan(NamedTuple):
    """The time that is told: after one moment and up to another, both since 1970."""

    begins_ms: int
    """The zero of the journal."""
    mark_ms: int
    end_ms: int
    is_unwatched: bool = False
    """Nobody looked at the cluster in this time."""
    unwatched: frozenset[str] = frozenset()
    """Nor at the nodes whose names begin like this, since it was last said or since the mark."""


class HistoryTimeline:
    """Events of jobs and machines by moment, made into batches on the way.

    ``measured``: events of what was measured, as rows of a batch. ``world``: what was told before.
    ``shapes``: what jobs request, for attempts that say it by number.
    """

    def __init__(
        self,
        ordered: Sorted | SortedParts,
        machines: Sequence[SeenNode | None],
        span: ToldSpan,
        measured: I64,
        world: World | None = None,
        shapes: Sequence[Shape] = (),
    ) -> None:
        self._is_unwatched, self._unwatched = span.is_unwatched, span.unwatched
        self._asking = ordered.asking
        self._ordered: Sorted | SortedParts | None = ordered
        self._measured, self._begins_ms, self._shapes = measured, span.begins_ms, shapes
        self._mark_ms, self._end_ms = span.mark_ms - span.begins_ms, span.end_ms - span.begins_ms
        self._world = world if world is not None else World()
        self._is_whole = world is None
        """Whether nothing is told after this: what failed may come back while others are held."""
        self._machines = NodeStates(machines, self._world, *span[:3])
        self._numbers = {node.name: n for n, node in enumerate(machines) if node is not None}
        self._held = dict[int, tuple[int, int | None, str]]()
        """Jobs of which it is known since when their scheduler says why they wait (those that wait
        for something else than GPUs, as long as they do): cause, layer and reason, by number."""
        self._held_ms = dict[int, int]()
        """Since when it does."""
        self._needs = list[tuple[int, int, int, int]]()
        """When a job waits again, which, what it was told to request, and how many GPUs it does."""
        self._needed = dict[int, Shape]()
        """Of those, by place, what they request, where that was told to be something else."""
        self._said = set[int]()
        """Of those, the ones of which it was said when they began to."""
        self.over = 0
        """Attempts of which a part is not booked, among those that were told so far."""
        self.over_beside = 0
        """Of those, of jobs that are not larger than their node, which notes name already."""
        self.over_names: list[str] = []
        """The first of these jobs."""

    def batches(self, dictionary: Dictionary, *, in_one: bool = False) -> Iterator[Batch]:
        """Every event after the opening; ``in_one``: all of them in one batch, to be kept whole."""
        assert self._ordered is not None, "they are made once"
        ordered, self._ordered = self._ordered, None  # all that is needed of it is in columns
        told = AttemptColumns(ordered, self._numbers, self._machines.standing(), self._shapes)
        writer = EventWriter(
            dictionary, ordered.counts[1], self._world, self._shapes,
            told.places + len(self._machines), ordered.unfit, self._machines.untyped(),
        )  # fmt: skip
        moments, reasons = self._moments(ordered.counts), list[pl.DataFrame]()
        submitted = list[I64]()
        for jobs in ordered.in_order():
            writer.submits(jobs)
            first_ms = jobs["first_submit_ms"].to_numpy() - self._begins_ms
            submitted.append(first_ms)
            moments.add([(Turn.SUBMITS, first_ms, jobs["number"].to_numpy())])
        for part in ordered.parts(*_COLUMNS):
            moments.add(self._of_attempts(part, told.count))
            reasons.append(_reasons(part))
            told_ms = reasons[-1].filter(pl.col("since_ms") <= self._begins_ms + self._end_ms)
            moments.add(self._of_held(told_ms, _not_asked(part)))
            moments.add(self._of_needs(_needs(part)))
            told.add(part)
        full = writer.reg[WALK.FULL] = FOREVER_MS if in_one else BATCH_ROWS
        writer.reg[WALK.MOST_PIECES] = max(1, told.most_nodes)
        held: I64 = paging.blank(self._world.job_count + ordered.counts[1], len(SEATED))
        ordered.drop()
        self._find_needed(writer, submitted)
        submitted.clear()  # a number of every job
        self._open(writer)
        resident = 0
        for some in moments:
            i = 0
            while i < len(some):
                i = self._tell(writer, told, held, some[: i + _AT_ONCE], i)
                resident = paging.bound(resident)
                if len(writer) >= full:
                    yield writer.take()
        self._close(writer, pl.concat(reasons).sort("number") if reasons else None)
        yield writer.take()
        self.over, self.over_names = writer.over, writer.over_names()
        self.over_beside = writer.over_beside

    def _tell(
        self, writer: EventWriter, told: AttemptColumns, held: I64, moments: I64, i: int
    ) -> int:
        """Tell what happens from a moment on, as far as one call can; how far it came."""
        seats, reg = self._machines.seating.columns, writer.reg
        writer.make_room()
        end = int(walk(
            moments, told.rows, told.where, writer.submitted, self._measured, seats, held,
            writer.events, writer.pieces, reg, self._world.job_count, i,
        ))  # fmt: skip
        if reg[WALK.LEFT_COUNT]:
            first, count = reg[[WALK.LEFT_FIRST, WALK.LEFT_COUNT]].tolist()
            at = moments.item(end - 1, MOMENT.AT)
            left = writer.pieces[first : first + count, PieceColumn.NODE].tolist()
            self._settle(writer, at, [n for n in left if self._machines.seating.is_empty(n)])
        elif end == i:
            at, what, who = moments[i].tolist()
            self._tell_one(writer, told, at, Turn(what), who)
            end = i + 1
        return end

    def _open(self, writer: EventWriter) -> None:
        """What is so from the watermark on."""
        sights, unseen = self._machines.sights(), self._world.unseen
        still = {name for name, sight in sights if sight is NodeSight.LOST} & unseen
        for prefix in sorted(unseen - self._unwatched - still):
            writer.write(self._mark_ms, ev.SightRegained, to=writer.text(prefix))
        for prefix in sorted(self._unwatched - unseen):
            writer.write(self._mark_ms, ev.SightLost, value=1, to=writer.text(prefix))
        if self._is_unwatched:
            writer.write(self._mark_ms, ev.SightLost, value=1)
        writer.sights(self._mark_ms, [one for one in sights if one[0] not in still])
        self._settle(writer, self._mark_ms, range(len(self._machines)))
        writer.kept(self._mark_ms, self._machines.kept())

    def _close(self, writer: EventWriter, reasons: pl.DataFrame | None) -> None:
        """What is known at the end."""
        if self._is_unwatched:
            writer.write(self._end_ms, ev.SightRegained)
        if reasons is not None:
            self._say_reasons(writer, reasons)
        for n, device in self._machines.failing() if self._is_whole else ():
            writer.write(self._end_ms, ev.DeviceFailed, n, value=device)
        for n in self._machines.gone():
            writer.moved(self._end_ms, [NodeMove(n, NodeState.GONE)])
        writer.write(self._end_ms, ev.Woke)

    def _settle(self, writer: EventWriter, at: int, nodes: Iterable[int]) -> None:
        """These nodes may come nearer to the state that they were shown in."""
        for n in nodes:
            writer.moved(at, self._machines.settle(n))
            writer.devices(at, self._machines.devices())

    def _tell_one(
        self, writer: EventWriter, told: AttemptColumns, at: int, what: Turn, who: int
    ) -> None:
        """What happens at a moment that no kernel tells."""
        if what is Turn.MACHINES:
            writer.moved(at, self._machines.turn(who))
            writer.sights(at, self._machines.sights())
            writer.kept(at, self._machines.kept())
            writer.devices(at, self._machines.devices())
        elif what is Turn.FREED:
            j, _, shape = self._asking[who]
            writer.eligible(at, j) if shape is None else writer.needs(at, j, shape)
        elif what is Turn.HELD:
            self._hold(writer, at, who)
        elif what is Turn.RELEASED:
            writer.released(at, who)
        elif what is Turn.NEEDS:
            if (shape := self._needed.get(who)) is not None:
                writer.needs(at, self._needs[who][1], shape)
        elif what is Turn.PLACES:
            j, number = told.rows[who, [ATTEMPT.JOB, ATTEMPT.NUMBER]].tolist()
            asked = told.asked(who)
            writer.devices(at, self._machines.make_way(j, asked))
            found = self._machines.seating.take(j, asked)
            writer.placed(at, j, number, found.seats, found.over_milli)
        else:
            assert what in (Turn.ENDS, Turn.ENDS_AT_ONCE), what
            self._settle(writer, at, self._leave(writer, told, at, who))

    def _leave(self, writer: EventWriter, told: AttemptColumns, at: int, a: int) -> list[int]:
        """An attempt ends, or leaves what it does not hold any more; nodes that may change now."""
        seating, j, after = self._machines.seating, told.rows.item(a, ATTEMPT.JOB), told.after(a)
        if after is None:
            writer.ended(at, told.rows[a])
            return self._machines.give_back(j)
        left, is_less = self._machines.leave_for(j, told.asked(after))
        if is_less:
            number = told.rows.item(after, ATTEMPT.NUMBER)
            writer.placed(at, j, number, seating.held(j), 0)
        return left

    def _say_reasons(self, writer: EventWriter, reasons: pl.DataFrame) -> None:
        """Why the jobs that still wait do so, by their own scheduler's account, if that is news."""
        for j, _, *said in reasons.iter_rows():
            if j not in self._said:
                self._say_reason(writer, self._end_ms, j, *said)

    def _say_reason(
        self, writer: EventWriter, at: int, j: int, cause: int | None, layer: int | None, words: str
    ) -> None:
        known = self._world.reason_of(j) if j < self._world.job_count else None
        if known is None or known.words != words[:LONGEST_REASON]:
            writer.reason(at, j, cause or 0, layer or int(Layer.SCHEDULING), words)

    def _find_needed(self, writer: EventWriter, first_ms: Sequence[I64]) -> None:
        """What jobs request that wait again, where that is news."""
        now = {j: shape for j, _, shape in self._asking if shape is not None}
        changes = [(ms - self._begins_ms, now[j]) for j, ms, shape in self._asking if shape]
        for i in sorted(range(len(self._needs)), key=lambda i: (self._needs[i][0], i)):
            _, j, s, gpus = self._needs[i]
            known = self._world.shape_of(j) if j < self._world.job_count else self._shapes[s]
            shape = now.get(j, known)
            count = gpus // max(1, shape.roles[0].accelerators)
            is_same = len(shape.roles) != 1 or count in (0, shape.roles[0].count)
            if is_same or writer.is_held_from_first(j):
                continue
            role = replace(shape.roles[0], count=count, least=min(shape.roles[0].least, count))
            self._needed[i] = now[j] = replace(shape, roles=(role,))
        changes += [(self._needs[i][0], one) for i, one in self._needed.items()]
        if changes:
            writer.make_way(first_ms, changes)

    def _hold(self, writer: EventWriter, at: int, j: int) -> None:
        """A job that asked for GPUs before is held: it claims nothing while it is.

        One that never did has a shape of its own, which says so.
        """
        if writer.is_held_from_first(j):
            return
        if at == self._held_ms.get(j):
            self._said.add(j)
            self._say_reason(writer, at, j, *self._held[j])
        else:
            writer.reason(at, j, int(Cause.NOT_ELIGIBLE), int(Layer.WORKLOAD), NOT_ASKED)

    def _moments(self, counts: tuple[int, int]) -> Moments:
        """What happens to others than jobs; with room for so many attempts and jobs."""
        turns, freed = self._machines.turns_ms(), self._asking
        attempts, jobs = counts
        found = Moments(6 * attempts + jobs + len(turns) + len(freed) + len(self._measured))
        freed_ms = np.array([at - self._begins_ms for _, at, _ in freed], np.int64)
        found.add([
            (Turn.MACHINES, turns, np.arange(len(turns))),
            (Turn.FREED, freed_ms, np.arange(len(freed))),
            (Turn.MEASURES, self._measured[:, EventColumn.AT], np.arange(len(self._measured))),
        ])  # fmt: skip
        return found

    def _of_held(self, held: pl.DataFrame, not_asked: pl.DataFrame) -> list[tuple[Turn, I64, I64]]:
        """When jobs are held, and when those ask again that did not between two attempts."""
        held_ms = held["since_ms"].to_numpy() - self._begins_ms
        self._held |= {row[0]: row[2:] for row in held.iter_rows()}
        self._held_ms |= dict(zip(held["number"].to_list(), held_ms.tolist(), strict=True))
        first_ms, again_ms = (not_asked[n].to_numpy() - self._begins_ms for n in ("end", "again"))
        jobs = not_asked["number"].to_numpy()
        return [
            (Turn.HELD, held_ms, held["number"].to_numpy()), (Turn.HELD, first_ms, jobs),
            (Turn.RELEASED, again_ms, jobs),
        ]  # fmt: skip

    def _of_needs(self, needs: pl.DataFrame) -> list[tuple[Turn, I64, I64]]:
        """When jobs wait again, for as much as they still need."""
        first = len(self._needs)
        told = needs.with_columns(pl.col("since_ms") - self._begins_ms)
        self._needs += told.select("since_ms", "number", "shape", "needed").iter_rows()
        at = told["since_ms"].to_numpy()
        return [(Turn.NEEDS, at, first + np.arange(len(needs)))]

    def _of_attempts(self, rows: pl.DataFrame, first: int) -> list[tuple[Turn, I64, I64]]:
        """When what happens to attempts, of which the first has this number."""
        begins = self._begins_ms
        starting = (rows["start_ms"].is_not_null() & ~rows["is_told"]).to_numpy()
        starts = rows["start_ms"].fill_null(0).to_numpy() - begins
        has_ended = rows["end_ms"].is_not_null().to_numpy()
        ends = rows["end_ms"].fill_null(0).to_numpy() - begins
        begun, over = np.flatnonzero(starting), np.flatnonzero(has_ended)
        ups = rows["up_ms"].fill_null(0).to_numpy() - begins
        is_new = ~rows["is_up_told"].to_numpy() & rows["up_ms"].is_not_null().to_numpy()
        up = np.flatnonzero(is_new & (ups <= self._end_ms))
        is_at_once = ~is_begun(rows)[over] | (starting[over] & (ends[over] <= starts[over]))
        is_at_once |= is_new[over] & (ends[over] <= ups[over]) & (ups[over] <= self._end_ms)
        at_once, later = over[is_at_once], over[~is_at_once]
        return [
            (Turn.ENDS, ends[later], first + later), (Turn.PLACES, starts[begun], first + begun),
            (Turn.STARTS, ups[up], first + up),
            (Turn.ENDS_AT_ONCE, ends[at_once], first + at_once),
        ]  # fmt: skip


def _reasons(attempts: pl.DataFrame) -> pl.DataFrame:
    """Why the jobs that still wait do so, by their own scheduler's account, and since when it says
    so, where that is known: who is held is so as long as it waits.

    Also of a gang of which a part sits somewhere: why the rest of it does not.
    """
    runs = pl.col("outcome") == AttemptEnd.RUNNING
    waits = (pl.col("outcome") == AttemptEnd.WAITING) & pl.col("is_last")
    is_partial = runs & (pl.col("up_ms") >= NEVER_UP_MS)
    since_ms = pl.max_horizontal("submit_ms", by_job.before(pl.col("end_ms")))
    said_ms = pl.when(_IS_HELD).then(since_ms).otherwise(pl.max_horizontal(since_ms, "reason_ms"))
    is_told = _IS_HELD | pl.col("reason_ms").is_not_null()
    told = attempts.with_columns(since_ms=pl.when(waits & is_told).then(said_ms))
    told = told.filter((waits | is_partial) & pl.col("reason").is_not_null())
    running = attempts.filter(runs)["job"].unique()
    told = told.filter(is_partial | ~pl.col("job").is_in(running.to_list()))
    return told.select("number", "since_ms", "reason_cause", "reason_layer", "reason")


def _needs(attempts: pl.DataFrame) -> pl.DataFrame:
    """Attempts before which their job waited again, or does, and since when."""
    end_ms, before = by_job.before(pl.col("end_ms")), by_job.before(pl.col("outcome"))
    goes_on = before.is_in([AttemptEnd.RUNNING, AttemptEnd.CHANGED]).fill_null(value=False)
    waits = pl.col("start_ms").is_null() & ~goes_on
    waited = (pl.col("start_ms") > end_ms) & ~goes_on
    since_ms = pl.when(waits).then(pl.max_horizontal("submit_ms", end_ms)).otherwise(end_ms)
    told = attempts.with_columns(since_ms=since_ms)
    return told.filter((waits | waited).fill_null(value=False) & pl.col("needed").is_not_null())


def _not_asked(attempts: pl.DataFrame) -> pl.DataFrame:
    """From the end of an attempt to when its job asks again: it is requeued and may not run yet, or
    somebody submits it again later.
    """
    end_ms = by_job.before(pl.col("end_ms"))
    told = attempts.select("number", end=end_ms, again="submit_ms")
    return told.filter(pl.col("end") < pl.col("again"))
