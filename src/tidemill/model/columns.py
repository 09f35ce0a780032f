"""The columns of the cluster state: one int64 matrix per table, a row per thing, a column per fact.

``State`` is what compiled functions take; the enums name its columns. What does not fit in a row is
in chains through columns (who waits after whom, the pieces of a job, the pieces on a node), in
vectors of numbers, or in ``at``, the registers. Names, labels and whole rows stay in Python lists
beside it (``World``). ``tables`` has the same columns as NamedTuples, for Python to read.
"""

from enum import IntEnum
from typing import NamedTuple

from tidemill.model.tables import I64

NONE = -1  # no job, no piece, nobody: the end of a chain
NOTHING_SEEN, JOBS_KEPT = 1, 2  # in ``AT.BLIND``


class AT(IntEnum):
    """Registers: single numbers."""

    QUEUED = 0  # shapes that have a waiting job
    ACTIVE = 1  # jobs that hold devices
    FREE_PIECE = 2  # the first row of ``pieces`` that nobody has
    PIECES = 3  # rows of ``pieces`` that somebody has
    LOGGED = 4  # changes of nodes so far
    LOG_FIRST = 5  # the first change that is still known
    SUPPLY_CHANGES = 6
    LASTING_CHANGES = 7
    SLICED = 8  # devices that carry MIG instances
    KEEPS = 9  # whether any queue keeps back a part of its floor
    TIERS = 10  # tiers of the topology, those inside nodes too
    LABELLED = 11  # tiers outside the node
    WAITING = 12  # waiting jobs
    LEAVING = 13  # active jobs that were asked to leave, or to move
    IDLE = 14  # running jobs that do nothing
    PROMISED = 15  # shapes that room is being made for
    PACE_CHANGES = 16  # how often a job that is there began or ceased to leave
    SEEN = 17  # placements that another scheduler made
    BLIND = 18  # nobody watches: NOTHING_SEEN, or JOBS_KEPT (what jobs hold is told afterwards)
    HALF_LIFE_MS = 19  # how fast past use is forgotten; 0: it is not counted
    RECENT = 20  # the first job of those that the last look at the mix was about
    LEFT = 21  # jobs from that one on that were placed, and have ended


class JOB(IntEnum):
    """One row per job; see ``tables.Jobs``."""

    SHAPE = 0
    STATE = 1
    ATTEMPT = 2
    SUBMIT_MS = 3
    SINCE_MS = 4
    ORIGIN_MS = 5
    SAVED_MS = 6
    PLACED_MS = 7
    RAN_MS = 8
    REACHED_MS = 9
    ESTIMATE_MS = 10
    STARTUP_MS = 11
    RESTART_MS = 12
    INTERVAL_MS = 13
    COST_MS = 14
    BUSY_PPM = 15
    MFU_PPM = 16
    HOST_PPM = 17
    LINKS_PPM = 18
    MEMORY_PPM = 19
    CONFIDENCE = 20
    IS_LEAVING = 21
    RESIZE_MS = 22
    SPEED_PPM = 23
    HOP = 24
    SLOW_PPM = 25
    PASSED_MS = 26
    EVICTIONS = 27
    FRUITLESS = 28
    NEXT = 29  # of the same shape: the next that waits, or the next that is active
    PREVIOUS = 30
    FIRST_PIECE = 31
    PLACE = 32  # where it stands in ``active``
    IS_PACED = 33  # neighbours on its devices slow it, or slowed it since it came up
    IS_MOVING = 34  # it was asked to change its place, or its size
    LEAVING_FOR = 35  # the shape for which it was asked to leave
    IDLE_MS = 36  # since when it does nothing
    OVER_MILLI = 37  # shown to be held, and not booked: others hold it (``PlacementSeen``)
    STALLS = 38  # measured shares of this attempt's time, packed (``measured``); 0: none
    EFFICIENCY = 39  # its measured efficiency, packed; 0: not measured
    STRAGGLER = 40  # what of its waits for other ranks a slow one caused, packed; 0: not judged
    FIGURES = 41  # what devices measured of it last, packed (``figures``); 0: nothing
    IS_HELD = (
        42  # it waits, and its own scheduler says that it does so for something else than GPUs
    )
    SAID = 43  # the cause that its own scheduler gave in this wait, plus one; 0: it said nothing
    RACES = 44  # how often its node refused it, because others had taken its GPUs first


MEASURED = [JOB.STALLS, JOB.EFFICIENCY, JOB.STRAGGLER, JOB.FIGURES]
"""What was measured of an attempt, in the order in which snapshots have it: only ever appended."""


class SHAPE(IntEnum):
    """One row per shape: jobs that the scheduler cannot tell apart; see ``tables.Shapes``."""

    QUEUE = 0
    PRIORITY = 1
    TOTAL_MILLI = 2
    WAITING = 3
    HEAD = 4
    CAUSE = 5
    MIXED = 6
    NOTED = 7
    HOSTS = 8
    TAIL = 9
    PLACE = 10  # where it stands in ``queued``
    FIRST_ACTIVE = 11
    ACTIVE = 12
    RETURNS = 13  # how often a job of it came back to wait
    FIRST_ROLE = 14
    ROLES = 15
    IS_LASTING = 16  # a service: it does not end by itself
    IS_ELASTIC = 17  # 1; or ``IN_A_LINE``
    PROMISED = 18  # room is being made for it: 1, and evictions that are still to be seen
    IS_PREEMPTIBLE = 19
    IS_TRAINING = 20  # what it did since it last saved is lost when it is stopped
    IS_INTERACTIVE = 21  # somebody works with it; idle, it may be cancelled
    WIDEST = 22  # the most GPUs that one replica of it wants on one node
    HELD = 23  # of those that wait: how many are held (``JOB.IS_HELD``)
    MAY_PREEMPT = 24  # whether others may be stopped for it
    SAID = 25  # of those that wait: of how many another scheduler said why (``JOB.SAID``)


IN_A_LINE = 2  # in ``SHAPE.IS_ELASTIC``: half of the replicas are half as fast


class ROLE(IntEnum):
    """One row per role of a shape: what each replica asks for."""

    ACCELERATORS = 0
    MILLI = 1
    CPU = 2
    MEMORY = 3
    COUNT = 4
    LEAST = 5
    IS_SLICED = 6  # its replicas are MIG instances


class NODE(IntEnum):
    """One row per node; see ``tables.Nodes``."""

    CONTRACT = 0
    KIND = 1
    GROUP = 2
    STATE = 3
    IS_SPARE = 4
    ASKED = 5
    WHY = 6
    SINCE_MS = 7
    DEADLINE_MS = 8
    EMPTIED_MS = 9
    FIRST_DEVICE = 10
    DEVICES = 11
    CPU_MILLI = 12
    MEMORY_MIB = 13
    CPU_FREE_MILLI = 14
    MEMORY_FREE_MIB = 15
    FREE_MILLI = 16
    STRANDED_MILLI = 17
    FAILED = 18
    FIRST_PIECE = 19  # of those on it
    IS_UNSEEN = 20  # nobody watches it (``World.unseen``)
    UNADVERTISED = 21  # how many of those that failed its contract does not advertise at all


class DEVICE(IntEnum):
    """One row per accelerator; see ``tables.Devices``."""

    FREE_MILLI = 0
    IS_FAILED = 1
    SLICES = 2


class CONTRACT(IntEnum):
    """One row per contract; see ``tables.Contracts``."""

    KIND = 0
    COUNT_MILLI = 1
    RATE_USD_MICRO = 2
    IS_RUNNING = 3
    COMMITTED_MILLI = 4
    IS_ELASTIC = 5
    ASKED_NODES = 6
    NODES = 7
    LAUNCHED_MILLI = 8


class KIND(IntEnum):
    """One row per kind of accelerator."""

    FREE_MILLI = 0  # on nodes that take new work
    FREED = 1  # how often something became free: what failed before may fit after
    TAKEN = 2  # how often something was taken: there may be new victims since
    KEPT_MILLI = 3  # what all queues together keep back of what is free


class QUEUE(IntEnum):
    """One row per queue."""

    PARENT = 0
    FREED = 1  # how often it, or one below it, gave something back; or shares changed
    ENDED = 2  # how many of its jobs ended after they ran: its history is so long
    PAST_MS = 3  # as of when its past use is known


class QUOTA(IntEnum):
    """By queue and kind, in milli; with all that is below the queue."""

    USED = 0
    FLOOR = 1
    LIMIT = 2
    GUARD = 3  # what of the floor is lent to nobody outside
    BELOW = 4  # what the queues below keep back of what is free
    PAST = 5  # the decayed mean of what was used above the floor


class PIECE(IntEnum):
    """Replicas of one role of a job on one node; rows that nobody has are a chain of their own."""

    JOB = 0
    ROLE = 1
    NODE = 2
    REPLICAS = 3
    DEVICES = 4  # the mask; bit 63 is the sign
    SLICES = 5
    IS_COMING = 6  # of a place to which the job is moving
    NEXT_OF_JOB = 7
    NEXT_ON_NODE = 8
    PREVIOUS_ON_NODE = 9


MIG_STATES = 512  # of a device that carries instances: eight memory slices and the media engines


class State(NamedTuple):
    """The whole cluster state as matrices; one owner (``World.ink``), renewed when one grows."""

    at: I64
    jobs: I64
    shapes: I64
    roles: I64
    nodes: I64
    devices: I64
    contracts: I64
    levels: I64  # contract by level, in milli
    kinds: I64
    queues: I64
    quotas: I64  # queue by kind by ``QUOTA``
    pieces: I64
    queued: I64
    active: I64
    log: I64  # a ring: which nodes changed last
    position: I64  # tier by node: in which domain a node is
    blocks: I64  # by tier: devices of a block, for tiers inside the node; 0 for others
    slices: I64  # kind by state of a device: what is free, then what is stranded, in milli
    run_times: I64  # queue by size by step of run time: how many jobs
    ratios: I64  # queue by step of truth over guess: how many jobs
    found: I64  # scratch: the pieces of a fit (``PIECE`` columns)
