"""Beats: the loop of the twin, compiled, with the same order of things as ``engine.loop``.

A beat tells and folds what happens at a moment (``event_queue.lives``), decides
(``scheduling.desk``), has the plan checked (``engine.check``), folds it and pushes what follows
from it. Whatever is rare comes back to Python with a code; ``DRIVE.STAGE`` says where it goes on.
"""

from enum import IntEnum

from tidemill.core.idle import next_due, next_due_at
from tidemill.core.replay import CANCEL, PLACED, WOKE, fold_one
from tidemill.engine.check.columns import SUM
from tidemill.engine.check.reading import read
from tidemill.engine.check.reservations import is_judged, is_turn, read_passing
from tidemill.engine.loop import BEATS_AT_ONE_MOMENT
from tidemill.model import codes
from tidemill.model.batch import EventColumn
from tidemill.model.columns import AT
from tidemill.model.events import Why
from tidemill.model.measures import FOREVER_MS
from tidemill.provisioning.columns import LOOK
from tidemill.provisioning.looking import is_quiet, use
from tidemill.scheduling.desk.codes import OVER as CYCLE_OVER
from tidemill.scheduling.desk.columns import REG
from tidemill.scheduling.desk.cycle import work_off
from tidemill.scheduling.desk.gathering import gather
from tidemill.scheduling.desk.opening import begin, close, is_news, next_question
from tidemill.scheduling.desk.placing import tell as say_at_once
from tidemill.scheduling.desk.resizing import count_growable, decides_about_room, uncontested
from tidemill.twin.driving.columns import DRIVE, STAGE
from tidemill.twin.driving.kernel import kernel
from tidemill.twin.event_queue.columns import CLOCK, ENTRY, TRUTH
from tidemill.twin.event_queue.lives import MIX, begin_moment, carry_out, happen, tell, wake
from tidemill.twin.event_queue.lives import OVER as MOMENT_OVER

IDLE = codes.WHY_CODE[Why.IDLE]
TYPES_AT_MOST = 62  # that one number tells apart
MOMENT, TELLING, CYCLE, GATHERING, WORKING, REVIEWING, CHECKING, FOLDING, CARRYING = map(int, STAGE)


class BACK(IntEnum):
    """Why the loop came back; codes of a moment and of a cycle are told with where it is."""

    OVER = 1  # the story, or the time that it may go to
    PAUSE = 2  # as many beats were made as it may
    READ_ON = 3  # more jobs must be read before it is known what is next
    GROW = 4  # some matrix is too small
    TELL = 5  # a code of ``lives.happen`` is in ``ROW``
    DECIDE = 6  # this beat is Python's
    ANSWER = 7  # a code of the cycle is in ``ROW``
    ANEW = 8  # services changed, or the mix: what cycles go by is to be laid out again
    WRONG = 9  # the plan breaks a promise
    FOLD = 10  # the row of the plan is for Python to fold,
    CARRY = 11  # or to carry out
    SUPPLY = 12  # something is to be asked of nodes
    RESIZE = 13  # elastic jobs may have room to grow
    REORDER = 14  # the whole fleet is to be planned


OVER, PAUSE, READ_ON, GROW, TELL, DECIDE, ANSWER, ANEW, WRONG, FOLD, CARRY, SUPPLY = map(
    int, list(BACK)[:12]
)
RESIZE, REORDER = int(BACK.RESIZE), int(BACK.REORDER)


# A moment -------------------------------------------------------------------------------------


@kernel
def next_moment(o):
    """When something happens next."""
    clock = o.clock
    at_ms = clock[CLOCK.WAKE_MS]
    if clock[CLOCK.ENTRIES] > 0:
        at_ms = min(at_ms, o.entries[0, ENTRY.AT])
    if clock[CLOCK.CAME] < clock[CLOCK.READ]:
        at_ms = min(at_ms, o.truths[clock[CLOCK.CAME], TRUTH.AT])
    return at_ms


@kernel
def begin_beat(o, b):
    """Go to the next moment, if it may be gone to; 0, or why not."""
    clock, drive = o.clock, b.drive
    if drive[DRIVE.LEFT] <= 0:
        return PAUSE
    if clock[CLOCK.CAME] == clock[CLOCK.READ] and clock[CLOCK.IS_EXHAUSTED] == 0:
        return READ_ON
    now = next_moment(o)
    if now > drive[DRIVE.UNTIL_MS] or now >= FOREVER_MS:
        return OVER
    if 2 * clock[CLOCK.ENTRIES] + 2 > len(o.entries):
        return GROW
    drive[DRIVE.SAME] = drive[DRIVE.SAME] + 1 if now == drive[DRIVE.NOW] else 0
    if drive[DRIVE.SAME] > BEATS_AT_ONE_MOMENT:
        return OVER
    drive[DRIVE.NOW] = now
    drive[DRIVE.BEFORE] = clock[CLOCK.EVENTS]
    drive[DRIVE.IS_RARE] = 0
    begin_moment(clock, now)
    drive[DRIVE.STAGE] = TELLING
    return 0


@kernel
def tell_moment(w, o, b):
    """Tell and fold what happens; 0, or why Python must do something."""
    clock, drive, now = o.clock, b.drive, b.drive[DRIVE.NOW]
    folded = clock[CLOCK.FOLDED]
    code = happen(w, o, now, 1)
    if clock[CLOCK.FOLDED] > folded:
        drive[DRIVE.SEQ] += clock[CLOCK.FOLDED] - folded
        drive[DRIVE.FOLDED_MS] = now
    if code != MOMENT_OVER:
        drive[DRIVE.ROW] = code
        return TELL
    if clock[CLOCK.WOKE] != 0 and clock[CLOCK.EVENTS] == drive[DRIVE.BEFORE]:
        tell(clock, o.events, now, WOKE, 0, 0, 0)
        clock[CLOCK.FOLDED] += 1
        drive[DRIVE.SEQ] += 1
        drive[DRIVE.FOLDED_MS] = now
    drive[DRIVE.STAGE] = MOMENT if clock[CLOCK.EVENTS] == drive[DRIVE.BEFORE] else CYCLE
    return 0


# A cycle --------------------------------------------------------------------------------------


@kernel
def is_for_python(w, b):
    """Whether somebody else than the scheduler has something to decide in this beat."""
    drive = b.drive
    return (
        drive[DRIVE.IS_RARE] != 0
        or drive[DRIVE.NOW] >= drive[DRIVE.RESERVE_MS]
        or w.at[AT.SUPPLY_CHANGES] != drive[DRIVE.SUPPLY]
    )


@kernel
def count_culled(w, b):
    """How many idle jobs are to be cancelled now; and when the next is, is noted."""
    drive, count, j = b.drive, 0, -1
    drive[DRIVE.CULL_MS] = FOREVER_MS
    if drive[DRIVE.CULL_AFTER_MS] == 0 or w.at[AT.IDLE] == 0:
        return 0
    drive[DRIVE.CULL_MS] = next_due_at(w, drive[DRIVE.CULL_AFTER_MS], drive[DRIVE.NOW])
    while True:
        j = next_due(w, drive[DRIVE.CULL_AFTER_MS], drive[DRIVE.NOW], j)
        if j < 0:
            return count
        count += 1


@kernel
def cull(w, d, b, count):
    """Ask so many idle jobs to stop for good; the scheduler counts on their going."""
    drive, j = b.drive, -1
    d.reg[REG.GOING] = count
    for i in range(count):
        j = next_due(w, drive[DRIVE.CULL_AFTER_MS], drive[DRIVE.NOW], j)
        say_at_once(d, CANCEL, j, 0, IDLE)
        d.going[i] = j


@kernel
def begin_cycle(w, d, g, o, c, b):
    """Begin to decide, if there is anything to; 0, or why Python must do something."""
    drive, now = b.drive, b.drive[DRIVE.NOW]
    if is_for_python(w, b):
        return DECIDE
    if drive[DRIVE.IS_STALE] != 0 or w.at[AT.LASTING_CHANGES] != drive[DRIVE.LASTING]:
        return ANEW
    if w.at[AT.QUEUED] + 2 > len(d.line) or w.at[AT.ACTIVE] > drive[DRIVE.ACTIVE_AT_MOST]:
        return GROW
    if o.counts[0, 0] > len(c.named):
        return GROW
    culled, reorders = count_culled(w, b), drive[DRIVE.REORDERS] != 0
    if culled > (0 if reorders else len(d.going)):
        return DECIDE
    if drive[DRIVE.IS_ELASTIC] != 0 and w.at[AT.QUEUED] > 0:
        again_ms = now + drive[DRIVE.LOOK_AGAIN_MS]
        drive[DRIVE.PROVISION_MS] = min(drive[DRIVE.PROVISION_MS], again_ms)
    d.reg[REG.NOW] = now
    d.reg[REG.LOOKS] = w.at[AT.QUEUED]
    d.reg[REG.EVENTS] = 0
    d.reg[REG.EVENT_PIECES] = 0
    drive[DRIVE.STAGE] = REVIEWING
    drive[DRIVE.STEP_MS] = FOREVER_MS
    if w.at[AT.QUEUED] > 0 and not reorders and is_news(w, d, o.counts[0, 0], now):
        begin(w, d, g, now)
        drive[DRIVE.STAGE] = GATHERING
    if o.counts[0, 0] >= drive[DRIVE.MIX_AT]:
        say_at_once(d, MIX, 0, 0, 0)
        drive[DRIVE.IS_STALE] = 1
    cull(w, d, b, culled)
    return REORDER if reorders and w.at[AT.QUEUED] > 0 else 0


@kernel
def decide(w, d, g, t, h, e, b):
    """Line up whoever is looked at, and work the line off; 0, or why Python must do something."""
    drive = b.drive
    if drive[DRIVE.STAGE] == GATHERING:
        code = gather(w, d)
        if code != CYCLE_OVER:
            drive[DRIVE.ROW] = code
            return ANSWER
        drive[DRIVE.STAGE] = WORKING
    code = work_off(w, d, g, t, h, e)
    if code != CYCLE_OVER:
        drive[DRIVE.ROW] = code
        return ANSWER
    close(d)
    drive[DRIVE.STAGE] = REVIEWING
    return 0


@kernel
def is_known_vain(w, d, b, ready):
    """Whether it was asked before where so many may grow, and nothing has changed since.

    Who may grow only become more while no node changes and nobody is asked to leave.
    """
    drive, types = b.drive, 0
    for k in range(len(d.sought)):
        types = 2 * types + d.sought[k]
    is_same = (
        drive[DRIVE.GREW_OF] == w.at[AT.LOGGED]
        and drive[DRIVE.GREW_SUPPLY] == w.at[AT.SUPPLY_CHANGES]
        and drive[DRIVE.GREW_PACE] == w.at[AT.PACE_CHANGES]
        and drive[DRIVE.GREW_TYPES] == types
        and drive[DRIVE.GREW_READY] == ready
    )
    drive[DRIVE.GREW_OF] = w.at[AT.LOGGED]
    drive[DRIVE.GREW_SUPPLY] = w.at[AT.SUPPLY_CHANGES]
    drive[DRIVE.GREW_PACE] = w.at[AT.PACE_CHANGES]
    drive[DRIVE.GREW_TYPES] = types
    drive[DRIVE.GREW_READY] = ready
    return is_same and len(d.sought) < TYPES_AT_MOST


@kernel
def look_at_sizes(w, d, b):
    """Look whether elastic jobs may grow into room that nobody waits for; 0, or that they may."""
    drive, now = b.drive, b.drive[DRIVE.NOW]
    drive[DRIVE.GROW_MS] = FOREVER_MS
    if drive[DRIVE.GROW_AFTER_MS] < 0:
        return 0
    ready = count_growable(w, d, now, drive[DRIVE.GROW_AFTER_MS])
    drive[DRIVE.GROW_MS] = d.reg[REG.GROW_MS]
    if ready == 0:
        return 0
    if decides_about_room(d):
        drive[DRIVE.GROW_MS] = now
        return 0
    free = uncontested(w, d)
    if free == 0 or (free > 0 and is_known_vain(w, d, b, ready)):
        return 0
    return RESIZE


@kernel
def review(w, d, u, b):
    """Look at sizes and, if that is due, at the nodes; 0, or that something is to be asked."""
    drive = b.drive
    if look_at_sizes(w, d, b) != 0:
        return RESIZE
    if drive[DRIVE.NOW] >= drive[DRIVE.PROVISION_MS]:
        use(u, d.event_pieces, d.reg[REG.EVENT_PIECES])
        if not is_quiet(w, u, drive[DRIVE.NOW]):
            return SUPPLY
        drive[DRIVE.PROVISION_MS] = u.look[LOOK.WAKE_MS]
    drive[DRIVE.STAGE] = CHECKING
    return 0


# What follows ---------------------------------------------------------------------------------


@kernel
def check(v, d, o, c, f, p, y, b):
    """Have the plan checked; 0, or why Python must do something."""
    reg, drive, clock = c.reg, b.drive, o.clock
    rows, pieces = d.reg[REG.EVENTS], d.reg[REG.EVENT_PIECES]
    if clock[CLOCK.EVENTS] + rows > len(o.events) or clock[CLOCK.ENTRIES] + rows > len(o.entries):
        return GROW
    if drive[DRIVE.PIECES] + pieces > len(o.event_pieces):
        return GROW
    if v.at[AT.PIECES] + pieces > len(v.pieces):
        return GROW
    drive[DRIVE.ROW] = 0
    drive[DRIVE.STAGE] = FOLDING
    again_ms = next_question(d.looks, d.asks, d.notes, v.at[AT.QUEUED], drive[DRIVE.NOW])
    again_ms = min(again_ms, drive[DRIVE.GROW_MS], drive[DRIVE.CULL_MS], drive[DRIVE.STEP_MS])
    drive[DRIVE.WAKE_MS] = min(again_ms, drive[DRIVE.PROVISION_MS], drive[DRIVE.RESERVE_MS])
    if rows == 0:
        return 0
    reg[SUM.NOW] = drive[DRIVE.NOW]
    reg[SUM.ROWS] = rows
    reg[SUM.WRONGS] = 0
    reg[SUM.PLACED] = 0
    reg[SUM.JOBS] = o.counts[0, 0]
    if read(v, c, f, p, 0) < rows:
        return WRONG
    is_read = is_turn(drive[DRIVE.SEQ], reg[SUM.NODES], v.at[AT.ACTIVE])
    if reg[SUM.WRONGS] == 0 and is_read and is_judged(v.at, reg):
        read_passing(v, c, f, p, y)
    return WRONG if reg[SUM.WRONGS] != 0 else 0


@kernel
def write(d, o, b, i):
    """Write a row of the plan where the events are told; with its pieces."""
    clock, drive = o.clock, b.drive
    row, first = clock[CLOCK.EVENTS], d.events[i, EventColumn.FIRST]
    for column in range(d.events.shape[1]):
        o.events[row, column] = d.events[i, column]
    if d.events[i, EventColumn.KIND] == PLACED:
        o.events[row, EventColumn.FIRST] = drive[DRIVE.PIECES]
        for p in range(first, first + d.events[i, EventColumn.COUNT]):
            for column in range(d.event_pieces.shape[1]):
                o.event_pieces[drive[DRIVE.PIECES], column] = d.event_pieces[p, column]
            drive[DRIVE.PIECES] += 1
    clock[CLOCK.EVENTS] += 1
    clock[CLOCK.FOLDED] += 1
    drive[DRIVE.SEQ] += 1
    drive[DRIVE.FOLDED_MS] = drive[DRIVE.NOW]
    drive[DRIVE.ROW] += 1


@kernel
def fold(w, d, o, b):
    """Fold the plan, row by row; 0, or that Python must fold one."""
    drive = b.drive
    while drive[DRIVE.ROW] < d.reg[REG.EVENTS]:
        i = drive[DRIVE.ROW]
        if not fold_one(w, d.events, d.event_pieces, o.counts, i, drive[DRIVE.NOW]):
            return FOLD
        write(d, o, b, i)
    drive[DRIVE.ROW] = 0
    o.clock[CLOCK.ASKED] = d.reg[REG.EVENTS]
    drive[DRIVE.STAGE] = CARRYING
    return 0


@kernel
def carry(w, d, o, b):
    """Push what follows from the plan, and when to look again; 0, or that Python must."""
    drive, now = b.drive, b.drive[DRIVE.NOW]
    drive[DRIVE.ROW] = carry_out(w.jobs, o, drive[DRIVE.ROW], w.at[AT.TIERS], now)
    if drive[DRIVE.ROW] < d.reg[REG.EVENTS]:
        return CARRY
    wake(o.clock, drive[DRIVE.WAKE_MS], drive[DRIVE.HORIZON_MS], now)
    drive[DRIVE.LEFT] -= 1
    drive[DRIVE.MADE] += 1
    drive[DRIVE.STAGE] = MOMENT
    return 0


@kernel
def drive(w, d, g, t, h, e, o, v, c, f, p, y, u, b):
    """Beat until time is up, or until Python must do something; why it came back."""
    while True:
        stage, code = b.drive[DRIVE.STAGE], 0
        if stage == MOMENT:
            code = begin_beat(o, b)
        elif stage == TELLING:
            code = tell_moment(w, o, b)
        elif stage == CYCLE:
            code = begin_cycle(w, d, g, o, c, b)
        elif stage in (GATHERING, WORKING):
            code = decide(w, d, g, t, h, e, b)
        elif stage == REVIEWING:
            code = review(w, d, u, b)
        elif stage == CHECKING:
            code = check(v, d, o, c, f, p, y, b)
        elif stage == FOLDING:
            code = fold(w, d, o, b)
        else:
            code = carry(w, d, o, b)
        if code != 0:
            return code
