"""The columns of a roll call: every job that may be stopped, and every waiting one, in order."""

from enum import IntEnum

OPTIONS = 8  # GPU types that a shape may be tried on, one after the other


class ROLL(IntEnum):
    """A job; the first three columns are its key."""

    FIRST = 0  # its place in the policy's own order
    SECOND = 1
    JOB = 2
    SHAPE = 3
    IS_ACTIVE = 4
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
    FIRST = 4


class TERM(IntEnum):
    """What the policy says, and what a call found."""

    NOW = 0
    RANKS = 1  # the order, as ``desk.lines`` numbers them
    PATIENCE_MS = 2
    MIN_RUN_MS = 3
    EVICTIONS_AT_MOST = 4
    AGAIN_MS = 5  # when the first of those that are protected may be stopped
    IS_LASTING = 6  # whether all who are in may be stopped again at this moment
