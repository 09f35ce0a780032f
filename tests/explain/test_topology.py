"""What `why`, `fit` and `pending` say of gangs that are to sit together."""

import pytest

from tests.builders import (
    NODE,
    RACK,
    SPINE,
    beat,
    contract,
    fleet,
    job,
    move_node,
    place,
    racks,
    start,
    submit,
)
from tidemill import explain
from tidemill.model.errors import SpecError
from tidemill.model.measures import HOUR_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Piece
from tidemill.model.states import NodeState
from tidemill.model.topology import Bond
from tidemill.model.world import World

POLICY = Policy()
IN_ONE_RACK = Bond("rack")


def blocked() -> World:
    """Two racks of two nodes, one of each taken, and a gang that wants a whole rack."""
    world = fleet(
        contract(gpus=32), node_labels=racks(2, 2, per_spine=1), topology=(SPINE, RACK, NODE)
    )
    submit(world, job("x", gpus=8), job("y", gpus=8))
    place(world, "x", Piece(0, 0, 1, 255))
    place(world, "y", Piece(0, 2, 1, 255))
    start(world, "x", "y")
    submit(world, job("t", gpus=16, bonds=[IN_ONE_RACK]))
    beat(world)
    return world


def test_why_names_the_tier_what_it_has_and_what_was_asked():
    """The cause is topology, its first number is the best rack, and preferring it would help."""
    answer = explain.why(blocked(), POLICY, 2)
    assert answer.cause == answer.said == "topology"
    assert answer.asks == "2×8 accelerators of any type in one `rack`"
    assert answer.evidence[0].words == "the largest `rack` has 8 free, it requests 16 in one"
    assert "2 of 2 replicas would fit now anywhere, not in one `rack`" in answer.words
    fixes = [answer.fix.words, *(fix.words for fix in answer.other_fixes)]
    assert any(
        "request 2 replicas of 8 GPUs preferring one `rack` instead: that starts now" in words
        for words in fixes
    )
    assert "do not buy: 16 accelerators are free" in answer.do_not


def test_fit_says_never_with_the_largest_domain():
    """More than any rack has never fits, with the nearest thing that does."""
    world = blocked()
    forecast = explain.fit(world, POLICY, job("u", gpus=24, bonds=[IN_ONE_RACK]))
    assert forecast.verdict == "never"
    assert forecast.certificate is not None
    assert forecast.certificate.words == "the largest `rack` has 16, it requests 24 in one"
    assert forecast.certificate.nearest.startswith("request at most 16 in one `rack`")


def test_the_largest_domain_does_not_count_a_cordoned_node_as_usable():
    """Racks of two nodes, one node of each is out: what one rack holds now is said too."""
    world = blocked()
    for rack in {dict(row.labels)["rack"] for row in world.node_rows}:
        mine = [n for n, row in enumerate(world.node_rows) if dict(row.labels)["rack"] == rack]
        move_node(world, mine[0], NodeState.CORDONED)
    found = explain.fit(world, POLICY, job("u", gpus=24, bonds=[IN_ONE_RACK])).certificate
    assert found is not None
    assert found.nearest.startswith("request at most 16 in one `rack`; ")
    assert "are cordoned now: until they take work again at most 8, or prefer" in found.nearest


def test_the_board_counts_what_is_free_but_too_far_apart():
    """What stands free beneath the cause is priced like any other wait."""
    row = explain.board(blocked(), POLICY).rows[0]
    assert (row.cause, row.idle_milli) == ("topology", 16_000)


def test_a_running_gang_tells_its_worst_hop():
    """Where it sits is told with the tier that its slowest link passes."""
    world = blocked()
    assert explain.why(world, POLICY, 0).words.endswith("; worst hop: `node`")
    submit(world, job("u", gpus=16, bonds=[Bond("rack", is_required=False)]))
    beat(world)
    assert explain.why(world, POLICY, 3).words.endswith("; worst hop: beyond every tier")


def test_a_job_on_one_node_has_no_hop_between_racks():
    """In a fleet that declares racks alone, what sits on one node crosses none of them."""
    world = fleet(contract(gpus=32), node_labels=racks(2, 2), topology=(RACK,))
    assert "hop" not in explain.fit(world, POLICY, job("t", gpus=8)).words
    assert explain.fit(world, POLICY, job("t", gpus=16)).words.endswith("; worst hop: `rack`")
    submit(world, job("t", gpus=8))
    beat(world)
    assert "hop" not in explain.why(world, POLICY, 0).words


def test_fit_says_how_far_apart_it_would_sit():
    """A gang that only prefers its rack runs now, and is told over which tier."""
    forecast = explain.fit(
        blocked(), POLICY, job("u", gpus=16, bonds=[Bond("rack", is_required=False)])
    )
    assert forecast.verdict == "now"
    assert forecast.words.endswith("; worst hop: beyond every tier")


def test_a_tier_that_nobody_knows_is_refused_before_it_is_asked():
    """`fit` names the tiers there are, as a submission would."""
    with pytest.raises(SpecError, match="tiers that this fleet declares: `spine`, `rack`, `node`"):
        explain.fit(blocked(), POLICY, job("u", gpus=16, bonds=[Bond("row")]))


def two_racks_and(*more: Contract) -> World:
    """Two racks of two nodes, empty."""
    return fleet(contract(gpus=32), *more, node_labels=racks(2, 2), topology=(SPINE, RACK, NODE))


def test_a_gang_larger_than_any_rack_of_a_live_cluster_never_fits():
    """A node that was deleted is no node that somebody may yet see in the right rack."""
    world = two_racks_and(contract("gone", gpus=8))
    world.scheduler = "tidemill"
    move_node(world, 4, NodeState.GONE)
    wants = job("t", gpus=24, bonds=[IN_ONE_RACK])
    forecast = explain.fit(world, POLICY, wants)
    assert (forecast.verdict, forecast.cause) == ("never", "impossible_topology")
    submit(world, wants)
    beat(world)
    answer = explain.why(world, POLICY, 0)
    assert answer.cause == answer.said == "impossible_topology"
    assert answer.evidence[0].words == "the largest `rack` has 16, it requests 24 in one"


def test_where_nodes_are_still_to_come_the_largest_rack_is_told():
    """Too little is Ready in one rack: that, not all that is Ready, is the number and the fix."""
    world = two_racks_and(contract("later", gpus=8, start_ms=HOUR_MS))
    submit(world, job("t", gpus=24, bonds=[IN_ONE_RACK]))
    beat(world)
    answer = explain.why(world, POLICY, 0)
    assert answer.cause == "not_enough_ready"
    told = "the largest `rack` has 16 Ready, it requests 24 in one"
    assert answer.evidence[0].words == told
    assert answer.certificate is not None
    assert answer.certificate.words == told
