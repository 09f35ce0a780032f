"""Moving: which running jobs would have to go elsewhere so that a waiting one fits.

``why`` and ``defrag`` both ask here, and so name the same moves: those that the scheduler itself
finds for a policy with ``may_move``, whatever they win and however lately a job was moved. That is
for people to judge. Whether the job then starts is tried (``trials``): another may go first.

A place is found by what nodes have and by rules about nodes. So a job that has other rules about
its place (other pods, ports, volumes, one rack for all) stays where it is, and none goes where one
sits that keeps others away: nobody here can tell whether it may be there.
"""

import re
from collections.abc import Set

from msgspec.structs import replace

from tidemill.explain import phrasing
from tidemill.explain.context import Case
from tidemill.model.policy import Policy
from tidemill.model.rows import KEEPS_AWAY
from tidemill.model.world import World
from tidemill.scheduling import moves
from tidemill.scheduling.moves import Mover
from tidemill.scheduling.preemption.candidates import Victim

MOVES_AT_MOST = 32  # a person does not want a longer list
TRIES = 4  # how often the search begins anew without those that would go where they may not
_FROM_ITS_NODE = re.compile(f"{KEEPS_AWAY}(?! )")
"""That others are kept away from the nodes of a job, and not from larger places."""


def movers(case: Case) -> tuple[Mover, ...]:
    """The fewest, cheapest moves after which the job fits; none: there are none."""
    world, memo = case.world, case.memo
    room, stays = memo.room(world), ruled(world)
    shut = _kept_free(world, stays)
    for _ in range(TRIES):
        found = moves.plan(world, _bold(case.policy), memo, room, case.s, stays).movers
        lost = {
            mover.victim.job
            for mover in found
            if shut is None or not shut.isdisjoint(piece.node for piece in mover.gained)
        }
        if not lost:
            return found
        stays |= lost
    return ()


def stops(case: Case) -> tuple[Victim, ...]:
    """Where there is no other place for those in the way: who would have to stop and wait again."""
    world, memo = case.world, case.memo
    room, nobody = memo.room(world), frozenset[int]()
    return moves.stops(world, _bold(case.policy), memo, room, case.s, nobody)


def ruled(world: World) -> frozenset[int]:
    """Jobs that hold a place by rules which no look at nodes tells."""
    found = {s for s, shape in enumerate(world.shape_rows) if phrasing.place_rules(shape)}
    if not found:
        return frozenset()
    return frozenset(j for j in world.placements if world.jobs.shape.item(j) in found)


def _kept_free(world: World, some: Set[int]) -> frozenset[int] | None:
    """Nodes to which these jobs may let no others; None: that may be all nodes."""
    found = set[int]()
    for j in some:
        rules = phrasing.place_rules(world.shape_of(j))
        if rules.count(KEEPS_AWAY) > len(_FROM_ITS_NODE.findall(rules)):
            return None
        if KEEPS_AWAY in rules:
            found |= {piece.node for piece in world.placements[j]}
    return frozenset(found)


def _bold(policy: Policy) -> Policy:
    return replace(policy, moves_at_most=MOVES_AT_MOST, moves_apart_ms=0, move_gain_ppm=0)
