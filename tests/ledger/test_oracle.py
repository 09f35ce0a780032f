"""The ledger against a naive one that looks at every accelerator again between any two events."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.stories import played
from tests.ledger import twins
from tests.ledger.oracle import Oracle, expect_equal
from tests.ledger.stories import STORIES, Story, story
from tidemill.ledger.spans import Window
from tidemill.ledger.statement import read
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS, HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy


def compare(events: list[ev.Event], window: Window, policy: Policy | None = None) -> None:
    by_priority = policy is None or policy.order == "priority"
    expect_equal(read(events, *window, policy), Oracle(events, window, by_priority))


@settings(max_examples=150)
@given(STORIES)
def test_any_story(events: Story):
    """On any legal journal every cell (contract, bucket, team, job) is what the oracle says."""
    compare(events, Window())


@settings(max_examples=100)
@given(STORIES, st.integers(0, 400), st.integers(1, 400), st.integers(1, 50))
def test_any_story_in_any_window(events: Story, start_ms: int, length_ms: int, bin_ms: int):
    """The same in any window with bins of any width, also when it begins or ends mid-run."""
    compare(events, Window(start_ms, start_ms + length_ms, bin_ms))


@pytest.mark.parametrize("seed", range(8))
def test_long_stories(seed: int):
    """The same on long journals, in which all kinds of events meet."""
    compare(story(seed, 300), Window(0, FOREVER_MS, 101))


def test_oldest_first():
    """Under a policy of `fifo`, free accelerators are claimed by age and not by priority."""
    for seed in range(8):
        compare(story(1_000 + seed, 120), Window(), Policy(order="fifo"))


@pytest.mark.parametrize("source", ["stage", "twin"])
def test_stories_in_which_work_moves_and_changes_its_size(source: str):
    """The same where the real scheduler moves, grows and shrinks jobs, while things break."""
    moved = 0
    for seed in range(8):
        events = list(played(seed, source).kept)
        moved += sum(isinstance(event, ev.JobMoved) for event in events)
        compare(events, Window(HOUR_MS + 7, 9 * HOUR_MS, HOUR_MS))
    assert moved > 5, "hardly anybody moves: this proves little"


@pytest.mark.parametrize("seed", range(3))
def test_fleets_in_the_twin(seed: int):
    """The same on fleets that live in the twin, under the real scheduler, with faults."""
    events = twins.run(seed)
    compare(list(events), Window(90 * MINUTE_MS + 7, 11 * HOUR_MS, HOUR_MS))
