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
    RESERVED = 7  # whom the last reservation was for that stood alone
    LATE = 8  # jobs in ``late``
    KEPT = 9  # one more than the request for which it is kept what will be free; 0: for none,
    KEPT_KIND = 10  # its GPU type,
    KEPT_ROOM = 11  # for which rows of requests,
    KEPT_LOG = 12  # up to which change of nodes,
    KEPT_TOUCH = 13  # and which touch in the room
    LAST_MS = 14  # when the last ends that has to,
    LAST_JOB = 15  # and who that is;
    HOSTED = 16  # how many replicas fit then,
    BACK = 17  # and how much has come back of the type
    NEWS = 18  # what history had said (``core.estimates``)
    IS_SAME = 19  # whether nothing changed on nodes that can host something then,
    GANG = 20  # since so many replicas were seated then,
    IS_BOUND = 21  # and whether too few would have fitted before the last ended


class REGAINED(IntEnum):
    """One row per node: what comes back to it until a reservation begins, and what fits then.

    The first columns are those of ``fitting.columns.SPOT``.
    """

    FREE = 0
    CPU = 1
    MEMORY = 2
    COUNTED = 3  # what of it counts for the type that is looked for
    HOSTED = 4  # how many replicas fit then,
    NOW = 5  # and now (scratch);
    THEN_FREE = 6  # where some do: what is free of its GPUs then,
    THEN_WHOLE = 7  # which of them are as a whole (a mask),
    THEN_CPU = 8  # and the rest
    THEN_MEMORY = 9


LATE_AT_MOST = 1024  # jobs that were put off since what will be free was looked at


class Ends(NamedTuple):
    """Running jobs that end, by when: the next sorted, the others after them in any order.

    And what is free when those have ended that must for one who waits (``later``).
    """

    rows: I64
    order: I64
    outrun: I64
    barred: I64  # scratch: devices that nobody may count on
    tally: I64
    late: I64  # jobs that were put off
    back: I64
    back_parts: I64  # the same by GPU
    later: I64  # a bit for each node on which something fits then, in one row


VECTORS = ("order", "outrun", "barred", "tally", "late")
