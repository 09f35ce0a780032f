"""A gang on several GPU types: another scheduler may place it so, and ours does not."""

import pytest

from tests.builders import DEFAULTS, contract, fleet, job, place, role, submit, team, teams_share
from tidemill import explain
from tidemill.explain.answers import Forecast
from tidemill.model.rows import Job, Piece, Queue
from tidemill.model.world import World

WIDE = job("wide", gpus=24, per_node=8)


def of_two_types(*teams: Queue, is_ours: bool = False) -> World:
    """A node of eight H100 and two of eight A100, as another scheduler's cluster, or ours."""
    rows = [contract("h", gpus=8), contract("a", gpus=16, kind="A100")]
    world = fleet(*rows, teams=teams or [team("a")])
    world.is_live = not is_ours
    return world


def fit(world: World, wanted: Job = WIDE) -> Forecast:
    """What is said before it is submitted."""
    return explain.fit(world, DEFAULTS, wanted)


def test_our_scheduler_has_a_role_on_one_type():
    """Two of three replicas fit the A100s: three of them never start."""
    found = fit(of_two_types(is_ours=True))
    assert found.verdict == "never"
    assert "a role runs on one GPU type (all GPU types together: 3)" in found.words


def test_another_scheduler_asks_each_replica_alone():
    """All three start, of one role or with another beside them; a fourth has no node."""
    assert fit(of_two_types()).verdict == "now"
    two = job("two", roles=[role(1, gpus=8), role(2, gpus=8, name="other")])
    assert fit(of_two_types(), two).verdict == "now"
    found = fit(of_two_types(), job("four", gpus=32, per_node=8))
    assert found.verdict == "never"
    assert "all of `A100` and `H100` together, empty, would hold 3 of its 4" in found.words
    assert "hint: request at most 3 replicas of 8 GPUs" in found.words
    assert "one GPU type" not in found.words


@pytest.mark.parametrize(("h100", "a100", "verdict"), [
    (8, 16, "now"), (None, 16, "now"), (8, 8, "never"), (0, 16, "never"),
])  # fmt: skip
def test_the_quota_of_each_type_holds(h100: int | None, a100: int, verdict: str):
    """Each type may have what its quota leaves of it; 24 are not within 8 and 8."""
    world = of_two_types(teams_share("a", H100=(0, h100), A100=(0, a100)))
    assert fit(world).verdict == verdict


def test_who_waits_for_several_types_is_told_no_start():
    """A job holds half of the H100s: when it ends, another scheduler may start it, or not."""
    world = of_two_types()
    submit(world, job("small", gpus=4, kinds=["H100"]), WIDE)
    place(world, "small", Piece(0, 0, 1, 0b1111))
    found = explain.why(world, DEFAULTS, world.job_number["wide"])
    assert found.cause == "partial_gang"
    assert not found.do_not.startswith("do not wait")
    assert explain.eta(world, DEFAULTS, world.job_number["wide"]).verdict == "unknown"
