"""Defrag: which moves of running work would admit a waiting job now, what they lose and win.

The same search as the scheduler's, without asking whether the moves are worth it: that is for
people to judge, or for a policy with ``may_move``. Nothing is changed.
"""

from msgspec import Struct
from msgspec.structs import replace

from tidemill.explain import phrasing
from tidemill.explain.rerun import Glance
from tidemill.model.measures import dollars_text
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.scheduling import moves
from tidemill.scheduling.elastic import fit_largest
from tidemill.scheduling.preemption import cost as worth

MOVES_AT_MOST = 32  # a person does not want a longer list


class DefragMove(Struct, frozen=True):
    """One job that would move: from which nodes to which, and the work it would lose."""

    job: str
    accelerator_milli: int
    leaves: tuple[str, ...]
    goes_to: tuple[str, ...]
    lost_usd_micro: int


class Defrag(Struct, frozen=True):
    """The moves that would admit a job now; none where none help, or none are needed."""

    job: str
    admits: bool
    moves: tuple[DefragMove, ...]
    lost_usd_micro: int
    gain_usd_micro: int
    is_worth_it: bool
    words: str


def defrag(world: World, policy: Policy, j: int, memo: Glance) -> Defrag:
    """What would have to move so that this job fits now."""
    name = world.job_names[j]
    if world.jobs.state[j] != JobState.WAITING:
        state = JobState(int(world.jobs.state[j])).name.lower()
        return Defrag(name, False, (), 0, 0, False, f"job `{name}` is {state}: nothing has to move")
    s = int(world.jobs.shape[j])
    known, room = memo.known(world, s), memo.room(world)
    scoring = memo.scoring(world, policy)
    if fit_largest(room, known.queue, world.shape_rows[s], known.options, scoring).pieces:
        said = f"job `{name}` fits as things are: nothing has to move"
        return Defrag(name, True, (), 0, 0, True, said)
    bold = replace(policy, moves_at_most=MOVES_AT_MOST, moves_apart_ms=0, move_gain_ppm=0)
    found = moves.plan(world, bold, memo, memo.room(world), s, frozenset())
    rows = tuple(_move(world, mover) for mover in found.movers)
    cost, gain = found.cost_usd_micro, found.gain_usd_micro
    is_worth = bool(rows) and worth.is_worth(gain, cost, policy.move_gain_ppm)
    return Defrag(name, bool(rows), rows, cost, gain, is_worth, _said(name, rows, cost, gain))


def _move(world: World, mover: moves.Mover) -> DefragMove:
    victim = mover.victim
    return DefragMove(
        world.job_names[victim.job],
        victim.milli,
        _nodes(world, victim.pieces),
        _nodes(world, mover.gained),
        victim.usd_micro,
    )


def _nodes(world: World, pieces: tuple[Piece, ...]) -> tuple[str, ...]:
    return tuple(world.node_rows[n].name for n in sorted({piece.node for piece in pieces}))


def _said(name: str, rows: tuple[DefragMove, ...], cost: int, gain: int) -> str:
    if not rows:
        most = phrasing.many(MOVES_AT_MOST, "move")
        return f"no {most} or fewer of jobs that may be stopped would make job `{name}` fit now"
    return (
        f"{phrasing.many(len(rows), 'move')}, {dollars_text(cost)} of lost work, would make job"
        f" `{name}` fit now, which spares it {dollars_text(gain)} worth of waiting"
    )
