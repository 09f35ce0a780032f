"""The decision about a job of a journal: where it is in the journal, and the state before it.

Reads the events since the job was submitted, in columns; then the state is rebuilt from the nearest
snapshot to the beginning of the plan that the decision is part of.
"""

from tidemill.engine.fold.one_event import pass_time
from tidemill.explain.decision import past, stages
from tidemill.explain.decision.answers import Decision
from tidemill.explain.decision.history import Deciding, JobHistory, JobNaming
from tidemill.journal import cluster_kinds, deciders, node_reasons, submissions
from tidemill.journal.base import Journal
from tidemill.journal.replay import rebuild
from tidemill.journal.source import Source
from tidemill.model import lives
from tidemill.model.events import AskedPlace, PlacementSeen
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.states import JobState
from tidemill.model.world import World


def read(journal: Journal, world: World, policy: Policy, j: int, at_ms: int | None) -> Decision:
    """The last decision about a job up to a moment; ``world``: the state then."""
    history = history_of(journal, world, j, at_ms)
    placed, is_waiting = history.placed, world.jobs.state.item(j) == JobState.WAITING
    if not _is_ours(world, j, history):
        facts = journal.facts()
        is_told = Source.tells_submissions(facts)
        text = stages.OTHERS_KEEP if is_waiting else stages.OTHERS
        before_ms = submissions.kept(facts, journal.where).placed.get(world.job_names[j])
        history.placed_before_ms = None if before_ms is None else -before_ms
        told = stages.unknown(world, j, history, text, stages.THEIRS, tells_waits=is_told)
        seen = None if placed is None else _seen(journal, placed)
        return stages.by_others(told, world, j, seen, _who(journal, world, j))
    if is_waiting:
        return stages.waits(world, policy, j, history)
    if placed is None:
        return stages.unknown(world, j, history, stages.NEVER, stages.OURS)
    made, room = _placing(journal, placed), _room(journal, history)
    return stages.placed(world, policy, j, history, made, room)


def _is_ours(world: World, j: int, history: JobHistory) -> bool:
    """Whether our scheduler decides on a job: in one journal there may be others' beside it."""
    if world.jobs.state.item(j) != JobState.WAITING and history.placed is not None:
        return history.placed.is_ours
    said = world.shapes.cause.item(world.jobs.shape.item(j))
    return not world.is_looked_on or said not in (Cause.NONE, Cause.NOT_ELIGIBLE)


def history_of(journal: Journal, world: World, j: int, at_ms: int | None) -> JobHistory:
    """What the journal tells of a job up to a moment."""
    submit_ms, rolled = world.jobs.submit_ms.item(j), journal.rolled_up()
    start = journal.ends_before(submit_ms - 1)
    if rolled is not None:
        start = max(start, rolled.seq)
    known = JobNaming(world.job_names[j], world.shape_number)
    history = JobHistory(j, world.jobs.shape.item(j), submit_ms, world.nodes.contract, known)
    history.read(journal.batches(start), start, at_ms)
    return history


def _before(journal: Journal, deciding: Deciding) -> World:
    """The cluster state that a plan was made from."""
    world = rebuild(journal, up_to_ms=deciding.at_ms, up_to_seq=deciding.plan)
    world = pass_time(world, deciding.at_ms)
    node_reasons.note(world, journal.facts(), journal.where)
    return world


def _placing(journal: Journal, placed: Deciding) -> stages.Placing:
    event = next(iter(journal.read(placed.seq)))
    assert isinstance(event, AskedPlace), "it was read as such"
    return stages.Placing(_before(journal, placed), placed.at_ms, event.attempt, event.pieces)


def _seen(journal: Journal, placed: Deciding) -> PlacementSeen:
    event = next(iter(journal.read(placed.seq)))
    assert isinstance(event, PlacementSeen), "it was read as such"
    return event


def _who(journal: Journal, world: World, j: int) -> str:
    """The scheduler that decides for a job, as far as its journal says."""
    facts = journal.facts()
    name = lives.origin(world.job_names[j], world.job_number)
    found = deciders.by_job(facts, journal.where).get(name, "")
    if found and not found.startswith(deciders.UNKEPT):
        return found
    kind = cluster_kinds.of_job(world, name).kind
    return {cluster_kinds.KUBERNETES: deciders.DEFAULT, cluster_kinds.SLURM: "Slurm"}.get(kind, "")


def _room(journal: Journal, history: JobHistory) -> past.Room:
    """The state before others were asked to make room, for what it cost them."""
    if not history.room:
        return past.Room()
    return past.Room(_before(journal, history.room[-1].deciding))
