"""Rules that were refused since a job keeps them from being used: they count when none does.

A job names a tier that they lack, or runs in a team which they put above others.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tidemill.core import snapshot
from tidemill.engine.fold.one_event import fold
from tidemill.engine.fold.topology import lost_tier
from tidemill.live.kubernetes.scheduling.differ import FleetRules
from tidemill.live.kubernetes.scheduling.units import in_the_way, team_events
from tidemill.model import events as ev
from tidemill.model.errors import SpecError
from tidemill.model.states import JobState
from tidemill.model.world import World

if TYPE_CHECKING:
    from tidemill.live.kubernetes.scheduling.running import SchedulerRules

TAKEN = "no job keeps it from that any more: what was refused holds now"
Names = Callable[[], set[str]]
"""The names of all jobs of ours, as the cluster calls them."""


def waits(world: World, fleet: FleetRules, ours: Names) -> Iterator[tuple[str, str]]:
    """What of rules that are read at a start does not hold yet, and why."""
    if (lost := lost_tier(world, fleet.topology)) is not None:
        said = f"`{lost.tier}` is named by the job `{lost.job}`: the tiers are as they were until"
        yield "tiers wait", f"{said} such jobs have ended"
    if (j := in_the_way(world, fleet.queues, ours)) is not None:
        said = f"`{world.shape_of(j).team}` is put above others, and its job `{world.job_names[j]}`"
        yield "teams wait", f"{said} runs: the teams are as they were until such jobs have ended"


def refuse_unless_folds(
    fleet: FleetRules, known: World | None = None, ours: Names = set
) -> None:  # fmt: skip
    """Refuse teams and tiers that contradict each other, or what the cluster has already.

    ``ours``: the names of all jobs of ours, as the cluster calls them.
    """
    scratch = World() if known is None else snapshot.copy(known)
    if fleet.topology.tiers or scratch.topology.tiers:
        fold(scratch, ev.TopologySet(scratch.now_ms, fleet.topology))
    if (j := in_the_way(scratch, fleet.queues, ours)) is not None:
        raise SpecError(
            f"the policy puts others below team `{scratch.shape_of(j).team}`, whose job"
            f" `{scratch.job_names[j]}` runs",
            hint="jobs belong to the lowest teams: it holds when such jobs have ended",
        )
    for event in team_events(scratch, scratch.now_ms, fleet.queues, ours):
        fold(scratch, event)


class RefusedRules:
    """The last rules that were refused, as long as nothing newer was read."""

    def __init__(self, world: World, ours: Names) -> None:
        self._world, self._ours = world, ours
        self._rules: SchedulerRules | None = None
        self._job = -1
        """Who keeps them from being used; of several one."""

    def keep(self, rules: "SchedulerRules | None") -> None:
        """Remember rules if a job keeps them from being used; others cannot be used at all."""
        found = self._keeper(rules.fleet) if rules is not None else None
        self._rules = rules if found is not None else None
        self._job = -1 if found is None else found

    def _keeper(self, fleet: FleetRules) -> int | None:
        if (lost := lost_tier(self._world, fleet.topology)) is not None:
            return self._world.job_number[lost.job]
        return in_the_way(self._world, fleet.queues, self._ours)

    def due(self) -> "SchedulerRules | None":
        """The rules that no job keeps any more; None: there are none. It looks at one job, and at
        the others when that one has ended.
        """
        rules = self._rules
        if rules is None or self._world.jobs.state.item(self._job) <= JobState.RUNNING:
            return None
        self.keep(rules)
        return rules if self._rules is None else None
