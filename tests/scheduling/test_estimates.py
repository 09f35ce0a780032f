"""Estimates: the owner's guess, what history makes of it, and what follows when it was outrun."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.builders import beat, crash, finish, fleet, job, pass_ms, submit, team
from tidemill.core import fold
from tidemill.core.estimates import FEWEST
from tidemill.engine.check import expecting
from tidemill.model import history
from tidemill.model.columns import QUEUE
from tidemill.model.measures import HOUR_MS, MINUTE_MS, ONE_PPM
from tidemill.model.policy import Policy
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.scheduling.estimates import Estimates

GIVEN = Policy(unknown_run_ms=7 * HOUR_MS)
HISTORY = Policy(estimates="history", unknown_run_ms=7 * HOUR_MS)


def past(world: World, runs_ms: list[int], guess_ms: int = 0, gpus: int = 1) -> None:
    """Jobs that came, ran so long and finished, one after the other."""
    for run_ms in runs_ms:
        name = f"past-{world.job_count}"
        submit(world, job(name, estimate_ms=guess_ms, gpus=gpus))
        beat(world)
        pass_ms(world, run_ms)
        finish(world, name)


def number(world: World, estimate_ms: int = 0, gpus: int = 1, team: str = "a") -> int:
    """A new job's number."""
    name = f"new-{world.job_count}"
    submit(world, job(name, estimate_ms=estimate_ms, gpus=gpus, team=team))
    return world.job_count - 1


def test_without_history_the_owner_is_believed():
    """The guess is the estimate; without one, what the policy says of the unknown."""
    world = fleet()
    assert Estimates(GIVEN).total_ms(world, number(world, estimate_ms=HOUR_MS)) == HOUR_MS
    assert Estimates(HISTORY).total_ms(world, number(world)) == 7 * HOUR_MS


def test_an_estimate_that_was_outrun_doubles():
    """A job that ran for longer than thought is taken to run twice as long as thought."""
    world = fleet()
    j = number(world, estimate_ms=HOUR_MS)
    assert Estimates(GIVEN).total_ms(world, j, HOUR_MS - 1) == HOUR_MS
    assert Estimates(GIVEN).total_ms(world, j, HOUR_MS) == 2 * HOUR_MS
    assert Estimates(GIVEN).left_ms(world, j, 3 * HOUR_MS) == HOUR_MS


def test_work_that_was_lost_is_not_forgotten_as_knowledge():
    """A job that ran three hours and lost them is known to need more than three."""
    world = fleet()
    submit(world, job("j", estimate_ms=HOUR_MS))
    beat(world)
    pass_ms(world, 3 * HOUR_MS)
    crash(world, "j")
    assert Estimates(GIVEN).left_ms(world, 0, 0) == 4 * HOUR_MS


def test_a_guess_is_corrected_by_how_right_the_team_was():
    """Where jobs ran a tenth of their guesses, a new guess counts as little more than a tenth."""
    world = fleet()
    past(world, [6 * MINUTE_MS] * FEWEST, guess_ms=HOUR_MS)
    j = number(world, estimate_ms=10 * HOUR_MS)
    assert HOUR_MS < Estimates(HISTORY).total_ms(world, j) <= HOUR_MS * 3 // 2
    assert Estimates(GIVEN).total_ms(world, j) == 10 * HOUR_MS


def test_without_a_guess_jobs_of_the_same_size_tell():
    """Run times of the team's jobs of that size stand for it; of another size they do not."""
    world = fleet()
    past(world, [HOUR_MS] * FEWEST, gpus=8)
    estimates = Estimates(HISTORY)
    assert HOUR_MS < estimates.total_ms(world, number(world, gpus=8)) <= HOUR_MS * 3 // 2
    assert estimates.total_ms(world, number(world, gpus=1)) == 7 * HOUR_MS


def test_a_short_history_says_nothing():
    """One job fewer than needed, and the owner is believed."""
    world = fleet()
    past(world, [MINUTE_MS] * (FEWEST - 1), guess_ms=HOUR_MS)
    j = number(world, estimate_ms=HOUR_MS)
    assert Estimates(HISTORY).total_ms(world, j) == HOUR_MS


def test_teams_do_not_learn_from_each_other():
    """What one team's jobs did says nothing of another's."""
    world = fleet(teams=[team("a"), team("b")])
    past(world, [MINUTE_MS] * FEWEST, guess_ms=HOUR_MS)
    submit(world, job("other", team="b", estimate_ms=HOUR_MS))
    assert Estimates(HISTORY).total_ms(world, world.job_count - 1) == HOUR_MS


def test_who_outran_most_is_one_of_those_that_lasted():
    """Past the quantile, the quantile of those beyond it; past all of them, twice."""
    world = fleet()
    past(world, [MINUTE_MS] * 90 + [HOUR_MS] * 10)
    estimates, j = Estimates(HISTORY), number(world)
    first_ms = estimates.total_ms(world, j)
    assert MINUTE_MS < first_ms <= MINUTE_MS * 3 // 2
    beyond_ms = estimates.total_ms(world, j, first_ms)
    assert HOUR_MS < beyond_ms <= HOUR_MS * 3 // 2
    assert estimates.total_ms(world, j, beyond_ms) == 2 * beyond_ms


@given(st.integers(1, 2**42))
def test_every_value_is_in_the_step_that_ends_after_it(value: int):
    """Steps cover all values without a gap, and each is at most half as wide as it is far."""
    step = fold.step_of(value)
    assert value < history.end_of(step)
    assert step == 0 or value >= history.end_of(step - 1)
    assert history.end_of(step) <= max(2, value * 3 // 2)
    assert (step, history.end_of(step)) == (expecting.step_of(value), expecting.end_of(step))


@given(
    st.lists(st.integers(1, 2**42), min_size=1, max_size=60),
    st.integers(0, 1_000_000),
    st.integers(0, 2**42),
)
def test_a_quantile_is_that_of_the_sorted_values(values: list[int], share_ppm: int, past: int):
    """The steps give the end of the step of the very value that sorting would give."""
    counts = np.zeros(history.STEPS, np.int64)
    for value in values:
        counts[fold.step_of(value)] += 1
    above = sorted(v for v in values if not past or fold.step_of(v) > fold.step_of(past))
    found = quantile(counts, share_ppm, past)
    if not above:
        assert found is None
        return
    rank = max(1, -(-len(above) * share_ppm // 1_000_000))
    assert found == history.end_of(fold.step_of(above[rank - 1]))
    beyond = fold.step_of(past) if past else -1
    no_runs = np.zeros((1, history.SIZES, history.STEPS), np.int64)
    by_guess = (no_runs, counts.reshape(1, -1), 0, 0, 1)
    assert found == expecting.reached(*by_guess, share_ppm, beyond)


@pytest.mark.parametrize(("milli", "size"), [(0, 0), (300, 1), (1000, 1), (2000, 2), (8000, 4)])
def test_sizes_double(milli: int, size: int):
    """A size class is a doubling of whole accelerators."""
    assert fold.size_of(milli) == size


def quantile(counts: I64, share_ppm: int, past: int = 0) -> int | None:
    """The end of the step that this share of the values above ``past`` does not exceed."""
    first = fold.step_of(past) + 1 if past else 0
    above = counts[first:]
    total = int(above.sum())
    if not total:
        return None
    least = max(1, -(-total * share_ppm // ONE_PPM))
    return history.end_of(first + int(np.searchsorted(np.cumsum(above), least)))


def naive_total_ms(world: World, j: int, worked_ms: int, policy: Policy) -> int:
    """How long a job is taken to run, from the counts alone and by numbers of any size."""
    jobs, s = world.jobs, world.jobs.shape.item(j)
    q, guess_ms = world.shapes.queue.item(s), jobs.estimate_ms.item(j)
    size = fold.size_of(world.shapes.total_milli.item(s))
    counts, unit = (world.ratios[q], guess_ms) if guess_ms else (world.run_times[q, size], ONE_PPM)
    is_told = int(counts.sum()) >= FEWEST
    total_ms = guess_ms or policy.unknown_run_ms or 1
    if is_told:
        total_ms = unit * (quantile(counts, policy.estimate_ppm) or 0) // ONE_PPM
    total_ms = max(1, total_ms)
    while total_ms <= max(worked_ms, jobs.reached_ms.item(j)):
        past = max(1, total_ms * ONE_PPM // unit)
        longer = quantile(counts, policy.estimate_ppm, past) if is_told else None
        longer_ms = unit * (longer or 0) // ONE_PPM
        total_ms = longer_ms if longer_ms > total_ms else 2 * total_ms
    return total_ms


@pytest.mark.parametrize("seed", range(6))
def test_what_is_kept_of_history_is_what_its_counts_say(seed: int):
    """As teams' histories grow: for every guess, size and amount of work that was done."""
    luck = Random(seed)
    policy = replace(HISTORY, estimate_ppm=luck.choice([0, 1, 500_000, 800_000, ONE_PPM]))
    world, estimates = fleet(teams=[team("a"), team("b")]), Estimates(policy)
    guesses = [0, 1, MINUTE_MS, 3 * HOUR_MS, 10**13]
    jobs = [
        number(world, gpus=gpus, estimate_ms=guess, team=name)
        for gpus in (1, 3, 8) for guess in guesses for name in ("a", "b")
    ]  # fmt: skip
    for _ in range(60):
        q, step = luck.randrange(2), min(history.STEPS - 1, int(luck.gauss(45, 12)))
        world.ink.w.run_times[q, luck.randrange(5), step] += luck.randrange(4)
        world.ink.w.ratios[q, luck.randrange(30, 50)] += luck.randrange(4)
        world.ink.w.queues[q, QUEUE.ENDED] += 1
        for j in luck.sample(jobs, 8):
            worked_ms = luck.choice([0, 1, 10**5, 10**8, luck.randrange(10**10)])
            expected = naive_total_ms(world, j, worked_ms, policy)
            assert estimates.total_ms(world, j, worked_ms) == expected
