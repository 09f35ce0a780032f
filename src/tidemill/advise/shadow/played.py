"""Under which rules a recorded history is played again."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tidemill.advise.shadow.story import Story, Supply
from tidemill.journal import deciders
from tidemill.journal.source import Source
from tidemill.live.history import telling
from tidemill.model import events as ev
from tidemill.model.errors import SpecError
from tidemill.model.rows import Queue
from tidemill.model.topology import MAX_UNASKED, Topology
from tidemill.model.world import World


def under(
    supply: Sequence[Supply], queues: Sequence[Queue], topology: Topology | None
) -> list[Supply]:
    """Supply with other teams and tiers, from the beginning on; those not named stay."""
    named = {queue.name for queue in queues}
    is_tiered = topology is not None and bool(topology.tiers)
    kept = [
        event for event in supply
        if not (isinstance(event, ev.QueueSet) and event.queue.name in named)
        and not (isinstance(event, ev.TopologySet) and is_tiered)
    ]  # fmt: skip
    first: list[Supply] = []
    if topology is not None and is_tiered:
        told = (event.topology.unasked for event in supply if isinstance(event, ev.TopologySet))
        unasked = tuple(sorted({*topology.unasked}.union(*told)))[:MAX_UNASKED]
        first.append(ev.TopologySet(0, replace(topology, unasked=unasked)))
    return [*first, *(ev.QueueSet(0, queue) for queue in queues), *kept]


def unmet(queues: Sequence[Queue], world: World) -> list[str]:
    """What a policy says of teams and GPU types that the history does not have, in words.

    A queue above one of its teams has no jobs itself, and is met all the same.
    """
    teams, kinds = {row.name for row in world.queue_rows}, set(world.kinds)
    parents = {queue.name: queue.parent for queue in queues}
    met = set(teams)
    for name in teams & parents.keys():
        while (name := parents.get(name, "")) and name not in met:
            met.add(name)
    lost = sorted(parents.keys() - met)
    strange = sorted({share.kind for queue in queues for share in queue.shares} - kinds)
    found = []
    if lost:
        found.append(_unmet("team", lost, sorted(teams)))
    if strange:
        found.append(_unmet("GPU type", strange, sorted(kinds)))
    return found


def _unmet(noun: str, names: Sequence[str], known: Sequence[str]) -> str:
    plural = f"{noun}s" if len(names) > 1 else noun
    return (
        f"the policy names {plural} {_listed(names)}, which the journal does not have; it has"
        f" {_listed(known) if known else 'none'}"
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(f"`{name}`" for name in names[:MOST_NAMED]) + more


MOST_NAMED = 8


def refuse_simulated(source: Source, where: str) -> None:
    """A run of the twin is changed in its file, and run again; a shadow has an original."""
    if source is Source.SHADOW:
        raise SpecError(
            f"`{where}` is what a replay made: nothing in it was seen",
            hint="play the journal again that it was made of",
        )
    if source.is_simulated:
        raise SpecError(
            f"`{where}` is of a simulated fleet: its history is not a recorded one",
            hint="change its file and run that: tidemill twin run, or tidemill advise",
        )


def others(story: Story, facts: Mapping[str, str], where: str, scheduler: str) -> dict[str, str]:
    """By job: who decides for it, of those that are not the scheduler's whose shadow this is.

    In the journal of a scheduler of ours, those are the jobs that it did not place.
    """
    own, decided_by = facts.get(SCHEDULES, ""), deciders.by_job(facts, where)
    scheduler = scheduler or own or deciders.DEFAULT
    found = dict[str, str]()
    for one in story.jobs:
        name = one.job.name
        decider = decided_by.get(telling.origin(name, decided_by), own or deciders.DEFAULT)
        if own and one.attempts and not any(attempt.is_asked for attempt in one.attempts):
            decider = deciders.DEFAULT
        if decider != scheduler:
            found[name] = decider
    return found


SCHEDULES = "schedules"
"""The fact of a journal that says for whom its scheduler decides (``live.kubernetes``)."""
