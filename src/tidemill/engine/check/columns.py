"""The columns of the plan checker: what a plan takes, and what is known of rows beside the state.

``Sums`` is what the plan has taken so far, all of it zero again when the plan was read, and what is
wrong, one row (``WRONG``) per broken promise. ``Facts`` are read off the rows of nodes, shapes and
queues here, not taken from the layers.
"""

from enum import IntEnum
from typing import NamedTuple

from tidemill.model.tables import I64


class RULE(IntEnum):
    """What may be wrong with a row of a plan; ``words`` says it."""

    DATED = 0
    UNKNOWN = 1
    NOT_WAITING = 2
    ATTEMPT = 3
    NO_ROLE = 4
    KIND = 5
    LABELS = 6
    DEVICES = 7
    SLICES = 8
    COUNT = 9
    MIXED = 10
    BOND = 11
    ROLE_BOND = 12
    PASSED_ACTIVE = 13
    PASSED_TWICE = 14
    PASSED_BY_NOBODY = 15
    CLOSED = 16
    CPU = 17
    MEMORY = 18
    DEVICE = 19
    SLICE = 20
    CUT = 21
    LIMIT = 22
    KEPT = 23
    JOB_TWICE = 24
    NODE_TWICE = 25
    AT_ONCE = 26
    DELAYED = 27
    OUT_OF_ORDER = 28
    STOPPED_INACTIVE = 29
    LEAVING = 30
    NOT_IDLE = 31
    STOPPED_ATTEMPT = 32
    HEIR = 33
    NOT_PREEMPTIBLE = 34
    TOO_SOON = 35
    TOO_OFTEN = 36
    NOT_REORDERED = 37
    LOSES_WORK = 38
    COMES_AFTER = 39
    NOT_PROMISED = 40
    NO_CLAIM = 41
    NOT_HIGHER = 42
    HAS_LESS = 43
    MAY_NOT_PREEMPT = 44


class WRONG(IntEnum):
    """One broken promise: the rule, the row of the plan, and what it is about."""

    RULE = 0
    ROW = 1
    WHO = 2
    WHAT = 3
    HOW = 4


class SUM(IntEnum):
    """Registers of ``Sums``: single numbers."""

    NOW = 0
    JOBS = 1  # how many there are of these
    NODES = 2
    CONTRACTS = 3
    SHAPES = 4
    WRONGS = 5  # rows of ``wrong``; those that found no room are counted too
    PLACED = 6  # pieces that were placed so far
    PLACES_ONLY = 7  # whether nothing but placing goes on in the plan
    KEEPS = 8  # whether any queue lends less than all of its floor
    IS_FLAT = 9  # whether no queue has a floor or is above another
    SLICED = 10  # roles of MIG instances
    BY_PRIORITY = 11  # what the policy says: whether it orders by priority,
    LEARNS = 12  # whether history tells how long jobs run,
    SHARE_PPM = 13  # of which an estimate holds,
    UNKNOWN_MS = 14  # what is taken where nobody says anything,
    HOLD_AFTER_MS = 15
    LINES = 16  # and whether jobs of one shape go in line (``order.write``)
    ROWS = 17  # of the plan
    JUDGES = 18  # whether the policy's order is plain enough to say who is delayed
    PLANS = 19  # that were read so far
    MIX_POINT = 20  # how many jobs had come when the mix was last looked at
    ORDER = 21  # which order it is that reads jobs, in which they go in line; 0: by shape
    PATIENCE_MS = 22
    STEPS = 23  # of the order ``attained``,
    FIRST_STEP = 24  # and these
    SECOND_STEP = 25
    THIRD_STEP = 26
    FOURTH_STEP = 27
    CULL_AFTER_MS = 28  # for how long interactive work must be idle to be cancelled; 0: never
    REORDERS = 29  # whether running jobs are part of the order,
    IS_FAIR = 30  # and fair shares;
    MIN_RUN_MS = 31  # how long a job is protected that came up,
    EVICTIONS_AT_MOST = 32  # and how often one may be stopped in vain
    FAIRNESS = 33  # by which measure shares are fair, in an order that does not read jobs; 0: none
    BACKFILLS = 34  # whether one that ends sooner may pass
    IS_BOUND = 35  # whether some queue has a floor or a limit


class TAKES(IntEnum):
    """By device: what the plan takes of it."""

    MILLI = 0
    SLICES = 1
    TWICE = 2  # slices that were taken twice
    SUM = 3  # scratch: of a block of devices


class ON(IntEnum):
    """By node: what the plan takes of it, and what its rows say."""

    CPU = 0
    MEMORY = 1
    IS_PLACED = 2
    NAMED = 3  # how often something is asked of it
    LOOK = 4  # nodes that no rule about labels can tell apart


class OF(IntEnum):
    """By role of a shape, in the order of the state's roles."""

    COMPUTE = 0  # compute slices of its MIG profile; 0: none, or not one that is known
    MEDIA = 1
    IS_SLICED = 2
    FIRST_BOND = 3  # in ``bonds``: those that are required of it, up to the next
    END_BOND = 4
    RULE = 5  # the number of what it says of GPU types and labels
    REPLICAS = 6  # scratch: how many were counted, on which type, and whether on another too
    KIND = 7
    IS_MIXED = 8


class GANG(IntEnum):
    """By shape: what its rows say, and what was last read of its line of waiting jobs."""

    FIRST_BOND = 0  # in ``bonds``: those that are required of the whole gang, up to the next
    END_BOND = 1
    REPLICAS = 2  # if all ask for the same and may be on any node of their types; else 0
    PLAN = 3  # which plan it was that was read last; 0: none
    LAST = 4  # the last in line that it placed,
    RETURNS = 5  # how often one of them had come back to wait,
    LEAST_MS = 6  # and how soon at best one before it ends, of those that were left waiting
    IS_INTERACTIVE = 7
    LIKE = 8  # the number of shapes that ask for the same, whosoever they are; -1: not of one size


class BOND(IntEnum):
    """A required bond."""

    TIER = 0
    EACH = 1
    BLOCK = 2  # devices of a block, for tiers inside the node


class BRANCH(IntEnum):
    """By queue: its place in the tree of queues."""

    PARENT = 0
    UPWARD = 1  # by place: the queues, those below before those above
    BELOW = 2  # scratch: what the queues below it keep
    DEPTH = 3
    WEIGHT = 4


class WORTHY(IntEnum):
    """By GPU type: what is launched of it, and that times what it costs."""

    THERE = 0
    PAID = 1


class Sums(NamedTuple):
    """What a plan takes, and what is wrong with it."""

    reg: I64
    wrong: I64
    on_device: I64
    on_node: I64
    on_team: I64  # queue by GPU type: what the plan takes, with all that is below
    named: I64  # by job: how often something is asked of it
    of_role: I64
    queue: I64
    lends: I64  # queue by GPU type: what it lends of its floor; -1: nothing was said
    so_far: I64  # queue by GPU type: what it got by the rows that were read for fair shares
    lately: I64  # the same: what it used lately, in parts of a milli
    worth: I64
    leaving: I64  # queue by GPU type: what those hold who are asked to leave for others


class Facts(NamedTuple):
    """What rows say."""

    wants: I64  # rule by GPU type: whether it may be used
    may_use: I64  # rule by look of a node: whether its labels are as asked
    axes: I64  # by GPU type: memory slices and compute slices of a device
    of_shape: I64
    bonds: I64
    domain: I64  # tier by node: which domain it is in, by its labels
    within: I64  # by domain: scratch


class View(NamedTuple):
    """The parts of the cluster state that the checker reads; named as in ``State``."""

    at: I64
    jobs: I64
    shapes: I64
    roles: I64
    nodes: I64
    devices: I64
    contracts: I64
    kinds: I64
    queues: I64
    quotas: I64
    pieces: I64
    queued: I64
    active: I64
    run_times: I64
    ratios: I64
    log: I64


class YARD(IntEnum):
    """By node: what would be free, and how many replicas it would host."""

    CPU = 0
    MEMORY = 1
    HOSTED = 2
    IS_OPEN = 3
    IS_TOUCHED = 4  # whether the question that is asked just now changed it


class UPKEEP(IntEnum):
    """Of what is kept from one plan to the next: as of when it is true."""

    LAID_TO = 0  # changes of nodes that were read of what is free,
    LAID = 1  # nodes that it is known of,
    ROLE = 2  # for which replicas were counted
    TOUCHED = 3  # rows of ``touched``
    ENDS_TO = 4  # changes of nodes that were read of who is there
    PACE = 5  # what the state said of ends that changed by themselves
    UNKNOWN_MS = 6  # how long a job was taken to run of which nobody says anything
    FIRST = 7  # of ``ends``: from where on it is filled, and up to where
    END = 8
    IS_STEADY = 9  # whether they stay what they are until they come
    NEW = 10  # entries after these that were added, in an order of their own
    READ_MS = 11  # when it was read who is there
    WANTED = 12  # replicas of the gang for which they were counted


class END(IntEnum):
    """When a job that is there is expected to end; in order of both columns."""

    AT_MS = 0
    JOB = 1


class Yard(NamedTuple):
    """What would be free at another moment, for one role; and what of it is kept."""

    yard: I64
    yard_free: I64  # by device, in milli
    hosts: I64  # by GPU type: replicas that it would host; -1: a type that is not asked for
    claimed: I64  # by GPU type: whether the first that waits for it is known
    ends: I64
    touched: I64  # nodes that the question that is asked just now changed
    kept: I64


class Rows(NamedTuple):
    """A plan."""

    events: I64
    event_pieces: I64


VECTORS = ("reg", "named", "within", "yard_free", "hosts", "claimed", "touched", "kept")
