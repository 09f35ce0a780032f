"""Nodes are called as their cluster calls them, whichever of their lives it is."""

from tests.builders import beat, job, submit
from tests.live.kubernetes.test_node_turns import WatchedNode, cordon, looks
from tidemill import explain
from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.policy import Policy
from tidemill.model.rows import Queue


def test_evidence_names_nodes_as_their_cluster_does():
    """Made anew with more GPUs, and cordoned since, it is `n0#2` in the journal alone."""
    watched = WatchedNode()
    watched.look(70)
    watched.told(93, gpus=16)
    watched.told(120, gpus=16, **cordon(120))
    looks(watched, 130, 160, 190)
    world = watched.observer.world
    assert world.node_rows[1].name == "n0#2"
    fold(world, ev.QueueSet(world.now_ms, Queue("a")))
    submit(world, job("t", gpus=16))
    beat(world)
    answer = explain.why(world, Policy(), 0)
    assert "16 cordoned on 1 node (`n0`)" in answer.words
    assert "#2" not in answer.words
