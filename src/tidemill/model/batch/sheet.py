"""A sheet: a batch that grows, a few rows at a time, without making anything anew.

What happens in one moment is a handful of events; whoever keeps or reads them wants hundreds at
once. Rows are written at the end of a sheet, from messages or from the columns of a batch;
``batch`` gives them all, and ``clear`` begins again.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import (
    ADDED,
    CHANGED,
    NAMELESS,
    PIECED,
    SUBMITTED,
    Batch,
    Dictionary,
    EventColumn,
    JobColumn,
    Matrix,
    PieceColumn,
    named_by,
)
from tidemill.model.batch.convert import of_jobs, to_events
from tidemill.model.batch.fields import WHOLE_ROWS, plain_fields
from tidemill.model.events import Action, Event, Plan
from tidemill.model.rows import Job, Piece
from tidemill.model.tables import grown

_E = EventColumn
_ROWS = 64  # to begin with
_NO_JOBS: Matrix = np.zeros((0, len(JobColumn)), np.int64)


class Sheet:
    """Events in columns, with room for more."""

    def __init__(self, dictionary: Dictionary | None = None) -> None:
        self.dictionary = dictionary or Dictionary()
        self._events: Matrix = np.zeros((_ROWS, len(_E)), np.int64)
        self._pieces: Matrix = np.zeros((_ROWS, len(PieceColumn)), np.int64)
        self._jobs: Matrix = np.zeros((_ROWS, len(JobColumn)), np.int64)
        self._before: Matrix = np.zeros(len(codes.KINDS), np.int64)
        """By kind of event: how many rows there are in the pool that it names rows of."""
        self.clear()

    def clear(self) -> None:
        """Forget all events; what the dictionary knows stays."""
        self._count = self._piece_count = self._job_count = 0
        self._job_names: list[str] = []
        self._node_names: list[str] = []

    def __len__(self) -> int:
        """How many events there are."""
        return self._count

    def write(self, events: Iterable[Event]) -> None:
        """Write events at the end; jobs that they submit become columns together."""
        jobs = list[Job]()
        for event in events:
            self._write_row(event, jobs)
        self._write_jobs(jobs)

    def take(self, events: Matrix, pieces: Matrix) -> None:
        """Write rows of actions at the end, and the pieces that they name."""
        self.extend(Batch(events, pieces, _NO_JOBS, [], [], self.dictionary))

    def extend(self, batch: Batch) -> None:
        """Write the events of a batch at the end."""
        batch = named_by(batch, self.dictionary)
        count, pieces, jobs = len(batch.events), len(batch.pieces), len(batch.jobs)
        self._make_rows(count, pieces, jobs)
        rows = self._events[self._count : self._count + count]
        rows[:] = batch.events
        before = self._before
        before[list(PIECED)] = self._piece_count
        before[SUBMITTED], before[ADDED] = self._job_count, len(self._node_names)
        rows[:, _E.FIRST] += before[rows[:, _E.KIND]]
        if pieces:
            self._pieces[self._piece_count : self._piece_count + pieces] = batch.pieces
        if jobs:
            self._jobs[self._job_count : self._job_count + jobs] = batch.jobs
        self._count += count
        self._piece_count += pieces
        self._job_count += jobs
        self._job_names += batch.job_names
        self._node_names += batch.node_names

    def room(self, events: int, pieces: int = 0) -> tuple[Matrix, Matrix]:
        """The rows of events, and of pieces, with room for so many more: for kernels.

        What they wrote is part of the sheet when ``wrote`` was called.
        """
        self._make_rows(events, pieces, 0)
        return self._events, self._pieces

    def wrote(self, count: int, pieces: int, jobs: Matrix, job_names: list[str]) -> None:
        """There are so many events and pieces now; these jobs were submitted by the new ones."""
        self._count, self._piece_count = count, pieces
        if job_names:
            self._make_rows(0, 0, len(jobs))
            self._jobs[self._job_count : self._job_count + len(jobs)] = jobs
            self._job_count += len(jobs)
            self._job_names += job_names

    def drop(self) -> None:
        """Forget the last event, which has no pieces."""
        self._count -= 1
        if self._events[self._count, _E.KIND] == SUBMITTED:
            self._job_count -= 1
            self._job_names.pop()

    @property
    def piece_count(self) -> int:
        """How many pieces the events name."""
        return self._piece_count

    @property
    def job_count(self) -> int:
        """How many of the events submit a job."""
        return self._job_count

    def view(self) -> Batch:
        """All events, as a batch that is only good until the sheet goes on."""
        return Batch(
            self._events[: self._count],
            self._pieces[: self._piece_count],
            self._jobs[: self._job_count],
            self._job_names,
            self._node_names,
            self.dictionary,
        )

    def batch(self) -> Batch:
        """All events, as a batch that stays as it is when the sheet goes on."""
        events, pieces, jobs, job_names, node_names, dictionary = self.view()
        return Batch(
            events.copy(), pieces.copy(), jobs.copy(), [*job_names], [*node_names], dictionary
        )

    def write_one(self, event: Event) -> None:
        """Write an event at the end."""
        self.write((event,))

    def _write_row(self, event: Event, jobs: list[Job]) -> None:
        """Write the row of an event; a job that it submits is added to those to be written."""
        row, kind = [0] * len(_E), type(event)
        form = _form(kind)
        row[_E.AT], row[_E.KIND] = event.at_ms, form.code
        for column, get, numbers in form.fields:
            value = get(event)
            row[column] = numbers[value] if numbers else value
        if form.is_rare:
            self._write_rest(event, row, jobs)
        self._make_rows(1, 0, 0)
        self._events[self._count] = row
        self._count += 1

    def actions(self) -> tuple[Action, ...]:
        """All events as messages, where all of them are actions."""
        return PlanRows(self.view()).actions()

    def _write_rest(self, event: Event, row: list[int], jobs: list[Job]) -> None:
        """What an event has beside plain numbers."""
        match event:
            case ev.AskedPlace() | ev.PlacementSeen():
                self._write_pieces(event.pieces, row)
            case ev.AskedMove():
                row[_E.VALUE] = len(event.gained)
                self._write_pieces((*event.gained, *event.lost), row)
            case ev.ReasonSeen():
                row[_E.VALUE] = self.dictionary.users.number(event.reason)
            case ev.SightLost() | ev.SightRegained():
                row[_E.TO] = self.dictionary.users.number(event.prefix)
            case ev.RequestChanged():
                row[_E.VALUE] = self.dictionary.shapes.number(event.request)
            case ev.JobSubmitted():
                row[_E.FIRST] = self._job_count + len(jobs)
                jobs.append(event.job)
            case ev.NodeAdded():
                row[_E.FIRST] = len(self._node_names)
                row[_E.VALUE] = self.dictionary.nodes.number(replace(event.node, name=NAMELESS))
                self._node_names.append(event.node.name)
            case _:
                name, table = WHOLE_ROWS[type(event)]
                row[_E.VALUE] = getattr(self.dictionary, table).number(getattr(event, name))

    def _write_jobs(self, jobs: Sequence[Job]) -> None:
        if jobs:
            self._make_rows(0, 0, len(jobs))
            end = self._job_count + len(jobs)
            self._jobs[self._job_count : end], names = of_jobs(jobs, self.dictionary)
            self._job_count = end
            self._job_names += names

    def _write_pieces(self, pieces: Sequence[Piece], row: list[int]) -> None:
        first, count = self._piece_count, len(pieces)
        row[_E.FIRST], row[_E.COUNT] = first, count
        self._make_rows(0, count, 0)
        for i, piece in enumerate(pieces, start=first):
            self._pieces[i] = columns_of(piece)
        self._piece_count += count

    def _make_rows(self, events: int, pieces: int, jobs: int) -> None:
        """Make room for so many more."""
        if self._count + events > len(self._events):
            self._events = grown(self._events, self._count + events)
        if self._piece_count + pieces > len(self._pieces):
            self._pieces = grown(self._pieces, self._piece_count + pieces)
        if self._job_count + jobs > len(self._jobs):
            self._jobs = grown(self._jobs, self._job_count + jobs)


def columns_of(piece: Piece) -> tuple[int, int, int, int, int]:
    """A piece as columns hold it: the last device of 64 is the sign of a mask."""
    mask = piece.devices - (1 << 64) if piece.devices >> 63 else piece.devices
    return piece.role, piece.node, piece.replicas, mask, piece.slices


class _Form(NamedTuple):
    """How events of one kind are written."""

    code: int
    fields: tuple[tuple[EventColumn, Any, dict[Any, int] | None], ...]
    is_rare: bool
    """Whether it has more than plain numbers."""


@cache
def _form(kind: type[Event]) -> _Form:
    fields = [field for field in plain_fields(kind) if not field.is_text]
    return _Form(
        codes.KIND_CODE[kind],
        tuple((field.column, attrgetter(field.name), field.codes) for field in fields),
        codes.KIND_CODE[kind] in (*PIECED, SUBMITTED, ADDED, CHANGED)
        or kind in WHOLE_ROWS
        or len(fields) < len(plain_fields(kind)),
    )


class PlanRows:
    """The actions of a plan in columns."""

    __slots__ = ("batch",)

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def actions(self) -> tuple[Action, ...]:
        """The same as messages."""
        return tuple(to_events(self.batch))  # type: ignore[arg-type]


_NO_ROWS = PlanRows(Sheet().batch())


def plan_on(sheet: Sheet, wake_at_ms: int) -> Plan:
    """The plan whose actions are written on a sheet."""
    return Plan(rows=PlanRows(sheet.batch()) if len(sheet) else _NO_ROWS, wake_at_ms=wake_at_ms)


def rows_of(plan: Plan) -> Batch:
    """The actions of a plan in columns; kept with it."""
    if plan.rows is None:
        sheet = Sheet()
        sheet.write(plan.actions)
        plan.rows = PlanRows(sheet.batch())
    assert isinstance(plan.rows, PlanRows)
    return plan.rows.batch
