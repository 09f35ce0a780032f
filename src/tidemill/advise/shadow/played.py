"""Under which rules a recorded history is played again."""

from collections.abc import Iterable, Mapping, Sequence

from tidemill.journal import deciders
from tidemill.journal.source import Source
from tidemill.live.history import telling
from tidemill.model import events as ev
from tidemill.model.errors import SpecError
from tidemill.model.rows import Queue
from tidemill.model.topology import Topology


def under(
    supply: Iterable[ev.Seen], queues: Sequence[Queue], topology: Topology | None
) -> list[ev.Seen]:
    """Supply with other teams and tiers, from the beginning on; those not named stay."""
    named = {queue.name for queue in queues}
    is_tiered = topology is not None and bool(topology.tiers)
    kept = [
        event for event in supply
        if not (isinstance(event, ev.QueueSet) and event.queue.name in named)
        and not (isinstance(event, ev.TopologySet) and is_tiered)
    ]  # fmt: skip
    first: list[ev.Seen] = []
    if topology is not None and is_tiered:
        first.append(ev.TopologySet(0, topology))
    return [*first, *(ev.QueueSet(0, queue) for queue in queues), *kept]


def refuse_simulated(source: Source, where: str) -> None:
    """A run of the twin is changed in its file, and run again."""
    if source.is_simulated:
        raise SpecError(
            f"`{where}` is of a simulated fleet: its history is not a recorded one",
            hint="change its file and run that: tidemill twin run, or tidemill advise",
        )


def others(decided_by: Mapping[str, str], names: Iterable[str], scheduler: str) -> dict[str, str]:
    """By job: who decides for it, of those that are not the scheduler's whose shadow this is."""
    found = dict[str, str]()
    for name in names:
        decider = decided_by.get(telling.origin(name, decided_by), deciders.DEFAULT)
        if decider != scheduler:
            found[name] = decider
    return found
