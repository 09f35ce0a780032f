"""The life of jobs and machines in the order of time, as batches of events.

At one moment machines change first, then attempts end, then jobs are submitted, seated and started.
An attempt that ends the moment it starts ends last.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl

from tidemill.live.history.attempts import Sorted
from tidemill.live.history.rows import AttemptEnd, SeenNode
from tidemill.live.history.seating import NO_SEAT, Seat, Seating, SeatRequest
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import Batch, Dictionary, EventColumn, JobColumn, PieceColumn, place
from tidemill.model.events import Event, Why
from tidemill.model.measures import FOREVER_MS
from tidemill.model.reasons import Cause, Layer
from tidemill.model.rows import Role, Shape
from tidemill.model.states import NodeState
from tidemill.model.tables import I64

UNKNOWN_SAVING = -1
"""Instead of an interval: nobody said how a job saves, so nobody knows what a stop lost."""

BATCH_ROWS = 100_000
LONGEST_REASON = 500
NOT_ELIGIBLE = -1
"""The priority of jobs that wait for something else: so none that waits for GPUs is like them."""
_MACHINES, _ENDS, _SUBMITS, _PLACES, _STARTS, _MEASURES, _ENDS_AT_ONCE = range(7)
_WHY: dict[AttemptEnd, Why] = {
    AttemptEnd.FAILED: Why.CRASHED,
    AttemptEnd.TIMED_OUT: Why.TIMED_OUT,
    AttemptEnd.OUT_OF_MEMORY: Why.OUT_OF_MEMORY,
    AttemptEnd.NODE_LOST: Why.NODE_LOST,
    AttemptEnd.PREEMPTED: Why.PREEMPTED,
}
"""Why an attempt stopped; nothing else says."""
_COLUMN = {column.name.lower(): int(column) for column in EventColumn}


class HistoryTimeline:
    """Events of jobs and machines by moment, made into batches on the way."""

    def __init__(
        self, ordered: Sorted, machines: list[SeenNode], begins_ms: int, end_ms: int,
        measured: I64,
    ) -> None:  # fmt: skip
        self._attempts, self._jobs = ordered.attempts, ordered.jobs
        self._measured = measured
        self._begins_ms, self._end_ms = begins_ms, end_ms
        self._machines = _Machines(machines)
        self._numbers = {node.name: n for n, node in enumerate(machines)}
        self.over = 0
        """Attempts of which a part is not booked, among those that were told so far."""

    def batches(self, dictionary: Dictionary) -> Iterator[Batch]:
        """Every event after the opening."""
        writer = _Writer(dictionary, _job_rows(self._jobs, dictionary), self._jobs["job"].to_list())
        numbers, tries = (self._attempts[name].to_list() for name in ("number", "attempt"))
        outcomes = [AttemptEnd(word) for word in self._attempts["outcome"].to_list()]
        lasts, asked = self._attempts["is_last"].to_list(), self._asked()
        machines, seating = self._machines, self._machines.seating
        eligible = self._jobs["is_eligible"].to_list()
        measured = self._measured.tolist()
        for at, code, who in self._moments():
            if code == _PLACES:
                found = seating.take(who, asked[who])
                self.over += found.over_milli > 0
                writer.placed(at, numbers[who], tries[who], found.seats, found.over_milli)
            elif code == _STARTS:
                writer.write(at, ev.JobStarted, numbers[who], tries[who])
            elif code == _SUBMITS:
                writer.submitted(at)
                if not eligible[who]:
                    writer.not_eligible(at)
            elif code == _MACHINES:
                writer.moved(at, machines.turn(who))
            elif code == _MEASURES:
                writer.rows.append(measured[who])
            else:
                writer.ended(at, numbers[who], tries[who], outcomes[who], lasts[who])
                for n in seating.give_back(who):
                    writer.moved(at, machines.settle(n))
            if len(writer.rows) >= BATCH_ROWS:
                yield writer.take()
        self._say_reasons(writer)
        writer.write(self._end_ms, ev.Woke)
        yield writer.take()

    def _say_reasons(self, writer: "_Writer") -> None:
        """Why the jobs that still wait do so, by their own scheduler's account."""
        waits = (pl.col("outcome") == AttemptEnd.WAITING) & pl.col("reason").is_not_null()
        told = self._attempts.filter(waits & pl.col("is_last"))
        columns = ("number", "reason_cause", "reason_layer", "reason")
        for j, cause, layer, reason in told.sort("number").select(columns).iter_rows():
            writer.reason(self._end_ms, j, cause or 0, layer or int(Layer.SCHEDULING), reason)

    def _moments(self) -> Iterator[tuple[int, int, int]]:
        """When what happens to whom, in order: jobs and attempts by number, turns of machines."""
        rows, begins = self._attempts, self._begins_ms
        submits = self._jobs["first_submit_ms"].to_numpy() - begins
        is_begun = rows["start_ms"].is_not_null().to_numpy()
        starts = rows["start_ms"].fill_null(0).to_numpy() - begins
        ups = rows["up_ms"].fill_null(0).to_numpy() - begins
        has_ended = rows["end_ms"].is_not_null().to_numpy()
        ends = rows["end_ms"].fill_null(0).to_numpy() - begins
        begun, over = np.flatnonzero(is_begun), np.flatnonzero(has_ended)
        up = np.flatnonzero(is_begun & (ups <= self._end_ms))
        is_at_once = ~is_begun[over] | (ends[over] <= starts[over])
        turns = self._machines.turns_ms(begins)
        told: list[tuple[I64, int | I64, I64]] = [
            (submits, _SUBMITS, np.arange(len(submits))),
            (starts[begun], _PLACES, begun),
            (ups[up], _STARTS, up),
            (self._measured[:, EventColumn.AT], _MEASURES, np.arange(len(self._measured))),
            (ends[over], np.where(is_at_once, _ENDS_AT_ONCE, _ENDS), over),
            (turns[turns <= self._end_ms], _MACHINES, np.flatnonzero(turns <= self._end_ms)),
        ]
        at = np.concatenate([when for when, _, _ in told])
        code = np.concatenate([np.broadcast_to(what, when.shape) for when, what, _ in told])
        who = np.concatenate([whom for _, _, whom in told])
        order = np.lexsort((who, code, at))
        for first in range(0, len(order), BATCH_ROWS):
            some = order[first : first + BATCH_ROWS]
            yield from zip(at[some].tolist(), code[some].tolist(), who[some].tolist(), strict=True)

    def _asked(self) -> list[SeatRequest]:
        """How each attempt is to be seated; one in which no time passes takes no seat from others.

        Clocks of a second show what ran one after the other as if it had run at once.
        """
        rows, number = self._attempts, self._numbers
        anywhere, found = range(len(number)), list[SeatRequest]()
        names = ("replicas", "each", "nodes", "devices", "start_ms", "end_ms")
        columns = (rows[name].to_list() for name in names)
        for replicas, each, nodes, masks, start_ms, end_ms in zip(*columns, strict=True):
            if end_ms is not None and end_ms == start_ms:
                found.append(NO_SEAT)
                continue
            where = [number[name] for name in nodes] if nodes else anywhere
            found.append(SeatRequest(replicas, each, where, masks))
        return found


class _Machines:
    """The states of nodes. One that is down with work on it is closed until the work has ended."""

    def __init__(self, nodes: list[SeenNode]) -> None:
        self.seating = Seating([node.gpus for node in nodes])
        self._states = [NodeState.READY] * len(nodes)
        self._wanted = [NodeState.READY] * len(nodes)
        turns = list[tuple[int, int, NodeState]]()
        for n, node in enumerate(nodes):
            for start_ms, end_ms, state in node.out:
                turns.append((start_ms, n, state))
                if end_ms is not None:
                    turns.append((end_ms, n, NodeState.READY))
        self._turns = sorted(turns, key=lambda turn: (turn[0], turn[1], turn[2] is NodeState.READY))

    def turns_ms(self, begins_ms: int) -> I64:
        """When nodes change; what changed before the beginning is so from the beginning."""
        found: I64 = np.array([at - begins_ms for at, _, _ in self._turns], np.int64)
        return np.maximum(found, 0)

    def turn(self, i: int) -> list[tuple[int, NodeState]]:
        """The moves of the node that changes now."""
        _, n, self._wanted[n] = self._turns[i]
        return self.settle(n)

    def settle(self, n: int) -> list[tuple[int, NodeState]]:
        """The moves that bring a node nearer to the state that it was shown in."""
        state, wanted = self._states[n], self._wanted[n]
        if wanted is NodeState.UNHEALTHY and not self.seating.is_empty(n):
            wanted = NodeState.CORDONED if state is NodeState.READY else state
        if state is wanted:
            return []
        self._states[n] = wanted
        is_direct = NodeState.READY in (state, wanted) or wanted is NodeState.UNHEALTHY
        return [(n, wanted)] if is_direct else [(n, NodeState.READY), (n, wanted)]


class _Writer:
    """Rows of events, and what they need beside them, for the next batch."""

    def __init__(self, dictionary: Dictionary, jobs: I64, names: list[str]) -> None:
        self._dictionary, self._jobs, self._names = dictionary, jobs, names
        self._submitted = self._taken = 0
        self._pieces: list[tuple[int, int, int, int, int]] = []
        self._ineligible: set[int] = set()
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
        """The next job is submitted."""
        self._submitted += 1
        self.write(at, ev.JobSubmitted)

    def not_eligible(self, at: int) -> None:
        """The job that was submitted last waits for something else than GPUs, and its like."""
        s = self._jobs.item(self._submitted - 1, JobColumn.SHAPE)
        if s not in self._ineligible:
            self._ineligible.add(s)
            self.write(at, ev.CauseChanged, s, why=int(Cause.NOT_ELIGIBLE))

    def reason(self, at: int, j: int, cause: int, layer: int, words: str) -> None:
        """What another scheduler says of a waiting job."""
        number = self._dictionary.users.number(words[:LONGEST_REASON])
        self.write(at, ev.ReasonSeen, j, why=cause, to=layer, value=number)

    def placed(self, at: int, j: int, attempt: int, seats: list[Seat], over_milli: int) -> None:
        """An attempt holds these seats."""
        for n, replicas, mask in seats:
            self._pieces.append((0, n, replicas, mask - (1 << 64) if mask >> 63 else mask, 0))
        self.write(at, ev.PlacementSeen, j, attempt, value=over_milli, count=len(seats))

    def ended(self, at: int, j: int, attempt: int, outcome: AttemptEnd, is_last: bool) -> None:
        """An attempt is over, and with the last one its job, unless that waits again."""
        if outcome is AttemptEnd.CANCELLED and is_last:
            self.write(at, ev.JobCancelled, j)
        elif outcome is AttemptEnd.DONE and is_last:
            self.write(at, ev.JobFinished, j, attempt)
        else:
            is_final = is_last and outcome is not AttemptEnd.REQUEUED
            why = codes.WHY_CODE[_WHY.get(outcome, Why.UNSAID)]
            self.write(at, ev.JobFailed, j, attempt, why=why, value=int(is_final))

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


def _job_rows(jobs: pl.DataFrame, dictionary: Dictionary) -> I64:
    """Submitted jobs in columns."""
    rows = np.zeros((len(jobs), len(JobColumn)), np.int64)
    rows[:, JobColumn.ESTIMATE] = jobs["limit_ms"].to_numpy()
    rows[:, JobColumn.INTERVAL] = UNKNOWN_SAVING
    shapes = dict[tuple[object, ...], int]()
    jobs = jobs.with_columns(
        priority=pl.when("is_eligible").then("priority").otherwise(NOT_ELIGIBLE)
    )
    form = jobs.select("team", "priority", "kind", "replicas", "each", "cpus", "memory_mib")
    numbers = []
    for row in form.iter_rows():
        if row not in shapes:
            shapes[row] = dictionary.shapes.number(_shape(*row))
        numbers.append(shapes[row])
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
