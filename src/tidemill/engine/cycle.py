"""One cycle: climb workload → scheduling → provisioning → reservation once, and return a Plan.

Pure: the same World, policy and memo give the same plan. The layers do not know each other; what
one needs of another (the price of stopping a job, the nodes just used) is handed on here.
"""

from functools import partial

from tidemill.engine import fold_mix
from tidemill.model.batch import Dictionary
from tidemill.model.batch.sheet import Sheet, plan_on
from tidemill.model.claims import claims_of
from tidemill.model.events import (
    Action,
    AskedDrain,
    AskedEvict,
    AskedMove,
    AskedPlace,
    AskedReturn,
    AskedSpare,
    JobPassed,
    Plan,
    SaidHalfLife,
    SaidMix,
    SaidWhy,
)
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.world import World
from tidemill.provisioning import review as provisioning
from tidemill.reservation import review as reservation
from tidemill.scheduling.memo import Memo as SchedulingMemo
from tidemill.scheduling.reorder import next_step_ms
from tidemill.scheduling.resize import grow
from tidemill.scheduling.schedule import schedule
from tidemill.scheduling.scores import scoring
from tidemill.scheduling.victims import Stop
from tidemill.workload import losses
from tidemill.workload import review as workload


class Memo:
    """What the layers remember between cycles to be quick; may be dropped at any time."""

    def __init__(self, dictionary: Dictionary | None = None) -> None:
        self.sheet = Sheet(dictionary)
        self.scheduling = SchedulingMemo()
        self.provisioning = provisioning.Memo()
        self.reservation = reservation.Memo()


def cycle(world: World, policy: Policy, memo: Memo) -> Plan:
    """Decide everything that follows from the World as it is now."""
    asked, wake_ms = workload.review(world, policy)
    stop = Stop(partial(losses.lost_ms, world), claims_of(asked).leaving)
    placed = schedule(world, policy, memo.scheduling, stop)
    grown = grow(world, policy, memo.scheduling, [*asked, *placed])
    decided = [*asked, *placed, *grown.actions]
    supplied = provisioning.review(world, policy, memo.provisioning, claims_of(decided))
    released, due_ms = reservation.review(
        world, policy, memo.reservation, claims_of(supplied.actions)
    )
    moved = _moved([*supplied.actions, *released])
    stands = _without_lone_passes([action for action in decided if _stands(action, moved)])
    wake_ms = min(wake_ms, grown.wake_ms, next_step_ms(world, policy), supplied.wake_ms, due_ms)
    wake_ms = min(wake_ms, memo.scheduling.next_question_ms(world))
    if moved:
        wake_ms = world.now_ms
    said = _said(world, policy)
    return plan_on(memo.sheet, (*said, *stands, *supplied.actions, *released), wake_ms)


def _said(world: World, policy: Policy) -> list[Action]:
    """What the World must know of the policy to count past use and arrivals: when it is news."""
    said: list[Action] = []
    if policy.usage_half_life_ms != world.half_life_ms:
        said.append(SaidHalfLife(world.now_ms, policy.usage_half_life_ms))
    if scoring.looks_ahead(policy) and fold_mix.is_due(world):
        said.append(SaidMix(world.now_ms))
    return said


def _without_lone_passes(actions: list[Action]) -> list[Action]:
    """Nobody is passed where whoever would have passed it is not placed after all."""
    first = next((i for i, action in enumerate(actions) if isinstance(action, AskedPlace)), None)
    early = actions if first is None else actions[:first]
    kept: list[Action] = [action for action in early if not isinstance(action, JobPassed)]
    return kept if first is None else kept + actions[first:]


def _moved(supply: list[Action]) -> frozenset[int]:
    """Nodes that will take work no more, or from now on."""
    kinds = AskedDrain | AskedReturn | AskedSpare
    return frozenset(action.node for action in supply if isinstance(action, kinds))


def _stands(action: Action, moved: frozenset[int]) -> bool:
    """Whether a decision outlives what the layers above it decided about nodes.

    Nothing is placed where it would be drained at once. Evictions and moves wait a beat: the room
    they make was counted with nodes that have just come or gone.
    """
    match action:
        case AskedPlace():
            return moved.isdisjoint(piece.node for piece in action.pieces)
        case AskedEvict() | AskedMove() | SaidWhy(cause=Cause.PROMISED):
            return not moved
        case _:
            return True
