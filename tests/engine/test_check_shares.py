"""The plan checker on fair shares: whose team has less goes first, now and lately."""

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.builders import beat, contract, decide, finish, fleet, job, pass_ms, queue, submit, team
from tests.engine import shares_oracle
from tidemill.engine.check import violations
from tidemill.model import events as ev
from tidemill.model.measures import DAY_MS, HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Piece, Queue
from tidemill.model.world import World

DRF = Policy(fairness="drf")
LATELY = Policy(fairness="drf", usage_half_life_ms=HOUR_MS)
BILL = Policy(fairness="bill", usage_half_life_ms=HOUR_MS)


def had_all(policy: Policy, teams: list[Queue], hours: int = 1, estimate_ms: int = 0) -> World:
    """Team a had the whole node for a day, and nobody since; now both teams wait for it."""
    world = fleet(nodes=1, teams=teams)
    beat(world, policy)
    submit(world, job("all", gpus=8))
    beat(world, policy)
    pass_ms(world, DAY_MS)
    finish(world, "all")
    pass_ms(world, hours * HOUR_MS)
    submit(
        world, job("mine", estimate_ms=estimate_ms), job("theirs", team="b", estimate_ms=HOUR_MS)
    )
    return world


def placing(world: World, *names: str) -> ev.Plan:
    """These jobs are placed, one GPU each."""
    actions = [
        ev.AskedPlace(world.now_ms, world.job_number[name], 1, (Piece(0, 0, 1, 1 << i),))
        for i, name in enumerate(names)
    ]
    return ev.Plan(tuple(actions))


@pytest.mark.parametrize("policy", [LATELY, BILL], ids=["drf", "bill"])
def test_who_used_much_lately_is_not_placed_before_who_did_not(policy: Policy):
    """The plan that the scheduler makes is right; one that leaves the other team waiting is not."""
    world = had_all(policy, [team("a"), team("b")])
    assert not violations(world, decide(world, policy), policy)
    assert not violations(world, placing(world, "theirs"), policy)
    assert not violations(world, placing(world, "mine", "theirs"), policy), "nobody is left out"
    found = violations(world, placing(world, "mine"), policy)
    assert found == ["job `mine` is placed before `theirs`, whose team has less"]


def test_what_is_used_now_counts_as_the_plan_goes_on():
    """Without a half-life both begin alike; after one job of a team the other's turn has come."""
    world = fleet(nodes=1, teams=[team("a"), team("b")])
    submit(world, job("x"), job("y"), job("z", team="b"))
    assert not violations(world, placing(world, "x"), DRF)
    assert violations(world, placing(world, "x", "y"), DRF)
    assert not violations(world, placing(world, "x", "z"), DRF)


def test_after_many_half_lives_nothing_is_said():
    """What is left of the past is less than rounding hides."""
    world = had_all(LATELY, [team("a"), team("b")], hours=40)
    assert not violations(world, placing(world, "mine"), LATELY)


def test_who_ends_sooner_may_pass():
    """With backfill a shorter job may be let past what is reserved; without it nobody may."""
    world = had_all(LATELY, [team("a"), team("b")], estimate_ms=HOUR_MS // 2)
    assert not violations(world, placing(world, "mine"), LATELY)
    assert violations(world, placing(world, "mine"), replace(LATELY, backfill="none"))


def test_shares_are_compared_where_two_paths_part():
    """Two teams of one organisation by their own; of two, by those of the organisations."""
    under = [Queue("o"), Queue("p"), queue("a", parent="o"), queue("b", parent="p")]
    world = had_all(LATELY, under)
    assert violations(world, placing(world, "mine"), LATELY)
    world = had_all(LATELY, [Queue("o"), queue("a", parent="o"), queue("b", parent="o")])
    assert violations(world, placing(world, "mine"), LATELY)


def test_where_quotas_have_a_say_nothing_is_said():
    """A guaranteed quota goes before shares, and a limit may keep a team out."""
    for teams in ([team("a", floor=4), team("b")], [team("a"), team("b", limit=4)]):
        world = had_all(LATELY, teams)
        assert not violations(world, placing(world, "mine"), LATELY)


@given(st.data())
@settings(max_examples=60)
def test_it_is_what_plain_python_says(data: st.DataObject):
    """Of teams under organisations with weights, on two GPU types, whatever each used lately."""
    draw = data.draw
    policy = replace(
        draw(st.sampled_from([DRF, LATELY, BILL])), backfill=draw(st.sampled_from(["none", "easy"]))
    )
    tops = [Queue(name, weight=draw(st.integers(1, 3))) for name in "op"]
    teams = [
        Queue(name, parent=draw(st.sampled_from(["", "o", "p"])), weight=draw(st.integers(1, 3)))
        for name in "abc"
    ]
    world = fleet(
        contract("x"),
        contract("y", kind="A100", usd_micro_per_hour=1_000_000),
        teams=[*tops, *teams],
    )
    beat(world, policy)
    for i in range(draw(st.integers(0, 4))):
        of = draw(st.sampled_from("abc"))
        submit(world, job(f"ran{i}", gpus=draw(st.integers(1, 3)), team=of))
        beat(world, policy)
        pass_ms(world, draw(st.integers(1, 5)) * HOUR_MS)
        if draw(st.booleans()):
            finish(world, f"ran{i}")
    for i in range(draw(st.integers(1, 6))):
        kinds, hours = draw(st.sampled_from([(), ("H100",)])), draw(st.integers(1, 2))
        submit(world, job(f"w{i}", team=draw(st.sampled_from("abc")), kinds=kinds,
                          estimate_ms=hours * HOUR_MS))  # fmt: skip
    left = {s: [*world.waiting[s]] for s in world.queued}
    actions = []
    for d in range(draw(st.integers(1, sum(map(len, left.values()))))):
        s = draw(st.sampled_from(sorted(s for s in left if left[s])))
        n, j = 0 if world.shape_rows[s].roles[0].kinds else draw(st.integers(0, 1)), left[s].pop(0)
        actions.append(ev.AskedPlace(world.now_ms, j, 1, (Piece(0, n, 1, 1 << d),)))
    plan = ev.Plan(tuple(actions))
    told = [text for text in violations(world, plan, policy) if "has less" in text]
    wanted = [*shares_oracle.passed_over(world, policy, plan)]
    event(f"{min(1, len(wanted))} told")
    assert [text.split("`")[1] for text in told] == [text.split("`")[1] for text in wanted]
