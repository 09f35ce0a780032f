"""Victims in dollars: the cheapest set, no larger than needed, found whatever the clock says."""

from collections.abc import Iterator
from itertools import combinations
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.builders import (
    attempt,
    beat,
    contract,
    decide,
    evicted,
    fleet,
    job,
    pass_ms,
    place,
    placed,
    rights,
    role,
    start,
    submit,
    team,
)
from tidemill.core import snapshot
from tidemill.engine.cycle import CycleMemo, cycle
from tidemill.engine.fold.one_event import fold, fold_all
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.world import World
from tidemill.scheduling.preemption import cost as worth

DOLLARS = rights(victims="dollars")


def stopped(world: World, policy: Policy = DOLLARS) -> set[str]:
    """The jobs that the next plan stops."""
    return set(evicted(world, decide(world, policy)))


def at(world: World, name: str, *where: tuple[int, int]) -> None:
    """A job of whole accelerators runs on these devices: (node, mask)."""
    accelerators = world.shape_of(world.job_number[name]).roles[0].accelerators
    pieces = [Piece(0, n, mask.bit_count() // accelerators, mask) for n, mask in where]
    place(world, name, *pieces)
    start(world, name)


def test_a_price_is_lost_time_on_what_is_held_at_its_rate():
    """An hour of eight accelerators at two dollars is sixteen dollars; halves at half."""
    world = fleet(nodes=1)
    submit(world, job("t", gpus=8))
    shape = world.shape_rows[0]
    whole = [Piece(0, 0, 1, 0xFF)]
    assert worth.usd_micro(world, shape, whole, HOUR_MS) == 16_000_000
    assert worth.usd_micro(world, shape, whole, HOUR_MS // 2) == 8_000_000


def test_the_cheaper_contract_goes_first():
    """Of two that lose the same time, the one on cheaper accelerators is stopped."""
    rows = (
        contract("dear", gpus=8, usd_micro_per_hour=4_000_000),
        contract("cheap", gpus=8, usd_micro_per_hour=1_000_000),
    )
    world = fleet(*rows)
    submit(world, job("on-cheap", gpus=8), job("on-dear", gpus=8))
    at(world, "on-dear", (0, 0xFF))
    at(world, "on-cheap", (1, 0xFF))
    pass_ms(world, HOUR_MS)
    submit(world, job("high", gpus=8, priority=1))
    assert stopped(world) == {"on-cheap"}


def test_the_cheapest_node_is_emptied_not_the_cheapest_jobs():
    """A whole node is freed where that costs least, though cheaper jobs sit on all nodes."""
    world = fleet(nodes=3)
    often: dict[str, Any] = {"gpus": 1, "saves_every_ms": MINUTE_MS}
    rare: dict[str, Any] = {"gpus": 7}
    submit(world, *(job(f"tiny{n}", **often) for n in range(3)))
    submit(world, job("old", **rare), job("older", **rare))
    for n in range(3):
        at(world, f"tiny{n}", (n, 0x01))
    at(world, "older", (0, 0xFE))
    pass_ms(world, 10 * HOUR_MS)
    at(world, "old", (1, 0xFE))
    pass_ms(world, HOUR_MS)
    submit(world, job("mid", gpus=7, saves_every_ms=20 * MINUTE_MS))
    at(world, "mid", (2, 0xFE))
    pass_ms(world, 19 * MINUTE_MS + 1)
    submit(world, job("high", gpus=8, priority=1))
    assert stopped(world) == {"tiny2", "mid"}


def test_a_gang_counts_whole():
    """Stopping one member of a gang stops all of it: a dearer single job is cheaper than that."""
    world = fleet(nodes=3)
    submit(world, job("gang", gpus=16, per_node=8), job("single", gpus=8))
    at(world, "gang", (0, 0xFF), (1, 0xFF))
    at(world, "single", (2, 0xFF))
    pass_ms(world, HOUR_MS)
    submit(world, job("high", gpus=8, priority=1))
    assert stopped(world) == {"single"}


def test_a_gang_that_frees_enough_for_all_is_worth_its_price():
    """For an heir of two nodes one gang of two goes rather than two dearer jobs."""
    world = fleet(nodes=4)
    save: dict[str, Any] = {"saves_every_ms": 10 * MINUTE_MS}
    submit(world, job("gang", gpus=16, per_node=8, **save), job("x", gpus=8), job("y", gpus=8))
    at(world, "gang", (0, 0xFF), (1, 0xFF))
    at(world, "x", (2, 0xFF))
    at(world, "y", (3, 0xFF))
    pass_ms(world, HOUR_MS)
    submit(world, job("high", gpus=16, per_node=8, priority=1))
    assert stopped(world) == {"gang"}


# Only where it is worth it --------------------------------------------------------------------


@pytest.mark.parametrize(("estimate_ms", "goes"), [(MINUTE_MS, False), (5 * HOUR_MS, True)])
def test_a_preemption_may_have_to_be_worth_what_it_loses(estimate_ms: int, goes: bool):
    """An hour of work is not thrown away to spare a minute's job its wait, but a long one's."""
    world = fleet(nodes=1)
    submit(world, job("low", gpus=8, estimate_ms=9 * HOUR_MS))
    beat(world)
    pass_ms(world, HOUR_MS)
    submit(world, job("high", gpus=8, priority=1, estimate_ms=estimate_ms))
    careful = replace(DOLLARS, preempt_gain_ppm=1_000_000)
    assert stopped(world, careful) == ({"low"} if goes else set())
    assert stopped(world) == {"low"}


def test_a_victim_that_is_about_to_end_is_waited_for():
    """The gain is the wait that is spared: little, where the victim ends soon by itself."""
    world = fleet(nodes=1)
    submit(world, job("low", gpus=8, estimate_ms=HOUR_MS + MINUTE_MS))
    beat(world)
    pass_ms(world, HOUR_MS)
    submit(world, job("high", gpus=8, priority=1, estimate_ms=9 * HOUR_MS))
    assert stopped(world, replace(DOLLARS, preempt_gain_ppm=1_000_000)) == set()


def test_a_floor_is_a_right_and_needs_no_gain():
    """What was borrowed is taken back for a minute's job too."""
    world = fleet(nodes=1, teams=[team("a"), team("b", floor=8)])
    submit(world, job("borrows", gpus=8, estimate_ms=9 * HOUR_MS))
    beat(world)
    pass_ms(world, HOUR_MS)
    submit(world, job("owed", gpus=8, team="b", estimate_ms=MINUTE_MS))
    assert stopped(world, replace(DOLLARS, preempt_gain_ppm=1_000_000)) == {"borrows"}


def test_what_was_not_worth_it_is_asked_again_when_time_has_passed():
    """A checkpoint makes a victim cheap: nothing was freed, yet the next beat stops it."""
    world, memo = fleet(nodes=1), CycleMemo()
    careful = replace(DOLLARS, preempt_gain_ppm=1_000_000)
    submit(world, job("low", gpus=8, saves_every_ms=HOUR_MS))
    beat(world, careful, memo)
    pass_ms(world, HOUR_MS - 1)
    submit(world, job("high", gpus=8, priority=1, estimate_ms=10 * MINUTE_MS))
    beat(world, careful, memo)
    assert not world.leaving_for
    pass_ms(world, MINUTE_MS)
    beat(world, careful, memo)
    assert world.leaving_for == {0: 1}


def test_who_went_without_a_search_is_next():
    """With one search a cycle, two shapes that search in vain take turns: nobody always waits."""
    world, memo = fleet(contract("h", gpus=8), contract("a", gpus=8, kind="A100")), CycleMemo()
    one = rights(searches_per_cycle=1)
    steady: dict[str, Any] = {"gpus": 8, "is_preemptible": False}
    submit(world, job("h0", kinds=["H100"], **steady), job("a0", kinds=["A100"], gpus=8))
    beat(world, one, memo)
    high: dict[str, Any] = {"gpus": 8, "priority": 1}
    submit(world, job("h1", kinds=["H100"], **high), job("a1", kinds=["A100"], **high))
    beat(world, one, memo)
    assert not world.leaving_for
    pass_ms(world, 1)
    beat(world, one, memo)
    assert world.leaving_for == {world.job_number["a0"]: int(world.jobs.shape[3])}


# Properties on random worlds ------------------------------------------------------------------


def crowded(seed: int) -> World:
    """A full fleet of low jobs, gangs among them, and one high job that waits."""
    luck = Random(seed)
    rates = [luck.choice([1, 2, 4]) * 1_000_000 for _ in range(2)]
    world = fleet(
        contract("one", gpus=16, per_node=4, usd_micro_per_hour=rates[0]),
        contract("two", gpus=8, per_node=4, usd_micro_per_hour=rates[1]),
    )
    for i in range(luck.randint(4, 12)):
        gpus = luck.choice([1, 1, 2, 2, 3, 4])
        roles = [role(luck.choice([1, 1, 1, 2]), gpus=gpus)]
        saves = luck.choice([0, 10 * MINUTE_MS, HOUR_MS])
        low: dict[str, Any] = {"restart_ms": luck.choice([0, 5 * MINUTE_MS])}
        submit(world, job(f"j{i}", roles=roles, saves_every_ms=saves, **low))
        beat(world)
        pass_ms(world, luck.randint(1, 40 * MINUTE_MS))
    submit(world, job("high", roles=[role(luck.choice([1, 1, 2]), gpus=4)], priority=1))
    return world


def enough(world: World, jobs: tuple[int, ...]) -> bool:
    """Whether the high job is placed at once when these jobs have left, and none of them is."""
    after = snapshot.copy(world)
    high = world.job_number["high"]
    for j in jobs:
        fold_all(
            after,
            [
                ev.AskedEvict(after.now_ms, j, attempt(after, j), ev.Why.PREEMPTED, high),
                ev.JobEvicted(after.now_ms, j, attempt(after, j)),
            ],
        )
    came = placed(after, cycle(after, rights(), CycleMemo()))
    return "high" in came and not any(world.job_names[j] in came for j in jobs)


def cost(world: World, jobs: tuple[int, ...]) -> int:
    """What stopping these jobs loses, in micro-dollars."""
    return sum(
        worth.usd_micro(world, world.shape_of(j), world.placements[j], worth.lost_ms(world, j))
        for j in jobs
    )


def sets(world: World) -> Iterator[tuple[int, ...]]:
    """Every set of jobs that may be stopped."""
    active = sorted(world.placements)
    for size in range(1, len(active) + 1):
        yield from combinations(active, size)


def test_nobody_is_stopped_whose_sparing_still_leaves_room():
    """On random full fleets, every victim is needed: without it the job would not fit."""
    tried = 0
    for seed in range(120):
        world = crowded(seed)
        for policy in (DOLLARS, rights()):
            jobs = tuple(world.job_number[name] for name in stopped(world, policy))
            if len(jobs) > 1:
                tried += 1
                for spared in jobs:
                    rest = tuple(j for j in jobs if j != spared)
                    assert not _fits_without(world, rest), f"seed {seed}: {spared} could stay"
    assert tried > 20, "no plan stops several: this proves nothing"


def test_the_cheapest_set_is_nearly_always_found():
    """Against all sets by brute force: never cheaper than the best, and nearly always as cheap."""
    found, best = 0, 0
    for seed in range(40):
        world = crowded(seed)
        jobs = tuple(world.job_number[name] for name in stopped(world))
        if not jobs or len(world.placements) > 9:
            continue
        by_cost = sorted((cost(world, some), some) for some in sets(world))
        least = next(price for price, some in by_cost if enough(world, some))
        assert cost(world, jobs) >= least
        found += 1
        best += cost(world, jobs) == least
    assert found > 10
    assert best >= found * 9 // 10, f"the cheapest in {best} of {found}"


def test_whether_there_are_victims_does_not_depend_on_the_clock():
    """A search in vain stays in vain, and one that succeeds goes on to, while nothing changes."""
    for seed in range(60):
        world = crowded(seed)
        tight = replace(DOLLARS, victims_at_most=2)
        first = bool(stopped(world, tight))
        for _ in range(4):
            fold(world, ev.Woke(world.now_ms + 17 * MINUTE_MS))
            assert bool(stopped(world, tight)) == first, f"seed {seed}"


def _fits_without(world: World, jobs: tuple[int, ...]) -> bool:
    after = snapshot.copy(world)
    high = world.job_number["high"]
    for j in jobs:
        fold(after, ev.AskedEvict(after.now_ms, j, attempt(after, j), ev.Why.PREEMPTED, high))
        fold(after, ev.JobEvicted(after.now_ms, j, attempt(after, j)))
    return "high" in placed(after, cycle(after, rights(), CycleMemo()))
