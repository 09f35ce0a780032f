"""The World again, from the journal alone: the newest usable snapshot, and every event after it."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tidemill.engine.fold.batch import fold_batch
from tidemill.journal import source
from tidemill.journal.base import Journal, Progress
from tidemill.journal.faults import DamageError
from tidemill.journal.moments import Calendar
from tidemill.journal.rolled_up import GoneError
from tidemill.model.batch import Batch, EventColumn, cut
from tidemill.model.errors import EventRefused
from tidemill.model.world import World

CANNOT_BE = (EventRefused, ArithmeticError, LookupError, ValueError, TypeError)
"""What the fold may answer to an event that was altered or never could be."""


def rebuild(
    journal: Journal,
    *,
    up_to_ms: int | None = None,
    up_to_seq: int | None = None,
    use_snapshot: bool = True,
    on_progress: Progress | None = None,
) -> World:
    """Fold the journal into a World, up to and including a moment, or to its end.

    ``up_to_seq``: no more than so many events, of those of that moment.
    """
    world = journal.latest_snapshot(up_to_ms) if use_snapshot else None
    if world is not None and up_to_seq is not None and world.seq > up_to_seq:
        assert up_to_ms is not None, "a number of events is given with their moment"
        world = journal.latest_snapshot(up_to_ms - 1)
    world = world or _first(journal, up_to_ms)
    total = len(journal) if on_progress is not None else 0
    for batch in journal.batches(world.seq):
        part = _until(batch, up_to_ms)
        if up_to_seq is not None and world.seq + len(part.events) > up_to_seq:
            part = cut(part, 0, max(0, up_to_seq - world.seq))
        try:
            fold_batch(world, part)
        except CANNOT_BE as error:
            raise DamageError(journal.where, world.seq, refusal(error)) from error
        if on_progress is not None:
            on_progress(world.seq, total)
        if len(part.events) < len(batch.events):
            break
    return source.note_live(world, journal.facts())


def passing(
    journal: Journal, world: World, moments: Sequence[int],
    read: Callable[[Batch], None] = lambda _: None,
) -> Iterator[World]:  # fmt: skip
    """Fold on from a World, and stop at each of these moments, which ascend: the same World.

    ``read`` is told of the events that were folded since the last stop.
    """
    left = deque(moments)
    for batch in journal.batches(world.seq):
        at_ms, done = batch.events[:, EventColumn.AT], 0
        while left and len(at_ms) and left[0] < at_ms[-1]:
            end = int(np.searchsorted(at_ms, left.popleft(), "right"))
            fold_batch(world, cut(batch, done, end))
            read(cut(batch, done, end))
            done = end
            yield world
        if not left:
            return
        fold_batch(world, cut(batch, done, len(at_ms)))
        read(cut(batch, done, len(at_ms)))


def first_world(journal: Journal) -> World:
    """The cluster state before the first event that is left."""
    return _first(journal, None)


def _first(journal: Journal, up_to_ms: int | None) -> World:
    """The cluster state before the first event that is left."""
    rolled = journal.rolled_up()
    if rolled is None:
        return World()
    if up_to_ms is not None and up_to_ms < rolled.at_ms:
        moment = Calendar.of(journal.facts()).text
        asked = f"the state at {moment(up_to_ms)} was asked for"
        raise GoneError(journal.where, asked, moment(rolled.at_ms))
    return rolled.world(journal.where)


def refusal(error: Exception) -> str:
    """Why an event cannot be folded, in one line."""
    reason = error.message if isinstance(error, EventRefused) else repr(error)
    return f"it cannot be applied: {reason}"


def _until(batch: Batch, up_to_ms: int | None) -> Batch:
    """The events of a batch up to and including a moment."""
    if up_to_ms is None:
        return batch
    is_later = batch.events[:, EventColumn.AT] > up_to_ms
    return cut(batch, 0, int(is_later.argmax())) if is_later.any() else batch
