"""Defrag: which moves of running work would start a waiting job now, and what they lose.

The moves are those that ``why`` names (``moving``). What they win is the wait that is forecast for
the job as things are, by the one forecaster. Nothing is changed.
"""

from msgspec import Struct

from tidemill.explain import context, futures, moving, phrasing, rerun, trials
from tidemill.explain.answers import Band
from tidemill.explain.bands import USUAL, Sides
from tidemill.explain.context import Case
from tidemill.explain.rerun import Glance
from tidemill.model import lives
from tidemill.model.measures import dollars_text
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Piece
from tidemill.model.states import JobState
from tidemill.model.world import World
from tidemill.scheduling import moves
from tidemill.scheduling.moves import Mover
from tidemill.scheduling.preemption import cost
from tidemill.scheduling.schedule import CURED_BY_MOVING


class DefragMove(Struct, frozen=True):
    """One job that would move: from which nodes to which, and the work it would lose."""

    job: str
    accelerator_milli: int
    leaves: tuple[str, ...]
    goes_to: tuple[str, ...]
    lost_usd_micro: int | None


class Defrag(Struct, frozen=True):
    """The moves that would make room for a job now; none where none help, or none are needed."""

    job: str
    admits: bool
    """Whether the job then starts in the next scheduling cycle: it was tried, and it does."""
    moves: tuple[DefragMove, ...]
    lost_usd_micro: int | None
    words: str
    wait: Band | None = None
    """When it starts as things are, from now; null where nothing would move."""


def defrag(world: World, policy: Policy, j: int, memo: Glance, sides: Sides = USUAL) -> Defrag:
    """What would have to move so that this job starts now; ``sides`` as for ``forecast.eta``."""
    name = world.job_names[j]
    if world.jobs.state[j] != JobState.WAITING:
        state = JobState(int(world.jobs.state[j])).name.lower()
        return _nothing(name, False, f"job `{name}` is {state}: nothing has to move")
    case = context.open_case(world, policy, memo, j)
    cause = phrasing.waits_for(case.world, case.waits)
    if case.waits.is_block:
        return _nothing(name, False, f"no move helps job `{name}`: {cause}")
    if case.cause is Cause.NONE:
        text = f"nothing has to move for job `{name}`: {phrasing.cause(world, case.cause)}"
        return _nothing(name, not world.is_looked_on, text)
    cause = phrasing.cause(case.world, case.cause)
    if case.cause not in CURED_BY_MOVING:
        return _nothing(name, False, f"no move helps job `{name}`: {cause}")
    found = moving.movers(case)
    if not found:
        most = phrasing.many(moving.MOVES_AT_MOST, "move")
        text = f"no {most} or fewer of running jobs that may be stopped make job `{name}` fit"
        return _nothing(name, False, f"{text}: {cause}{_left_out(world)}")
    return _moving(case, found, sides)


def _left_out(world: World) -> str:
    """Which jobs that run are not looked at: by their rules, or as others would not come back."""
    said, ruled = "", sorted(moving.ruled(world))
    if ruled:
        names = phrasing.ids([world.job_names[j] for j in ruled])
        said = f"; left where they are: {names}, by rules about more than nodes"
    if world.is_observed and any(not world.shape_of(j).is_preemptible for j in world.placements):
        said += (
            "; pods that a disruption budget keeps, and those that nobody makes anew on another"
            " node, are not stopped"
        )
    return said


def _nothing(name: str, admits: bool, text: str) -> Defrag:
    return Defrag(name, admits, (), 0, text)


def _moving(case: Case, found: tuple[Mover, ...], sides: Sides) -> Defrag:
    rows = tuple(_move(case.world, mover) for mover in found)
    each = [row.lost_usd_micro for row in rows]
    usd = None if None in each else sum(usd for usd in each if usd is not None)
    is_tried, starts = case.trials.may_try(), case.trials.places_moved(case.j, found)
    if case.world.is_looked_on:
        is_tried = starts = False
    seen = futures.look(case.before, case.policy, [case.j], sides=sides)
    count = phrasing.many(len(rows), "move")
    does = "would start" if starts else "would make room for"
    lost = "lost work at an unknown price" if usd is None else f"{dollars_text(usd)} of lost work"
    text = f"{count}, {lost}, {does} job `{case.name}`"
    if case.world.is_looked_on:
        text += "; whether the cluster's own scheduler then starts it is not known"
    elif not is_tried:
        text += "; whether it then starts was not tried, because too much waits"
    elif not starts:
        text += f", but it would not start: {_instead(case, found)}"
    text += f"; as things are it starts {seen.starts(case.j)}"
    return Defrag(case.name, starts, rows, usd, text, seen.bands[case.j])


def _instead(case: Case, found: tuple[Mover, ...]) -> str:
    """What keeps the job out when all have moved: whom the next cycle places, or its cause."""
    world, policy = trials.moved(case.before, found), case.policy
    memo = Glance(world, sweeps=case.memo.sweeps)
    looked = rerun.look(world, policy, memo, rerun.rivals(world, policy, case.s))
    first = [world.job_names[j] for j in sorted(looked.placed) if j != case.j]
    if first:
        return f"the next cycle would place {phrasing.ids(first)} instead"
    return phrasing.cause(world, looked.causes[case.s])


def _move(world: World, mover: moves.Mover) -> DefragMove:
    victim = mover.victim
    is_known = _is_priced(world, victim.pieces) and cost.is_loss_known(world, victim.job)
    return DefragMove(
        world.job_names[victim.job],
        victim.milli,
        _nodes(world, victim.pieces),
        _nodes(world, mover.gained),
        victim.usd_micro if is_known else None,
    )


def _is_priced(world: World, pieces: tuple[Piece, ...]) -> bool:
    contracts = {world.nodes.contract.item(piece.node) for piece in pieces}
    return all(world.contract_rows[c].is_priced for c in contracts)


def _nodes(world: World, pieces: tuple[Piece, ...]) -> tuple[str, ...]:
    return tuple(lives.node_name(world, n) for n in sorted({piece.node for piece in pieces}))
