"""Journals as version 1 wrote them, which must be read for ever: one row per event."""

import sqlite3
import struct
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from zlib import crc32

import msgspec

from tidemill.journal import snapshots
from tidemill.journal.codec import fact_sum, kind_of
from tidemill.journal.files import APPLICATION_ID
from tidemill.model.events import Event
from tidemill.model.world import World

TABLES = """
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, kind TEXT NOT NULL,
    body BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE snapshots (
    seq INTEGER PRIMARY KEY, crc INTEGER NOT NULL, layout INTEGER NOT NULL,
    digest TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE facts (
    key TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL);
"""


def write(
    path: Path,
    events: Sequence[Event],
    facts: Mapping[str, str] | None = None,
    worlds: Sequence[World] = (),
) -> Path:
    """A journal of version 1 with these events, facts and snapshots."""
    rows, sums, crc = [], [0], 0
    for seq, event in enumerate(events):
        body = msgspec.msgpack.encode(event)
        crc = crc32(body, crc32(struct.pack("<Iq", crc, seq)))
        rows.append((seq, event.at_ms, kind_of(event), body, crc))
        sums.append(crc)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size=4096")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute("PRAGMA user_version=1")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(TABLES)
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
        for key, value in (facts or {}).items():
            row = (key, value, fact_sum(key, value))
            connection.execute("INSERT INTO facts VALUES (?, ?, ?)", row)
        for world in worlds:
            stored = snapshots.pack(world, sums[world.seq])
            connection.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)", stored)
        connection.execute("COMMIT")
    return path
