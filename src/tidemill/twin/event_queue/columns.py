"""The columns of the twin: what is going to happen, and what only the twin knows of its jobs.

``Outside`` is what compiled functions take beside the cluster state; all but ``luck`` is int64. A
job's number is the order of its coming, so that its row can be written before it comes.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.model.tables import I64

# At one moment: claims, then ends before starts (so that what ends frees its devices and what
# starts is not ended by news from before), jobs before nodes, and the clock last.
SIGNED, CONTRACT_START, JOB_END, JOB_START, ACTIVITY, NODE_ADD, NODE_MOVE, FAULT, CONTRACT_END = (
    range(9)
)
HORIZON = 9

ANY_ATTEMPT = -1  # the stamp of an end that meets the job whichever attempt it is in


class CLOCK(IntEnum):
    """Registers: single numbers."""

    ENTRIES = 0  # of the queue
    SERIAL = 1  # the last that was given
    BATCH = 2  # how many moments were taken
    CAME = 3  # jobs that were submitted
    READ = 4  # jobs whose rows are written
    IS_EXHAUSTED = 5  # whether no more jobs are to be read
    EVENTS = 6  # rows of ``events``
    FOLDED = 7  # of those, how many are in the cluster state
    FIRST = 8  # the job that the first of ``events`` to submit one submitted
    WOKE = 9  # whether somebody looks at the clock at this moment
    RETRIES = 10  # crashes that a job is forgiven
    EVICT_MS = 11  # how long a job takes to leave
    ASKED = 12  # rows of ``asked``
    WAKE_MS = 13  # when the last plan asked to be woken


class ENTRY(IntEnum):
    """One row per thing that is going to happen; the first column decides, then the next."""

    AT = 0
    RANK = 1
    SERIAL = 2
    WHO = 3  # a job, a node, a contract
    STAMP = 4  # the attempt or epoch for which it was meant
    KIND = 5  # of the event, as in ``model.codes``
    VALUE = 6  # its one other number


class TRUTH(IntEnum):
    """One row per job; see ``Arrival``."""

    AT = 0
    WORK_MS = 1
    ENDING = 2  # the kind of event that ends it
    FIRST_CRASH = 3  # in ``crashes``
    CRASHES = 4  # how many are foreseen
    CRASHED = 5  # how often it did
    LOAD = 6  # the row of ``loads``; 0: it is always busy
    DUE = 7  # the serial of the end that holds, where another was foreseen; 0: none was
    ENDED_IN = 8  # the batch in which an attempt of it ended last
    TALKS = 9  # whether it is slower the further apart it sits


class LOAD(IntEnum):
    """One row per sort of load; see ``arrivals.Tide`` and ``arrivals.Spell``."""

    STEP_MS = 0  # of a load by the clock; 0: it is a spell
    FIRST = 1  # of its steps in ``levels``
    STEPS = 2
    ACTIVE_MS = 3  # how long a spell is
    BUSY_PPM = 4  # and how busy it is then


class Outside(NamedTuple):
    """What is going to happen, and the truth about jobs; renewed when a matrix grows."""

    clock: I64
    entries: I64  # a heap
    truths: I64
    crashes: I64  # how long attempts live that crash
    loads: I64
    levels: I64  # busy shares, step by step
    luck: NDArray[np.float64]  # of start-up times, by job and attempt
    races: I64  # whether a bind is lost to others, likewise
    events: I64  # where what happens is told (``EventColumn``),
    event_pieces: I64  # and where jobs are placed; the twin itself places nothing
    counts: I64  # as for ``core.replay``
    asked: I64  # the actions of a plan (``EventColumn``)
