"""A batch of events as bytes: the rows sorted by kind, column after column, then deflated.

What can be known from the rest is left out: where each event has its rows in the pools, and how
many of them there are. What the batch adds to the dictionary of its journal is kept beside it
(``added``), so that whoever begins in the middle can read the dictionary without the batches.
"""

from typing import Any
from zlib import crc32

import msgspec
import numpy as np
from msgspec import Struct

from tidemill.journal import columns
from tidemill.journal.columns import Reader
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import (
    Batch,
    Dictionary,
    EventColumn,
    JobColumn,
    Matrix,
    PieceColumn,
    Sizes,
    place,
)
from tidemill.model.rows import Contract, Name, Node, Queue, Shape
from tidemill.model.topology import Topology

_E = EventColumn
_SORTED = (_E.WHO, _E.ATTEMPT, _E.WHY, _E.TO, _E.VALUE, _E.COUNT)  # new columns: at the end
_WIDTHS = bytes([len(_SORTED), len(PieceColumn), len(JobColumn)])
_SUM_BYTES = 4
_MOST_ROWS = 2**24  # of a pool; the largest event that is kept has fewer pieces
_NAMES = msgspec.msgpack.Decoder(list[Name])


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
    events, pieces, jobs = batch.events, batch.pieces, batch.jobs
    kinds = events[:, _E.KIND]
    in_order = events[np.argsort(kinds, kind="stable")]
    names = [name.encode() for name in (*batch.job_names, *batch.node_names)]
    parts = [_WIDTHS, columns.pack(events[:, _E.AT], in_steps=True), columns.pack(kinds)]
    parts += [columns.pack(in_order[:, c], in_steps=c is _E.WHO) for c in _SORTED]
    parts += [columns.pack(pieces[:, c]) for c in PieceColumn]
    parts += [columns.pack(jobs[:, c]) for c in JobColumn]
    parts += [columns.pack(np.array([len(name) for name in names], np.int64)), *names]
    return columns.deflated(b"".join(parts))


def unpack(body: bytes, count: int, dictionary: Dictionary) -> Batch:
    """The batch of ``count`` events that was packed; ValueError where it cannot be."""
    reader = Reader(columns.inflated(body))
    widths = tuple(reader.take(3))
    if any(width > known for width, known in zip(widths, _WIDTHS, strict=True)):
        raise ValueError("it says more of an event than this version can read; use a newer one")
    events = np.zeros((count, len(_E)), np.int64)
    events[:, _E.AT] = reader.column(count)
    kinds = events[:, _E.KIND] = reader.column(count)
    order = np.argsort(kinds, kind="stable")
    for column in _SORTED[: widths[0]]:
        events[order, column] = reader.column(count)
    place(events)
    pieces = _pool(reader, int(events[:, _E.COUNT].sum()), widths[1], len(PieceColumn))
    submitted = int(np.count_nonzero(kinds == codes.KIND_CODE[ev.JobSubmitted]))
    added = int(np.count_nonzero(kinds == codes.KIND_CODE[ev.NodeAdded]))
    jobs = _pool(reader, submitted, widths[2], len(JobColumn))
    names = [str(reader.take(n), "utf-8") for n in reader.column(submitted + added).tolist()]
    reader.finish()
    return Batch(events, pieces, jobs, names[:submitted], names[submitted:], dictionary)


def _pool(reader: Reader, rows: int, width: int, known: int) -> Matrix:
    if not 0 <= rows <= _MOST_ROWS:
        raise ValueError(f"it says that there are {rows} rows")
    pool = np.zeros((rows, known), np.int64)
    for column in range(width):
        pool[:, column] = reader.column(rows)
    return pool


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
