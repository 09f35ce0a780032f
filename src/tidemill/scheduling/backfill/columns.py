"""The columns over which reservations are looked for: who ends when, and a room."""

from enum import IntEnum
from typing import NamedTuple

from tidemill.model.tables import I64


class END(IntEnum):
    """One row per job."""

    ATTEMPT = 0  # which is known of; 0: none
    TOTAL_MS = 1  # how long it is taken to run in all
    DONE_MS = 2
    AT_MS = 3  # when it is expected to end


class Ends(NamedTuple):
    """Running jobs that end, by when."""

    rows: I64
    order: I64
    outrun: I64


class Room(NamedTuple):
    """What is free, and for whom: the vectors of a ``scheduling.room.Room``."""

    cpu_free: I64
    memory_free: I64
    node_free: I64
    device_free: I64
    hosts: I64
    is_ok: I64
    is_barred: I64


VECTORS = ("order", "outrun", *Room._fields)
