"""Moving cheap work so that a scattered-out job fits: few, cheap, reserved at once, worth it."""

from typing import Any

from msgspec.structs import replace

from tests.builders import (
    asked,
    beat,
    contract,
    decide,
    devices_by_node,
    finish,
    fleet,
    job,
    leave,
    lose_node,
    pass_ms,
    place,
    placed,
    start,
    submit,
    team,
)
from tidemill.engine.cycle import CycleMemo
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.states import JobState
from tidemill.model.world import World

MOVING = Policy(may_move=True)
OFTEN: dict[str, Any] = {"saves_every_ms": MINUTE_MS}


def scattered(**asked_of_movers: Any) -> World:
    """Three nodes of eight: two half full with one job each, the third with six taken."""
    world = fleet(nodes=3)
    rows = [("left", 4), ("right", 4), ("third", 6)]
    submit(world, *(job(name, gpus=gpus, **OFTEN, **asked_of_movers) for name, gpus in rows))
    for n, (name, gpus) in enumerate(rows):
        place(world, name, Piece(0, n, 1, (1 << gpus) - 1))
        start(world, name)
    pass_ms(world, 2 * HOUR_MS)
    submit(world, job("whole", gpus=8, estimate_ms=5 * HOUR_MS))
    return world


def moved(world: World, policy: Policy = MOVING) -> dict[str, dict[int, int]]:
    """The jobs that the next plan moves, and where to."""
    found = asked(decide(world, policy), ev.AskedMove)
    return {
        world.job_names[a.job]: devices_by_node(a.gained)
        for a in found
        if isinstance(a, ev.AskedMove)
    }


def test_one_cheap_job_moves_and_the_gang_fits():
    """Four free here and four there become eight here, by one move."""
    world = scattered()
    assert moved(world) == {"right": {0: 4}} or moved(world) == {"left": {1: 4}}
    beat(world, MOVING)
    leave(world)
    assert list(placed(world, decide(world, MOVING))) == ["whole"]


def test_nothing_moves_unless_the_policy_says_so():
    """By default a job that is scattered out waits."""
    assert moved(scattered(), Policy()) == {}


def test_what_is_not_preemptible_is_not_moved():
    """A job that may not be stopped may not be moved either."""
    assert moved(scattered(is_preemptible=False)) == {}


def test_a_move_must_be_worth_what_it_loses():
    """Two hours of unsaved work are not thrown away so that a minute's job need not wait."""
    world = scattered()
    rare = fleet(nodes=2)
    submit(rare, job("old", gpus=4), job("other", gpus=4))
    for n, name in enumerate(("old", "other")):
        place(rare, name, Piece(0, n, 1, 0b1111))
        start(rare, name)
    pass_ms(rare, 2 * HOUR_MS)
    submit(rare, job("brief", gpus=8, estimate_ms=MINUTE_MS))
    assert moved(rare) == {}
    assert moved(rare, replace(MOVING, move_gain_ppm=0)) != {}
    assert moved(world) != {}


def test_the_cheapest_moves():
    """Of two that could go, the one that has just saved its work goes."""
    world = fleet(nodes=2)
    submit(world, job("rare", gpus=4), job("often", gpus=4, **OFTEN))
    for n, name in enumerate(("rare", "often")):
        place(world, name, Piece(0, n, 1, 0b1111))
        start(world, name)
    pass_ms(world, 2 * HOUR_MS)
    submit(world, job("whole", gpus=8))
    assert moved(world) == {"often": {0: 4}}


def test_a_job_that_has_just_moved_is_left_alone_for_a_while():
    """Nobody is moved before it has worked for as long as the policy says; then it may be."""
    world = scattered()
    patient = replace(MOVING, moves_apart_ms=3 * HOUR_MS)
    memo = CycleMemo()
    beat(world, patient, memo)
    assert not world.moving
    pass_ms(world, HOUR_MS)
    beat(world, patient, memo)
    assert len(world.moving) == 1


def test_the_new_place_is_reserved_at_once():
    """Between the asking and the leaving nobody else gets the place that a mover goes to."""
    world = scattered()
    beat(world, MOVING)
    submit(world, job("thief", gpus=4, priority=9))
    assert placed(world, decide(world, MOVING)) == {}


def test_a_move_for_which_there_is_no_place_is_not_made():
    """When what is free is not enough for those who would go, nobody goes."""
    world = fleet(nodes=2)
    submit(world, job("five", gpus=5, **OFTEN), job("six", gpus=6, **OFTEN))
    for n, (name, mask) in enumerate((("five", 0b11111), ("six", 0b111111))):
        place(world, name, Piece(0, n, 1, mask))
        start(world, name)
    pass_ms(world, 2 * HOUR_MS)
    submit(world, job("whole", gpus=8), job("needs5", gpus=5))
    assert moved(world) == {}


def test_a_team_does_not_exceed_its_limit_by_holding_two_places():
    """A mover whose team has no room for both places within its limit stays."""
    teams = [team("a"), team("tight", limit=8)]
    for limit, goes in ((8, False), (12, True)):
        teams[1] = team("tight", limit=limit)
        world = fleet(nodes=2, teams=teams)
        rows = [job("x", gpus=4, team="tight", **OFTEN), job("y", gpus=4, team="tight", **OFTEN)]
        submit(world, *rows)
        for n, name in enumerate("xy"):
            place(world, name, Piece(0, n, 1, 0b1111))
            start(world, name)
        pass_ms(world, 2 * HOUR_MS)
        submit(world, job("whole", gpus=8))
        assert bool(moved(world)) == goes


def test_the_search_is_bounded():
    """A policy that allows one move gets one, not two."""
    world = fleet(nodes=3)
    submit(world, *(job(f"s{i}", gpus=2, **OFTEN) for i in range(4)), job("big", gpus=4, **OFTEN))
    where = [(0, 0b11), (0, 0b1100), (1, 0b11), (1, 0b1100)]
    for i, (n, mask) in enumerate(where):
        place(world, f"s{i}", Piece(0, n, 1, mask))
        start(world, f"s{i}")
    place(world, "big", Piece(0, 2, 1, 0b1111))
    start(world, "big")
    pass_ms(world, 2 * HOUR_MS)
    steady = job("steady", gpus=2, is_preemptible=False)
    submit(world, steady)
    place(world, "steady", Piece(0, 2, 1, 0b110000))
    start(world, "steady")
    submit(world, job("whole", gpus=8))
    assert moved(world, replace(MOVING, moves_at_most=1)) == {}
    assert len(moved(world, replace(MOVING, moves_at_most=2))) == 2


def test_few_jobs_look_for_moves_in_one_cycle():
    """A quarter of a cycle's searches may be for moves, which cost most; the next cycle goes on.

    On each of two GPU types one move would let a waiting job fit.
    """
    world = fleet(contract("c", gpus=16), contract("d", gpus=16, kind="A100"))
    for n in range(4):
        submit(world, job(f"half {n}", gpus=4, kinds=["H100", "A100"][n // 2 :][:1], **OFTEN))
        place(world, f"half {n}", Piece(0, n, 1, 0b1111))
        start(world, f"half {n}")
    pass_ms(world, 2 * HOUR_MS)
    for kind in ("H100", "A100"):
        submit(world, job(f"whole {kind}", gpus=8, kinds=[kind], estimate_ms=5 * HOUR_MS))
    both = replace(MOVING, searches_per_cycle=8)
    assert len(moved(world, both)) == 2
    one, memo = replace(MOVING, searches_per_cycle=4), CycleMemo()
    for kind in ("H100", "A100"):
        made = asked(beat(world, one, memo), ev.AskedMove)
        heirs = [world.job_names[a.to_job] for a in made if isinstance(a, ev.AskedMove)]
        assert heirs == [f"whole {kind}"]


def test_nobody_is_stopped_where_a_move_does():
    """A job with a right to evict moves others rather than stopping them."""
    world = scattered()
    submit(world, job("high", gpus=8, priority=5))
    plan = decide(world, MOVING)
    assert asked(plan, ev.AskedEvict) == []
    assert len(asked(plan, ev.AskedMove)) == 1


def test_when_the_target_is_lost_the_heir_is_released_and_waits():
    """The mover stays; the promise is given up in the next cycle, and another way is sought."""
    world = scattered()
    beat(world, MOVING)
    (move,) = world.moving.values()
    lose_node(world, move.gained[0].node)
    assert not world.moving
    assert asked(decide(world, MOVING), ev.AskedRelease) != []


def test_with_departures_moves_admit_what_packing_alone_cannot():
    """Small jobs end all over a full fleet: what they leave is whole nodes only after moves."""
    admitted = {}
    packs = Policy(placement="pack")
    for name, policy in (("waiting", packs), ("moving", replace(packs, may_move=True))):
        world = fleet(contract(gpus=64, per_node=8))
        submit(world, *(job(f"s{i}", gpus=2, **OFTEN) for i in range(32)))
        beat(world, policy)
        pass_ms(world, 2 * HOUR_MS)
        for n in range(8):
            aboard = sorted(world.aboard[n])[:2]
            for j in aboard:
                finish(world, world.job_names[j])
        submit(world, *(job(f"w{i}", gpus=8, estimate_ms=9 * HOUR_MS) for i in range(4)))
        for _ in range(12):
            beat(world, policy)
            leave(world)
            coming = [j for j in world.placements if world.jobs.state[j] == JobState.STARTING]
            start(world, *(world.job_names[j] for j in coming))
        running = {world.job_names[j] for j in world.placements}
        admitted[name] = sum(name.startswith("w") for name in running)
    assert admitted == {"waiting": 0, "moving": 4}
