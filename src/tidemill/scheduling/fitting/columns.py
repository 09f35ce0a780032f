"""The columns of a room: what is free in it, what was asked of it, and scratch.

``Ground`` is what compiled functions take beside the cluster state. Everything is int64.
"""

from enum import IntEnum
from typing import NamedTuple

from tidemill.model.rows import MAX_DEVICES
from tidemill.model.tables import I64
from tidemill.scheduling.scores import tables


class Obstacle(IntEnum):
    """What kept a role off one GPU type."""

    LIMIT = 0
    SHORT = 1
    UNFIT = 2
    KEPT = 3
    APART = 4
    """Enough of them would fit, but not together."""


class SPOT(IntEnum):
    """One row per node."""

    FREE = 0  # of its GPUs, in milli
    CPU = 1
    MEMORY = 2
    IS_OPEN = 3  # whether it takes work
    CHANGED = 4  # how often it was touched
    HOSTS = 5  # scratch: how many groups of replicas it could take
    MARK = 6  # scratch: the look at some nodes in which it was seen last


class PART(IntEnum):
    """One row per GPU."""

    FREE = 0
    SLICES = 1


class CALL(IntEnum):
    """Registers."""

    TOUCHED = 0  # how often any node was touched
    ROWS = 1  # nodes
    SOUGHT = 2  # how often a place was looked for
    READ = 3  # up to which change of nodes the fleet was read
    CLEAN = 4  # up to which touch the room is as the fleet was then
    MARK = 5  # how often some nodes were looked at
    ABLE = 6  # nodes in ``Ground.able``
    IS_UNSEEN = 7  # whether what is taken now is given back before anybody else looks
    RESERVED_IN = 8  # the cycle of the reservation that ``Ground.reserved`` is of; 0: of none
    CUT = 9  # how many of its pieces keep less than a whole node


class REQUEST(IntEnum):
    """One row per size of a replica and groups of nodes (``oks``) that it may use."""

    ACCELERATORS = 0
    MILLI = 1
    CPU = 2
    MEMORY = 3
    SCORE = 4  # how nodes are ranked for it
    TREE = 5  # the row of its tournament; NO_TREE: nodes are swept
    READ = 6  # up to which touch its tournament is true; -1: not at all
    IS_SHARED = 7  # whether others have the same tournament: it is never true for long
    HOST = 8  # a node that could take a replica when last looked; next: were CPU no matter, ...
    TOTAL = 12  # what all nodes could take together at most; next: as above
    TOTAL_AT = 16  # one more than the touch at which that was so; 0: not known; next: as above
    HOSTS_AT = 20  # one more than the touch up to which its row of ``hosts`` is true; 0: it is not
    HOSTS_SUM = 21  # what all nodes could take, by that row
    HOSTS_ROW = 22  # 0: it has none, and all nodes are counted each time
    BESIDE_AT = 23  # one more than the touch at which only reserved nodes could take a replica,
    BESIDE_IN = 24  # reserved in this cycle (``CALL.RESERVED_IN``)


REQUEST_COLUMNS = int(REQUEST.BESIDE_IN) + 1


class SCORE(IntEnum):
    """How nodes are ranked."""

    PACK = 0
    SPREAD = 1
    TABLES = 2


class FILTER(IntEnum):
    """What removes a node from those that could take a replica, in the order of the questions."""

    STATE = 0  # it is not Ready
    SPARE = 1  # it is a hot spare
    RULES = 2  # its group is not in ``oks``: GPU type, labels, taints, affinity
    FREE = 3  # fewer GPUs are free on it than one replica requests
    CPU = 4
    MEMORY = 5
    DEVICES = 6  # enough is free in all, but not on single GPUs
    PASSED = 7


class OUT(IntEnum):
    """One row per piece that was found."""

    NODE = 0
    REPLICAS = 1
    DEVICES = 2  # the mask; bit 63 is the sign


class RUNG(IntEnum):
    """One row per way to tie the replicas of a role (``topology.wishes.Rung``)."""

    BLOCK = 0
    EACH = 1
    TOP = 2
    WANT = 3
    RATIO = 4  # and one more column for every tier after the first


class KEPT(IntEnum):
    """One row per piece of a reservation, and what was free of it when it was kept."""

    NODE = 0
    DEVICES = 1
    MILLI = 2
    CPU = 3
    MEMORY = 4
    REPLICAS = 5
    KEPT_CPU = 6
    KEPT_MEMORY = 7
    RANK = 8  # scratch: how well its node suited a request before,
    IS_EXACT = 9  # and whether that was a score
    ROLE = 10
    KEPT_PART = 11  # and one more column for every other device


KEPT_COLUMNS = int(KEPT.KEPT_PART) + MAX_DEVICES


class SORT(IntEnum):
    """Scratch: one row per domain that may take something, in order."""

    AROUND = 0
    KEY = 1
    DOMAIN = 2


NO_TREE = -1
BITS = 32  # of a number, so that no shift reaches its sign
WASTED = 5  # columns of what is known of a node: see ``trees.look``


class Ground(NamedTuple):
    """What kernels of placement work with, beside the cluster state."""

    regs: I64
    spots: I64
    parts: I64
    touched: I64  # a ring: which nodes were touched last
    requests: I64
    oks: I64  # by request and group of nodes: whether it may be used
    hosts: I64  # by request: how many replicas each node could take,
    hosting: I64  # and which could take any: a bit for each node, ``BITS`` in a number
    reserved: I64  # a bit for each node that a reservation keeps as a whole
    rank: I64  # by tournament: how well each node suits it,
    winner: I64  # who wins each match,
    exact: I64  # and whether a rank is a score, or a bound on it
    wasted: I64  # what is known of each node
    caps: I64  # scratch by tier: what each domain can host,
    gaps: I64  # has free,
    portions: I64  # and takes
    parent: I64  # by tier: the domain that each domain is in
    domains: I64  # by tier: how many there are
    able: I64  # scratch: the nodes that could take some group of replicas, by number
    sorting: I64
    out: I64


VECTORS = (
    "regs", "touched", "reserved", "domains", "able", "barred", "kept", "free", "verdicts", "suits",
    *tables.VECTORS,
)  # fmt: skip
MATRICES = ("rungs", "promised", "used", "below", "few")
"""Beside those of the tuples: ``RUNG`` and ``KEPT`` rows; by queue and type, what is used; a few
nodes with their ranks."""
