"""The fold of what was measured of running attempts: how their time divides from now on."""

from tidemill.core import fold as core
from tidemill.engine.fold.jobs import refuse_unless
from tidemill.model import events as ev
from tidemill.model.codes import CONFIDENCE_CODE
from tidemill.model.states import JobState
from tidemill.model.world import World

_RUNNING = int(JobState.RUNNING)
_PLACED = (int(JobState.STARTING), _RUNNING)


def stalls(world: World, event: ev.StallsSeen) -> list[int]:
    """The time of a running attempt divides in another way from now on."""
    refuse_unless(world, event.job, event.attempt, (_RUNNING,))
    shares = (event.checkpoint_ppm, event.host_ppm, event.links_ppm)
    core.stalled(world.ink.w.jobs, event.job, *shares)
    return [event.job]


def efficiency(world: World, event: ev.EfficiencySeen) -> list[int]:
    """A running attempt uses its devices better or worse from now on."""
    refuse_unless(world, event.job, event.attempt, (_RUNNING,))
    known = CONFIDENCE_CODE[event.confidence]
    core.efficient(world.ink.w.jobs, event.job, event.mfu_ppm, known, event.memory_ppm)
    return [event.job]


def straggler(world: World, event: ev.StragglerSeen) -> list[int]:
    """A running attempt waits more or less for a slow rank from now on."""
    refuse_unless(world, event.job, event.attempt, (_RUNNING,))
    known = CONFIDENCE_CODE[event.confidence]
    shares = (event.straggler_ppm, known, event.silent_ppm)
    core.straggling(world.ink.w.jobs, event.job, *shares)
    return [event.job]


def figure(world: World, event: ev.FigureSeen) -> list[int]:
    """Devices measured something else of a running attempt, from now on."""
    refuse_unless(world, event.job, event.attempt, (_RUNNING,))
    core.figured(world.ink.w.jobs, event.job, int(event.figure), event.value)
    return [event.job]


def load(world: World, event: ev.LoadSeen | ev.LatencySeen) -> list[int]:
    """What a running service was asked for; no state follows from it."""
    refuse_unless(world, event.job, event.attempt, (_RUNNING,))
    return []


def host_use(world: World, event: ev.HostUseSeen) -> list[int]:
    """What an attempt used of its host; no state follows from it."""
    refuse_unless(world, event.job, event.attempt, _PLACED)
    return []
