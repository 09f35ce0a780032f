"""Telling what is wrong with a plan, and the numbers in it that nothing has."""

from tidemill.engine.check.columns import RULE, SUM, WRONG
from tidemill.engine.check.kernel import kernel
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import EventColumn, PieceColumn

PLACE, EVICT, MOVE, CANCEL, WHY, PASSED, MIX, HALF_LIFE, RELEASE = (
    codes.KIND_CODE[kind]
    for kind in (
        ev.AskedPlace, ev.AskedEvict, ev.AskedMove, ev.AskedCancel, ev.CauseChanged, ev.JobPassed,
        ev.MixSampled, ev.HalfLifeSet, ev.AskedRelease,
    )
)  # fmt: skip
_ABOUT: dict[type, SUM] = {
    **dict.fromkeys(
        (ev.AskedPlace, ev.AskedEvict, ev.AskedMove, ev.AskedCancel, ev.JobPassed), SUM.JOBS
    ),
    **dict.fromkeys((ev.AskedDrain, ev.AskedRepair, ev.AskedReturn, ev.AskedSpare), SUM.NODES),
    ev.AskedLaunch: SUM.CONTRACTS,
    ev.CauseChanged: SUM.SHAPES,
    ev.AskedRelease: SUM.SHAPES,
}
NOBODY = -1
ABOUT = tuple(int(_ABOUT.get(kind, NOBODY)) for kind in codes.KINDS)
"""By kind of action: whom it is about, as the register that counts them."""
JOBS, NODES = int(SUM.JOBS), int(SUM.NODES)
IS_DATED, IS_UNKNOWN = int(RULE.DATED), int(RULE.UNKNOWN)


@kernel
def tell(reg, wrong, rule, row, who, what, how):
    """Note a broken promise; where there is no room for more, only that there is one."""
    i = reg[SUM.WRONGS]
    reg[SUM.WRONGS] = i + 1
    if i < len(wrong):
        wrong[i, WRONG.RULE] = rule
        wrong[i, WRONG.ROW] = row
        wrong[i, WRONG.WHO] = who
        wrong[i, WRONG.WHAT] = what
        wrong[i, WRONG.HOW] = how


@kernel
def is_known(reg, wrong, about, number, row):
    """Whether there is something with this number; tells if not."""
    if 0 <= number < reg[about]:
        return True
    tell(reg, wrong, IS_UNKNOWN, row, about, number, reg[about])
    return False


@kernel
def are_known(reg, wrong, events, event_pieces):
    """Whether all numbers in a plan are of something; and notes whether it only places."""
    found = True
    reg[SUM.PLACES_ONLY] = 1
    for e in range(reg[SUM.ROWS]):
        kind, first = events[e, EventColumn.KIND], events[e, EventColumn.FIRST]
        if events[e, EventColumn.AT] != reg[SUM.NOW]:
            tell(reg, wrong, IS_DATED, e, 0, events[e, EventColumn.AT], 0)
        if kind not in (PLACE, WHY, PASSED, MIX, HALF_LIFE):
            reg[SUM.PLACES_ONLY] = 0
        for i in range(first, first + events[e, EventColumn.COUNT]):
            n = event_pieces[i, PieceColumn.NODE]
            found = is_known(reg, wrong, NODES, n, e) and found
        if ABOUT[kind] != NOBODY:
            found = is_known(reg, wrong, ABOUT[kind], events[e, EventColumn.WHO], e) and found
        if kind in (EVICT, MOVE):
            to = max(0, events[e, EventColumn.TO])
            found = is_known(reg, wrong, JOBS, to, e) and found
    return found
