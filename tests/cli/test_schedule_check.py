"""What ``schedule kubernetes --check`` says of a cluster, without one."""

from tests.builders import contract, fleet
from tidemill.cli.schedule_check import nodes_text
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.states import NodeState
from tidemill.model.world import World


def test_gpus_of_a_cordoned_node_are_not_among_those_that_take_work():
    """They are counted apart; a cluster without GPUs has no words."""
    world = fleet(contract("a", gpus=24), contract("b", gpus=8, kind="A100"))
    assert nodes_text(world) == "4 with GPUs take work; 8 A100, 24 H100"
    fold(world, ev.NodeMoved(world.now_ms, 0, NodeState.CORDONED))
    assert nodes_text(world) == "3 with GPUs take work; 8 A100, 16 H100; 1 does not: 8 H100"
    assert not nodes_text(World())
