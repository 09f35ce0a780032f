"""The columns over which reservations are looked for: who ends when."""

from enum import IntEnum
from typing import NamedTuple

from tidemill.model.tables import I64


class ENDING(IntEnum):
    """One row per job."""

    ATTEMPT = 0  # which is known of; 0: none
    TOTAL_MS = 1  # how long it is taken to run in all
    DONE_MS = 2
    AT_MS = 3  # when it is expected to end


SORTED_AT_ONCE = 64  # newcomers; more are sorted with all others


class TALLY(IntEnum):
    """Single numbers."""

    COUNT = 0  # jobs in ``order``


class Ends(NamedTuple):
    """Running jobs that end, by when."""

    rows: I64
    order: I64
    outrun: I64
    barred: I64  # scratch: devices that nobody may count on
    tally: I64


VECTORS = ("order", "outrun", "barred", "tally")
