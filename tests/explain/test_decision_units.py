"""In which unit domains are compared: replicas, or groups of them that have to be in one place."""

from bench.decisions import explained
from tests.builders import DEFAULTS, job, submit
from tests.scheduling.test_topology import racked
from tidemill.engine import cycle
from tidemill.explain.decision.answers import Ranking
from tidemill.model import events as ev
from tidemill.model.topology import Bond
from tidemill.model.world import World


def ranking(world: World) -> Ranking:
    """How the domains compared that the one job that waits could be put in."""
    (event,) = (
        one for one in cycle.cycle(world, DEFAULTS, cycle.CycleMemo()).actions
        if isinstance(one, ev.AskedPlace)
    )  # fmt: skip
    (row,) = explained(world, DEFAULTS, event).scores
    return row


def test_groups_are_told_as_groups():
    """A rack that could take one gang of two could take two replicas, and says that."""
    world = racked(2, 3)
    submit(world, job("t", gpus=16, per_node=8, bonds=[Bond("rack")]))
    assert [term.words for term in ranking(world).candidates[0].terms] == [
        "takes 1 of 1 group of 2 replicas", "could take 1 group of 2 replicas",
        "16 GPUs free in it",
    ]  # fmt: skip


def test_replicas_are_told_as_replicas():
    """A gang that no rack holds is divided over them, replica by replica."""
    world = racked(1, 1, 1)
    submit(world, job("t", gpus=24, per_node=8, bonds=[Bond("rack", is_required=False)]))
    words = [term.words for one in ranking(world).candidates for term in one.terms]
    assert any("of 3 replicas" in one for one in words), words
    assert any(one.startswith("could take") and "replica" in one for one in words), words
