"""Fair shares: who goes first among teams that borrow, by weight, level and past use."""

import dataclasses

import numpy as np
import pytest
from msgspec.structs import replace

from tests.builders import (
    beat,
    contract,
    decide,
    finish,
    fleet,
    job,
    pass_ms,
    placed,
    queue,
    submit,
    team,
)
from tests.engine.stage import play
from tests.engine.stories import story
from tidemill.core import fair_shares
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Queue
from tidemill.model.world import World
from tidemill.scheduling.fairness import Fair

DRF = Policy(fairness="drf")
BILL = Policy(fairness="bill")
LATELY = Policy(fairness="drf", usage_half_life_ms=HOUR_MS)


def crowd(world: World, **counts: int) -> None:
    """So many jobs of one accelerator for each team, team after team."""
    for name, count in counts.items():
        submit(world, *(job(f"{name}{i}", team=name) for i in range(count)))


def got(world: World, plan: ev.Plan) -> dict[str, int]:
    """How many jobs of each team a plan places."""
    found: dict[str, int] = {}
    for name in placed(world, plan):
        team_name = world.shape_of(world.job_number[name]).team
        found[team_name] = found.get(team_name, 0) + 1
    return found


def test_without_fairness_the_oldest_goes_first():
    """The first team in line takes everything."""
    world = fleet(nodes=1, teams=[team("a"), team("b")])
    crowd(world, a=8, b=8)
    assert got(world, decide(world)) == {"a": 8}


def test_equal_teams_get_equal_parts():
    """The order is made again after each placement, so two teams take turns."""
    world = fleet(nodes=1, teams=[team("a"), team("b")])
    crowd(world, a=8, b=8)
    assert got(world, decide(world, DRF)) == {"a": 4, "b": 4}


def test_parts_are_as_weights():
    """A team with weight 3 gets three times as much."""
    world = fleet(nodes=1, teams=[queue("a"), queue("b", weight=3)])
    crowd(world, a=8, b=8)
    assert got(world, decide(world, DRF)) == {"a": 2, "b": 6}


def test_floors_come_first_and_do_not_count():
    """A team gets its floor whatever it has; only what is above it is compared."""
    world = fleet(nodes=1, teams=[team("a"), team("b", floor=4)])
    crowd(world, a=8, b=8)
    assert got(world, decide(world, DRF)) == {"a": 2, "b": 6}


def test_levels_are_compared_from_the_top():
    """Three groups of one faculty together get as much as the one group of another."""
    teams = [queue("x"), queue("y")]
    teams += [queue(name, parent="x") for name in "abc"]
    world = fleet(nodes=1, gpus=6, teams=[*teams, queue("d", parent="y")])
    crowd(world, a=6, b=6, c=6, d=6)
    assert got(world, decide(world, DRF)) == {"a": 1, "b": 1, "c": 1, "d": 3}


def test_priority_orders_within_a_team_only():
    """A team cannot win by raising the priority of its jobs."""
    world = fleet(nodes=1, teams=[team("a"), team("b")])
    crowd(world, a=8)
    submit(world, *(job(f"b{i}", team="b", priority=9) for i in range(8)))
    assert got(world, decide(world, DRF)) == {"a": 4, "b": 4}


def _two_kinds() -> World:
    """16 H100 at $4 and 4 T4 at $1; team a uses 2 H100, team b 2 T4."""
    rows = [
        contract("new", gpus=16, per_node=8, usd_micro_per_hour=4_000_000),
        contract("old", gpus=4, per_node=4, kind="T4", usd_micro_per_hour=1_000_000),
    ]
    world = fleet(*rows, teams=[Queue("a"), Queue("b")])
    submit(world, job("a", gpus=2, kinds=["H100"]), job("b", gpus=2, kinds=["T4"], team="b"))
    beat(world)
    return world


def test_the_dominant_share_is_of_the_scarcest_kind():
    """Half of the four T4 weighs more than an eighth of the H100."""
    world = _two_kinds()
    fair = Fair(world, DRF)
    assert fair.rank(world.used, 0) == (10**12 // 8,)
    assert fair.rank(world.used, 1) == (10**12 // 2,)


def test_a_share_of_the_bill_weighs_kinds_by_price():
    """Two H100 cost eight of the 68 dollars an hour, two T4 cost two."""
    world = _two_kinds()
    fair = Fair(world, BILL)
    assert fair.rank(world.used, 0) == (10**12 * 8 // 68,)
    assert fair.rank(world.used, 1) == (10**12 * 2 // 68,)


def test_the_half_life_is_said_once():
    """The journal learns of the half-life when it is news, so that it alone rebuilds the World."""
    world = fleet()
    assert decide(world, LATELY).actions[:1] == (ev.HalfLifeSet(0, HOUR_MS),)
    beat(world, LATELY)
    assert decide(world, LATELY).actions == ()
    assert decide(world, Policy()).actions[:1] == (ev.HalfLifeSet(0, 0),)


def used_alone(hours: int) -> World:
    """Team a had the whole node for a day; then nobody, for so many hours."""
    world = fleet(nodes=1, teams=[team("a"), team("b")])
    beat(world, LATELY)
    crowd(world, a=8)
    beat(world, LATELY)
    pass_ms(world, DAY_MS)
    finish(world, *(f"a{i}" for i in range(8)))
    pass_ms(world, hours * HOUR_MS)
    return world


def past_milli(world: World, q: int) -> list[int]:
    """The decayed mean of what a queue used above its floor, by kind, as of now."""
    w, past = world.matrices, np.zeros((len(world.queue_rows), len(world.kinds)), np.int64)
    if world.half_life_ms:
        fair_shares.count_past(w.at, w.queues, w.quotas, past, q, world.now_ms)
    return [int(milli) for milli in past[q]]


def test_a_team_that_used_much_yields():
    """Right after a day alone on the node, the other team gets nearly all of it."""
    world = used_alone(hours=0)
    assert past_milli(world, 0) == [7_999]
    submit(world, *(job(f"more{i}") for i in range(8)))
    crowd(world, b=8)
    assert got(world, decide(world, LATELY)) == {"b": 8}


def test_and_finally_recovers():
    """Two half-lives later it gets some, after many as much as the other."""
    for hours, parts in ((2, {"a": 3, "b": 5}), (20, {"a": 4, "b": 4})):
        world = used_alone(hours)
        submit(world, *(job(f"more{i}") for i in range(8)))
        crowd(world, b=8)
        assert got(world, decide(world, LATELY)) == parts


def test_the_kept_mean_is_the_decayed_integral():
    """After every event of a story, the mean is that of real numbers added up from the journal."""
    counted = 0
    for seed in (1, 3, 8, 13):
        script = story(seed)
        policy = replace(script.policy, fairness="drf", usage_half_life_ms=HOUR_MS)
        world, means, now_ms = World(), dict[tuple[int, int], float](), 0
        for event in play(dataclasses.replace(script, policy=policy)).kept:
            left = 0.5 ** ((event.at_ms - now_ms) / HOUR_MS)
            now_ms = event.at_ms
            for q in range(len(world.queue_rows)):
                for k in range(len(world.kinds)):
                    above = max(0, int(world.used[q, k] - world.floor[q, k]))
                    means[q, k] = above + (means.get((q, k), 0.0) - above) * left
            if not world.half_life_ms:
                means.clear()
            fold(world, event)
            for q in range(len(world.queue_rows)):
                exact = [means.get((q, k), 0.0) for k in range(len(world.kinds))]
                assert past_milli(world, q) == pytest.approx(exact, abs=2)
                counted += any(exact)
    assert counted > 0, "nobody borrows: this proves nothing"


def test_use_within_the_floor_is_not_held_against_anybody():
    """Past use counts above the floor of its time only."""
    world = fleet(nodes=1, teams=[team("a", floor=8), team("b")])
    beat(world, LATELY)
    crowd(world, a=8)
    beat(world, LATELY)
    pass_ms(world, DAY_MS)
    assert past_milli(world, 0) == [0]
