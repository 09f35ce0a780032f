"""The World again, from the journal alone: the newest usable snapshot, and every event after it."""

from collections.abc import Iterator
from itertools import takewhile

from tidemill.engine import fold
from tidemill.journal.base import PROGRESS_EVERY, Journal, Progress
from tidemill.journal.faults import DamageError
from tidemill.model.errors import EventRefused
from tidemill.model.events import Event
from tidemill.model.world import World

CANNOT_BE = (EventRefused, ArithmeticError, LookupError, ValueError, TypeError)
"""What the fold may answer to an event that was altered or never could be."""


def rebuild(
    journal: Journal,
    *,
    up_to_ms: int | None = None,
    use_snapshot: bool = True,
    on_progress: Progress | None = None,
) -> World:
    """Fold the journal into a World, up to and including a moment, or to its end."""
    world = (journal.latest_snapshot(up_to_ms) if use_snapshot else None) or World()
    for event in _watched(_until(journal.read(world.seq), up_to_ms), journal, world, on_progress):
        try:
            fold.fold(world, event)
        except CANNOT_BE as error:
            raise DamageError(journal.where, world.seq, refusal(error)) from error
    return world


def refusal(error: Exception) -> str:
    """Why an event cannot be folded, in one line."""
    reason = error.message if isinstance(error, EventRefused) else repr(error)
    return f"it cannot be applied: {reason}"


def _until(events: Iterator[Event], up_to_ms: int | None) -> Iterator[Event]:
    if up_to_ms is None:
        return events
    return takewhile(lambda event: event.at_ms <= up_to_ms, events)


def _watched(
    events: Iterator[Event], journal: Journal, world: World, on_progress: Progress | None
) -> Iterator[Event]:
    if on_progress is None:
        yield from events
        return
    total = len(journal)
    for event in events:
        if world.seq % PROGRESS_EVERY == 0:
            on_progress(world.seq, total)
        yield event
    on_progress(world.seq, total)
