"""The plan checker on reservations: nobody who passes may delay the first that waits."""

import itertools

import pytest
from msgspec.structs import replace

from tests.builders import beat, contract, decide, fleet, job, pass_ms, role, submit, team
from tidemill.engine.check import check, violations
from tidemill.model import events as ev
from tidemill.model.errors import PlanRefused
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece, Role
from tidemill.model.world import World

EASY = Policy(order="fifo", backfill="easy")
FIRST, ALL = 0b1, 0b1111_1111


def half_full(*waiting: tuple[str, int]) -> World:
    """Two nodes: one busy for four more hours, the other free; a gang of both waits for them."""
    world = fleet(nodes=2)
    submit(world, job("runs", gpus=8, estimate_ms=4 * HOUR_MS))
    beat(world, EASY)
    submit(world, job("gang", gpus=16, estimate_ms=HOUR_MS))
    for name, estimate_ms in waiting:
        submit(world, job(name, gpus=1, estimate_ms=estimate_ms))
    return world


def placing(world: World, name: str, node: int, devices: int) -> ev.Plan:
    j = world.job_number[name]
    return ev.Plan((ev.AskedPlace(world.now_ms, j, 1, (Piece(0, node, 1, devices),)),), 0)


@pytest.mark.parametrize(
    ("estimate_ms", "is_wrong"), [(4 * HOUR_MS, False), (4 * HOUR_MS + 1, True)]
)
def test_who_ends_a_millisecond_late_is_found(estimate_ms: int, is_wrong: bool):
    """The gang could start in four hours; a job on its devices must be over by then."""
    world = half_full(("passes", estimate_ms))
    found = violations(world, placing(world, "passes", 1, FIRST), EASY)
    assert found == (["job `gang` is delayed by who passes it"] if is_wrong else [])


@pytest.mark.parametrize(
    ("roles", "is_said"),
    [
        ((role(1, name="a", gpus=8), role(1, name="b", gpus=8)), True),
        ((role(1, name="a", gpus=8), role(2, name="b", gpus=4)), False),
        ((role(3, name="a", gpus=4), role(1, name="b", gpus=4)), True),
    ],
)
def test_a_gang_of_several_roles_that_are_alike_is_judged(roles: tuple[Role, ...], is_said: bool):
    """As one of so many replicas; where roles differ nothing is said, nor where types do."""
    for kinds, estimate_ms in itertools.product([["H100"], ["H100", "A100"]], [4, 5]):
        world = fleet(contract("h", gpus=16), contract("a", gpus=1, per_node=1, kind="A100"))
        submit(world, job("runs", gpus=8, kinds=["H100"], estimate_ms=4 * HOUR_MS))
        beat(world, EASY)
        alike = [replace(one, kinds=tuple(kinds)) for one in roles]
        submit(world, job("gang", roles=alike, estimate_ms=HOUR_MS))
        submit(world, job("passes", kinds=["H100"], estimate_ms=estimate_ms * HOUR_MS))
        found = violations(world, placing(world, "passes", 1, FIRST), EASY)
        is_wrong = is_said and estimate_ms > 4 and len(kinds) == 1
        assert found == (["job `gang` is delayed by who passes it"] if is_wrong else [])
        assert not violations(world, decide(world, EASY), EASY)


@pytest.mark.parametrize("fillers", range(3))
def test_every_plan_that_delays_is_refused(fillers: int):
    """On a fleet of this size the loop's own check reads all that runs for every plan."""
    world = half_full(("passes", 5 * HOUR_MS))
    for i in range(fillers):
        submit(world, job(f"filler-{i}", gpus=1, estimate_ms=HOUR_MS))
    with pytest.raises(PlanRefused, match="`gang` is delayed"):
        check(world, placing(world, "passes", 1, FIRST), EASY)


def test_without_backfill_nothing_was_promised():
    """Where everybody may pass, nobody is delayed against a promise."""
    world = half_full(("passes", 5 * HOUR_MS))
    policy = Policy(order="fifo", backfill="none")
    assert violations(world, placing(world, "passes", 1, FIRST), policy) == []


def test_who_sits_beside_the_reservation_may_stay():
    """A third node that the gang does not need is free to all."""
    world = fleet(nodes=3)
    submit(world, job("runs", gpus=8, estimate_ms=4 * HOUR_MS))
    submit(world, job("too", gpus=8, estimate_ms=5 * HOUR_MS))
    beat(world, EASY)
    submit(world, job("gang", gpus=16, estimate_ms=HOUR_MS), job("long", estimate_ms=99 * HOUR_MS))
    assert violations(world, placing(world, "long", 2, FIRST), EASY) != []
    submit(world, job("short", gpus=8, estimate_ms=3 * HOUR_MS))
    assert violations(world, placing(world, "short", 2, ALL), EASY) == []


def test_an_overrun_is_counted_as_the_estimates_do():
    """A job that outran its guess is taken to run twice as long, and others may use that."""
    world = half_full(("passes", 3 * HOUR_MS))
    pass_ms(world, 4 * HOUR_MS)
    assert violations(world, placing(world, "passes", 1, FIRST), EASY) == []
    pass_ms(world, 2 * HOUR_MS)
    assert violations(world, placing(world, "passes", 1, FIRST), EASY) != []


def test_kinds_are_judged_apart():
    """A gang that waits for one kind is not delayed by who takes another."""
    world = fleet(contract("h", gpus=16), contract("a", gpus=8, kind="A100"), teams=[team("a")])
    submit(world, job("runs", gpus=8, kinds=["H100"], estimate_ms=HOUR_MS))
    beat(world, EASY)
    submit(world, job("gang", gpus=16, kinds=["H100"], estimate_ms=HOUR_MS))
    submit(world, job("long", gpus=8, kinds=["A100"], estimate_ms=99 * HOUR_MS))
    plan = decide(world, EASY)
    assert [action for action in plan.actions if isinstance(action, ev.AskedPlace)]
    assert violations(world, plan, EASY) == []


@pytest.mark.parametrize("before", ["", "never", "either", "never either"])
def test_who_may_use_a_claimed_type_is_before_others_on_its_types(before: str):
    """One that never fits is first on A100; who may use either is still first on H100."""
    world = fleet(contract("h", gpus=24), contract("a", gpus=8, kind="A100"), teams=[team("a")])
    submit(world, job("long", gpus=16, kinds=["H100"], estimate_ms=9 * HOUR_MS))
    submit(world, job("short", gpus=4, kinds=["H100"], estimate_ms=4 * HOUR_MS))
    submit(world, job("other", gpus=8, kinds=["A100"], estimate_ms=99 * HOUR_MS))
    beat(world, EASY)
    waiting = {"never": job("never", gpus=16, kinds=["A100"]), "either": job("either", gpus=16)}
    submit(world, *(waiting[name] for name in before.split()))
    submit(world, job("second", gpus=8, kinds=["H100"], estimate_ms=HOUR_MS))
    submit(world, job("passes", gpus=4, kinds=["H100"], estimate_ms=6 * HOUR_MS))
    (piece,) = world.placements[world.job_number["short"]]
    found = violations(world, placing(world, "passes", piece.node, 0b1111_0000), EASY)
    is_first = "either" not in before
    assert found == (["job `second` is delayed by who passes it"] if is_first else [])


@pytest.mark.parametrize(
    ("policy", "estimate_ms", "is_wrong"),
    [
        (Policy(backfill="none"), HOUR_MS, True),
        (EASY, 2 * HOUR_MS, True),
        (EASY, 2 * HOUR_MS - 1, False),
        (Policy(order="shortest", backfill="none"), HOUR_MS, False),
        (Policy(order="shortest", backfill="none"), 3 * HOUR_MS, True),
        (Policy(order="smallest"), 3 * HOUR_MS, True),
        (Policy(order="attained"), 3 * HOUR_MS, True),
        (Policy(order="attained"), HOUR_MS, False),
    ],
    ids=[
        "no backfill",
        "as long",
        "shorter",
        "shortest first",
        "longest first",
        "largest first",
        "as much attained",
        "as much attained and backfill",
    ],
)
def test_of_jobs_that_ask_for_the_same_the_first_goes_first(
    policy: Policy, estimate_ms: int, is_wrong: bool
):
    """A job is not placed before one of its shape that goes first, unless backfill and shorter.

    In an order that reads run times the checker said nothing of it.
    """
    world = fleet(nodes=1)
    submit(world, job("first", estimate_ms=2 * HOUR_MS), job("second", estimate_ms=estimate_ms))
    found = violations(world, placing(world, "second", 0, FIRST), policy)
    said = "job `second` is placed before `first`, which asks for the same and is next"
    assert found == ([said] if is_wrong else [])
