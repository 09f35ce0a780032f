"""One cycle: climb workload → scheduling → provisioning → reservation once, and return a Plan.

Pure: the same World, policy and memo give the same plan. The layers do not know each other; what
one needs of another (the price of stopping a job, the nodes just used) is handed on here.
"""

from functools import partial

from tidemill.model.claims import claims_of
from tidemill.model.events import Plan
from tidemill.model.policy import Policy
from tidemill.model.world import World
from tidemill.provisioning import review as provisioning
from tidemill.reservation import review as reservation
from tidemill.scheduling.memo import Memo as SchedulingMemo
from tidemill.scheduling.schedule import schedule
from tidemill.scheduling.victims import Stop
from tidemill.workload import losses
from tidemill.workload import review as workload


class Memo:
    """What the layers remember between cycles to be quick; may be dropped at any time."""

    def __init__(self) -> None:
        self.scheduling = SchedulingMemo()
        self.provisioning = provisioning.Memo()
        self.reservation = reservation.Memo()


def cycle(world: World, policy: Policy, memo: Memo) -> Plan:
    """Decide everything that follows from the World as it is now."""
    asked, wake_ms = workload.review(world, policy)
    stop = Stop(partial(losses.lost_ms, world), claims_of(asked).leaving)
    placed = schedule(world, policy, memo.scheduling, stop)
    decided = [*asked, *placed]
    supplied = provisioning.review(world, policy, memo.provisioning, claims_of(decided))
    decided += supplied.actions
    released, due_ms = reservation.review(
        world, policy, memo.reservation, claims_of(supplied.actions)
    )
    return Plan((*decided, *released), min(wake_ms, supplied.wake_ms, due_ms))
