"""Who is there ends when: (end, job) in order, kept from one plan to the next.

An end that rests on its owner's guess stays where it is until it is reached. So only those who came
to nodes that changed are added, and those whose end has come are asked again. Nothing that is kept
is believed: whoever is reached must still be there, and be expected to end then (``is_true``). What
may end *sooner* than is kept, the state says (``AT.PACE_CHANGES``). Where ends move by themselves
(history tells them, somebody is leaving or runs at another speed) nothing is kept.
"""

from tidemill.engine.check.columns import END, REG, UPKEEP
from tidemill.engine.check.expecting import end_of_active
from tidemill.engine.check.kernel import kernel
from tidemill.model.columns import AT, JOB, NODE, PIECE
from tidemill.model.measures import FOREVER_MS, ONE_PPM

MOVING = 2  # in ``named``
SPARE = 64  # entries of those who went that are kept beside those who are there, at least


@kernel
def ends_before(ends, i, at_ms, j):
    """Whether an entry stands before an end of a job."""
    return ends[i, END.AT_MS] < at_ms or (ends[i, END.AT_MS] == at_ms and ends[i, END.JOB] < j)


@kernel
def sink(ends, i, count):
    """Let an entry of the heap sink to where nobody below it ends after it."""
    while 2 * i + 1 < count:
        down = 2 * i + 1
        if down + 1 < count and ends_before(
            ends, down, ends[down + 1, END.AT_MS], ends[down + 1, END.JOB]
        ):
            down += 1
        if not ends_before(ends, i, ends[down, END.AT_MS], ends[down, END.JOB]):
            return
        for column in range(2):
            ends[i, column], ends[down, column] = ends[down, column], ends[i, column]
        i = down


@kernel
def sort(ends, count):
    """Sort entries by their ends."""
    for i in range(count // 2 - 1, -1, -1):
        sink(ends, i, count)
    for last in range(count - 1, 0, -1):
        for column in range(2):
            ends[0, column], ends[last, column] = ends[last, column], ends[0, column]
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
def shift(ends, start, stop, by):
    """Move the entries from ``start`` up to ``stop`` by one place, up (1) or down (-1)."""
    for i in range(stop - start):
        to = stop - i if by > 0 else start + i - 1
        ends[to, END.AT_MS] = ends[to - by, END.AT_MS]
        ends[to, END.JOB] = ends[to - by, END.JOB]


@kernel
def add(kept, ends, at_ms, j):
    """Add an entry, unless it is there; whoever calls has seen to it that there is room."""
    first, end = kept[UPKEEP.FIRST], kept[UPKEEP.END]
    i = place_of(ends, first, end, at_ms, j)
    if at_ms >= FOREVER_MS:
        return
    if i < end and ends[i, END.AT_MS] == at_ms and ends[i, END.JOB] == j:
        return
    if first > 0 and (i - first < end - i or end == len(ends)):
        shift(ends, first, i, -1)
        kept[UPKEEP.FIRST] -= 1
        i -= 1
    else:
        shift(ends, i, end, 1)
        kept[UPKEEP.END] += 1
    ends[i, END.AT_MS] = at_ms
    ends[i, END.JOB] = j


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
    found, are_steady = 0, reg[REG.LEARNS] == 0
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
    kept[UPKEEP.FIRST] = 0
    kept[UPKEEP.END] = found
    return are_steady


@kernel
def add_new(w, reg, kept, ends, since):
    """Add who came to nodes that changed since; whether all ends are steady, and found room."""
    for i in range(since, w.at[AT.LOGGED]):
        at = w.nodes[w.log[i % len(w.log)], NODE.FIRST_PIECE]
        while at >= 0:
            j = w.pieces[at, PIECE.JOB]
            is_full = kept[UPKEEP.FIRST] == 0 and kept[UPKEEP.END] == len(ends)
            if is_full or not is_steady(w.jobs, j):
                return False
            end = end_of_active(w.jobs, w.shapes, w.run_times, w.ratios, reg, j)
            add(kept, ends, end, j)
            at = w.pieces[at, PIECE.NEXT_ON_NODE]
    return True


@kernel
def ask_again(w, reg, kept, ends):
    """Ask anew about those whose end has come."""
    while kept[UPKEEP.FIRST] < kept[UPKEEP.END]:
        i = kept[UPKEEP.FIRST]
        if ends[i, END.AT_MS] > reg[REG.NOW]:
            return
        kept[UPKEEP.FIRST] += 1
        j = ends[i, END.JOB]
        if w.jobs[j, JOB.FIRST_PIECE] >= 0:
            end = end_of_active(w.jobs, w.shapes, w.run_times, w.ratios, reg, j)
            add(kept, ends, end, j)


@kernel
def expect(w, reg, named, kept, ends, until):
    """Bring the entries up to now: all who are there and end before a moment are among them."""
    since = kept[UPKEEP.ENDS_TO]
    is_known = since >= w.at[AT.LOG_FIRST] and w.at[AT.LOGGED] - since <= len(w.log)
    is_kept = (
        kept[UPKEEP.IS_STEADY] != 0
        and is_known
        and reg[REG.LEARNS] == 0
        and kept[UPKEEP.PACE] == w.at[AT.PACE_CHANGES]
        and kept[UPKEEP.UNKNOWN_MS] == reg[REG.UNKNOWN_MS]
        and kept[UPKEEP.END] - kept[UPKEEP.FIRST] <= 2 * w.at[AT.ACTIVE] + SPARE
    )
    if is_kept:
        ask_again(w, reg, kept, ends)
        is_kept = add_new(w, reg, kept, ends, since)
    if not is_kept:
        is_kept = list_all(w, reg, named, kept, ends, until if reg[REG.LEARNS] else FOREVER_MS)
    kept[UPKEEP.IS_STEADY] = is_kept
    kept[UPKEEP.ENDS_TO] = w.at[AT.LOGGED]
    kept[UPKEEP.PACE] = w.at[AT.PACE_CHANGES]
    kept[UPKEEP.UNKNOWN_MS] = reg[REG.UNKNOWN_MS]
