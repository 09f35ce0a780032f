"""Who is there ends when: (end, job) in order, kept from one plan to the next.

An end that rests on its owner's guess stays where it is until it is reached. So only those who came
to nodes that changed are added, and those whose end has come are asked again. Nothing that is kept
is believed: whoever is reached must still be there, and be expected to end then (``is_true``). What
may end *sooner* than is kept, the state says (``AT.PACE_CHANGES``). Where ends move by themselves
(history tells them, somebody is leaving or runs at another speed) nothing is kept.
"""

from tidemill.engine.check.columns import END, SUM, UPKEEP
from tidemill.engine.check.expecting import end_of_active
from tidemill.engine.check.kernel import kernel
from tidemill.model.columns import AT, JOB, NODE, PIECE
from tidemill.model.measures import FOREVER_MS, ONE_PPM

MOVING = 2  # in ``named``
ADDED_AT_MOST = 256  # entries in an order of their own; to bring them into the others' reads all
SPARE = 64  # entries of those who went that are kept beside those who are there, at least


@kernel
def ends_before(ends, i, at_ms, j):
    """Whether an entry stands before an end of a job."""
    return ends[i, END.AT_MS] < at_ms or (ends[i, END.AT_MS] == at_ms and ends[i, END.JOB] < j)


@kernel
def swap(ends, i, other):
    """Two entries change places."""
    for column in range(2):
        ends[i, column], ends[other, column] = ends[other, column], ends[i, column]


@kernel
def copy(ends, i, to):
    """Write an entry to another place."""
    ends[to, END.AT_MS] = ends[i, END.AT_MS]
    ends[to, END.JOB] = ends[i, END.JOB]


@kernel
def sink(ends, i, count):
    """Let an entry of the heap sink until nobody below it ends after it."""
    while 2 * i + 1 < count:
        down = 2 * i + 1
        after = down + 1
        if after < count and ends_before(ends, down, ends[after, END.AT_MS], ends[after, END.JOB]):
            down = after
        if not ends_before(ends, i, ends[down, END.AT_MS], ends[down, END.JOB]):
            return
        swap(ends, i, down)
        i = down


@kernel
def sort(ends, count):
    """Sort the first entries by their ends."""
    for i in range(count // 2 - 1, -1, -1):
        sink(ends, i, count)
    for last in range(count - 1, 0, -1):
        swap(ends, 0, last)
        sink(ends, 0, last)


@kernel
def place_of(ends, first, end, at_ms, j):
    """Where an end of a job stands, or would stand, among the entries from ``first`` on."""
    while first < end:
        middle = (first + end) // 2
        if ends_before(ends, middle, at_ms, j):
            first = middle + 1
        else:
            end = middle
    return first


@kernel
def is_at(ends, i, end, at_ms, j):
    """Whether this end of a job stands at a place among the entries up to ``end``."""
    return i < end and ends[i, END.AT_MS] == at_ms and ends[i, END.JOB] == j


@kernel
def line_up(kept, ends):
    """Bring the entries that were added to their places among the others, from the last on."""
    count, end = kept[UPKEEP.NEW], kept[UPKEEP.END]
    for i in range(end, end + count):
        copy(ends, i, i + count)
    old, new, to = end - 1, end + 2 * count - 1, end + count - 1
    while new >= end + count:
        is_before = old < kept[UPKEEP.FIRST] or ends_before(
            ends, old, ends[new, END.AT_MS], ends[new, END.JOB]
        )
        copy(ends, new if is_before else old, to)
        if is_before:
            new -= 1
        else:
            old -= 1
        to -= 1
    kept[UPKEEP.END] = end + count
    kept[UPKEEP.NEW] = 0


@kernel
def add(kept, ends, at_ms, j):
    """Write an entry among those that were added, unless it is there; whether there was room.

    Those stand in order behind the others, and go among them when they are many.
    """
    needed = kept[UPKEEP.END] + 2 * kept[UPKEEP.NEW] + 2  # ``line_up`` needs as much again
    if kept[UPKEEP.NEW] >= ADDED_AT_MOST or needed > len(ends):
        line_up(kept, ends)
    end, last = kept[UPKEEP.END], kept[UPKEEP.END] + kept[UPKEEP.NEW]
    i = place_of(ends, kept[UPKEEP.FIRST], end, at_ms, j)
    to = place_of(ends, end, last, at_ms, j)
    if is_at(ends, i, end, at_ms, j) or is_at(ends, to, last, at_ms, j) or at_ms >= FOREVER_MS:
        return True
    if 2 * last - end + 2 > len(ends):
        return False
    for at in range(last, to, -1):
        copy(ends, at - 1, at)
    ends[to, END.AT_MS] = at_ms
    ends[to, END.JOB] = j
    kept[UPKEEP.NEW] += 1
    return True


@kernel
def first_of(kept, ends, i, new):
    """Of two places, among the entries and among those that were added, the one that ends first.

    -1: there is none at either.
    """
    last = kept[UPKEEP.END] + kept[UPKEEP.NEW]
    if i >= kept[UPKEEP.END]:
        return new if new < last else -1
    if new >= last or ends_before(ends, i, ends[new, END.AT_MS], ends[new, END.JOB]):
        return i
    return new


@kernel
def move_up(kept, ends):
    """Let the entries begin at the first row again, when many before them have ended."""
    first, end = kept[UPKEEP.FIRST], kept[UPKEEP.END]
    if 4 * first > len(ends):
        for i in range(first, end + kept[UPKEEP.NEW]):
            copy(ends, i, i - first)
        kept[UPKEEP.FIRST] = 0
        kept[UPKEEP.END] = end - first


@kernel
def is_steady(jobs, j):
    """Whether a job that is there is expected to end at one moment until that has come."""
    return jobs[j, JOB.IS_LEAVING] == 0 and jobs[j, JOB.SPEED_PPM] == ONE_PPM


@kernel
def is_true(w, reg, j, at_ms):
    """Whether a job is there, and expected to end then."""
    if w.jobs[j, JOB.FIRST_PIECE] < 0:
        return False
    return end_of_active(w.jobs, w.shapes, w.run_times, w.ratios, reg, j) == at_ms


@kernel
def list_all(w, reg, named, kept, ends, until):
    """Everybody who is there and ends before a moment, in order; whether all of it is steady."""
    found, are_steady = 0, reg[SUM.LEARNS] == 0
    for i in range(w.at[AT.ACTIVE]):
        j = w.active[i]
        are_steady = are_steady and is_steady(w.jobs, j)
        at_ms = FOREVER_MS
        if named[j] < MOVING:
            at_ms = end_of_active(w.jobs, w.shapes, w.run_times, w.ratios, reg, j)
        if at_ms < until:
            ends[found, END.AT_MS] = at_ms
            ends[found, END.JOB] = j
            found += 1
    sort(ends, found)
    kept[UPKEEP.NEW] = 0
    kept[UPKEEP.FIRST] = 0
    kept[UPKEEP.END] = found
    return are_steady


@kernel
def add_new(w, reg, kept, ends, since):
    """Add who came to nodes that changed since; whether all ends are steady, and found room.

    Who was placed before it was read last is among the entries already.
    """
    for i in range(since, w.at[AT.LOGGED]):
        at = w.nodes[w.log[i % len(w.log)], NODE.FIRST_PIECE]
        while at >= 0:
            j = w.pieces[at, PIECE.JOB]
            if not is_steady(w.jobs, j):
                return False
            if w.jobs[j, JOB.PLACED_MS] >= kept[UPKEEP.READ_MS]:
                end = end_of_active(w.jobs, w.shapes, w.run_times, w.ratios, reg, j)
                if not add(kept, ends, end, j):
                    return False
            at = w.pieces[at, PIECE.NEXT_ON_NODE]
    return True


@kernel
def ask_again(w, reg, kept, ends):
    """Ask anew about those whose end has come; whether all found room."""
    if kept[UPKEEP.NEW] > 0 and ends[kept[UPKEEP.END], END.AT_MS] <= reg[SUM.NOW]:
        line_up(kept, ends)
    while kept[UPKEEP.FIRST] < kept[UPKEEP.END]:
        i = kept[UPKEEP.FIRST]
        if ends[i, END.AT_MS] > reg[SUM.NOW]:
            break
        kept[UPKEEP.FIRST] += 1
        j = ends[i, END.JOB]
        if w.jobs[j, JOB.FIRST_PIECE] >= 0:
            end = end_of_active(w.jobs, w.shapes, w.run_times, w.ratios, reg, j)
            if not add(kept, ends, end, j):
                return False
    return True


@kernel
def expect(w, reg, named, kept, ends, until):
    """Bring the entries up to now: all who are there and end before a moment are among them."""
    since = kept[UPKEEP.ENDS_TO]
    is_known = since >= w.at[AT.LOG_FIRST] and w.at[AT.LOGGED] - since <= len(w.log)
    is_kept = (
        kept[UPKEEP.IS_STEADY] != 0
        and is_known
        and reg[SUM.LEARNS] == 0
        and kept[UPKEEP.PACE] == w.at[AT.PACE_CHANGES]
        and kept[UPKEEP.UNKNOWN_MS] == reg[SUM.UNKNOWN_MS]
        and kept[UPKEEP.END] - kept[UPKEEP.FIRST] <= 2 * w.at[AT.ACTIVE] + SPARE
    )
    if is_kept:
        move_up(kept, ends)
        is_kept = ask_again(w, reg, kept, ends) and add_new(w, reg, kept, ends, since)
    if not is_kept:
        is_kept = list_all(w, reg, named, kept, ends, until if reg[SUM.LEARNS] else FOREVER_MS)
    kept[UPKEEP.IS_STEADY] = is_kept
    kept[UPKEEP.ENDS_TO] = w.at[AT.LOGGED]
    kept[UPKEEP.READ_MS] = reg[SUM.NOW]
    kept[UPKEEP.PACE] = w.at[AT.PACE_CHANGES]
    kept[UPKEEP.UNKNOWN_MS] = reg[SUM.UNKNOWN_MS]
