"""Nodes that advertise no GPU now: that work ran there in between tells that they did before."""

from typing import Any

from tests.live.kubernetes.made import node, pod
from tests.live.kubernetes.test_import import kept
from tidemill.ledger.buckets import Bucket
from tidemill.model.states import NodeState

SILENT: dict[str, Any] = {"amounts": {"nvidia.com/gpu": "0"}, "capacity": {"nvidia.com/gpu": "8"}}


def test_a_node_that_ran_work_is_not_unhealthy_from_the_beginning():
    """Its job ended half an hour before: since when it is out nobody says, so no time counts; it is
    unhealthy at the end. One on which nothing ran is so all along.
    """
    runs, ran = pod("runs", 1, on="n1"), pod("ran", 8, on="n0", end=1800)
    for pods, unhealthy in (([runs, ran], 0), ([runs], 8_000 * 3_600_000)):
        run = kept(node("n0", **SILENT), node("n1"), *pods)
        world = run.world
        assert world.nodes.state[world.node_number["n0"]] == NodeState.UNHEALTHY
        assert run.statement.total().milli_ms[Bucket.UNHEALTHY] == unhealthy
