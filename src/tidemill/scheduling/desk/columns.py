"""The columns of a scheduling cycle: what is remembered of shapes, and what the cycle is at.

``Desk`` is what compiled functions take beside the cluster state. Its rows are shapes (``ASK``),
requests on one GPU type (``OPTION``) and entries of the line of candidates (``LINE``); single
numbers are registers (``REG``). Everything is int64.
"""

from enum import IntEnum
from typing import NamedTuple

from tidemill.model.tables import I64

UNKNOWN = -1  # a cause or an answer that nobody has asked for yet


class REG(IntEnum):
    """Registers: what the policy says, what this cycle has come to, and why it came back."""

    NOW = 0
    BY_SHAPE = 1  # whether the oldest of a shape is always its first
    BY_PRIORITY = 2
    PATIENCE_MS = 3
    BACKFILL = 4  # 0: none, 1: easy, 2: conservative
    HOLD_AFTER_MS = 5
    RESERVATIONS_AT_MOST = 6
    DEPTH = 7  # of the tree of queues
    KEYS_CHANGE = 8  # whether what is placed may change the order
    MAY_MOVE = 9
    MAY_RESIZE = 10  # whether elastic jobs may shrink for others
    LOOK = 11
    IS_WHOLE = 12  # whether all nodes that changed since the last look are known
    VERSION = 13  # of the room: how often something in it changed
    HEAP = 14  # candidates in line
    PLACED = 15
    SEARCHES = 16  # for victims, that are left
    SERIAL = 17  # of those who went without a search
    IS_HOLDING = 18
    IS_HOLDING_TEAMS = 19
    CLAIMS_LEFT = 20  # reservations that conservative backfill may still make
    CYCLE = 22
    WHO = 23  # the shape that Python is asked about,
    CAUSE = 24  # why it did not fit,
    OPTION = 25  # and which option of it is to be counted
    RESERVABLE = 26  # who may keep others back, in the second line
    MAY_PREEMPT = 27
    MAY_RECLAIM = 28
    VICTIMS_AT_MOST = 29
    SHAPES = 30  # that there are
    QUIET = 31  # shapes that were taken out of the line (``quiet``),
    QUIET_LIKE = 32  # and one more than the first option of whose like some were
    QUIET_READ = 81  # how often the line was read for them
    LOOKS = 34  # how many shapes are looked at
    PENDING = 33  # reservations that were claimed and not made yet
    EVENTS = 21  # rows of ``events`` that Python has not taken over,
    EVENT_PIECES = 35  # and of ``event_pieces``
    PROMISES = 36  # reservations that were made
    PASSABLES = 37  # jobs that may be passed for the first time
    LIMITS = 38  # rows of ``limit_rows``
    HAS_REFUSED = 39  # whether somebody who fits was not let past a reservation
    ROOM_AT = 40  # another number when requests of the room have other rows
    IS_SLICED = 41  # whether a reservation keeps MIG instances
    IS_PLAIN = 42  # whether kernels may place at all
    MIN_RUN_MS = 43  # how long a job is protected that came up,
    EVICTIONS_AT_MOST = 44  # and how often one may be stopped in vain
    GOING = 45  # jobs that are asked to go already
    AGAIN_MS = 46  # of a search in vain: when others may be stopped,
    IS_FINAL = 47  # and whether only that and changes matter
    HAS_QUESTIONS = 48  # whether any search is to be made again at some moment
    PRICES = 49  # whether victims are chosen by dollars; else by time
    FOUND = 50  # victims in ``Search.chosen``; UNKNOWN: nobody has searched
    REACH = 51  # how far they were taken back from; 0: by priority
    SEARCHES_AT_MOST = 52  # for victims, in one cycle
    IS_MOVING = 53  # whether anybody is on its way to another place
    SPREADS = 54  # whether gangs without wishes are spread over nodes
    HALTED = 55  # one more than the shape that is held behind, or reserved for, next
    WATCHED = 56  # one more than the job before which Python looks at the desk; 0: nobody
    FAIRNESS = 57  # 0: none, 1: by dominant shares, 2: by the bill
    COUNTS_PAST = 58  # whether fair shares count past use
    RANKS = 59  # an order that reads jobs (``lines``); 0: it is by shape, or Python's
    STANDS = 60  # of the last reservations: one more than the claims they are for; 0: not known,
    MADE_IN = 61  # the cycle in which they were made,
    MADE_OF = 62  # up to which change of nodes,
    MADE_PACE = 63  # and of pace,
    MADE = 64  # how many they are,
    NEXT_END_MS = 65  # and until when nobody was expected to end
    SINCE = 66  # the cycle since which room and reservations are as they are now
    SHORT = 67  # the row in ``members`` of the role that did not fit
    SCORES = 68  # whether nodes are chosen by anything else than packing
    MOVES_LEFT = 69  # searches for moves that this cycle may still make
    CUTS = 70  # scratch: elastic jobs that could give up replicas for the one that is looked at,
    HAS_LATER_CUTS = 71  # and whether others could that have not come up yet
    GROW_MS = 72  # when the next elastic job may grow that is below its full size
    MOVES_AT_MOST = 73  # jobs that may be moved for one,
    MOVES_APART_MS = 74  # each after it has worked for so long;
    MOVE_AGAIN_MS = 75  # of a search for moves in vain: when others may be moved,
    HAS_LATER_MOVES = 76  # and whether some have not come up yet
    MADE_FIRST = 77  # the cycle in which kernels wrote the first reservation; 0: Python did,
    IS_KEPT_THERE = 78  # and whether it is the one of what is kept from cycle to cycle (``later``)
    KEYED = 79  # how many were placed when keys in the line became others last
    GAIN_PPM = 80  # what a preemption must win, as a share of the work it loses


class NOTE(IntEnum):
    """Single numbers that a memo keeps from one cycle to the next."""

    JOBS = 0  # what was seen last: how many jobs came,
    SUPPLY = 1  # how often supply changed,
    FREED = 2  # something was freed,
    GIVEN = 3  # a team gave something back,
    TAKEN = 4  # and something was taken, if anybody may gain by that
    WATCHES = 5  # whether somebody may
    DRIFTS = 6  # whether fair shares change with time alone
    HAS_REFUSED = 7  # whether somebody was kept from passing: a little later it may be let
    HAS_QUESTIONS = 8  # whether any search is to be made again at some moment
    FLEET_AGAIN_MS = 9  # when the whole fleet is to be planned again
    DECIDED_MS = 10  # when the last cycle was
    LOOK = 11
    READ = 12  # up to which change of nodes it was looked; -1: not at all
    IS_WHOLE = 13  # whether all nodes that changed since the last look are known
    CYCLE = 14
    FIRST_OWED = 15  # the shape, and one, of the first that may be owed a search, is to have one,
    # or is doubted; 0: nobody
    LAST_OWED = 16


class ASK(IntEnum):
    """One row per shape: what it asks for, what is remembered of it, where this cycle is."""

    IS_KNOWN = 0  # whether the row is written, and the nodes that it is about are the same
    IS_SIMPLE = 1  # one role of one size, no MIG instances: what fails for it fails for its like
    ROLES = 2
    COUNT = 3
    NEED = 4  # of all replicas of its largest role, in milli
    REPLICA = 5
    FIRST_TYPE = 6  # in ``types``: the GPU types that it may use
    TYPES = 7
    TYPE_SET = 8  # the number of this set of types
    LIKE = 9  # the number of all shapes that fit wherever this one does; UNKNOWN: it is alone
    FIRST_OPTION = 10  # those of its like
    OPTIONS = 11
    FAILED = 12  # whether it did not fit,
    CAUSE = 13  # why,
    FREED = 14  # and what had been freed by then: of its types,
    GIVEN = 15  # by its team and those above,
    SUPPLY_AT = 16  # and of supply;
    FAILED_LOOK = 17  # up to which look that is known to hold
    IS_LIMITED = 18  # whether limits or floors kept it off a type
    IS_HEEDING = 19  # whether it may gain by what others take
    MAY_EVICT = 20
    AGAIN_MS = 21  # when a search for room may find more by time alone
    SUPPLY = 22  # what supply says about it
    OUTLASTS = 23  # whether it fits beside the services
    OWED = 24  # since when (a serial) it has gone without a search; 0: it has not
    IS_DUE = 25  # whether it has a search in this cycle
    UPCOMING = 26  # the job that is looked at next,
    FIRST = 27  # with its place in the policy's own order,
    SECOND = 28
    FIRST_MEMBER = 29  # in ``members``: its roles at its smallest size, then at the next
    TAKEN = 30  # jobs taken out of its line in this cycle
    SAID = 31  # the last cause that was told
    OUT = 32  # why it is known not to fit in this cycle; UNKNOWN: it may
    TRIED = 33  # jobs of it that a reservation kept back in this cycle
    REFUSED_MS = 34  # whoever ends later than this has no place beside what is reserved
    PREPARED = 35  # for which rows of requests (``REG.ROOM_AT``) its options are written
    FIRST_RUNG = 36  # in ``rungs``: how its replicas wish to be tied
    RUNGS = 37
    IS_BINDING = 38  # whether some of that is required
    TOGETHER = 39  # the request on all its types at once; UNKNOWN: each type by itself
    IS_DOUBTED = 40  # whether what a search said in this cycle may change with time alone
    LINE_NEWS = 41  # as in ``FIRST``, where its line is this one: what history had said,
    LINE_HEAD = 42  # who is first,
    LINE_TAIL = 43  # last,
    LINE_LENGTH = 44  # how many they are,
    LINE_RETURNS = 45  # and how many came back to it
    BEST = 46  # in an order that reads jobs: the first of this line by rank,
    BEST_RANK = 47
    IMPATIENT = 48  # who loses patience first,
    PATIENCE_MS = 49  # and when; in an order by shape: when the first of its line does
    SIZES = 50  # how many sizes it has; 0: it is not fitted role by role
    LEAST = 51  # of all replicas of all roles at its smallest size, in milli
    SHORTEST_MS = 52  # how soon the first of its line to do so would end, were they placed now
    LINE_LAST = 53  # in an order by shape: up to whom it was read,
    LINE_READ = 54  # how many they are,
    SHORTEST = 55  # and who of them ends soonest; if that one left, none ends sooner
    IS_NOTED = 56  # whether it is among those who may be owed a search (``NOTE.FIRST_OWED``),
    NEXT_OWED = 57  # and the shape, and one, of the next of them
    DISTURBS_NOBODY = 58  # whether nobody is stopped, moved or made smaller for it


class OPTION(IntEnum):
    """One row per GPU type that a request may use; those of a request are neighbours."""

    KIND = 0  # -1: any, for roles without GPUs
    UNFIT_IN = 1  # the last cycle in which no nodes held it
    BINDING_AT = 2  # for which version of the room the next is known
    BINDING = 3  # what binds where enough GPUs are free
    REFUSED_IN = 4  # the last cycle in which a reservation kept a request of this like back
    REFUSED_AT = 5  # how many were placed by then
    REFUSED_MS = 6  # and who ends later than this is kept back too
    REQUEST = 7  # its row in the room,
    PACKED = 8  # and that of the same without scores
    OBSTACLE = 9  # what kept the role off this type that was fitted last
    QUIET_IN = 10  # the last cycle in which it was asked what keeps its like out of the line,
    QUIET_AT = 11  # as the line was read so often,
    QUIET_WHY = 12  # what does; UNKNOWN: it may fit
    QUIET_SHAPE = 13  # one of its shapes,
    NEXT_QUIET = 14  # and one more than the next option of which something does; UNKNOWN: nothing
    HOLDS = 15  # whether contracts, when all is well and nothing runs, hold the request on it


class MEMBER(IntEnum):
    """One row per role of a gang at one of its sizes."""

    COUNT = 0
    NEED = 1  # of all its replicas, in milli
    FIRST_OPTION = 2
    OPTIONS = 3
    TOGETHER = 4  # as ``ASK.TOGETHER``
    FIRST_RUNG = 5
    RUNGS = 6


class SEATING(IntEnum):
    """One row per piece of a gang that was found to fit."""

    ROLE = 0
    NODE = 1
    REPLICAS = 2
    DEVICES = 3


class VICTIM(IntEnum):
    """One row per job that may be stopped: what it holds, and what stopping it would lose."""

    JOB = 0
    SHAPE = 1
    QUEUE = 2
    PRIORITY = 3
    MILLI = 4
    LOST_MS = 5
    USD_MICRO = 6
    IS_RECLAIMED = 7  # by a guaranteed quota; else by priority
    AT_MOST = 8  # milli-GPU-seconds that may be lost beside that, where nobody knows; 0: none
    IS_OUT = 9  # scratch: left out of a search, since it would only be moved
    IS_GONE = 10  # scratch: lined up already


class OFFER(IntEnum):
    """One row per node: who would have to leave it so that one replica fits."""

    FIRST = 0  # in ``aboard`` and ``offered``: the candidates on it,
    ABOARD = 1  # and how many they are
    LAST = 2  # scratch: the last candidate that was counted
    STATE = 3
    PRIORITY = 4  # of the most important that would leave
    PRICE = 5
    COUNT = 6  # how many would leave, of ``offered``


class LINE(IntEnum):
    """One entry of the line: the key, then whose it is and how old."""

    STANDING = 0
    FAIR = 1
    FIRST = 2
    SECOND = 3
    JOB = 4
    SHAPE = 5
    PLACED = 6


class PROMISE(IntEnum):
    """One row per reservation."""

    JOB = 0
    AT_MS = 1
    FIRST_PIECE = 2  # in ``promised``
    PIECES = 3
    IS_DISTURBED = 4  # scratch: by the job that is looked at


class CLAIM(IntEnum):
    """One row per job that shall have a reservation."""

    SHAPE = 0
    JOB = 1
    MADE = 2  # the job that the last reservation in this place was made for


class PASSABLE(IntEnum):
    """One row per job that nobody has passed yet."""

    JOB = 0
    SHAPE = 1
    FIRST_LIMIT = 2  # in ``limit_rows``: the queues and types whose limits keep it out,
    LIMITS = 3  # and how many; 0: none does


class Search(NamedTuple):
    """Scratch of a search for victims; they go by their rows in ``victims``."""

    victims: I64
    ranks: I64  # lines by key (``LINE``)
    offers: I64
    aboard: I64  # pool: the candidates on each node,
    offered: I64  # and those that would leave it
    here: I64  # candidates on one node
    sequence: I64  # in which order they are tried
    freed: I64  # who was taken out of the room
    chosen: I64  # the best set so far
    seat: I64  # where the one who waits would sit (``fitting.columns.OUT``)


class Desk(NamedTuple):
    """What a cycle works with, beside the cluster state."""

    reg: I64
    asks: I64
    looks: I64  # the shapes that are looked at: all that have a waiting job
    types: I64  # pool: the GPU types of each shape
    options: I64
    line: I64
    others: I64  # a second line: who may keep others back
    fair: I64  # by queue: its rank by fair share now
    used: I64  # by queue and GPU type, in the room
    below: I64
    kept: I64
    free: I64  # by GPU type, in the room
    changed: I64  # by GPU type: the most that a node that changed has free
    held: I64  # by GPU type: whether nobody may be placed on it
    held_teams: I64  # by queue and GPU type: the same for those below the queue
    claimed: I64  # by GPU type: whether a reservation was claimed
    limited: I64  # by queue and GPU type: whether the first that a limit keeps out is known
    firsts: I64  # by queue (the last: any) and set of types: the cycle that has seen the first
    events: I64  # what was decided and is not taken over yet (``EventColumn``),
    event_pieces: I64  # and where
    rungs: I64  # pool: how replicas wish to be tied (``fitting.columns.RUNG``)
    promises: I64
    promised: I64  # pool: the pieces of reservations (``fitting.columns.KEPT``)
    claims: I64
    passables: I64
    limit_rows: I64  # pool: queue and type
    inner: I64  # by queue: whether there are others below it
    going: I64  # jobs that are asked to go already
    lends: I64  # scratch, by queue: whether its jobs may be stopped
    sought: I64  # scratch, by GPU type: whether room is looked for on it
    closed: I64  # by GPU type: whether nothing is fitted on it for now
    evictable: I64  # scratch: shapes whose jobs may be stopped,
    candidates: I64  # and these jobs
    notes: I64  # what is remembered from cycle to cycle (``NOTE``)
    sharing: I64  # fair shares, by queue (``core.fair_shares``)
    worth: I64  # what shares are counted by, by GPU type
    past: I64  # by queue and GPU type: what was used lately, in milli
    steps: I64  # of the order ``attained``
    members: I64  # pool: the roles of gangs
    seats: I64  # where the gang sits that was fitted last
    learnt: I64  # how long jobs are taken to run (``core.estimates``)
    under: I64  # by queue: of which types it uses less than its guaranteed quota, a bit for each
