"""In which order nodes are numbered, and pods of one second come: what ties are decided by."""

import asyncio
import random

from tests.live.kubernetes.scheduling.pretended import PretendedServer, Scheduler
from tidemill.journal.memory import MemoryJournal
from tidemill.live.kubernetes.scheduling.node_changes import mixed
from tidemill.model.rows import Node


def test_nodes_of_several_sizes_are_numbered_in_turn():
    """Four large and two small ones: a small one after every second large one, each in order."""
    large = [Node(f"l{i}", "large") for i in range(4)]
    small = [Node(f"s{i}", "small") for i in range(2)]
    names = [node.name for node in mixed([*large, *small])]
    assert names == ["l0", "s0", "l1", "l2", "s1", "l3"]


def test_nodes_of_one_size_stay_in_their_order():
    """A fleet of equal nodes is numbered by name."""
    nodes = [Node(f"n{i}", "all") for i in range(5)]
    assert mixed(nodes) == nodes


def test_pods_of_one_second_come_in_the_order_in_which_they_were_seen():
    """`p2` was created before `p10`, in the same second: it is submitted first."""
    server, journal = PretendedServer(random.Random(1)), MemoryJournal()
    server.put_node("n0", 8)
    scheduler = Scheduler(server, journal)
    for name in ("p2", "p10", "p1"):
        server.make(name, 1)
    server.deliver(scheduler.view, len(server.news))
    assert len({pod.created_ms for pod in scheduler.view.pods.values()}) == 1
    asyncio.run(scheduler.rest())
    assert scheduler.loop.world.job_names == ["ml/p2", "ml/p10", "ml/p1"]
