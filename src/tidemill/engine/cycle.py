"""One cycle: climb workload → scheduling → provisioning → reservation once, and return a Plan.

Pure: the same World, policy and memo give the same plan. The layers do not know each other; what
one needs of another (the price of stopping a job, the nodes just used) is handed on here.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import overload

from tidemill.engine.fold import mix
from tidemill.model import codes
from tidemill.model.batch import Dictionary, EventColumn, PieceColumn
from tidemill.model.batch.sheet import Sheet, plan_on
from tidemill.model.claims import Claims, claims_of
from tidemill.model.events import (
    Action,
    AskedDrain,
    AskedEvict,
    AskedMove,
    AskedPlace,
    AskedReturn,
    AskedSpare,
    CauseChanged,
    HalfLifeSet,
    JobPassed,
    MixSampled,
    Plan,
)
from tidemill.model.measures import FOREVER_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.world import World
from tidemill.provisioning import review as provisioning
from tidemill.reservation import review as reservation
from tidemill.scheduling.memo import Memo
from tidemill.scheduling.preemptive_order.apply import next_step_ms
from tidemill.scheduling.resize import grow
from tidemill.scheduling.schedule import Cycle as SchedulingCycle
from tidemill.scheduling.schedule import schedule
from tidemill.scheduling.scores import scoring
from tidemill.workload import review as workload


class CycleMemo:
    """What the layers remember between cycles to be quick; may be dropped at any time."""

    def __init__(self, dictionary: Dictionary | None = None) -> None:
        self.sheet = Sheet(dictionary)
        self.scheduling = Memo()
        self.provisioning = provisioning.ProvisioningMemo()
        self.reservation = reservation.ReservationMemo()


def cycle(world: World, policy: Policy, memo: CycleMemo) -> Plan:
    """Decide everything that follows from the World as it is now."""
    sheet = memo.sheet
    sheet.clear()
    sheet.write(_said(world, policy))
    said = len(sheet)
    asked, wake_ms = workload.review(world, policy)
    sheet.write(asked)
    schedule(world, policy, memo.scheduling, sheet, claims_of(asked).leaving)
    return climb(world, policy, memo, said, wake_ms)


def resume(
    world: World, policy: Policy, memo: CycleMemo, begun: SchedulingCycle, wake_ms: int = FOREVER_MS
) -> Plan:
    """The plan of a cycle whose scheduling was begun elsewhere, and writes on the memo's sheet."""
    begun.work_off()
    return climb(world, policy, memo, wake_ms=wake_ms)


def climb(
    world: World, policy: Policy, memo: CycleMemo, said: int = 0, wake_ms: int = FOREVER_MS
) -> Plan:
    """What follows the scheduler's decisions, in the layers above it; the whole plan.

    ``said``: rows of the memo's sheet that the World must know first, and nobody undoes.
    """
    sheet = memo.sheet
    grown = grow(world, policy, memo.scheduling, Decided(sheet, said))
    sheet.write(grown.actions)
    decided = Decided(sheet, said)
    supply, due_ms = _supply(world, policy, memo, decided) if policy.may_provision else NO_SUPPLY
    moved = _moved(supply)
    if moved:
        _write_again(sheet, said, decided[:], moved)
    sheet.write(supply)
    wake_ms = min(wake_ms, grown.wake_ms, next_step_ms(world, policy), due_ms)
    wake_ms = min(wake_ms, memo.scheduling.next_question_ms(world))
    return plan_on(sheet, world.now_ms if moved else wake_ms)


NO_SUPPLY: tuple[list[Action], int] = ([], FOREVER_MS)


def _supply(
    world: World, policy: Policy, memo: CycleMemo, decided: "Decided"
) -> tuple[list[Action], int]:
    """What is asked of nodes and contracts, and when to look at them again."""
    supplied = provisioning.review(world, policy, memo.provisioning, decided.claims())
    released, due_ms = reservation.review(
        world, policy, memo.reservation, claims_of(supplied.actions)
    )
    return [*supplied.actions, *released], min(supplied.wake_ms, due_ms)


class Decided(Sequence[Action]):
    """What is written on a sheet from a row on; as messages only for whoever looks at them."""

    def __init__(self, sheet: Sheet, first: int) -> None:
        self._sheet, self._first = sheet, first

    def __len__(self) -> int:
        return len(self._sheet) - self._first

    @overload
    def __getitem__(self, i: int) -> Action: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Action]: ...
    def __getitem__(self, i: int | slice) -> Action | Sequence[Action]:
        return self._actions[i]

    @cached_property
    def _actions(self) -> tuple[Action, ...]:
        return self._sheet.actions()[self._first :]

    def claims(self) -> Claims:
        """What is claimed; where jobs are placed and stopped alone, by the columns."""
        written = self._sheet.view()
        events = written.events[self._first :]
        kinds = events[:, EventColumn.KIND]
        if not _PLACING.issuperset(kinds.tolist()):
            return claims_of(self)
        return Claims(
            used=frozenset(written.pieces[:, PieceColumn.NODE].tolist()),
            leaving=frozenset(events[kinds == _EVICT, EventColumn.WHO].tolist()),
        )


_EVICT = codes.KIND_CODE[AskedEvict]
_PLACING = frozenset(
    codes.KIND_CODE[kind] for kind in (AskedPlace, AskedEvict, CauseChanged, JobPassed)
)


def _write_again(sheet: Sheet, said: int, decided: Sequence[Action], moved: frozenset[int]) -> None:
    """Write what outlives the decisions about nodes, after what was said before."""
    early = sheet.actions()[:said]
    sheet.clear()
    sheet.write(early)
    sheet.write(_without_lone_passes([action for action in decided if _stands(action, moved)]))


def _said(world: World, policy: Policy) -> list[Action]:
    """What the World must know of the policy to count past use and arrivals: when it is news."""
    said: list[Action] = []
    if policy.usage_half_life_ms != world.half_life_ms:
        said.append(HalfLifeSet(world.now_ms, policy.usage_half_life_ms))
    if scoring.looks_ahead(policy) and mix.is_due(world):
        said.append(MixSampled(world.now_ms))
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
    """Whether a decision outlives what the layers above it decided about some nodes.

    Nothing is placed where it would be drained at once. Evictions and moves wait a beat: the room
    they make was counted with nodes that have just come or gone.
    """
    match action:
        case AskedPlace():
            return moved.isdisjoint(piece.node for piece in action.pieces)
        case AskedEvict() | AskedMove() | CauseChanged(cause=Cause.PROMISED):
            return False
        case _:
            return True
