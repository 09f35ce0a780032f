"""The life of jobs and machines in the order of time, as batches of events.

At one moment machines change first, then attempts end, then jobs are submitted, seated and started.
An attempt that ends the moment it starts ends last.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace
from numpy.typing import NDArray

from tidemill.live.history.attempts import LONGEST_NAME, Sorted
from tidemill.live.history.node_states import NodeStates
from tidemill.live.history.rows import NEVER_UP_MS, AttemptEnd, SeenNode
from tidemill.live.history.seating import NO_SEAT, SeatRequest, SeenSeat
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import Batch, Dictionary, EventColumn, JobColumn, PieceColumn, place
from tidemill.model.events import Event, Why
from tidemill.model.measures import FOREVER_MS
from tidemill.model.reasons import Cause, Layer
from tidemill.model.rows import Role, Shape
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import World

Flags = NDArray[np.bool_]

UNKNOWN_SAVING = -1
"""Instead of an interval: nobody said how a job saves, so nobody knows what a stop lost."""

BATCH_ROWS = 100_000
LONGEST_REASON = 500
_HELD = "held"
"""The role of jobs that wait for something else: so none that waits for GPUs is like them."""
_MACHINES, _ENDS, _SUBMITS, _FREED, _PLACES, _STARTS, _MEASURES, _ENDS_AT_ONCE = range(8)
_WHY: dict[AttemptEnd, Why] = {
    AttemptEnd.FAILED: Why.CRASHED,
    AttemptEnd.TIMED_OUT: Why.TIMED_OUT,
    AttemptEnd.OUT_OF_MEMORY: Why.OUT_OF_MEMORY,
    AttemptEnd.NODE_LOST: Why.NODE_LOST,
    AttemptEnd.PREEMPTED: Why.PREEMPTED,
}
"""Why an attempt stopped; nothing else says."""
_COLUMN = {column.name.lower(): int(column) for column in EventColumn}


_OF_ATTEMPTS = frozenset({_ENDS, _PLACES, _STARTS, _ENDS_AT_ONCE})


class _Attempt(NamedTuple):
    """What is told of one attempt, beside when."""

    job: int
    number: int
    """0: it never began."""
    outcome: AttemptEnd
    is_last: bool
    asked: SeatRequest
    after: "_Attempt | None" = None
    """As what it goes on, and holds something else."""


class ToldSpan(NamedTuple):
    """The time that is told: after one moment and up to another, both since 1970."""

    begins_ms: int
    """The zero of the journal."""
    mark_ms: int
    end_ms: int
    is_unwatched: bool = False
    """Nobody looked at the cluster in this time."""


class HistoryTimeline:
    """Events of jobs and machines by moment, made into batches on the way.

    ``measured``: events of what was measured, as rows of a batch. ``world``: what was told before.
    ``shapes``: what jobs request, for attempts that say it by number.
    """

    def __init__(
        self,
        ordered: Sorted,
        machines: Sequence[SeenNode | None],
        span: ToldSpan,
        measured: I64,
        world: World | None = None,
        shapes: Sequence[Shape] = (),
    ) -> None:
        self._is_unwatched = span.is_unwatched
        self._ordered, self._attempts, self._jobs = ordered, ordered.attempts, ordered.jobs
        self._measured, self._begins_ms, self._shapes = measured, span.begins_ms, shapes
        self._mark_ms, self._end_ms = span.mark_ms - span.begins_ms, span.end_ms - span.begins_ms
        self._world = world if world is not None else World()
        self._machines = NodeStates(machines, self._world, *span[:3])
        self._numbers = {node.name: n for n, node in enumerate(machines) if node is not None}
        self.over = 0
        """Attempts of which a part is not booked, among those that were told so far."""

    def batches(self, dictionary: Dictionary, *, in_one: bool = False) -> Iterator[Batch]:
        """Every event after the opening; ``in_one``: all of them in one batch, to be kept whole."""
        writer = _Writer(dictionary, self._jobs, self._world, self._shapes)
        machines = self._machines
        attempts, measured = self._told_attempts(), self._measured.tolist()
        self._open(writer)
        for at, code, who in self._moments():
            if code in _OF_ATTEMPTS:
                self._tell(writer, at, code, attempts[who])
            elif code == _SUBMITS:
                writer.submitted(at)
            elif code == _MEASURES:
                writer.rows.append(measured[who])
            elif code == _FREED:
                writer.eligible(at, self._ordered.freed[who][0])
            else:
                writer.moved(at, machines.turn(who))
            if len(writer.rows) >= BATCH_ROWS and not in_one:
                yield writer.take()
        self._close(writer)
        yield writer.take()

    def _open(self, writer: "_Writer") -> None:
        """What is so from the watermark on."""
        if self._is_unwatched:
            writer.write(self._mark_ms, ev.SightLost, value=1)
        for n in range(len(self._machines)):
            writer.moved(self._mark_ms, self._machines.settle(n))

    def _close(self, writer: "_Writer") -> None:
        """What is known at the end."""
        if self._is_unwatched:
            writer.write(self._end_ms, ev.SightRegained)
        self._say_reasons(writer)
        for n in self._machines.gone():
            writer.moved(self._end_ms, [(n, NodeState.GONE)])
        writer.write(self._end_ms, ev.Woke)

    def _tell(self, writer: "_Writer", at: int, code: int, attempt: "_Attempt") -> None:
        """What happens to an attempt."""
        seating = self._machines.seating
        if code == _PLACES:
            found = seating.take(attempt.job, attempt.asked)
            self.over += found.over_milli > 0
            writer.placed(at, attempt.job, attempt.number, found.seats, found.over_milli)
        elif code == _STARTS:
            writer.write(at, ev.JobStarted, attempt.job, attempt.number)
        else:
            for n in self._leave(writer, at, attempt):
                writer.moved(at, self._machines.settle(n))

    def _leave(self, writer: "_Writer", at: int, attempt: "_Attempt") -> list[int]:
        """An attempt ends, or leaves what it does not hold any more; nodes that are empty now."""
        seating, j = self._machines.seating, attempt.job
        if attempt.after is None:
            writer.ended(at, attempt)
            return seating.give_back(j)
        empty, is_less = seating.leave_for(j, attempt.after.asked)
        if is_less:
            writer.placed(at, j, attempt.after.number, seating.held(j), 0)
        return empty

    def _say_reasons(self, writer: "_Writer") -> None:
        """Why the jobs that still wait do so, by their own scheduler's account, if that is news.

        Also of a gang of which a part sits somewhere: why the rest of it does not.
        """
        runs = pl.col("outcome") == AttemptEnd.RUNNING
        waits = (pl.col("outcome") == AttemptEnd.WAITING) & pl.col("is_last")
        waits &= ~runs.any().over("job")
        waits |= runs & (pl.col("up_ms") >= NEVER_UP_MS)
        told = self._attempts.filter(waits & pl.col("reason").is_not_null())
        columns = ("number", "reason_cause", "reason_layer", "reason")
        for j, cause, layer, reason in told.sort("number").select(columns).iter_rows():
            known = self._world.reason_of(j) if j < self._world.job_count else None
            if known is None or known.words != reason[:LONGEST_REASON]:
                writer.reason(self._end_ms, j, cause or 0, layer or int(Layer.SCHEDULING), reason)

    def _is_begun(self) -> Flags:
        """Attempts that hold what they were given: now, or since before."""
        rows = self._attempts
        found: Flags = (rows["start_ms"].is_not_null() | rows["is_told"]).to_numpy()
        return found

    def _moments(self) -> Iterator[tuple[int, int, int]]:
        """When what happens to whom, in order: jobs and attempts by number, turns of machines."""
        rows, begins, freed = self._attempts, self._begins_ms, self._ordered.freed
        submits = self._jobs["first_submit_ms"].to_numpy() - begins
        starting = (rows["start_ms"].is_not_null() & ~rows["is_told"]).to_numpy()
        starts = rows["start_ms"].fill_null(0).to_numpy() - begins
        has_ended = rows["end_ms"].is_not_null().to_numpy()
        ends = rows["end_ms"].fill_null(0).to_numpy() - begins
        begun, over = np.flatnonzero(starting), np.flatnonzero(has_ended)
        ups = rows["up_ms"].fill_null(0).to_numpy() - begins
        is_new = ~rows["is_up_told"].to_numpy() & rows["up_ms"].is_not_null().to_numpy()
        up = np.flatnonzero(is_new & (ups <= self._end_ms))
        is_at_once = ~self._is_begun()[over] | (starting[over] & (ends[over] <= starts[over]))
        turns = self._machines.turns_ms()
        told: list[tuple[I64, int | I64, I64]] = [
            (submits, _SUBMITS, self._world.job_count + np.arange(len(submits))),
            (starts[begun], _PLACES, begun),
            (ups[up], _STARTS, up),
            (self._measured[:, EventColumn.AT], _MEASURES, np.arange(len(self._measured))),
            (ends[over], np.where(is_at_once, _ENDS_AT_ONCE, _ENDS), over),
            (turns, _MACHINES, np.arange(len(turns))),
            (np.array([at - begins for _, at in freed], np.int64), _FREED, np.arange(len(freed))),
        ]
        at = np.concatenate([when for when, _, _ in told])
        code = np.concatenate([np.broadcast_to(what, when.shape) for when, what, _ in told])
        who = np.concatenate([whom for _, _, whom in told])
        order = np.lexsort((who, code, at))
        for first in range(0, len(order), BATCH_ROWS):
            some = order[first : first + BATCH_ROWS]
            yield from zip(at[some].tolist(), code[some].tolist(), who[some].tolist(), strict=True)

    def _told_attempts(self) -> list[_Attempt]:
        rows = self._attempts
        names = ("number", "attempt", "outcome", "is_last")
        columns = [rows[name].to_list() for name in names]
        ends = {str(end): end for end in AttemptEnd}
        both = zip(*columns, self._is_begun().tolist(), self._asked(), strict=True)
        found = [
            _Attempt(job, number if is_begun else 0, ends[outcome], is_last, asked)
            for job, number, outcome, is_last, is_begun, asked in both
        ]
        return [
            one._replace(after=found[i + 1]) if one.outcome is AttemptEnd.CHANGED else one
            for i, one in enumerate(found)
        ]

    def _asked(self) -> list[SeatRequest]:
        """How each attempt is to be seated; one in which no time passes takes no seat from others.

        Clocks of a second show what ran one after the other as if it had run at once.
        """
        rows, number = self._attempts, self._numbers
        anywhere, found = self._machines.standing(), list[SeatRequest]()
        names = ("replicas", "each", "nodes", "devices", "start_ms", "end_ms", "shape", "roles")
        columns = (rows[name].to_list() for name in names)
        for replicas, each, nodes, masks, start_ms, end_ms, s, roles in zip(*columns, strict=True):
            if start_ms is None or end_ms == start_ms:
                found.append(NO_SEAT)
                continue
            where = [number[name] for name in nodes] if nodes else anywhere
            if s is not None:
                roles_ = self._shapes[s].roles
                found.append(SeatRequest(0, 1, where if nodes else [], masks, False, roles, roles_))
                continue
            found.append(SeatRequest(replicas, each, where, masks, is_anywhere=not nodes))
        return found


class _Writer:
    """Rows of events, and what they need beside them, for the next batch."""

    def __init__(
        self, dictionary: Dictionary, jobs: pl.DataFrame, world: World, told: Sequence[Shape]
    ) -> None:
        self._dictionary, self._world = dictionary, world
        self._jobs, self._names = _job_rows(jobs, dictionary, told), jobs["job"].to_list()
        self._is_eligible = jobs["is_eligible"].to_list()
        self._submitted = self._taken = 0
        self._pieces: list[tuple[int, int, int, int, int]] = []
        self._shapes = dict[int, int]()
        """The number that each shape of the dictionary has, or gets, in the cluster state."""
        self._new_shapes = 0
        self.rows: list[list[int]] = []

    def write(
        self, at: int, kind: type[Event], who: int = 0, attempt: int = 0, **rest: int
    ) -> None:
        """One event; ``rest``: its other columns by name."""
        row = [at, codes.KIND_CODE[kind], who, attempt, 0, 0, 0, 0, 0]
        for name, value in rest.items():
            row[_COLUMN[name]] = value
        self.rows.append(row)

    def submitted(self, at: int) -> None:
        """The next job is submitted; it may wait for something else than GPUs at first."""
        s = self._jobs.item(self._submitted, JobColumn.SHAPE)
        if s not in self._shapes:
            known = self._world.shape_number.get(self._dictionary.shapes.rows[s])
            self._shapes[s] = len(self._world.shape_rows) + self._new_shapes
            if known is not None:
                self._shapes[s] = known
            self._new_shapes += known is None
        self.write(at, ev.JobSubmitted)
        if not self._is_eligible[self._submitted]:
            self.write(at, ev.CauseChanged, self._shapes[s], why=int(Cause.NOT_ELIGIBLE))
        self._submitted += 1

    def eligible(self, at: int, j: int) -> None:
        """A job that waited for something else waits for GPUs now."""
        self.write(at, ev.CauseChanged, self._world.jobs.shape.item(j), why=int(Cause.NONE))

    def reason(self, at: int, j: int, cause: int, layer: int, words: str) -> None:
        """What another scheduler says of a waiting job."""
        number = self._dictionary.users.number(words[:LONGEST_REASON])
        self.write(at, ev.ReasonSeen, j, why=cause, to=layer, value=number)

    def placed(self, at: int, j: int, attempt: int, seats: list[SeenSeat], over_milli: int) -> None:
        """An attempt holds these seats."""
        for n, replicas, mask, role, slices, _ in seats:
            devices = mask - (1 << 64) if mask >> 63 else mask
            self._pieces.append((role, n, replicas, devices, slices))
        self.write(at, ev.PlacementSeen, j, attempt, value=over_milli, count=len(seats))

    def ended(self, at: int, attempt: _Attempt) -> None:
        """An attempt is over, and with the last one its job, unless that waits again."""
        j, number, outcome, is_last, *_ = attempt
        if (outcome is AttemptEnd.CANCELLED and is_last) or not number:
            self.write(at, ev.JobCancelled, j)
        elif outcome is AttemptEnd.DONE and is_last:
            self.write(at, ev.JobFinished, j, number)
        else:
            is_final = is_last and outcome is not AttemptEnd.REQUEUED
            why = codes.WHY_CODE[_WHY.get(outcome, Why.UNSAID)]
            self.write(at, ev.JobFailed, j, number, why=why, value=int(is_final))

    def moved(self, at: int, moves: list[tuple[int, NodeState]]) -> None:
        """Nodes change their states."""
        for n, state in moves:
            self.write(at, ev.NodeMoved, n, to=int(state), value=FOREVER_MS)

    def take(self) -> Batch:
        """What was written since the last batch."""
        events = np.array(self.rows, np.int64).reshape(-1, len(EventColumn))
        pieces = np.array(self._pieces, np.int64).reshape(-1, len(PieceColumn))
        place(events)
        first, self._taken = self._taken, self._submitted
        self.rows, self._pieces = [], []
        jobs, names = self._jobs[first : self._taken], self._names[first : self._taken]
        return Batch(events, pieces, jobs, names, [], self._dictionary)


def _job_rows(jobs: pl.DataFrame, dictionary: Dictionary, told: Sequence[Shape]) -> I64:
    """Submitted jobs in columns; ``told``: what they request, where they say that by number."""
    rows = np.zeros((len(jobs), len(JobColumn)), np.int64)
    rows[:, JobColumn.ESTIMATE] = jobs["limit_ms"].to_numpy()
    rows[:, JobColumn.INTERVAL] = UNKNOWN_SAVING
    shapes = dict[tuple[object, ...], int]()
    held = pl.when("is_eligible").then(pl.lit("")).otherwise("job").alias("held")
    form = jobs.select(
        "shape", held, "team", "priority", "kind", "replicas", "each", "cpus", "memory_mib"
    )
    numbers = []
    for s, held_as, *row in form.iter_rows():
        key = (held_as, *row) if s is None else (held_as, s)
        if key not in shapes:
            shape = _shape(*row) if s is None else told[s]
            shapes[key] = dictionary.shapes.number(_held(shape, held_as) if held_as else shape)
        numbers.append(shapes[key])
    rows[:, JobColumn.SHAPE] = numbers
    rows[:, JobColumn.USER] = [dictionary.users.number(user) for user in jobs["user"].to_list()]
    return rows


def _shape(team: str, priority: int, kind: str, *asked: int) -> Shape:
    """``asked``: replicas, GPUs of each, and CPUs and memory of all."""
    replicas, each, cpus, memory_mib = asked
    role = Role(
        count=replicas, accelerators=each, cpu_milli=1000 * cpus // replicas,
        memory_mib=memory_mib // replicas, kinds=(kind,) if kind else (),
    )  # fmt: skip
    return Shape(team, (role,), priority=priority)


def _held(shape: Shape, job: str) -> Shape:
    """The same of a job that waits for something else than GPUs."""
    first, *rest = shape.roles
    return replace(shape, roles=(replace(first, name=f"{_HELD} {job}"[:LONGEST_NAME]), *rest))
