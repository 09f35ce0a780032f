"""What the compiled loop goes by: where it is, how far it may go, when Python must look."""

from enum import IntEnum
from typing import NamedTuple

from tidemill.model.tables import I64


class STAGE(IntEnum):
    """Where a beat is."""

    MOMENT = 0  # it has not begun
    TELLING = 1  # what happens at the moment is told, and folded
    CYCLE = 2  # it is to be decided,
    GATHERING = 3  # by those who are looked at,
    WORKING = 4  # one after the other;
    REVIEWING = 5  # the layers above the scheduler look;
    CHECKING = 6  # the plan is to be checked,
    FOLDING = 7  # folded, row by row,
    CARRYING = 8  # and carried out


class DRIVE(IntEnum):
    """Registers of the loop."""

    STAGE = 0
    NOW = 1  # the moment of this beat
    UNTIL_MS = 2  # the last moment that may be gone to
    HORIZON_MS = 3
    LEFT = 4  # beats that may be made
    MADE = 5  # beats that were
    SAME = 6  # moments at the same time, one after the other
    SEQ = 7  # events that were folded, in all
    FOLDED_MS = 8  # when the last of them was
    BEFORE = 9  # rows that were told before this moment
    ROW = 10  # of the plan: the next to be folded, or to be carried out
    PIECES = 11  # rows of pieces that were told
    IS_RARE = 12  # whether this beat is Python's to decide and to carry out
    SUPPLY = 13  # changes of supply that everybody has seen,
    LASTING = 14  # and of the services
    PROVISION_MS = 15  # when nodes are to be looked at again;
    IS_ELASTIC = 16  # where they are launched and returned, and somebody waits,
    LOOK_AGAIN_MS = 17  # after how long at most
    RESERVE_MS = 18  # when contracts are to be looked at again
    MIX_AT = 19  # when so many jobs came, the mix is looked at
    ACTIVE_AT_MOST = 20  # running jobs for which there is room
    WAKE_MS = 21  # when the plan asks to be woken
    IS_STALE = 22  # whether what cycles go by is to be laid out before the next one
    GROW_AFTER_MS = 23  # how long an elastic job works before it grows; -1: none does
    GROW_MS = 24  # when the next may
    GREW_OF = 25  # when it was last asked who grows: up to which change of nodes,
    GREW_SUPPLY = 26  # of supply,
    GREW_PACE = 27  # and of who leaves,
    GREW_TYPES = 28  # on which types,
    GREW_READY = 29  # and how many might have
    CULL_AFTER_MS = 30  # after how long idle jobs are cancelled; 0: never
    CULL_MS = 31  # when the next will be
    REORDERS = 32  # whether the whole fleet is planned at every event,
    STEP_MS = 33  # and when it is again by time alone


class Beat(NamedTuple):
    """What the loop goes by, beside all others' columns."""

    drive: I64
