"""A batch of events as bytes: the rows sorted by kind, column after column, then deflated.

What can be known from the rest is left out: where each event has its rows in the pools, and how
many of them there are. What the batch adds to the dictionary of its journal is kept beside it
(``added``), so that whoever begins in the middle can read the dictionary without the batches.
"""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
from msgspec import Struct

from tidemill.journal import columns
from tidemill.journal.columns import ColumnReader
from tidemill.journal.packed import reading, writing
from tidemill.journal.packed.kernel import packed
from tidemill.journal.packed.reading import SORTED
from tidemill.model.batch import (
    Batch,
    Dictionary,
    EventColumn,
    JobColumn,
    Matrix,
    PieceColumn,
    Sizes,
)
from tidemill.model.rows import Contract, Node, Queue, Shape
from tidemill.model.topology import Topology

_E = EventColumn
_WIDTHS = bytes([len(SORTED), len(PieceColumn), len(JobColumn)])
_SUM_BYTES = 4


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
    names = [name.encode() for name in (*batch.job_names, *batch.node_names)]
    lengths = np.array([len(name) for name in names], np.int64).reshape(-1, 1)
    pools = [np.ascontiguousarray(pool) for pool in (batch.pieces, batch.jobs, lengths)]
    events = np.ascontiguousarray(batch.events)
    room = sum(m.shape[1] * writing.column_bytes(len(m)) for m in (events, *pools))
    p, count = packed(np.empty(room, np.uint8)), len(events)
    order, read = np.empty(count, np.int64), np.empty((count, 1), np.int64)
    end = writing.write_events(p, events, order, read)
    for pool in pools:
        end = writing.write_pool(p, pool, end)
    return columns.deflated(b"".join((_WIDTHS, p.body[:end].tobytes(), *names)))


class Unpacking:
    """Rows that follow each other, of so many events each, unpacked into one batch."""

    def __init__(self, counts: Sequence[int]) -> None:
        if min(counts) < 1:
            raise ValueError("a row has no events")
        self._events: Matrix = np.zeros((sum(counts), len(_E)), np.int64)
        self._pieces: Matrix = np.zeros((0, len(PieceColumn)), np.int64)
        self._jobs: Matrix = np.zeros((0, len(JobColumn)), np.int64)
        self._job_names: list[str] = []
        self._node_names: list[str] = []
        self._taken = 0
        self._counts: Matrix = np.zeros((1, 3), np.int64)
        """As ``reading.place_events`` counts."""
        self._order: Matrix = np.zeros(max(counts), np.int64)
        self._read: Matrix = np.zeros((max(counts), 1), np.int64)

    def add(self, body: bytes, count: int) -> tuple[int, int]:
        """Take the next row; return the times of its first event and of its last.

        ValueError where it cannot be read; nothing is to be made of them then.
        """
        data = columns.inflated(body)
        reader, widths = ColumnReader(data, len(_WIDTHS)), data[: len(_WIDTHS)]
        if any(width > known for width, known in zip(widths, _WIDTHS, strict=True)):
            raise ValueError("it says more of an event than this version can read; use a newer one")
        first, (pieces, jobs, nodes) = self._taken, self._counts[0].tolist()
        reader.go_on(
            reading.read_events(
                reader.packed, self._events, self._order, self._read, self._counts, first, count,
                reader.at, widths[0],
            )
        )  # fmt: skip
        self._taken += count
        pieces_now, jobs_now, nodes_now = self._counts[0].tolist()
        self._pieces = reader.pool(self._pieces, pieces, pieces_now, widths[1])
        self._jobs = reader.pool(self._jobs, jobs, jobs_now, widths[2])
        names = reader.texts(jobs_now - jobs + nodes_now - nodes)
        reader.finish()
        self._job_names += names[: jobs_now - jobs]
        self._node_names += names[jobs_now - jobs :]
        return self._events.item(first, _E.AT), self._events.item(self._taken - 1, _E.AT)

    def batch(self, dictionary: Dictionary) -> Batch:
        """All of them."""
        pieces, jobs, _ = self._counts[0].tolist()
        return Batch(
            self._events, self._pieces[:pieces], self._jobs[:jobs], self._job_names,
            self._node_names, dictionary,
        )  # fmt: skip


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
