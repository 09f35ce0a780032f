"""Setbacks: how often a job was stopped for others, or found what it was given taken.

A scheduler that shares nodes with another one, or with pods that no scheduler placed, may give what
is not free any more: the node refuses the gang, or the bind is too late, and it waits again. That
is a lost race.
"""

from tidemill.explain import commands, phrasing
from tidemill.explain.answers import Fact, PricedFix
from tidemill.explain.context import Case
from tidemill.model.columns import JOB
from tidemill.model.reasons import Cause
from tidemill.model.world import World
from tidemill.scheduling import protection


def raced(world: World, j: int) -> str:
    """How often nodes refused a job for that; "": never."""
    count = world.matrices.jobs.item(j, JOB.RACES)
    times = "once" if count == 1 else phrasing.many(count, "time")
    text = f"lost a race for its GPUs {times}: another scheduler or a static pod took them first"
    return text if count else ""


def races(case: Case) -> Fact | None:
    """The same as evidence."""
    count = case.world.matrices.jobs.item(case.j, JOB.RACES)
    text = raced(case.world, case.j)
    return (
        Fact("lost_races", count, "times", text, commands.line(case.before, case.j))
        if count
        else None
    )


SHARE_NO_NODES = PricedFix(
    "let one scheduler decide about these nodes: keep others, and static pods with GPUs, off them"
    " by a taint; then what it is given next is free"
)


def lost_race(case: Case) -> bool:
    """Whether that is what it waits for, as its own scheduler says."""
    return case.waits.cause is Cause.LOST_RACE


def preempted(case: Case) -> Fact | None:
    """How often it was preempted; an alarm where it saved nothing in between."""
    world, j = case.world, case.j
    count, alarm = world.jobs.evictions.item(j), protection.alarm(world, case.policy, j)
    if not count:
        return None
    text = f"preempted {phrasing.many(count, 'time')} so far" + (f"; {alarm}" if alarm else "")
    return Fact("preempted", count, "times", text, commands.line(case.before, case.j))
