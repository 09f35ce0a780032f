"""Who may stop whom: higher priority within a team, floors across teams; no more than needed."""

from typing import Any

from tests.builders import (
    asked,
    beat,
    cancel,
    cause_of,
    contract,
    decide,
    evicted,
    finish,
    fleet,
    job,
    leave,
    lose_node,
    pass_ms,
    placed,
    rights,
    role,
    submit,
    team,
    teams_share,
)
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS, MINUTE_MS
from tidemill.model.reasons import Cause
from tidemill.model.world import World

PREEMPTED, RECLAIMED = ev.Why.PREEMPTED, ev.Why.RECLAIMED


def two_teams(nodes: int = 2, floor: int = 8) -> World:
    """Team `a` has no floor; team `b` is sure of eight."""
    return fleet(nodes=nodes, teams=[team("a"), team("b", floor=floor)])


def test_a_higher_priority_preempts_a_lower_one_of_its_team():
    """The lower one is asked to leave, in favour of the higher one, which waits for it."""
    world = fleet(nodes=1)
    submit(world, job("low", gpus=8))
    beat(world)
    submit(world, job("high", gpus=8, priority=1))
    plan = beat(world)
    assert plan.actions == (
        ev.AskedEvict(0, 0, 1, PREEMPTED, 1),
        ev.CauseChanged(0, 1, Cause.PROMISED),
    )
    leave(world)
    assert placed(world, decide(world)) == {"high": {0: 8}}


def test_equal_priorities_do_not_preempt():
    """A job is never stopped for one that is not higher."""
    world = fleet(nodes=1)
    submit(world, job("one", gpus=8, priority=1))
    beat(world)
    submit(world, job("two", gpus=8, priority=1))
    assert evicted(world, decide(world)) == {}


def test_priority_has_no_power_over_other_teams():
    """Another team's work is safe from any priority."""
    world = fleet(nodes=1, teams=[team("a"), team("b")])
    submit(world, job("theirs", gpus=8, team="b"))
    beat(world)
    submit(world, job("mine", gpus=8, priority=1000))
    assert evicted(world, decide(world)) == {}


def test_what_is_not_preemptible_stays():
    """A job that said so is stopped for nobody."""
    world = fleet(nodes=1)
    submit(world, job("steady", gpus=8, is_preemptible=False))
    beat(world)
    submit(world, job("high", gpus=8, priority=1))
    assert evicted(world, decide(world)) == {}


def test_a_policy_may_forbid_both():
    """Without preemption and reclaim everybody waits for the end of the others."""
    world = two_teams(nodes=1)
    submit(world, job("low", gpus=8))
    beat(world)
    submit(world, job("high", gpus=8, priority=1), job("owed", gpus=8, team="b"))
    gentle = rights(may_preempt=False, may_reclaim=False)
    assert evicted(world, decide(world, gentle)) == {}
    assert evicted(world, decide(world, rights(may_preempt=False))) == {"low": RECLAIMED}


def test_the_least_important_is_stopped_first():
    """Among those it may stop, the lowest priority goes."""
    world = fleet(nodes=2)
    submit(world, job("middle", gpus=8, priority=1), job("low", gpus=8))
    beat(world)
    submit(world, job("high", gpus=8, priority=2))
    assert evicted(world, decide(world)) == {"low": PREEMPTED}


def test_among_equals_the_cheapest_is_stopped():
    """The one that loses least work goes, not the older or the younger."""
    world = fleet(nodes=3)
    often: dict[str, Any] = {"saves_every_ms": MINUTE_MS}
    submit(world, job("rare", gpus=8), job("often", gpus=8, **often), job("late", gpus=8))
    beat(world)
    pass_ms(world, HOUR_MS + 1)
    submit(world, job("high", gpus=8, priority=1))
    assert evicted(world, decide(world)) == {"often": PREEMPTED}


def test_nobody_is_stopped_in_vain():
    """When even all victims together do not make room, nobody is stopped."""
    world = fleet(nodes=2)
    submit(world, job("low", gpus=8), job("steady", gpus=8, is_preemptible=False))
    beat(world)
    submit(world, job("high", gpus=16, priority=1))
    assert evicted(world, decide(world)) == {}


def test_whoever_is_not_in_the_way_is_spared():
    """Cheaper jobs that were considered but are not needed stay."""
    world = fleet(nodes=2)
    submit(world, job("a1", gpus=4), job("a2", gpus=4), job("whole", gpus=8))
    beat(world)
    pass_ms(world, MINUTE_MS)
    submit(world, job("high", gpus=8, priority=1))
    stopped = evicted(world, decide(world))
    assert stopped in ({"whole": PREEMPTED}, {"a1": PREEMPTED, "a2": PREEMPTED})


def test_a_job_that_would_fit_elsewhere_is_not_stopped():
    """Evicting one that the next cycle would put on a free node would only move it."""
    world = fleet(contract("h", gpus=8), contract("a", gpus=8, kind="A100"))
    submit(world, job("mover", gpus=8, kinds=["H100", "A100"]))
    beat(world)
    submit(world, job("high", gpus=8, priority=1, kinds=["H100"]))
    assert evicted(world, decide(world)) == {}
    assert cause_of(world, "high") is Cause.NONE


def test_the_search_is_bounded():
    """A policy that allows three victims gets three, not four."""
    world = fleet(nodes=1)
    submit(world, *(job(f"s{i}", gpus=2) for i in range(4)))
    beat(world)
    submit(world, job("high", gpus=8, priority=1))
    assert evicted(world, decide(world, rights(victims_at_most=3))) == {}
    assert len(evicted(world, decide(world, rights(victims_at_most=4)))) == 4


def test_only_so_many_look_for_victims_in_one_cycle():
    """Of two that could preempt, one looks in this cycle, and the other in the next."""
    world = fleet(contract("h", gpus=8), contract("a", gpus=8, kind="A100"))
    submit(world, job("h0", gpus=8, kinds=["H100"]), job("a0", gpus=8, kinds=["A100"]))
    beat(world)
    high: dict[str, Any] = {"gpus": 8, "priority": 1}
    submit(world, job("h1", kinds=["H100"], **high), job("a1", kinds=["A100"], **high))
    one = rights(searches_per_cycle=1)
    assert list(evicted(world, decide(world, one))) == ["h0"]
    beat(world, one)
    assert list(evicted(world, decide(world, one))) == ["a0"]


def test_the_room_goes_to_whom_it_was_made_for():
    """Between the eviction and the start nobody else slips in, not even a still higher one."""
    world = fleet(nodes=1, teams=[team("a"), team("b")])
    submit(world, job("low", gpus=8))
    beat(world)
    submit(world, job("high", gpus=8, priority=1))
    beat(world)
    submit(world, job("thief", gpus=8, team="b", priority=9))
    leave(world)
    assert placed(world, decide(world)) == {"high": {0: 8}}


def test_while_victims_leave_nobody_else_is_stopped_for_the_same():
    """A second beat before the victim has left asks for nothing more."""
    world = fleet(nodes=2)
    submit(world, job("low1", gpus=8), job("low2", gpus=8))
    beat(world)
    submit(world, job("high", gpus=8, priority=1))
    beat(world)
    pass_ms(world, 1)
    assert asked(decide(world), ev.AskedEvict) == []


def test_an_heir_that_is_cancelled_leaves_no_promise():
    """When the job for which room was made is gone, the room is anybody's."""
    world = fleet(nodes=1, teams=[team("a"), team("b")])
    submit(world, job("low", gpus=8))
    beat(world)
    submit(world, job("high", gpus=8, priority=1))
    beat(world)
    cancel(world, "high")
    leave(world)
    submit(world, job("other", gpus=8, team="b", priority=1))
    assert placed(world, decide(world)) == {"other": {0: 8}}


def test_a_promise_that_cannot_be_kept_is_released():
    """If the room is gone when the victims have left, the precedence is given up, and said so."""
    world = fleet(nodes=2)
    submit(world, job("low1", gpus=8), job("low2", gpus=8))
    beat(world)
    submit(world, job("high", gpus=16, priority=1))
    beat(world)
    leave(world)
    lose_node(world, 1)
    plan = decide(world)
    assert asked(plan, ev.AskedRelease) == [ev.AskedRelease(0, 1)]


# Floors ---------------------------------------------------------------------------------------


def test_a_team_may_borrow_what_others_do_not_use():
    """Above its floor a team may use all that is free."""
    world = two_teams()
    submit(world, job("big", gpus=16))
    assert placed(world, decide(world)) == {"big": {0: 8, 1: 8}}


def test_what_was_borrowed_is_taken_back_for_a_floor():
    """A job within its team's floor stops the work of one that borrows."""
    world = two_teams()
    submit(world, job("a1", gpus=8), job("a2", gpus=8))
    beat(world)
    submit(world, job("owed", gpus=8, team="b"))
    plan = decide(world)
    assert list(evicted(world, plan).values()) == [RECLAIMED]


def test_above_its_floor_a_team_takes_nothing_back():
    """A second job that would exceed the floor waits like everybody."""
    world = two_teams()
    submit(world, job("owed", gpus=8, team="b"), job("a1", gpus=8))
    beat(world)
    submit(world, job("more", gpus=8, team="b"))
    assert evicted(world, decide(world)) == {}


def test_what_is_within_a_floor_is_not_taken():
    """A team that does not borrow is safe from others' floors."""
    world = fleet(nodes=1, teams=[team("a", floor=8), team("b", floor=8)])
    submit(world, job("mine", gpus=8))
    beat(world)
    submit(world, job("theirs", gpus=8, team="b"))
    assert evicted(world, decide(world)) == {}


def test_only_what_is_borrowed_is_taken_back():
    """Of three jobs of a team with a floor of eight, sixteen borrowed, at most two are stopped."""
    world = fleet(nodes=3, teams=[team("a", floor=8), team("b", floor=24)])
    submit(world, *(job(f"a{i}", gpus=8) for i in range(3)))
    beat(world)
    submit(world, job("owed", gpus=24, team="b"), job("less", gpus=16, team="b"))
    assert len(evicted(world, decide(world))) == 2


def test_reclaiming_stays_within_the_floor_of_its_kind():
    """A floor of one kind takes nothing back of another, where the job would only borrow."""
    kinds = (contract("h", gpus=8), contract("a", gpus=8, kind="A100"))
    teams = [team("a"), teams_share("b", A100=(8, None))]
    world = fleet(*kinds, teams=teams)
    submit(world, job("h", gpus=8, kinds=["H100"]), job("a", gpus=8, kinds=["A100"]))
    beat(world)
    submit(world, job("owed", gpus=8, team="b", kinds=["H100", "A100"]))
    assert evicted(world, decide(world)) == {"a": RECLAIMED}
    finish(world, "a")
    submit(world, job("h2", gpus=8, team="b", kinds=["H100"]))
    assert evicted(world, decide(world)) == {}


def test_two_heirs_do_not_stop_one_victim_twice():
    """A gang over two kinds that leaves for one heir is not asked again for the other."""
    world = fleet(contract("h", gpus=8), contract("a", gpus=8, kind="A100"))
    both = [role(1, gpus=8, kinds=["H100"]), role(1, gpus=8, kinds=["A100"])]
    submit(world, job("wide", roles=both))
    beat(world)
    high: dict[str, Any] = {"gpus": 8, "priority": 1}
    submit(world, job("h1", kinds=["H100"], **high), job("a1", kinds=["A100"], **high))
    assert evicted(world, decide(world)) == {"wide": PREEMPTED}
    beat(world)
    leave(world)
    assert placed(world, decide(world)) == {"h1": {0: 8}, "a1": {1: 8}}


def test_limits_hold():
    """A team never uses more than its limit, whatever is free."""
    world = fleet(nodes=2, teams=[team("a", limit=8), team("b")])
    submit(world, job("a1", gpus=8), job("a2", gpus=8), job("b1", gpus=8, team="b"))
    assert placed(world, decide(world)) == {"a1": {0: 8}, "b1": {1: 8}}


def test_within_its_limit_a_team_makes_room_by_priority():
    """A higher job of a team at its limit stops a lower one of the team, with nodes free."""
    world = fleet(nodes=2, teams=[team("a", limit=8)])
    submit(world, job("low", gpus=8))
    beat(world)
    submit(world, job("high", gpus=8, priority=1))
    assert evicted(world, decide(world)) == {"low": PREEMPTED}
