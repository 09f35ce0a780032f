"""Queues in a tree: limits, borrowing, lending and reclaim at every level."""

import pytest

from tests.builders import (
    beat,
    cause_of,
    contract,
    decide,
    evicted,
    fleet,
    job,
    leave,
    pass_ms,
    placed,
    queue,
    rights,
    submit,
)
from tidemill import explain
from tidemill.core import snapshot
from tidemill.engine.check import violations
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.errors import EventRefused
from tidemill.model.measures import HOUR_MS
from tidemill.model.reasons import Cause
from tidemill.model.world import World
from tidemill.scheduling import shares


def university(**of_science: int | None) -> World:
    """32 accelerators; science has physics and biology below it, arts is beside science."""
    return fleet(
        teams=[
            queue("science", **of_science),  # type: ignore[arg-type]
            queue("physics", parent="science", floor=8),
            queue("biology", parent="science", floor=8),
            queue("arts", floor=8),
        ]
    )


def test_a_parent_is_sure_of_what_is_below_it():
    """Without a floor of its own a queue is sure of the sum of the floors below it."""
    assert university().floor[:, 0].tolist() == [16_000, 8_000, 8_000, 8_000]
    assert university(floor=20).floor[0, 0] == 20_000


def test_use_counts_at_every_level():
    """What a team uses counts for everything above it, and not beside it."""
    world = university()
    submit(world, job("p", gpus=4, team="physics"))
    beat(world)
    assert world.used[:, 0].tolist() == [4_000, 4_000, 0, 0]


def test_the_limit_of_a_parent_bounds_the_sum_of_its_children():
    """Two children within their own limits do not pass the limit above both."""
    world = university(limit=16)
    submit(world, job("p", gpus=8, team="physics"), job("b", gpus=8, team="biology"))
    submit(world, job("more", gpus=1, team="biology"), job("other", gpus=1, team="arts"))
    plan = beat(world)
    assert set(placed(world, plan)) == {"p", "b", "other"}
    assert cause_of(world, "more") is Cause.OVER_LIMIT


def test_what_may_be_borrowed_is_counted_above_the_floor():
    """A queue with a floor of 8 that may borrow 4 uses 12 and no more."""
    world = fleet(teams=[queue("a", floor=8, borrow=4)])
    submit(world, *(job(f"j{i}", gpus=4) for i in range(4)))
    assert len(placed(world, beat(world))) == 3
    assert cause_of(world, "j3") is Cause.OVER_LIMIT


def test_what_is_not_lent_stays_free_for_its_owner():
    """Of a floor of 8 only 2 are lent: the other 6 stay free, and the owner has them at once."""
    world = fleet(nodes=2, teams=[queue("a"), queue("b", floor=8, lend=2)])
    submit(world, *(job(f"j{i}") for i in range(16)))
    assert len(placed(world, beat(world))) == 10
    assert cause_of(world, "j10") is Cause.KEPT_BACK
    submit(world, job("owner", gpus=6, team="b"))
    assert "owner" in placed(world, decide(world))


def test_what_a_parent_keeps_is_lent_inside():
    """A child may use what its parent keeps from others, not what its sibling keeps."""
    world = fleet(
        nodes=2,
        teams=[
            queue("p", lend=0),
            queue("x", parent="p", floor=4),
            queue("y", parent="p", floor=8, lend=6),
            queue("z"),
        ],
    )
    submit(world, *(job(f"z{i}", team="z") for i in range(16)))
    assert len(placed(world, beat(world))) == 4
    submit(world, *(job(f"x{i}", team="x") for i in range(16)))
    assert len(placed(world, beat(world))) == 10


def test_a_broken_node_does_not_shut_an_owner_out():
    """Where less is free than is kept, owners still get what is there; others get nothing."""
    world = fleet(nodes=1, teams=[queue("a"), queue("b", floor=16, lend=0)])
    submit(world, job("others"), job("owner", gpus=4, team="b"))
    assert set(placed(world, beat(world))) == {"owner"}


def test_siblings_give_back_before_cousins():
    """A queue below its floor takes from a sibling that borrows, though a cousin is cheaper."""
    world = university()
    submit(world, job("b", gpus=16, team="biology", priority=9))
    submit(world, job("c", gpus=16, team="arts"))
    beat(world)
    submit(world, job("p", gpus=8, team="physics"))
    assert evicted(world, decide(world)) == {"b": ev.Why.RECLAIMED}


def test_cousins_give_back_what_siblings_cannot():
    """Above its own floor but within that of its parent, a job takes back from outside only."""
    world = university()
    submit(world, job("b", gpus=8, team="biology"), job("c", gpus=16, team="arts"))
    submit(world, job("d", gpus=8, team="arts"))
    beat(world)
    submit(world, job("p", gpus=8, team="physics"))
    plan = beat(world)
    (victim,) = evicted(world, plan)
    assert victim in {"c", "d"}
    leave(world)
    assert "p" in placed(world, beat(world))


def test_nobody_is_pushed_below_a_floor_above_it():
    """A team that borrows within the floor of its parent is safe from outsiders."""
    world = fleet(
        teams=[queue("p", floor=24), queue("x", parent="p"), queue("y", floor=8), queue("z")]
    )
    submit(world, job("x", gpus=24, team="x"), job("z", gpus=8, team="z"))
    beat(world)
    submit(world, job("y", gpus=8, team="y"))
    assert evicted(world, decide(world)) == {"z": ev.Why.RECLAIMED}


def test_a_limit_above_is_made_room_under():
    """A job kept out by its parent's limit takes back from its sibling though nodes are free."""
    world = university(limit=16)
    submit(world, job("b", gpus=16, team="biology"))
    beat(world)
    submit(world, job("p", gpus=8, team="physics"))
    assert evicted(world, decide(world)) == {"b": ev.Why.RECLAIMED}


def test_whoever_is_under_a_full_limit_waits_for_its_turn():
    """Behind a job that a parent's limit keeps out, its siblings do not pass; others do."""
    world = university(limit=16)
    submit(world, job("b", gpus=12, per_node=4, team="biology", is_preemptible=False))
    beat(world)
    submit(world, job("large", gpus=8, team="physics"))
    policy = rights(patience_ms=HOUR_MS, backfill="none")
    beat(world, policy)
    pass_ms(world, HOUR_MS)
    submit(world, job("small", team="biology"), job("other", team="arts"))
    assert set(placed(world, beat(world, policy))) == {"other"}
    why = explain.why(world, policy, world.job_number["small"])
    assert "job `large` (8 accelerators of any type) holds the queue" in why.words
    assert cause_of(world, "small") is Cause.BEHIND


def test_higher_levels_decide_first():
    """Whose top-level queue is below its floor goes first, then whose own is."""
    world = university()
    submit(world, job("c", gpus=8, team="arts"), job("p", gpus=8, team="physics"))
    beat(world)
    ranks = [shares.standing(world, world.used, q, (0,)) for q in (1, 2, 3)]
    assert ranks[1] < ranks[0] < ranks[2]


REFUSED = {
    "unknown parent": (queue("x", parent="nobody"), "known teams"),
    "its own parent": (queue("x", parent="x"), "that is itself"),
    "a ring": (queue("science", parent="physics"), "that is a cycle"),
    "a parent with jobs": (queue("x", parent="arts"), "has jobs of its own"),
    "floors above a limit": (queue("science", limit=12), "add up to 16000 milli"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_tree_that_cannot_be_is_refused(case: str):
    """What contradicts the tree is refused with a reason, and nothing is changed."""
    row, reason = REFUSED[case]
    world = university()
    submit(world, job("c", team="arts"))
    before = snapshot.dump(world)
    with pytest.raises(EventRefused, match=reason):
        fold(world, ev.QueueSet(world.now_ms, row))
    assert snapshot.dump(world) == before


def test_jobs_belong_to_the_lowest_queues():
    """A job given to a queue that has others below it is refused."""
    with pytest.raises(EventRefused, match="has teams below it"):
        submit(university(), job("j", team="science"))


def test_a_team_may_move_in_the_tree():
    """When a team moves, what it uses counts where it now is."""
    world = university()
    submit(world, job("c", gpus=8, team="arts"))
    beat(world)
    fold(world, ev.QueueSet(world.now_ms, queue("arts", parent="science", floor=8)))
    assert world.used[:, 0].tolist() == [8_000, 0, 0, 8_000]
    assert world.floor[0, 0] == 24_000


def test_a_team_that_has_none_below_it_any_more_uses_nothing():
    """What it used was that of the teams below it; when those move away, it is theirs alone."""
    world = university()
    submit(world, job("p", gpus=8, team="physics"))
    beat(world)
    for row in world.queue_rows:
        if row.parent == "science":
            fold(world, ev.QueueSet(world.now_ms, queue(row.name)))
    assert world.used[world.queue_number["science"]].sum() == 0
    assert world.used[world.queue_number["physics"]].sum() == 8_000


def test_jobs_that_are_over_keep_no_team_from_getting_others_below_it():
    """A job of arts waits: refused, and it is named; it is taken back: then it may be."""
    world = university()
    submit(world, job("c", team="arts"))
    with pytest.raises(EventRefused, match="has jobs of its own, such as `c`"):
        fold(world, ev.QueueSet(world.now_ms, queue("x", parent="arts")))
    fold(world, ev.JobCancelled(world.now_ms, world.job_number["c"]))
    fold(world, ev.QueueSet(world.now_ms, queue("x", parent="arts")))
    submit(world, job("d", team="x"))


def test_the_second_reader_knows_the_limits_above():
    """A plan that exceeds the limit of a parent is refused, whoever made it."""
    generous, strict = university(), university(limit=16)
    for world in (generous, strict):
        submit(world, job("p", gpus=16, team="physics"), job("b", gpus=8, team="biology"))
    found = violations(strict, decide(generous), rights())
    assert found == ["team `science` would exceed its limit of `H100`"]


def test_the_second_reader_knows_what_is_kept():
    """A plan that takes what a queue does not lend is refused."""
    row = contract(gpus=8)
    generous = fleet(row, teams=[queue("a"), queue("b", floor=8)])
    strict = fleet(row, teams=[queue("a"), queue("b", floor=8, lend=2)])
    for world in (generous, strict):
        submit(world, job("j", gpus=4))
    assert violations(strict, decide(generous), rights()) == [
        "4000 milli of `H100` are taken that others keep"
    ]


def test_the_second_reader_knows_whose_claim_it_is():
    """Taking from a cousin without a claim at that level is refused."""
    world = university()
    submit(world, job("b", gpus=8, team="biology"), job("p", gpus=8, team="physics"))
    submit(world, job("c", gpus=16, team="arts"))
    beat(world)
    submit(world, job("more", gpus=1, team="physics"))
    plan = ev.Plan((ev.AskedEvict(world.now_ms, 2, 1, ev.Why.RECLAIMED, 3),))
    assert violations(world, plan, rights()) == ["job `c` yields to another team without a claim"]
