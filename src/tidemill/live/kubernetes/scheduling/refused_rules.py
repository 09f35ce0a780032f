"""Rules that were refused since a job names a tier which they lack: they count when none does."""

from typing import TYPE_CHECKING

from tidemill.engine.fold.topology import lost_tier
from tidemill.model.states import JobState
from tidemill.model.world import World

if TYPE_CHECKING:
    from tidemill.live.kubernetes.scheduling.running import SchedulerRules

TAKEN = "no job names a tier any more that it lacks: what was refused holds now"


class RefusedRules:
    """The last rules that were refused, as long as nothing newer was read."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rules: SchedulerRules | None = None
        self._job = -1
        """Who names such a tier; of several the oldest."""

    def keep(self, rules: "SchedulerRules | None") -> None:
        """Remember rules if a job keeps them from being used; others cannot be used at all."""
        lost = lost_tier(self._world, rules.fleet.topology) if rules is not None else None
        self._rules = rules if lost is not None else None
        self._job = -1 if lost is None else self._world.job_number[lost.job]

    def due(self) -> "SchedulerRules | None":
        """The rules that no job keeps any more; None: there are none. It looks at one job, and at
        the others when that one has ended.
        """
        rules = self._rules
        if rules is None or self._world.jobs.state.item(self._job) <= JobState.RUNNING:
            return None
        self.keep(rules)
        return rules if self._rules is None else None
