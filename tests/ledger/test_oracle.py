"""The ledger against a naive one that looks at every accelerator again between any two events."""

from collections.abc import Sequence
from random import Random
from typing import Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.builders import teams_share
from tests.engine.stories import played
from tests.ledger import twins
from tests.ledger.oracle import Oracle, expect_equal
from tests.ledger.stories import STORIES, Story, story
from tests.ledger.sums import amounts
from tidemill.core.accounting.columns import ORDER
from tidemill.engine.fold.one_event import fold
from tidemill.ledger import turns
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.spans import Window
from tidemill.ledger.statement import read
from tidemill.model import events as ev
from tidemill.model.measures import FOREVER_MS, HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.world import World

Order = Literal["fifo", "priority", "shortest", "smallest", "attained"]
Fairness = Literal["none", "drf", "bill"]
CONTENDED = (1_008, 1_010)
"""Stories in which it makes a difference who claims first."""


def compare(events: list[ev.Event], window: Window, policy: Policy | None = None) -> None:
    expect_equal(read(events, *window, policy), Oracle(events, window, policy))


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


SAID = {Bucket.HELD, Bucket.FRAGMENTED}
SEEDS = range(6)


def with_reasons(events: Sequence[ev.Event], seed: int) -> list[ev.Event]:
    """A story into which another scheduler says now and then why a job waits."""
    world, luck, told = World(), Random(seed), list[ev.Event]()
    for event in events:
        fold(world, event)
        told.append(event)
        waiting = [j for s in world.queued for j in world.waiting[s]]
        if waiting and luck.random() < 0.5:
            cause = luck.choice((*Cause,))
            words = "" if cause is Cause.NONE else cause.name
            told.append(ev.ReasonSeen(event.at_ms, luck.choice(waiting), cause, 3, words))
            fold(world, told[-1])
    return told


@pytest.mark.parametrize("order", get_args(Order))
@pytest.mark.parametrize("seed", SEEDS)
def test_what_another_scheduler_says_is_booked_as_its_cause(seed: int, order: Order):
    """Of jobs of one shape each claims for the cause that was said of it, from then on."""
    plain = story(seed, 200)
    uncaused = [event for event in plain if not isinstance(event, ev.CauseChanged)]
    for events in (with_reasons(plain, seed), with_reasons(uncaused, seed)):
        compare(events, Window(bin_ms=101), Policy(order=order, attained_steps_ms=(20_000,)))


def test_some_reasons_of_others_move_free_time():
    """The stories above would prove little if nothing were free beside those jobs."""
    found = set[int]()
    for seed in SEEDS:
        plain = [event for event in story(seed, 200) if not isinstance(event, ev.CauseChanged)]
        assert not SAID & {bucket for (bucket,) in amounts(read(plain), "bucket")}
        found |= {bucket for (bucket,) in amounts(read(with_reasons(plain, seed)), "bucket")}
    assert found >= SAID


@pytest.mark.parametrize("fairness", get_args(Fairness))
@pytest.mark.parametrize("order", get_args(Order))
def test_free_time_is_claimed_in_the_order_of_the_policy(order: Order, fairness: Fairness):
    """Under every order and fairness, whoever the scheduler looks at first claims first."""
    policy = Policy(order=order, fairness=fairness, patience_ms=60, attained_steps_ms=(20_000,))
    others = 0
    for seed in CONTENDED:
        events = with_parents(story(seed, 120))
        compare(events, Window(bin_ms=31), policy)
        others += amounts(read(events, policy=policy)) != amounts(read(events))
    assert others or policy.order == "priority", "the order makes no difference: it proves little"


def test_the_orders_that_kernels_know_are_the_scheduler_s(monkeypatch: pytest.MonkeyPatch):
    """Asked of the scheduler at every moment, every order divides what is free alike.

    Also by fair shares, where past use decays, and where history tells how long jobs run.
    """
    stories = [with_parents(story(seed, 120)) for seed in CONTENDED]
    stories += [[ev.HalfLifeSet(0, 50 + 9 * i), *events] for i, events in enumerate(stories)]
    stories += [list(played(seed).kept) for seed in range(4)]
    for policy in (
        Policy(order="fifo"), Policy(order="priority"), Policy(order="fifo", fairness="bill"),
        Policy(fairness="drf"), Policy(order="shortest", patience_ms=60, estimates="history"),
        Policy(order="smallest", patience_ms=HOUR_MS), Policy(order="shortest", fairness="drf"),
        Policy(order="attained", patience_ms=90, attained_steps_ms=(20, 900)),
    ):  # fmt: skip
        known = [amounts(read(events, policy=policy)) for events in stories]
        with monkeypatch.context() as patched:
            patched.setattr(turns, "order_of", lambda _: ORDER.ASKED)
            assert [amounts(read(events, policy=policy)) for events in stories] == known


def with_parents(events: list[ev.Event]) -> list[ev.Event]:
    """The same story with an organisation above two of its teams, and estimates of run times."""
    found: list[ev.Event] = [ev.QueueSet(0, teams_share("o", H100=(3, None)))]
    for i, event in enumerate(events):
        match event:
            case ev.QueueSet(queue=row) if row.name in "ab":
                weight = 1 + ord(row.name) % 2
                found.append(replace(event, queue=replace(row, parent="o", weight=weight)))
            case ev.JobSubmitted():
                found.append(replace(event, job=replace(event.job, estimate_ms=i * 37 % 400)))
            case _:
                found.append(event)
    return found


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
