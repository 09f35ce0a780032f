"""Past forecasts: a journal passed through once more, to see what forecasts of it were worth.

The moments are multiples of a round time, so that questions asked one after the other see the same
past. Bounded: where too many events would have to be folded again, only the newest part of the past
is passed through, and where no snapshot allows even that, none of it.
"""

from tidemill.explain.bands import USUAL, Sides
from tidemill.explain.track_record import ForecastRecord
from tidemill.journal import Journal
from tidemill.journal.replay import CANNOT_BE, first_world, passing
from tidemill.model.errors import JournalError
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.world import World

LOOKS = 48  # at most: 5 to 40 ms each
FINEST_MS = HOUR_MS
EVENTS_AT_MOST = 200_000  # half a second to fold


def sides(journal: Journal, world: World, policy: Policy) -> Sides:
    """How wide bands should be in this World, which is one of the journal.

    What cannot be read again teaches nothing; the answer itself does not depend on it.
    """
    start = _start(journal, world)
    if start is None:
        return USUAL
    record = ForecastRecord(policy)
    begun_ms = start.now_ms if start.seq else _first_ms(journal, world)
    looks = moments_ms(begun_ms, world.now_ms)
    try:
        for then in passing(journal, start, [*looks, world.now_ms], record.read):
            record.learn(then)
            if then.now_ms < world.now_ms:
                record.look(then)
    except (JournalError, *CANNOT_BE):
        return USUAL
    record.learn(world)
    return record.sides(world.now_ms)


def moments_ms(begun_ms: int, now_ms: int) -> range:
    """Round times between two moments, ``LOOKS`` at most."""
    step_ms = FINEST_MS
    while (now_ms - begun_ms) // step_ms > LOOKS:
        step_ms *= 2
    return range((begun_ms // step_ms + 1) * step_ms, now_ms, step_ms)


def _start(journal: Journal, world: World) -> World | None:
    """The earliest World from which the events up to this one are few enough."""
    if world.seq <= EVENTS_AT_MOST:
        return first_world(journal)
    found, up_to_ms = None, world.now_ms
    while (kept := journal.latest_snapshot(up_to_ms)) is not None:
        if world.seq - kept.seq > EVENTS_AT_MOST:
            break
        found, up_to_ms = kept, kept.now_ms - 1
    return found


def _first_ms(journal: Journal, world: World) -> int:
    """When the first event happened; a journal may begin long after its calendar does."""
    return next((event.at_ms for event in journal.read()), world.now_ms)
