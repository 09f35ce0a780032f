"""A batch folds to the same World as its events one by one, and refuses what they refuse."""

import numpy as np
import pytest

from tests.engine.stories import played, replayable, seeds
from tidemill.core import snapshot
from tidemill.engine.fold.batch import Folding, fold_batch
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.model.batch import Dictionary, EventColumn
from tidemill.model.batch.convert import of_events
from tidemill.model.errors import EventRefused
from tidemill.model.events import Event
from tidemill.model.world import World

STORIES = 40
BATCHES = (1, 7, 100, 10_000)
BY_TWIN = pytest.mark.parametrize("source", ["twin"])  # in the process that plays these stories


@pytest.mark.parametrize("source", ["stage", "twin"])
def test_batches_of_any_size_fold_to_the_same_world(source: str):
    """Whole stories, with all that is rare in them, byte for byte."""
    for seed in seeds(STORIES):
        with replayable(seed):
            events = played(seed, source).kept
            expected = snapshot.digest(fold_all(World(), events))
            world, dictionary, size = World(), Dictionary(), BATCHES[seed % len(BATCHES)]
            for first in range(0, len(events), size):
                fold_batch(world, of_events(events[first : first + size], dictionary))
            assert snapshot.digest(world) == expected


@BY_TWIN
def test_many_events_of_a_story_are_folded_at_once(source: str):
    """What is plain takes one call: otherwise the test above would prove nothing of it.

    Where past use counts, it is settled event by event; half of the rest are of jobs' plain lives.
    """
    plain = total = 0
    for seed in seeds(STORIES):
        events = played(seed, source).kept
        folding = Folding(World(), of_events(events, Dictionary()))
        while not folding.is_over:
            plain += folding.plain()
            if not folding.is_over:
                folding.single()
        total += 0 if folding.world.half_life_ms else len(events)
    assert plain > total / 3


@BY_TWIN
def test_a_batch_that_was_altered_is_refused_where_the_event_is(source: str):
    """Whatever number is changed: either both ways of folding take it, or both refuse it there."""
    events = played(1, source).kept
    luck = np.random.default_rng(5)
    for _ in range(60):
        batch = of_events(events, Dictionary())
        e, column = luck.integers(20, len(events)), luck.choice([*EventColumn])
        if column in {EventColumn.KIND, EventColumn.FIRST, EventColumn.COUNT}:
            continue
        batch.events[e, column] += luck.choice((-1, 1))
        one_by_one, at_once = Folding(World(), batch), Folding(World(), batch)
        assert _outcome(one_by_one, is_plain=False) == _outcome(at_once, is_plain=True)


def _outcome(folding: Folding, *, is_plain: bool) -> tuple[int, str]:
    try:
        while not folding.is_over:
            if not is_plain or not folding.plain():
                folding.single()
    except (EventRefused, LookupError, ValueError) as error:
        return folding.at, type(error).__name__
    return folding.at, snapshot.digest(folding.world)


@BY_TWIN
def test_folding_again_refuses_what_was_folded(source: str):
    """A batch that comes twice is refused at its first event."""
    events: list[Event] = played(2, source).kept
    world = World()
    for event in events:
        fold(world, event)
    with pytest.raises(EventRefused):
        fold_batch(world, of_events(events, Dictionary()))
