"""The columns of a plan of the whole fleet: the roll of all jobs, who is in, and where.

``RollCall`` is what compiled functions take beside the cluster state, the desk and the rooms.
"""

from enum import IntEnum
from typing import NamedTuple

from tidemill.model.tables import I64

OPTIONS = 8  # GPU types that a shape may be tried on, one after the other


class ROLL(IntEnum):
    """A job; the first three columns are its key. The first in order is the last row."""

    FIRST = 0  # its place in the policy's own order
    SECOND = 1
    JOB = 2
    SHAPE = 3
    IS_ACTIVE = 4  # whether it held something when the roll was called, and has not left since
    FIRST_SEAT = 5
    SEATS = 6  # pieces that it is planned on; 0: it is not in


class PLANNED(IntEnum):
    """A piece of a job that is in; as ``Piece``, but for the role, which is the first."""

    NODE = 0
    REPLICAS = 1
    DEVICES = 2


class WANT(IntEnum):
    """One row per shape."""

    IS_OUT = 0  # whether one of it did not fit: nobody after it does
    COUNT = 1  # replicas
    IS_SIMPLE = 2  # whether only nodes decide about it
    OPTIONS = 3  # how many rows of requests follow
    IS_PLACED = 4  # scratch: whether one of it is placed,
    IS_PROMISED = 5  # or has room made for it
    FIRST = 6


class SEEKER(IntEnum):
    """Somebody who is in and sits elsewhere, or nowhere, in order; its pieces are in ``given``."""

    ROW = 0  # on the roll
    FIRST = 1
    COUNT = 2  # pieces of its seat; 0: it has none
    IS_READY = 3  # whether that seat is free now; of one that sits elsewhere: whether it must move
    PLANNED_FIRST = 4  # scratch: the same where the plan has it
    PLANNED = 5


class OUTSIDE(IntEnum):
    """Somebody who is there and not in, in order."""

    ROW = 0
    STAYS = 1
    IS_LEAVING = 2


class TERM(IntEnum):
    """What the policy says, and what a call found."""

    NOW = 0
    RANKS = 1  # the order (``core.ranks``)
    PATIENCE_MS = 2
    MIN_RUN_MS = 3
    EVICTIONS_AT_MOST = 4
    AGAIN_MS = 5  # when the first of those that are protected may be stopped
    IS_LASTING = 6  # whether all who are in may be stopped again at this moment
    COUNT = 7  # jobs on the roll
    IS_CALLED = 8  # whether what follows is of this roll
    AT_MS = 9  # when it was called,
    JOBS = 10  # how many jobs had come,
    ALIVE = 11  # how many were there or waited,
    LEAVING = 12  # how many were leaving for nobody,
    SUPPLY = 13  # how often supply had changed,
    SHARES = 14  # and quotas
    SHARES_NOW = 15  # how often those have changed by now
    NEWCOMERS = 16  # rows of ``newcomers``,
    OUTSIDE = 17  # ``outside``,
    ELSEWHERE = 18  # ``elsewhere``
    GIVEN = 19  # and ``given``
    STEP_MS = 20  # when the next running job steps back in the order of attained service


class RollCall(NamedTuple):
    """What a plan of the whole fleet is made of."""

    roll: I64
    seats: I64  # pool: the pieces of those who are in, where the plan has them
    wants: I64
    steps: I64  # of the order ``attained``
    terms: I64
    newcomers: I64  # those who are in and hold nothing now (``SEEKER``),
    elsewhere: I64  # and those who hold something else than planned
    outside: I64
    given: I64  # pool: the pieces of seats that were found
