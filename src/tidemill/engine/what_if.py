"""What if: fold imagined events into a copy of the World and see what the cycle would decide.

The same fold, the same cycle, the same plan checker; the real World is not touched. It is one step
ahead, for Python; ``explain.forecast`` plays a copy forward for as long as it takes.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidemill.core import snapshot
from tidemill.engine.check import check
from tidemill.engine.cycle import CycleMemo, cycle
from tidemill.engine.fold.one_event import fold_all
from tidemill.model.events import Event, Plan
from tidemill.model.policy import Policy
from tidemill.model.world import World


class Imagined(NamedTuple):
    """A World that might be, and the plan that would follow from it."""

    world: World
    plan: Plan


def what_if(world: World, events: Iterable[Event], policy: Policy) -> Imagined:
    """The plan that would follow if these events happened now."""
    copy = fold_all(snapshot.copy(world), events)
    plan = cycle(copy, policy, CycleMemo())
    check(copy, plan, policy)
    return Imagined(copy, plan)
