"""What a fleet's own past makes of its bands: taught by journals of fleets that change."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.builders import contract, job, team
from tests.engine.stage import Arrival, Player, Script
from tidemill import api, explain
from tidemill.explain import past_forecasts
from tidemill.explain.bands import USUAL, Sides
from tidemill.explain.past_forecasts import FINEST_MS, LOOKS, moments_ms
from tidemill.explain.track_record import ForecastRecord, _ends
from tidemill.journal import open_journal
from tidemill.journal.replay import first_world, passing, rebuild
from tidemill.model import events as ev
from tidemill.model.batch import Dictionary
from tidemill.model.batch.convert import of_events
from tidemill.model.measures import DAY_MS, HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.world import World

POLICY = Policy(patience_ms=2 * HOUR_MS)


def story(path: Path, work_ms: list[int], apart_ms: int = 10 * MINUTE_MS) -> World:
    """Jobs of 8 GPUs that come evenly to 16 GPUs, and how long each works."""
    arrivals = [Arrival(i * apart_ms, job(f"j{i}", gpus=8), ms) for i, ms in enumerate(work_ms)]
    player = Player(Script([contract(gpus=16)], [team("a")], arrivals, policy=POLICY))
    with open_journal(str(path), create=True) as journal:
        player.run()
        journal.append(player.kept)
        return rebuild(journal, up_to_ms=len(work_ms) * apart_ms)


def sides(path: Path, world: World) -> Sides:
    with open_journal(str(path)) as journal:
        return past_forecasts.sides(journal, world, POLICY)


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, World]:
    """Run times that any forecast knows: always half an hour."""
    path = tmp_path_factory.mktemp("steady") / "j.sqlite"
    return path, story(path, [30 * MINUTE_MS] * 400)


def test_bands_of_a_fleet_that_is_foreseen_well_become_narrow(steady):
    """Where each forecast came true, both sides are narrower than usual."""
    found = sides(*steady)
    assert found.outcomes >= 50
    assert found.held == found.outcomes
    assert found.early < 0.9
    assert found.late < 0.9


def test_bands_widen_on_the_side_that_was_missed(tmp_path):
    """Jobs became four times as short: they start earlier than was said, and p10 moves away."""
    work_ms = [2 * HOUR_MS] * 150 + [15 * MINUTE_MS] * 250
    path = tmp_path / "j.sqlite"
    found = sides(path, story(path, work_ms, apart_ms=40 * MINUTE_MS))
    assert found.held < found.outcomes
    assert found.early > 1.2
    assert found.early > found.late


def test_what_waits_longer_than_was_said_widens_the_band_before_it_starts(tmp_path):
    """Jobs became 20 times as long: few forecasts since then have an end, and they still teach.

    By those that started alone, which are the short ones, p90 would lie nearer.
    """
    path = tmp_path / "j.sqlite"
    world = story(path, [30 * MINUTE_MS] * 150 + [10 * HOUR_MS] * 80, apart_ms=20 * MINUTE_MS)
    found = sides(path, world)
    assert found.late > 1.2
    assert found.late > found.early
    with open_journal(str(path)) as journal:
        record = ForecastRecord(POLICY)
        asked = [*moments_ms(0, world.now_ms), world.now_ms]
        for then in passing(journal, first_world(journal), asked, record.read):
            record.learn(then)
            record.look(then)
    assert record.sides(world.now_ms) == found
    record._open = []
    assert record.sides(world.now_ms).late < found.late


def test_a_forecast_is_judged_by_the_first_start_that_came(steady):
    """A job that was evicted and placed again by the next look started when it first did."""
    path, world = steady
    with open_journal(str(path)) as journal:
        then = rebuild(journal, up_to_ms=30 * HOUR_MS)
    found = []
    for hours in ((1,), (1, 9)):
        record = ForecastRecord(POLICY)
        record.look(then)
        again = [
            ev.AskedPlace(then.now_ms + hour * HOUR_MS, j, attempt, (Piece(0, 0, 1, 255),))
            for attempt, hour in enumerate(hours, 1)
            for j in range(then.job_count)
        ]
        record.read(of_events(again, Dictionary()))
        record.learn(world)
        found.append(record.sides(world.now_ms))
    assert found[0] == found[1] != USUAL


@pytest.mark.parametrize("seed", range(20))
def test_ends_are_those_of_errors_spread_to_the_right(seed):
    """The weight of an open error goes to the larger ones, by theirs (Efron, 1967)."""
    luck = Random(seed)
    errors = [luck.gauss(0, 1) for _ in range(30)]
    is_open = [luck.random() < seed / 40 for _ in errors]
    weights = [luck.uniform(0.1, 1) for _ in errors]
    rows = sorted(zip(errors, is_open, weights, strict=True))
    left = [weight for *_, weight in rows]
    for i, (_, open_, _) in enumerate(rows):
        if open_ and (rest := sum(left[i + 1 :])):
            share, left[i] = left[i] / rest, 0.0
            left[i + 1 :] = [weight * (1 + share) for weight in left[i + 1 :]]
    total, passed, expected = sum(left), 0.0, list[float]()
    for (error, open_, _), weight in zip(rows, left, strict=True):
        passed += 0.0 if open_ else weight
        while len(expected) < 2 and passed >= (0.1, 0.9)[len(expected)] * total - 1e-9:
            expected.append(error)
    expected += [rows[-1][0]] * (2 - len(expected))
    found = _ends(np.array(errors), np.array(is_open), np.array(weights))
    assert found == pytest.approx(tuple(expected))


def test_a_fleet_without_a_past_has_usual_bands(tmp_path):
    """Nothing waited yet, so that nothing was learnt."""
    path = tmp_path / "j.sqlite"
    assert sides(path, story(path, [MINUTE_MS] * 3)) == USUAL


def test_the_past_of_a_moment_does_not_know_what_follows(steady):
    """Equal questions about one moment have equal answers, however long the journal is."""
    path, _ = steady
    with open_journal(str(path)) as journal:
        early = rebuild(journal, up_to_ms=30 * HOUR_MS)
        events = [event for event in journal.read() if event.at_ms <= 30 * HOUR_MS]
    other = path.with_name("early.sqlite")
    if not other.exists():
        with open_journal(str(other), create=True) as journal:
            journal.append(events)
    assert sides(path, early) == sides(other, early)


def test_moments_are_round_and_few():
    """So many at most, none before the beginning or at the end, and the same ones an hour later."""
    for span_ms in (HOUR_MS, 3 * DAY_MS, 400 * DAY_MS):
        found = moments_ms(5, span_ms)
        assert len(found) <= LOOKS
        assert all(5 < ms < span_ms and ms % FINEST_MS == 0 for ms in found)
    first, later = moments_ms(0, 9 * DAY_MS), moments_ms(0, 9 * DAY_MS + HOUR_MS)
    assert set(first) <= set(later)


def test_passing_through_a_journal_gives_each_moment_as_it_was(steady):
    """The World at each moment is the one that is rebuilt for it."""
    path, world = steady
    asked = moments_ms(0, world.now_ms)[::7]
    with open_journal(str(path)) as journal:
        for at_ms, then in zip(asked, passing(journal, first_world(journal), asked), strict=True):
            alone = rebuild(journal, up_to_ms=at_ms, use_snapshot=False)
            assert (then.seq, then.now_ms) == (alone.seq, alone.now_ms)
            assert then.placements.keys() == alone.placements.keys()


def test_a_journal_that_is_too_long_to_read_again_teaches_nothing(steady, monkeypatch):
    """No snapshot is near enough: the band is the usual one, and the answer does not wait."""
    path, world = steady
    monkeypatch.setattr(past_forecasts, "EVENTS_AT_MOST", 10)
    assert sides(path, world) == USUAL


def test_commands_say_what_the_past_taught(steady):
    """The method of a forecast has the numbers; those of one job are the same in every command."""
    path, _ = steady
    world, policy = api.open_world(str(path), 30 * HOUR_MS)
    found = sides(path, world)
    j = max(j for s in world.queued for j in world.waiting[s])
    told = explain.eta(world, policy, j, found)
    board = explain.with_eta(world, policy, explain.board(world, policy), None, found)
    row = next(row for row in board.waiting if row.job == world.job_names[j])
    assert told.wait == row.eta
    assert f"{found.held:,} of {found.outcomes:,} back-tested earlier forecasts" in told.method
    assert f"p10 is {found.early:.1f} and p90 {found.late:.1f} times" in told.method
