"""Events into columns and back, without loss: kind by kind, a whole column at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import (
    NAMELESS,
    Batch,
    Dictionary,
    Distinct,
    EventColumn,
    JobColumn,
    Matrix,
    PieceColumn,
    one,
    place,
)
from tidemill.model.batch.fields import DEMAND_FIELDS, JOB_FIELDS, WHOLE_ROWS, plain_fields
from tidemill.model.events import Event
from tidemill.model.rows import Checkpointing, Demand, Efficiency, Job, Piece

Row = TypeVar("Row")
_E = EventColumn
_J = JobColumn


def of_events(events: Sequence[Event], dictionary: Dictionary) -> Batch:
    """These events in columns; rows that the dictionary lacks are added to it."""
    columns = [[0] * len(events) for _ in _E]
    groups: dict[type, list[int]] = {}
    for position, event in enumerate(events):
        groups.setdefault(type(event), []).append(position)
    jobs = np.zeros((0, len(_J)), np.int64)
    job_names, node_names = list[str](), list[str]()
    for kind, positions in groups.items():
        group: list[Any] = [events[position] for position in positions]
        if kind is ev.JobSubmitted:
            jobs, job_names = of_jobs([event.job for event in group], dictionary)
        elif kind is ev.NodeAdded:
            node_names = [event.node.name for event in group]
        for number, values in _said(kind, group, dictionary):
            column = columns[number]
            for position, value in zip(positions, values, strict=True):
                column[position] = value
    columns[_E.AT] = [event.at_ms for event in events]
    columns[_E.KIND] = [codes.KIND_CODE[type(event)] for event in events]
    holders = [events[e] for e, count in enumerate(columns[_E.COUNT]) if count]
    pieces = _of_pieces([piece for event in holders for piece in _pieces_of(event)])
    matrix = np.array(columns, np.int64).T.copy()
    place(matrix)
    return Batch(matrix, pieces, jobs, job_names, node_names, dictionary)


def _said(
    kind: type, group: list[Any], dictionary: Dictionary
) -> Iterator[tuple[EventColumn, Iterable[int]]]:
    """The columns of events of one kind, but for those that all kinds have."""
    if kind is ev.NodeAdded:
        number = dictionary.nodes.number
        yield _E.VALUE, [number(replace(event.node, name=NAMELESS)) for event in group]
    elif kind in WHOLE_ROWS:
        name, table = WHOLE_ROWS[kind]
        distinct: Distinct[Any] = getattr(dictionary, table)
        yield _E.VALUE, [distinct.number(getattr(event, name)) for event in group]
    elif kind is not ev.JobSubmitted:
        for field in plain_fields(kind):
            values = map(attrgetter(field.name), group)
            if field.is_text:
                yield field.column, map(dictionary.users.number, values)
            else:
                yield field.column, map(field.codes.__getitem__, values) if field.codes else values
    if kind in (ev.AskedPlace, ev.PlacementSeen):
        yield _E.COUNT, [len(event.pieces) for event in group]
    elif kind is ev.AskedMove:
        yield _E.VALUE, [len(event.gained) for event in group]
        yield _E.COUNT, [len(event.gained) + len(event.lost) for event in group]
    elif kind is ev.RequestChanged:
        yield _E.VALUE, [dictionary.shapes.number(event.request) for event in group]


def of_jobs(jobs: Sequence[Job], dictionary: Dictionary) -> tuple[Matrix, list[str]]:
    """Submitted jobs in columns, and their names."""
    columns: Matrix = np.zeros((len(_J), len(jobs)), np.int64)
    for name, column in _OWN_FIELDS.items():
        columns[column] = [*map(attrgetter(name), jobs)]
    efficiencies = [job.efficiency for job in jobs]
    if all(one is efficiencies[0] for one in efficiencies):  # as a rule: nobody says it of any job
        efficiencies = efficiencies[:1]
    for name, column in _EFFICIENCY_FIELDS.items():
        columns[column] = [*map(attrgetter(name), efficiencies)]
    confidence = codes.CONFIDENCE_CODE
    columns[_J.CONFIDENCE] = [confidence[one.confidence] for one in efficiencies]
    columns[_J.ATTAINABLE] = [one.attainable_ppm or 0 for one in efficiencies]
    shapes = {id(job.shape): job.shape for job in jobs}  # most share theirs; to compare takes long
    numbers = {key: dictionary.shapes.number(shape) for key, shape in shapes.items()}
    columns[_J.SHAPE] = [numbers[id(job.shape)] for job in jobs]
    users = [job.user for job in jobs]
    known = {user: dictionary.users.number(user) for user in dict.fromkeys(users)}
    columns[_J.USER] = [known[user] for user in users]
    demands = [job.demand for job in jobs]
    if demands.count(None) < len(demands):
        columns[_J.HAS_DEMAND] = [int(demand is not None) for demand in demands]
        for name, column in DEMAND_FIELDS.items():
            columns[column] = [0 if demand is None else getattr(demand, name) for demand in demands]
    return columns.T.copy(), [job.name for job in jobs]


_EFFICIENCY = "efficiency."
_OWN_FIELDS = {
    name: column for name, column in JOB_FIELDS.items() if not name.startswith(_EFFICIENCY)
}
_EFFICIENCY_FIELDS = {
    name.removeprefix(_EFFICIENCY): column
    for name, column in JOB_FIELDS.items()
    if name.startswith(_EFFICIENCY)
}


def _pieces_of(event: Event) -> tuple[Piece, ...]:
    match event:
        case ev.AskedPlace() | ev.PlacementSeen():
            return event.pieces
        case ev.AskedMove():
            return event.gained + event.lost
        case _:
            return ()


def _of_pieces(pieces: list[Piece]) -> Matrix:
    rows = np.zeros((len(pieces), len(PieceColumn)), np.int64)
    for column in PieceColumn if pieces else ():
        told = [*map(attrgetter(column.name.lower()), pieces)]
        is_mask = column is PieceColumn.DEVICES
        rows[:, column] = np.array(told, np.uint64).view(np.int64) if is_mask else told
    return rows


# Columns into events --------------------------------------------------------------------------


def to_events(batch: Batch) -> list[Event]:
    """The events of a batch, as messages."""
    kinds = batch.events[:, _E.KIND]
    made: list[Any] = [None] * len(kinds)
    for code in sorted({*kinds.tolist()}):
        positions = np.flatnonzero(kinds == code)
        group = _made(codes.KINDS[code], batch.events[positions], batch)
        for position, event in zip(positions.tolist(), group, strict=True):
            made[position] = event
    return made


def to_event(batch: Batch, e: int) -> Event:
    """The event of this number by itself."""
    single = one(batch, e)
    event: Event = next(
        iter(_made(codes.KINDS[single.events.item(0, _E.KIND)], single.events, single))
    )
    return event


def _made(kind: type, rows: Matrix, batch: Batch) -> Iterable[Any]:
    at = rows[:, _E.AT].tolist()
    if kind is ev.JobSubmitted:
        return map(ev.JobSubmitted, at, _to_jobs(batch))
    if kind is ev.NodeAdded:
        found = _looked_up(batch.dictionary.nodes, rows)
        named = zip(found, batch.node_names, strict=True)
        return map(ev.NodeAdded, at, [replace(node, name=name) for node, name in named])
    if kind in WHOLE_ROWS:
        return map(kind, at, _looked_up(getattr(batch.dictionary, WHOLE_ROWS[kind][1]), rows))
    given: list[Iterable[Any]] = [at]
    for field in plain_fields(kind):
        values = rows[:, field.column].tolist()
        words = batch.dictionary.users.rows if field.is_text else field.words
        given.append(map(words.__getitem__, values) if words else values)
    if kind in (ev.AskedPlace, ev.PlacementSeen):
        given.insert(3, _divided(rows, batch.pieces))
    elif kind is ev.AskedMove:
        gained = rows[:, _E.VALUE].tolist()
        whole = list(zip(_divided(rows, batch.pieces), gained, strict=True))
        given.insert(4, [held[:count] for held, count in whole])
        given.insert(5, [held[count:] for held, count in whole])
    elif kind is ev.RequestChanged:
        given.insert(2, _looked_up(batch.dictionary.shapes, rows))
    return map(kind, *given)


def _looked_up(table: Distinct[Row], rows: Matrix) -> list[Row]:
    return [table.rows[number] for number in rows[:, _E.VALUE].tolist()]


def _divided(rows: Matrix, pieces: Matrix) -> list[tuple[Piece, ...]]:
    """The pieces of each event."""
    columns = [pieces[:, column].tolist() for column in PieceColumn]
    columns[PieceColumn.DEVICES] = pieces[:, PieceColumn.DEVICES].view(np.uint64).tolist()
    made = tuple(map(Piece, *columns))
    first, count = rows[:, _E.FIRST].tolist(), rows[:, _E.COUNT].tolist()
    return [made[f : f + c] for f, c in zip(first, count, strict=True)]


def _to_jobs(batch: Batch) -> Iterable[Job]:
    jobs, dictionary = batch.jobs, batch.dictionary
    return map(
        Job,
        batch.job_names,
        map(dictionary.shapes.rows.__getitem__, jobs[:, _J.SHAPE].tolist()),
        jobs[:, _J.ESTIMATE].tolist(),
        jobs[:, _J.STARTUP].tolist(),
        jobs[:, _J.RESTART].tolist(),
        _shared(jobs[:, _J.INTERVAL : _J.COST + 1], Checkpointing),
        _shared(jobs[:, _J.MFU : _J.ATTAINABLE + 1], _efficiency),
        jobs[:, _J.RESIZE].tolist(),
        _shared(jobs[:, _J.HAS_DEMAND : _J.MEMORY + 1], _demand),
        map(dictionary.users.rows.__getitem__, jobs[:, _J.USER].tolist()),
    )


def _shared(columns: Matrix, make: Callable[..., Row]) -> Iterator[Row]:
    """What the numbers of each row make; equal rows share it, as most jobs are like others."""
    made: dict[tuple[int, ...], Row] = {}
    for row in zip(*columns.T.tolist(), strict=True):
        if row not in made:
            made[row] = make(*row)
        yield made[row]


def _efficiency(mfu: int, host: int, links: int, confidence: int, attainable: int) -> Efficiency:
    return Efficiency(mfu, host, links, codes.CONFIDENCES[confidence], attainable or None)


def _demand(is_said: int, compute: int, bandwidth: int, memory: int) -> Demand | None:
    return Demand(compute, bandwidth, memory) if is_said else None
