"""Under which rules a recorded history is played again."""

from collections.abc import Iterable, Mapping, Sequence

from tidemill.advise.shadow.story import Story, Supply
from tidemill.journal import deciders
from tidemill.journal.source import Source
from tidemill.live.history import telling
from tidemill.model import events as ev
from tidemill.model.errors import SpecError
from tidemill.model.rows import Queue
from tidemill.model.topology import Topology


def under(
    supply: Iterable[Supply], queues: Sequence[Queue], topology: Topology | None
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
        first.append(ev.TopologySet(0, topology))
    return [*first, *(ev.QueueSet(0, queue) for queue in queues), *kept]


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
