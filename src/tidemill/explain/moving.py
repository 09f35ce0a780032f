"""Moving: which running jobs would have to go elsewhere so that a waiting one fits.

``why`` and ``defrag`` both ask here, and so name the same moves: those that the scheduler itself
finds for a policy with ``may_move``, whatever they win and however lately a job was moved. That is
for people to judge. Whether the job then starts is tried (``trials``): another may go first.
"""

from msgspec.structs import replace

from tidemill.explain.context import Case
from tidemill.model.policy import Policy
from tidemill.scheduling import moves
from tidemill.scheduling.moves import Mover
from tidemill.scheduling.preemption.candidates import Victim

MOVES_AT_MOST = 32  # a person does not want a longer list


def movers(case: Case) -> tuple[Mover, ...]:
    """The fewest, cheapest moves after which the job fits; none: there are none."""
    world, memo = case.world, case.memo
    room, nobody = memo.room(world), frozenset[int]()
    return moves.plan(world, _bold(case.policy), memo, room, case.s, nobody).movers


def stops(case: Case) -> tuple[Victim, ...]:
    """Where there is no other place for those in the way: who would have to stop and wait again."""
    world, memo = case.world, case.memo
    room, nobody = memo.room(world), frozenset[int]()
    return moves.stops(world, _bold(case.policy), memo, room, case.s, nobody)


def _bold(policy: Policy) -> Policy:
    return replace(policy, moves_at_most=MOVES_AT_MOST, moves_apart_ms=0, move_gain_ppm=0)
