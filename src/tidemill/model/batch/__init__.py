"""Events in columns: a batch is one matrix of int64, with pools beside it for what varies in size.

``of_events`` and ``to_events`` convert without loss; between them whoever reads or writes many
events works on whole columns. A row of ``events`` is one event. What does not fit into a row lies
in a pool, in the order of the events: the ``pieces`` of a placement and the ``jobs`` that were
submitted, both matrices too. ``FIRST`` and ``COUNT`` say which rows of a pool belong to an event.

Whole rows of other tables (shapes, nodes, contracts, queues, tiers, users) are few and repeat: they
stand once in a ``Dictionary`` and are named by their number there. One dictionary serves all
batches of a journal.

A column that an event has no use for is 0. A column that is added later must mean by 0 what the
event meant before it, since older journals do not have it.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.rows import Contract, Node, Queue, Shape
from tidemill.model.topology import Topology

Matrix = NDArray[np.int64]
Row = TypeVar("Row")


class EventColumn(IntEnum):
    """What each column of a batch says; the docstring of a member lists who uses it, and how."""

    AT = 0
    """``at_ms``."""
    KIND = 1
    """The place of the kind of event in ``codes.KINDS``."""
    WHO = 2
    """Whom it is about: the number of a job, node, contract or shape."""
    ATTEMPT = 3
    WHY = 4
    """The place in ``codes.WHYS``; a ``Cause`` where the event says one."""
    TO = 5
    """The state that a node moved to; the job that room is made for (-1: nobody)."""
    VALUE = 6
    """The one other number of the event: a deadline, parts per million, a yes (1) or no (0), a row
    of the dictionary; for ``AskedMove`` how many of its pieces were gained."""
    FIRST = 7
    """The first of its rows in its pool: ``pieces``, ``jobs`` or ``node_names``."""
    COUNT = 8
    """How many rows of ``pieces`` are its own."""


class PieceColumn(IntEnum):
    """The fields of a ``Piece``; ``DEVICES`` holds 64 bits, so that a full mask is -1."""

    ROLE = 0
    NODE = 1
    REPLICAS = 2
    DEVICES = 3
    SLICES = 4


class JobColumn(IntEnum):
    """A submitted job but for its name: the number of its shape, and the fields of ``Job``."""

    SHAPE = 0
    ESTIMATE = 1
    STARTUP = 2
    RESTART = 3
    INTERVAL = 4
    COST = 5
    MFU = 6
    HOST = 7
    LINKS = 8
    CONFIDENCE = 9
    ATTAINABLE = 10
    """0: nobody said."""
    RESIZE = 11
    HAS_DEMAND = 12
    """0: nobody said what it uses of a device, and the next three are 0 too."""
    COMPUTE = 13
    BANDWIDTH = 14
    MEMORY = 15
    USER = 16


class Distinct(Generic[Row]):
    """Rows that are kept once each, numbered in the order in which they first appeared."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows: list[Row] = []
        self._numbers: dict[Row, int] = {}
        self.extend(rows)

    def number(self, row: Row) -> int:
        """The number of a row, a new one if it is new."""
        number = self._numbers.setdefault(row, len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        return number

    def extend(self, rows: Iterable[Row]) -> None:
        """Number these rows, all of them new."""
        for row in rows:
            if self.number(row) != len(self.rows) - 1:
                raise ValueError("a row is there already")


Sizes = tuple[int, int, int, int, int, int]


class Dictionary:
    """What the events of many batches name by number. User 0 is nobody in particular."""

    __slots__ = ("contracts", "nodes", "queues", "shapes", "topologies", "users")

    def __init__(self) -> None:
        self.shapes = Distinct[Shape]()
        self.users = Distinct[str](("",))
        """People, and whatever else is a short text: the reasons of other schedulers."""
        self.nodes = Distinct[Node]()
        """Without their names: all of them are called ``NAMELESS``."""
        self.contracts = Distinct[Contract]()
        self.queues = Distinct[Queue]()
        self.topologies = Distinct[Topology]()

    def tables(self) -> tuple[Distinct[Any], ...]:
        """All of its tables, always in this order."""
        return (
            self.shapes,
            self.users,
            self.nodes,
            self.contracts,
            self.queues,
            self.topologies,
        )

    def sizes(self) -> Sizes:
        """How many rows each of its tables has."""
        return cast(Sizes, tuple(len(table.rows) for table in self.tables()))


NAMELESS: Final = "-"
"""What every node of a dictionary is called."""


class Batch(NamedTuple):
    """Events in columns; see the head of this module."""

    events: Matrix
    pieces: Matrix
    jobs: Matrix
    job_names: list[str]
    """Of the rows of ``jobs``."""
    node_names: list[str]
    """Of the nodes that were added, in their order."""
    dictionary: Dictionary


_E = EventColumn
PIECED: Final = tuple(
    codes.KIND_CODE[kind] for kind in (ev.AskedPlace, ev.AskedMove, ev.PlacementSeen)
)
_IS_PIECED: Final = np.isin(np.arange(len(codes.KINDS)), PIECED)
SUBMITTED: Final = codes.KIND_CODE[ev.JobSubmitted]
ADDED: Final = codes.KIND_CODE[ev.NodeAdded]
CHANGED: Final = codes.KIND_CODE[ev.RequestChanged]
TEXTS: Final = (
    (codes.KIND_CODE[ev.ReasonSeen], _E.VALUE),
    (codes.KIND_CODE[ev.SightLost], _E.TO),
    (codes.KIND_CODE[ev.SightRegained], _E.TO),
)
"""Columns of events that are the number of a text (``Dictionary.users``)."""


def place(events: Matrix) -> None:
    """Fill ``FIRST``: each pool is used up in the order of the events."""
    events[:, _E.FIRST] = firsts(events)


def firsts(events: Matrix) -> Matrix:
    """What ``FIRST`` is of each event, as each pool is used up in the order of the events."""
    kinds, counts = events[:, _E.KIND], events[:, _E.COUNT]
    found: Matrix = (counts.cumsum() - counts) * _IS_PIECED[kinds]
    for kind in (SUBMITTED, ADDED):
        places = (kinds == kind).nonzero()[0]
        found[places] = np.arange(len(places))
    return found


def cut(batch: Batch, start: int, end: int) -> Batch:
    """The events from number ``start`` of a batch to before ``end``, as a batch of their own."""
    if start <= 0 and end >= len(batch.events):
        return batch
    before, events = batch.events[:start], batch.events[start:end].copy()
    pieces = int(before[:, _E.COUNT].sum())
    jobs = np.count_nonzero(before[:, _E.KIND] == SUBMITTED)
    nodes = np.count_nonzero(before[:, _E.KIND] == ADDED)
    last_job = jobs + np.count_nonzero(events[:, _E.KIND] == SUBMITTED)
    place(events)
    return Batch(
        events,
        batch.pieces[pieces : pieces + int(events[:, _E.COUNT].sum())],
        batch.jobs[jobs:last_job],
        batch.job_names[jobs:last_job],
        batch.node_names[nodes : nodes + np.count_nonzero(events[:, _E.KIND] == ADDED)],
        batch.dictionary,
    )


def named_by(batch: Batch, dictionary: Dictionary) -> Batch:
    """A batch that names things by another dictionary; what that one lacks is added to it."""
    known = batch.dictionary
    if known is dictionary:
        return batch
    events, jobs = batch.events.copy(), batch.jobs.copy()
    values, kinds = events[:, _E.VALUE], events[:, _E.KIND]
    for kind, here, there in (
        (ADDED, known.nodes, dictionary.nodes),
        (codes.KIND_CODE[ev.ContractSigned], known.contracts, dictionary.contracts),
        (codes.KIND_CODE[ev.QueueSet], known.queues, dictionary.queues),
        (codes.KIND_CODE[ev.TopologySet], known.topologies, dictionary.topologies),
        (CHANGED, known.shapes, dictionary.shapes),
    ):
        places = kinds == kind
        values[places] = _renumbered(values[places], here, there)
    for kind, column in TEXTS:
        places = kinds == kind
        events[places, column] = _renumbered(events[places, column], known.users, dictionary.users)
    jobs[:, JobColumn.SHAPE] = _renumbered(
        jobs[:, JobColumn.SHAPE], known.shapes, dictionary.shapes
    )
    jobs[:, JobColumn.USER] = _renumbered(jobs[:, JobColumn.USER], known.users, dictionary.users)
    return batch._replace(events=events, jobs=jobs, dictionary=dictionary)


def _renumbered(numbers: Matrix, here: Distinct[Any], there: Distinct[Any]) -> Matrix:
    """Numbers of one table as those of another; each row is looked up once."""
    table: Matrix = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
    for number in dict.fromkeys(numbers.tolist()):
        table[number] = there.number(here.rows[number])
    found: Matrix = table[numbers]
    return found


def one(batch: Batch, e: int) -> Batch:
    """The event of this number by itself; quicker than ``cut``, which counts what comes before."""
    events = batch.events[e : e + 1].copy()
    kind, first, count = (int(events[0, c]) for c in (_E.KIND, _E.FIRST, _E.COUNT))
    events[0, _E.FIRST] = 0
    job = slice(first, first + 1) if kind == SUBMITTED else slice(0, 0)
    node = slice(first, first + 1) if kind == ADDED else slice(0, 0)
    return Batch(
        events,
        batch.pieces[first : first + count],
        batch.jobs[job],
        batch.job_names[job],
        batch.node_names[node],
        batch.dictionary,
    )
