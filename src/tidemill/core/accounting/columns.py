"""The columns of the ledger: beside the cluster state, all that changes from event to event.

``LedgerState`` is what kernels take as ``b``; the enums name its columns. Its matrices are written
by kernels only; the ledger's reader makes them larger, and takes out what they gathered.
"""

from enum import IntEnum
from typing import NamedTuple

from tidemill.model.measures import FOREVER_MS
from tidemill.model.tables import I64

NEVER = FOREVER_MS
NOT_RUNNING = -1  # instead of the origin of a run
LASTED = -1  # instead of a bucket: work that lasted


class MARK(IntEnum):
    """Registers: single numbers."""

    NOW_MS = 0
    START_MS = 1  # of the window
    END_MS = 2
    BIN_MS = 3
    BIN = 4  # whose sums ``paid``, ``unheld`` and ``free_use`` are
    STOP = 5  # why a kernel came back (``STOP``)
    ORDER = 6  # in which waiting jobs claim (``ORDER``)
    IS_FRESH = 7  # whether ``turns`` were asked for, or shares counted, since the last event
    DEPTH = 8  # of the tree of queues
    CONTRACTS = 9
    NODES = 10
    SPANS = 11  # rows of ``spans`` that are written
    FREE_HOLD = 12  # the first row of ``holds`` that nobody has
    FREE_EARLIER = 13
    CUT_SHORT = 14  # attempts of training jobs that were stopped at work, inside the window
    STOPPED = 15  # attempts that were stopped before their job ended
    WEIGHS_MIX = 16  # whether what arrivals could have used is weighed
    COUNTED = 17  # jobs that were counted as arrivals
    LOG_READ = 18  # how far the log of changed nodes was read
    IS_CHANGED = 19  # whether what arrivals could use must be found anew
    ASKS = 20
    SIZES = 21
    SPENT_AT = 22  # evictions in vain after which there is an alarm
    STARTING = 23  # buckets that kernels write by name
    RESTART = 24
    REWORK = 25
    UNSAVED = 26
    CHECKPOINT = 27
    NOT_LAUNCHED = 28
    NO_DEMAND = 29
    NOT_OBSERVED = 30
    UNKNOWN = 31
    EDGE_MS = 32  # when the next price changes: sums are kept apart from there on
    LINE = 33  # rows of ``claims`` that are everybody who waits, in order; or ``UNLINED``
    TOUCHED = 34  # changes of that line since time last went on
    FAIRNESS = 35  # by which measure kernels compare teams; 0: by none, or the order is asked for
    EVENT_MS = 36  # when the last event was
    RANKED = 37  # how often fair shares were counted
    LOTS = 38
    IS_PARTED = 39  # whether a contract has several lots; else the lots are the contracts
    LOTS_READ = 40  # how far the log of changed nodes was read for lots; -1: count all anew
    RANKS = 41  # which order it is that reads jobs (``core.ranks``)
    PATIENCE_MS = 42


class STOP(IntEnum):
    """Why a kernel came back to Python."""

    EVENT = 0  # there is no event left, or the next one is not plain
    BIN = 1  # time goes on in another bin
    ORDER = 2  # who claims first must be asked of the scheduler
    FULL = 3  # ``spans`` must be taken out


class ORDER(IntEnum):
    """In which order waiting jobs claim what is free."""

    OLDEST = 0
    PRIORITY = 1
    ASKED = 2  # as the scheduler says for each moment: ``turns``
    READ = 3  # by what each job is like (``heads``)


class UNLINED(IntEnum):
    """Why nobody keeps those who wait in order from event to event."""

    UNKNOWN = -1  # they have to be looked at anew
    RANKED = -2  # what others use decides, too: the order is made when it is needed


class HELD(IntEnum):
    """One row per job: its attempt in progress, and how it waited."""

    ATTEMPT = 0  # 0: it holds nothing
    IS_RUNNING = 1
    ORIGIN_MS = 2
    SINCE_MS = 3
    BUSY_PPM = 4
    SLOW_PPM = 5
    BESIDE_PPM = 6
    PACE_PPM = 7  # how much neighbours slow it, as Python last said
    FIRST_HOLD = 8
    FIRST_EARLIER = 9
    EARLIER = 10  # how many stretches of this run came before this one
    STALLS = 11  # as ``JOB.STALLS``, of the present stretch
    EFFICIENCY = 12
    STRAGGLER = 13
    FIRST_MS = 14  # when it was first placed; NEVER: not yet; from here on of the job
    ENDED_MS = 15  # when it was done, failed for good or was cancelled; NEVER: not yet
    BALANCE_MS = 16  # what it waited; less the present moment while it waits
    PHASE = 17
    OUTCOME = 18
    OFF_MS = 19  # how long it did not ask for accelerators before it was first placed; as above
    IS_LATE = 20  # it did not ask for any when it was submitted
    HELD_MS = 21  # how long it was placed, all attempts together; less the present moment while so


class PHASE(IntEnum):
    """What a job is doing, as far as waits go."""

    UNSEEN = 0
    WAITING = 1
    HOLDING = 2
    ENDED = 3
    OFF = 4  # it does not wait for accelerators: it is held, or not asked for again yet


class HOLD(IntEnum):
    """What an attempt holds of one contract; rows that nobody has are a chain of their own."""

    CONTRACT = 0
    MILLI = 1
    NEXT = 2


class EARLIER(IntEnum):
    """A stretch of a run with another busy share or pace; chained as ``holds`` are."""

    START_MS = 0
    END_MS = 1
    BUSY_PPM = 2
    BESIDE_PPM = 3
    NEXT = 4
    STALLS = 5
    EFFICIENCY = 6
    STRAGGLER = 7


class SPAN(IntEnum):
    """A time in which a job held accelerators of one contract."""

    START_MS = 0
    END_MS = 1
    BUCKET = 2  # where the work goes, or LASTED
    JOB = 3
    CONTRACT = 4
    MILLI = 5
    ORIGIN_MS = 6  # when the run began, or NOT_RUNNING
    SINCE_MS = 7  # when the stretch of this busy share began: divisions are cumulative from here
    BUSY_PPM = 8
    SLOW_PPM = 9  # how much longer its steps took than at the best place for it,
    BESIDE_PPM = 10  # and because of neighbours on its devices
    STALLS = 11  # shares of its time that were measured, packed (``model.measured``); 0: none
    EFFICIENCY = 12  # its measured efficiency, packed
    STRAGGLER = 13  # what part of its waits for other ranks is for slow ones, packed


class DEMAND(IntEnum):
    """One row per role, as in ``roles``: what all its replicas ask for, and of whom."""

    MILLI = 0
    RULE = 1
    SIZE = 2  # as which size its arrivals are counted; -1: as none


class LACK(IntEnum):
    """What a role of a partial gang lacks, as long as this attempt of the gang has not started."""

    JOB = 0
    ATTEMPT = 1
    ROLE = 2  # its row in ``demands``
    MILLI = 3


class CLAIMANT(IntEnum):
    """A waiting shape and its place in the order; see ``claims`` for how long rows are kept."""

    RANK = 0
    FAIR = 1
    PLACE = 2
    HEAD = 3
    SHAPE = 4
    SURE = 5  # what it claims if enough is left, wherever that is


class FIRST(IntEnum):
    """One row per shape: who claims first of it, where that is told by what each job is like."""

    NEWS = 0  # of the line that was read last: what history had said,
    HEAD = 1  # who stood first in it,
    TAIL = 2  # and last,
    LENGTH = 3
    RETURNS = 4  # and how often one had come back to it;
    BEST = 5  # the first of it by rank,
    BEST_RANK = 6
    IMPATIENT = 7  # who loses patience first,
    PATIENCE_MS = 8  # and when
    UPCOMING = 9  # who claims first


class LOT(IntEnum):
    """What is free of a contract on nodes that every rule allows, or none of them; in its order.

    Contracts without such differences between their nodes are one lot each.
    """

    CONTRACT = 0
    READY = 1  # what is free, where lots are counted (``MARK.IS_PARTED``)
    FREE = 2  # scratch: what nobody has claimed yet


class COUNTED(IntEnum):
    """One row per node: what was last counted of it, where lots are."""

    LOT = 0
    MILLI = 1


class REPLICA(IntEnum):
    """What one replica asks of one node."""

    ACCELERATORS = 0
    MILLI = 1
    CPU = 2
    MEMORY = 3


class SIZE(IntEnum):
    """A gang: which ask, how many replicas of it, and how often it arrived."""

    ASK = 0
    REPLICAS = 1
    ARRIVALS = 2


class USE(IntEnum):
    """The rows of ``free_use``."""

    FREE = 0
    USABLE = 1
    UNASKED = 2


class TABLE(IntEnum):
    """The rows of ``tables``."""

    OF_LEVEL = 0  # the bucket that a level is; -1: READY, which is divided, and ALLOCATED
    OF_CAUSE = 1  # the bucket under which those claim who wait for this cause; -1: they do not


class LedgerState(NamedTuple):
    """All that the ledger changes from event to event; one owner, renewed when one grows."""

    marks: I64
    attempts: I64
    holds: I64
    earlier: I64
    spans: I64
    paid: I64  # by contract, of the bin: milli × ms
    unheld: I64  # contract by bucket by team + 1 (0: nobody), of the bin
    free_use: I64  # ``USE`` by contract, of the bin
    demands: I64
    may_use: I64  # rule by lot
    reach: I64  # rule by kind: what the scheduler takes it to be able to use
    standings: I64  # scratch, rule by queue: how it stands by its guaranteed quotas
    turns: I64  # by shape: whose turn it is, where the order was asked for
    claims: I64
    lots: I64
    lot_of: I64  # contract by group of nodes: its lot
    counted: I64
    could: I64  # scratch, by contract: what arrivals could use, on the mean
    asks: I64
    sizes: I64
    ask_groups: I64  # ask by group of nodes: whether it may use it
    ask_kinds: I64
    hosts: I64  # node by ask: replicas that it hosts
    totals: I64  # ask by contract: replicas that all its nodes host
    arrived: I64  # by kind: arrivals that may use it
    tables: I64
    sharing: I64  # fair shares, by queue (``core.fair_shares``),
    fair: I64  # and its rank by them;
    worth: I64  # what they are counted by, by kind,
    past: I64  # by queue and kind what was used lately,
    used: I64  # and what is used now
    heads: I64  # by shape (``FIRST``)
    learnt: I64  # how long jobs are taken to run (``core.estimates``)
    steps: I64  # of the order ``attained``
    parts: I64  # what partial gangs lack (``LACK``)
