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
NEAR_AT_LEAST = 128  # jobs that are kept sorted; of more, those who end later need not be


class TALLY(IntEnum):
    """Single numbers."""

    COUNT = 0  # jobs in ``order``, with some who went
    NEAR = 1  # how many of them, those at its beginning, are sorted: all who end
    UNTIL_MS = 2  # no later than this
    READ = 3  # up to which change of nodes it was looked who came; -1: all must be read again
    PACE_CHANGES = 4  # as many of the cluster state are known
    DRIFTING = 5  # how many have an end that moves as time goes on
    WANTED = 6  # how many had to end, of late, for one who waits


class Ends(NamedTuple):
    """Running jobs that end, by when: the next sorted, the others after them in any order."""

    rows: I64
    order: I64
    outrun: I64
    barred: I64  # scratch: devices that nobody may count on
    tally: I64


VECTORS = ("order", "outrun", "barred", "tally")
