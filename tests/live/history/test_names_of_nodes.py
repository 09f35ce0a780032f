"""Jobs that name their nodes, in journals whose nodes do not say what they are called."""

import msgspec
from msgspec.structs import replace

from tests.live.history.test_advance import Observer, up_to
from tests.live.history.test_history import NODES
from tidemill.live.history.clusters import NodeAsk
from tidemill.model.node_rules import LabelCondition, LabelTest


def test_a_journal_whose_nodes_do_not_say_their_names_goes_on_without_them():
    """Nodes that say them now, and jobs that name them: nobody is kept out, and no node is anew."""
    observer = Observer()
    up_to(observer, 50)
    named = [replace(node, labels=(("node", node.name),)) for node in NODES]
    ask = NodeAsk(affinity=((LabelCondition("node", LabelTest.IN, ("n0",)),),))
    waits = {"job": "h", "gpus": 8, "submit_ms": 60, "is_per_node": True, "node_count": 1}
    waits |= {"node_rules": msgspec.json.encode(ask).decode()}
    for ms in (100, 150):
        up_to(observer, ms, waits, nodes=named)
    assert observer.world.node_count == len(NODES)
    (role,) = observer.world.shape_rows[observer.world.jobs.shape.item(0)].roles
    assert (role.affinity, role.name.endswith("nodes n0")) == ((), True)
