"""Whether moving others could let a scattered-out job fit: as ``moves`` searches, compiled.

Only that there is nothing to move is settled here; what there is, Python searches for again, with
prices. For jobs of one role and size; where others are in the way, Python is asked, too.
"""

from tidemill.compiled import shared
from tidemill.core.heaps import sort
from tidemill.core.progress import lost_ms
from tidemill.model.columns import AT, JOB, NODE, PIECE, SHAPE
from tidemill.model.measures import FOREVER_MS
from tidemill.model.states import JobState
from tidemill.scheduling.desk.columns import ASK, REG, SEATING, VICTIM
from tidemill.scheduling.desk.kernel import kernel
from tidemill.scheduling.desk.offering import BY_NODE, line_up_by_node, may_use, write_victim
from tidemill.scheduling.desk.placing import book, fit
from tidemill.scheduling.desk.resizing import is_among
from tidemill.scheduling.desk.rights import seek
from tidemill.scheduling.desk.role_by_role import note_seats
from tidemill.scheduling.desk.stopping import (
    UNSURE,
    are_ready,
    clear,
    fits,
    is_free,
    is_ready,
    put_back,
    request_of,
    shift,
)
from tidemill.scheduling.fitting.books import is_barred
from tidemill.scheduling.fitting.columns import CALL, REQUEST, SORT, SPOT
from tidemill.scheduling.fitting.sweeps import give

NODES_AT_MOST = 64  # as ``moves.NODES_AT_MOST``
ROUNDS = 4  # as ``moves.ROUNDS``
RUNNING = int(JobState.RUNNING)
COLUMNS = len(SORT)


# Who may be moved -----------------------------------------------------------------------------


@kernel
def is_large_enough(w, d, g, s, n):
    """Whether a node that takes work could host a replica of a shape, were it empty."""
    r, nodes, requests = request_of(d.asks, d.options, s), w.nodes, g.requests
    if not may_use(nodes, d.asks, d.options, d.sought, g.oks, s, n):
        return False
    if nodes[n, NODE.DEVICES] - nodes[n, NODE.FAILED] < requests[r, REQUEST.ACCELERATORS]:
        return False
    if nodes[n, NODE.CPU_MILLI] < requests[r, REQUEST.CPU]:
        return False
    return nodes[n, NODE.MEMORY_MIB] >= requests[r, REQUEST.MEMORY]


@kernel
def line_up_nodes(w, d, g, s):
    """The nodes whose work is looked at, the emptiest first, in ``sorting``; how many."""
    found = 0
    for n in range(g.regs[CALL.ROWS]):
        if w.nodes[n, NODE.FIRST_PIECE] >= 0 and is_large_enough(w, d, g, s, n):
            g.sorting[found, SORT.AROUND] = -g.spots[n, SPOT.FREE]
            g.sorting[found, SORT.KEY] = n
            g.sorting[found, SORT.DOMAIN] = n
            found += 1
    sort(g.sorting, found, COLUMNS)
    return min(found, NODES_AT_MOST)


@kernel
def may_move_now(w, d, j):
    """Whether a job may be moved now; ``REG`` says when others may."""
    reg, jobs = d.reg, w.jobs
    if jobs[j, JOB.IS_LEAVING] != 0 or w.shapes[jobs[j, JOB.SHAPE], SHAPE.IS_PREEMPTIBLE] == 0:
        return False
    if jobs[j, JOB.STATE] != RUNNING:
        reg[REG.HAS_LATER_MOVES] = 1
        return False
    from_ms = jobs[j, JOB.SINCE_MS] + reg[REG.MOVES_APART_MS]
    if from_ms > reg[REG.NOW]:
        reg[REG.MOVE_AGAIN_MS] = min(reg[REG.MOVE_AGAIN_MS], from_ms)
        return False
    return True


@kernel
def find_movable(w, d, g, s):
    """Write down the jobs on the emptiest nodes that may be moved; how many."""
    found = 0
    for i in range(line_up_nodes(w, d, g, s)):
        p = w.nodes[g.sorting[i, SORT.DOMAIN], NODE.FIRST_PIECE]
        while p >= 0:
            j = w.pieces[p, PIECE.JOB]
            if not is_among(d.candidates, found, j) and may_move_now(w, d, j):
                d.candidates[found] = j
                found += 1
            p = w.pieces[p, PIECE.NEXT_ON_NODE]
    return found


@kernel
def are_alike(w, asks, j, other):
    """Whether two jobs ask for the same, for the same team."""
    s, its = w.jobs[j, JOB.SHAPE], w.jobs[other, JOB.SHAPE]
    if w.shapes[s, SHAPE.QUEUE] != w.shapes[its, SHAPE.QUEUE]:
        return False
    return asks[s, ASK.FIRST_OPTION] == asks[its, ASK.FIRST_OPTION]


@kernel
def fits_elsewhere(w, d, g, t, h, i):
    """Whether a candidate fits elsewhere with everybody where it is; what is known is kept."""
    for earlier in range(i):
        if are_alike(w, d.asks, d.candidates[i], d.candidates[earlier]):
            return h.chosen[earlier]
    return int(fits(w, d, g, t, w.jobs[d.candidates[i], JOB.SHAPE]))


@kernel
def write_able(w, d, g, t, h, count):
    """Write down those of the candidates that fit elsewhere, and what moving them loses; how many.

    Many searches are in vain because nobody does.
    """
    found = 0
    for i in range(count):
        h.chosen[i] = fits_elsewhere(w, d, g, t, h, i)
    for i in range(count):
        if h.chosen[i] != 0:
            j = d.candidates[i]
            write_victim(w, h.victims, found, j, lost_ms(w.jobs, j, d.reg[REG.NOW]), 0)
            h.victims[found, VICTIM.IS_OUT] = 0
            found += 1
    return found


# Where they go --------------------------------------------------------------------------------


@kernel
def move_seats(w, d, g, r, start, end, sign):
    """Take the pieces that were noted in these rows (-1), or give them back (1)."""
    requests, seats = g.requests, d.seats
    for i in range(start, end):
        give(
            w.nodes, g.regs, g.touched, g.spots, g.parts, seats[i, SEATING.NODE],
            seats[i, SEATING.REPLICAS], seats[i, SEATING.DEVICES],
            requests[r, REQUEST.ACCELERATORS], requests[r, REQUEST.MILLI],
            requests[r, REQUEST.CPU], requests[r, REQUEST.MEMORY], sign,
        )  # fmt: skip


@kernel
def settle_seats(w, d, g, s, start, end, sign):
    """Have a job of a shape sit on the pieces in these rows (1), or not any more (-1)."""
    k = w.nodes[d.seats[start, SEATING.NODE], NODE.KIND]
    move_seats(w, d, g, request_of(d.asks, d.options, s), start, end, -sign)
    book(w, d, w.shapes[s, SHAPE.QUEUE], k, sign * d.asks[s, ASK.NEED])


@kernel
def seat_one(w, d, g, t, s, first):
    """Have a job of a shape sit where it fits, noted from a row on; how many pieces, or 0."""
    count = fit(w, d, g, t, s, w.shapes[s, SHAPE.QUEUE])
    if count <= 0:
        return 0
    note_seats(d, g, 0, first, count)
    book(
        w, d, w.shapes[s, SHAPE.QUEUE], w.nodes[d.seats[first, SEATING.NODE], NODE.KIND],
        d.asks[s, ASK.NEED],
    )  # fmt: skip
    return count


@kernel
def sort_freed(victims, freed, count):
    """Sort those who go: the largest first, then by number."""
    for i in range(1, count):
        x, at = freed[i], i
        while at > 0:
            other = freed[at - 1]
            larger = victims[x, VICTIM.MILLI] - victims[other, VICTIM.MILLI]
            is_lower = victims[x, VICTIM.JOB] < victims[other, VICTIM.JOB]
            if larger < 0 or (larger == 0 and not is_lower):
                break
            freed[at] = other
            at -= 1
        freed[at] = x


@kernel
def has_seats(d, h, s, count):
    """Whether the pieces of a shape, and of all who go for it, can be noted."""
    total = d.asks[s, ASK.COUNT]
    for i in range(count):
        total += d.asks[h.victims[h.freed[i], VICTIM.SHAPE], ASK.COUNT]
    return total <= len(d.seats)


@kernel
def seat_elsewhere(w, d, g, t, h, s, count):
    """Find a place for each that is out of the room, beside the heir; whoever has none is marked.

    ``here``: where the pieces of the heir, and of each of them, end in ``seats``. Whoever was out
    is put back, and nobody sits.
    """
    victims, freed, here = h.victims, h.freed, h.here
    here[0] = seat_one(w, d, g, t, s, 0)
    for i in range(count):
        found = seat_one(w, d, g, t, victims[freed[i], VICTIM.SHAPE], here[i])
        victims[freed[i], VICTIM.IS_OUT] = int(found == 0 or here[0] == 0)
        here[i + 1] = here[i] + found
    for i in range(count):
        if here[i + 1] > here[i]:
            settle_seats(w, d, g, victims[freed[i], VICTIM.SHAPE], here[i], here[i + 1], -1)
    if here[0] > 0:
        settle_seats(w, d, g, s, 0, here[0], -1)
    put_back(w, d, g, h, count)


@kernel
def may_sit(w, d, g, s, start, end):
    """Have a job of a shape sit on the pieces in these rows if they are free for it; whether."""
    q, need, k = (
        w.shapes[s, SHAPE.QUEUE],
        d.asks[s, ASK.NEED],
        w.nodes[d.seats[start, SEATING.NODE], NODE.KIND],
    )
    if is_barred(w.at, w.queues, w.quotas, d.used, d.below, d.kept, d.free, q, k, need):
        return False
    settle_seats(w, d, g, s, start, end, 1)
    for i in range(start, end):
        if not is_free(w.nodes, g.spots, g.parts, d.seats[i, SEATING.NODE]):
            settle_seats(w, d, g, s, start, end, -1)
            return False
    return True


@kernel
def sits_without(w, d, g, t, h, s, count):
    """Whether a shape fits where those who go have gone; the room is as it was."""
    for i in range(count):
        shift(w, d, g, h.victims, h.freed[i], 1)
    found = fits(w, d, g, t, s)
    put_back(w, d, g, h, count)
    return found


@kernel
def reserve_elsewhere(w, d, g, t, h, s, count):
    """Whether all new places can be had at once while the old ones are held: how many cannot.

    All, where the heir has no place then. They are marked.
    """
    victims, freed, here, stuck = h.victims, h.freed, h.here, 0
    for i in range(count):
        x = freed[i]
        if victims[x, VICTIM.IS_OUT] == 0:
            is_seated = may_sit(w, d, g, victims[x, VICTIM.SHAPE], here[i], here[i + 1])
            victims[x, VICTIM.IS_OUT] = int(not is_seated)
        stuck += victims[x, VICTIM.IS_OUT]
    is_in_vain = stuck == 0 and not sits_without(w, d, g, t, h, s, count)
    for i in range(count):
        x = freed[i]
        if victims[x, VICTIM.IS_OUT] == 0:
            settle_seats(w, d, g, victims[x, VICTIM.SHAPE], here[i], here[i + 1], -1)
        if is_in_vain:
            victims[x, VICTIM.IS_OUT] = 1
    return count if is_in_vain else stuck


@kernel
def settle_on_moves(w, d, g, t, h, s, many):
    """How many jobs could move so that a shape fits, of so many that may; ``UNSURE``: Python says.

    Begins again without those that find no other place.
    """
    left = many
    for _ in range(ROUNDS):
        if left == 0:
            return 0
        for i in range(many):
            h.victims[i, VICTIM.IS_GONE] = 0
        line_up_by_node(w, d, g, h, s, many, BY_NODE)
        count = clear(w, d, g, t, h, s, left, d.reg[REG.MOVES_AT_MOST])
        if count == 0:
            return 0
        if not has_seats(d, h, s, count):
            put_back(w, d, g, h, count)
            return UNSURE
        sort_freed(h.victims, h.freed, count)
        seat_elsewhere(w, d, g, t, h, s, count)
        stuck = reserve_elsewhere(w, d, g, t, h, s, count)
        if stuck == 0:
            return count
        left -= stuck
    return 0


@kernel
@shared
def find_moves(w, d, g, t, h, s):
    """Whether moves might let a shape fit: 0 if not; or a code as ``stopping.find_victims``."""
    reg = d.reg
    reg[REG.MOVE_AGAIN_MS] = FOREVER_MS
    reg[REG.HAS_LATER_MOVES] = 0
    code = is_ready(reg, d.asks, s)
    reg[REG.WHO] = s
    if code < 0:
        return code
    if (
        d.asks[s, ASK.NEED] == 0
        or reg[REG.GOING] > 0
        or reg[REG.IS_MOVING] != 0
        or w.at[AT.SLICED] != 0
    ):
        return UNSURE
    seek(w.quotas, d.used, d.asks, d.types, d.sought, s, -1, d.asks[s, ASK.NEED])
    count = find_movable(w, d, g, s)
    code = are_ready(w, d, count)
    if code < 0:
        return code
    return settle_on_moves(w, d, g, t, h, s, write_able(w, d, g, t, h, count))
