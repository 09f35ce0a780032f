"""A batch of events as bytes: the rows sorted by kind, column after column, then deflated.

What can be known from the rest is left out: where each event has its rows in the pools, and how
many of them there are. What the batch adds to the dictionary of its journal is kept beside it
(``added``), so that whoever begins in the middle can read the dictionary without the batches.
"""

from collections.abc import Sequence
from typing import Any, cast
from zlib import crc32

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tidemill.journal import columns
from tidemill.journal.columns import Column, ColumnReader
from tidemill.model.batch import (
    ADDED,
    SUBMITTED,
    Batch,
    Dictionary,
    EventColumn,
    JobColumn,
    Matrix,
    PieceColumn,
    Sizes,
    place,
)
from tidemill.model.rows import Contract, Node, Queue, Shape
from tidemill.model.topology import Topology

_E = EventColumn
_SORTED = (_E.WHO, _E.ATTEMPT, _E.WHY, _E.TO, _E.VALUE, _E.COUNT)  # new columns: at the end
_COUNT = _SORTED.index(_E.COUNT)
_WIDTHS = bytes([len(_SORTED), len(PieceColumn), len(JobColumn)])
_SUM_BYTES = 4
_KINDS = 256  # of events there are fewer; of damaged rows perhaps not
_MOST_ROWS = 2**24  # of a pool; the largest event that is kept has fewer pieces


class _Added(Struct, array_like=True, frozen=True):
    """Rows that a batch adds to the dictionary; ``before``: how many there were of each table."""

    before: Sizes
    shapes: list[Shape]
    users: list[str]
    nodes: list[Node]
    contracts: list[Contract]
    queues: list[Queue]
    topologies: list[Topology]


_ADDED_DECODER = msgspec.msgpack.Decoder(_Added)


def pack(batch: Batch) -> bytes:
    """A batch without its dictionary; there is at least one event in it."""
    events = batch.events
    told = in_order = _columns(events)
    if len(events) > 1:
        in_order = _columns(events[_by_kind(events[:, _E.KIND], 0)])
    names = [name.encode() for name in (*batch.job_names, *batch.node_names)]
    lengths = np.array([len(name) for name in names], np.int64).reshape(-1, 1)
    parts = [_WIDTHS, columns.pack(told[_E.AT], in_steps=True), columns.pack(told[_E.KIND])]
    parts += [columns.pack(in_order[c], in_steps=c is _E.WHO) for c in _SORTED]
    for pool in (batch.pieces, batch.jobs, lengths):
        if len(pool):
            parts += [columns.pack(column) for column in _columns(pool)]
    return columns.deflated(b"".join((*parts, *names)))


class Unpacking:
    """Rows that follow each other, unpacked into one batch.

    What arrays cost then comes once for all of them: rows of a few events are lists until then.
    """

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._events: list[list[Column]] = []
        self._pieces: list[list[Column]] = []
        self._jobs: list[list[Column]] = []
        self._job_names: list[str] = []
        self._node_names: list[str] = []

    def add(self, body: bytes, count: int) -> tuple[int, int]:
        """Take a row of so many events; return the times of the first and of the last.

        ValueError where it cannot be read; nothing of it was taken then.
        """
        reader = ColumnReader(columns.inflated(body))
        widths = tuple(reader.take(3))
        if any(width > known for width, known in zip(widths, _WIDTHS, strict=True)):
            raise ValueError("it says more of an event than this version can read; use a newer one")
        at, kinds = reader.column(count), reader.column(count)
        said = _pool(reader, count, widths[0], len(_SORTED))
        pieces = _pool(reader, columns.total(said[_COUNT]), widths[1], len(PieceColumn))
        submitted, added = (columns.count(kinds, kind) for kind in (SUBMITTED, ADDED))
        jobs = _pool(reader, submitted, widths[2], len(JobColumn))
        names = reader.texts(submitted + added)
        reader.finish()
        self._counts.append(count)
        self._events.append([at, kinds, *said])
        self._pieces.append(pieces)
        self._jobs.append(jobs)
        self._job_names += names[:submitted]
        self._node_names += names[submitted:]
        return int(at[0]), int(at[-1])

    def batch(self, dictionary: Dictionary) -> Batch:
        """All of them; what stands in each row in the order of kinds is put in its place."""
        at, kinds, *said = _joined(self._events)
        events = np.zeros((len(at), len(_E)), np.int64)
        events[:, _E.AT], events[:, _E.KIND] = at, kinds
        row = np.repeat(np.arange(len(self._counts)), self._counts)
        order = _by_kind(kinds, row, len(self._counts))
        for number, column in zip(_SORTED, said, strict=True):
            events[order, number] = column
        place(events)
        pieces, jobs = (np.stack(_joined(pool), axis=1) for pool in (self._pieces, self._jobs))
        return Batch(events, pieces, jobs, self._job_names, self._node_names, dictionary)


def _by_kind(kinds: Matrix, row: Matrix | int, rows: int = 1) -> NDArray[np.intp]:
    """The order of events by row and kind; numbers of two bytes are sorted without comparing."""
    if rows * _KINDS < 1 << 16 and kinds.min(initial=0) >= 0 and kinds.max(initial=0) < _KINDS:
        return np.argsort((row * _KINDS + kinds).astype(np.uint16), kind="stable")
    return np.lexsort((kinds, np.broadcast_to(row, kinds.shape)))


def _columns(matrix: Matrix) -> Sequence[Column]:
    """The columns of a matrix; lists if they are short."""
    if columns.is_short(len(matrix)):
        return cast(list[Column], matrix.T.tolist())
    return cast(Sequence[Column], matrix.T)


def _pool(reader: ColumnReader, rows: int, width: int, known: int) -> list[Column]:
    """The next columns; those that an older version did not have are all zero."""
    if not 0 <= rows <= _MOST_ROWS:
        raise ValueError(f"it says that there are {rows} rows")
    return [reader.column(rows) for _ in range(width)] + [[0] * rows] * (known - width)


def _joined(parts: list[list[Column]]) -> list[Matrix]:
    """The same columns of rows that follow each other."""
    return [columns.joined(column) for column in zip(*parts, strict=True)]


def added(dictionary: Dictionary, before: Sizes) -> bytes | None:
    """What was added to a dictionary since it had these sizes; None: nothing."""
    if dictionary.sizes() == before:
        return None
    news = (table.rows[size:] for table, size in zip(dictionary.tables(), before, strict=True))
    body = columns.deflated(msgspec.msgpack.encode((before, *news)))
    return crc32(body).to_bytes(_SUM_BYTES, "little") + body


def add(dictionary: Dictionary, kept: bytes) -> None:
    """Add what a batch brought; ValueError where it is damaged or does not follow."""
    body = kept[_SUM_BYTES:]
    if crc32(body).to_bytes(_SUM_BYTES, "little") != kept[:_SUM_BYTES]:
        raise ValueError("what it adds to the dictionary does not match its checksum")
    news = _ADDED_DECODER.decode(columns.inflated(body))
    if news.before != dictionary.sizes():
        raise ValueError("what it adds to the dictionary does not follow what is there")
    rows: list[list[Any]] = [news.shapes, news.users, news.nodes]
    rows += [news.contracts, news.queues, news.topologies]
    for table, more in zip(dictionary.tables(), rows, strict=True):
        table.extend(more)
