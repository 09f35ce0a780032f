"""What is gone through, in columns of int64: moments, attempts, and the devices of nodes.

``attempts`` has a row for each attempt; the nodes that it is shown on are rows of ``where``. The
seats that a job holds are rows of the pieces that were written when it was seated.
"""

from enum import IntEnum


class Turn(IntEnum):
    """What may happen at a moment, in the order in which it is told there."""

    MACHINES = 0
    ENDS = 1
    SUBMITS = 2
    FREED = 3  # a job that was held asks for GPUs, or one that waits for others
    RELEASED = 4  # a job that was held after an attempt asks for GPUs again
    PLACES = 5
    STARTS = 6
    MEASURES = 7
    ENDS_AT_ONCE = 8  # in the moment in which it began
    HELD = 9  # after an attempt: its job waits again, and not for GPUs
    NEEDS = 10  # after an attempt: its job waits again, for fewer replicas or more


class MOMENT(IntEnum):
    """One row for each thing that happens."""

    AT = 0
    WHAT = 1
    WHO = 2  # the number of an attempt's row, of a job, of a turn of a machine, of what is measured


class ATTEMPT(IntEnum):
    """One row for each attempt."""

    JOB = 0
    NUMBER = 1  # 0: it never began
    END_KIND = 2  # the kind of event that ends it
    END_NUMBER = 3  # the attempt that this event names
    END_WHY = 4
    END_VALUE = 5
    REPLICAS = 6
    EACH = 7  # GPUs of each replica
    FIRST = 8  # of its rows of ``where``
    NODES = 9  # how many there are of them
    IS_ANYWHERE = 10  # nobody said on which nodes: on any of these that have some free
    IS_PLAIN = 11  # 0: ``Seating`` finds its place, not a kernel
    CPU_USED_MS = 12  # -1: nobody says, as of the next two
    CPU_HAD_MS = 13
    PEAK_PPM = 14  # of the memory that it requested


class PLACE(IntEnum):
    """One row for each node of an attempt."""

    NODE = 0
    TOLD = 1  # the mask of the devices that it was shown on; 0: nobody said which


class SEAT(IntEnum):
    """One row for each node."""

    FREE = 0  # the mask of the devices that nobody holds
    ABOARD = 1  # replicas that sit on it
    IS_WATCHED = 2  # whether its state changes once it is empty


class SEATED(IntEnum):
    """One row for each job: the pieces that it holds, where a kernel seated it."""

    FIRST = 0
    COUNT = 1


class WALK(IntEnum):
    """Registers: single numbers."""

    EVENTS = 0  # rows that were written
    PIECES = 1
    OVER = 2  # attempts of which a part found no device
    FULL = 3  # no more events are written than this, or one more
    MOST_PIECES = 4  # of any attempt
    LEFT_FIRST = 5  # the pieces of the attempt that ended last, if a node of it is watched
    LEFT_COUNT = 6
