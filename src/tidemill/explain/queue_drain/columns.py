"""The columns of a queue that is drained: all that ``kernels`` read and write."""

from enum import IntEnum
from typing import NamedTuple

from tidemill.model.tables import I64

SIZES = 65  # devices of a node that may be free: none to 64


class PLAY(IntEnum):
    """Where a play begins, and how far it is."""

    NOW = 0
    HORIZON = 1
    PATIENCE_MS = 2
    GRID_MS = 3
    TARGET = 4  # the play ends when this job has started; -1: when all have
    LEFT = 5  # jobs that still wait: the first rows of ``alive``
    PARCELS = 6
    ENDS = 7  # rows of ``heap``
    NEXT_DUE = 8
    NEXT_COME = 9
    FREED = 10  # nodes in ``freed``


class HOST(IntEnum):
    """A node. Parts of devices on one node are one."""

    IS_OPEN = 0
    KIND = 1
    GROUP = 2
    WHOLE = 3
    PART = 4
    CPU = 5
    MEMORY = 6


class DUE(IntEnum):
    """A job that runs, in the order in which they end."""

    AT_MS = 0
    QUEUE = 1
    LAST = 2  # its parcels end here, and begin where those of the one before end


class PARCEL(IntEnum):
    """What a job has of a node."""

    HOST = 0
    WHOLE = 1
    PART = 2
    CPU = 3
    MEMORY = 4


class WAITER(IntEnum):
    """A job that waits, in order."""

    FORM = 0
    QUEUE = 1
    SINCE_MS = 2
    LENGTH_MS = 3
    STEP_MS = 4  # it ends on the nearest multiple; where that is the grid, on the next
    START_MS = 5  # -1: not by the horizon
    FIRST = 6  # of its parcels, when it has started
    LAST = 7


class FORM(IntEnum):
    """Jobs of one shape, and how the last try to start one went."""

    FIRST = 0  # of its needs
    LAST = 1
    FAILED_MS = 2
    IS_LIMITED = 3  # whether a limit was in its way


class NEED(IntEnum):
    """A role of a shape."""

    ACCELERATORS = 0
    MILLI = 1
    REPLICAS = 2
    CPU = 3
    MEMORY = 4
    RULE = 5
    KIND = 6  # where it was put last


class QueueDrain(NamedTuple):
    """A queue, the nodes, and all that is given back."""

    play: I64
    hosts: I64
    due: I64
    coming: I64  # when, and which node
    parcels: I64  # with room for those of all that waits, after those of what runs
    waiters: I64
    forms: I64
    needs: I64
    choices: I64  # the kinds of each rule, in order; -1: none
    may_use: I64  # the groups of nodes that each rule has
    used: I64  # by each queue, of each kind
    below: I64  # scratch of the books
    kept: I64
    alive: I64
    heap: I64  # when what has started ends, and which
    free: I64  # of each kind, in milli
    sizes: I64  # nodes of each kind, by how many whole devices are free
    stuck: I64  # kinds that did not host a form when last looked at; not looked at is not stuck
    held: I64  # kinds that somebody who lost patience waits for,
    held_under: I64  # or those under a queue whose limit keeps it out
    freed: I64  # nodes that were given something back since the last moment


VECTORS = ("play", "alive", "free", "held", "freed", "kept")
