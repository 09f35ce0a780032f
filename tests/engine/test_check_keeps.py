"""What the plan checker keeps from one plan to the next is never out of date.

A checker that has read every plan so far must say the same as one that reads its first.
"""

from random import Random

import pytest

from tests.builders import (
    carry_out,
    crash,
    finish,
    fleet,
    job,
    leave,
    lose_device,
    lose_node,
    move_node,
    pass_ms,
    place,
    role,
    start,
    submit,
)
from tidemill.engine import cycle
from tidemill.engine.check import Checker, violations
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, WHOLE_MILLI
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece
from tidemill.model.states import JobState, NodeState
from tidemill.model.world import World

EASY = Policy(order="fifo", backfill="easy")
ALL = 0b1111_1111
DELAYED = ["job `gang` is delayed by who passes it"]


def placing(world: World, j: int, *pieces: Piece) -> ev.AskedPlace:
    return ev.AskedPlace(world.now_ms, j, world.jobs.attempt.item(j) + 1, pieces)


def one(world: World, name: str, node: int, devices: int) -> ev.Plan:
    """A plan that places one job on one node."""
    j = world.job_number[name]
    replicas = devices.bit_count() // world.shape_of(j).roles[0].accelerators
    return ev.Plan((placing(world, j, Piece(0, node, replicas, devices)),), 0)


# Stories --------------------------------------------------------------------------------------


def guesses(world: World, luck: Random) -> list[ev.Plan]:
    """Plans that place one or two waiting jobs somewhere: some are right, most are not."""
    waiting = [j for j in range(world.job_count) if world.jobs.state[j] == JobState.WAITING]
    found = []
    for _ in range(3 if waiting else 0):
        some = luck.sample(waiting, min(len(waiting), luck.choice((1, 1, 2))))
        actions = []
        for j in sorted(some):
            role = world.shape_of(j).roles[0]
            roomy = [n for n in range(world.node_count) if len(free(world, n)) >= role.accelerators]
            nodes = luck.sample(range(world.node_count), role.count)
            if len(roomy) >= role.count:
                nodes = luck.sample(roomy, role.count)
            masks = [sum(1 << d for d in free(world, n)[: role.accelerators]) for n in nodes]
            pieces = [Piece(0, n, 1, mask) for n, mask in zip(nodes, masks, strict=True)]
            actions.append(placing(world, j, *pieces))
        found.append(ev.Plan(tuple(actions), 0))
    return found


def free(world: World, n: int) -> list[int]:
    """The devices of a node that nobody holds."""
    first = world.nodes.first_device.item(n)
    return [d for d in range(8) if world.devices.free_milli.item(first + d) == WHOLE_MILLI]


def something_happens(world: World, luck: Random, number: int) -> None:
    """Jobs come, end, crash; nodes and devices fail, nodes come back; time passes."""
    running = [j for j in world.placements if world.jobs.state[j] == JobState.RUNNING]
    names = [world.job_names[j] for j in running]
    broken = [n for n in range(world.node_count) if world.nodes.state[n] == NodeState.UNHEALTHY]
    match luck.randrange(9):
        case 0 if names:
            finish(world, luck.choice(names))
        case 1 if names:
            crash(world, luck.choice(names))
        case 2 if broken:
            move_node(world, broken[0], NodeState.REPAIRING, NodeState.BOOTING, NodeState.READY)
        case 3 if not broken and luck.random() < 0.3:
            lose_node(world, luck.randrange(world.node_count))
        case 4 if number % 10 == 0:
            lose_device(world, 0, number // 10 % 8)
        case 5 | 6:
            pass_ms(world, luck.randrange(1, 3 * HOUR_MS))
        case _:
            gpus, nodes = luck.choice(((1, 1), (1, 1), (4, 1), (8, 1), (8, 2), (8, 3)))
            submit(
                world,
                job(
                    f"j{number}", gpus=gpus * nodes, per_node=gpus,
                    estimate_ms=luck.choice((0, HOUR_MS, 2 * HOUR_MS, 9 * HOUR_MS)),
                    startup_ms=luck.choice((0, HOUR_MS // 4)),
                ),
            )  # fmt: skip


def play(seed: int) -> set[str]:
    """Hold a checker that reads all plans of a story against new ones; all that was wrong."""
    luck, world, said = Random(seed), fleet(nodes=4), set[str]()
    kept, memo = Checker(world), cycle.CycleMemo()
    for number in range(80):
        something_happens(world, luck, number)
        for plan in guesses(world, luck):
            wrong = violations(world, plan, EASY)
            assert kept.violations(plan, EASY) == wrong, f"seed {seed}, at {number}"
            said.update(sentence.split("`")[2] for sentence in wrong or ["``right"])
        plan = cycle.cycle(world, EASY, memo)
        kept.check(plan, EASY)
        carry_out(world, plan)
        start(world, *(world.job_names[j] for j in world.placements if is_coming_up(world, j)))
    return said


def test_a_checker_that_read_all_plans_says_what_a_new_one_says():
    """Of each plan that could be made in a story, right or wrong, carried out or not."""
    said = set[str]().union(*(play(seed) for seed in range(8)))
    assert {" is delayed by who passes it", " is placed before ", "right"} <= said


def is_coming_up(world: World, j: int) -> bool:
    return world.jobs.state.item(j) == JobState.STARTING


# One by one -----------------------------------------------------------------------------------


def half_full() -> tuple[World, Checker]:
    """One node busy for four hours, one free, a gang waits for both; the checker has read that."""
    world = fleet(nodes=2)
    submit(world, job("runs", gpus=8, estimate_ms=4 * HOUR_MS))
    place(world, "runs", Piece(0, 0, 1, ALL))
    start(world, "runs")
    submit(world, job("gang", gpus=16, estimate_ms=HOUR_MS))
    submit(world, job("passes", gpus=1, estimate_ms=3 * HOUR_MS))
    kept = Checker(world)
    assert kept.violations(one(world, "passes", 1, 1), EASY) == []
    return world, kept


def test_who_went_is_not_counted_on():
    """The node comes free after three hours with another job, not after four."""
    world, kept = half_full()
    finish(world, "runs")
    submit(world, job("next", gpus=8, estimate_ms=3 * HOUR_MS - 1))
    place(world, "next", Piece(0, 0, 1, ALL))
    assert kept.violations(one(world, "passes", 1, 1), EASY) == DELAYED


def test_who_outran_its_end_ends_later():
    """After four hours it is taken to run for four more: three are not too long."""
    world, kept = half_full()
    pass_ms(world, 2 * HOUR_MS)
    assert kept.violations(one(world, "passes", 1, 1), EASY) == DELAYED
    pass_ms(world, 2 * HOUR_MS)
    assert kept.violations(one(world, "passes", 1, 1), EASY) == []


def test_a_node_that_takes_no_work_is_not_counted_on():
    """With the free node out of order the gang can wait for nothing, so nobody delays it."""
    world, kept = half_full()
    submit(world, job("long", gpus=1, per_node=1, estimate_ms=9 * HOUR_MS, team="a", priority=-1))
    assert kept.violations(one(world, "long", 1, 1), EASY) == DELAYED
    lose_device(world, 1, 7)
    assert kept.violations(one(world, "long", 1, 1), EASY) == []


def test_who_gives_up_a_part_of_its_place_ends_at_another_time():
    """An elastic job shrinks: nothing changes on the node that it stays on, but when it ends."""
    world = fleet(nodes=3)
    elastic = role(2, gpus=8, least=1)
    submit(world, job("runs", roles=[elastic], speedup=((1, 900_000),), estimate_ms=4 * HOUR_MS))
    place(world, "runs", Piece(0, 0, 1, ALL), Piece(0, 1, 1, ALL))
    start(world, "runs")
    submit(world, job("gang", gpus=24, estimate_ms=HOUR_MS))
    submit(world, job("passes", gpus=1, estimate_ms=3 * HOUR_MS))
    kept, plan = Checker(world), one(world, "passes", 2, 1)
    assert kept.violations(plan, EASY) == violations(world, plan, EASY) == []
    pass_ms(world, 3 * HOUR_MS)
    fold(
        world,
        ev.AskedMove(world.now_ms, 0, 1, ev.Why.SHRUNK, (), (Piece(0, 1, 1, ALL),)),
    )
    leave(world)
    start(world, "runs")
    plan = one(world, "passes", 2, 1)
    assert kept.violations(plan, EASY) == violations(world, plan, EASY) == DELAYED


@pytest.mark.parametrize("comes_back", [False, True])
def test_who_comes_back_to_its_line_goes_before_the_later(comes_back: bool):
    """What is kept of a line is read again when somebody returns to it."""
    world = fleet(nodes=1)
    hours = {"first": 2, "second": 1, "third": 9, "fourth": 3}
    for name, estimate in hours.items():
        submit(world, job(name, estimate_ms=estimate * HOUR_MS))
    kept = Checker(world)
    place(world, "first", Piece(0, 0, 1, 0b1))
    start(world, "first")
    plan = one(world, "second", 0, 0b10)
    assert kept.violations(plan, EASY) == []
    carry_out(world, plan)
    if comes_back:
        crash(world, "first")
    wrong = ["job `fourth` is placed before `first`, which asks for the same and is next"]
    assert kept.violations(one(world, "fourth", 0, 0b100), EASY) == wrong * comes_back


def test_a_plan_that_was_not_carried_out_tells_nothing_of_a_line():
    """Whoever it would have placed waits still, and goes before the later."""
    world = fleet(nodes=1)
    for name, estimate in {"first": 2, "second": 1, "third": 3}.items():
        submit(world, job(name, estimate_ms=estimate * HOUR_MS))
    kept = Checker(world)
    both = (*one(world, "first", 0, 0b1).actions, *one(world, "second", 0, 0b10).actions)
    assert kept.violations(ev.Plan(both, 0), EASY) == []
    found = kept.violations(one(world, "third", 0, 0b1), EASY)
    assert found == ["job `third` is placed before `first`, which asks for the same and is next"]
