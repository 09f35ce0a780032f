"""A node that is down while its source still shows work on it: closed, and unhealthy."""

from msgspec.structs import replace

from tests.ledger.sums import amounts
from tests.live.history.test_advance import ONE, Observer, up_to
from tests.live.history.test_history import EPOCH_MS, NODES
from tidemill.ledger.buckets import Bucket
from tidemill.model import events as ev
from tidemill.model.states import NodeState


def test_a_node_that_is_down_under_work_is_told_of_once():
    """Down since 20, as each look shows it anew, later, or not at all: closed, and unhealthy."""
    observer = Observer()
    row = ONE | {"gpus": 4, "start_ms": 10}
    node = NODES[0]
    for now, since in ((50, 20), (80, 20), (110, 90), (140, None), (170, 20)):
        observer.restart()
        out = () if since is None else ((EPOCH_MS + since, None, NodeState.UNHEALTHY),)
        up_to(observer, now, row, nodes=[] if since is None else [replace(node, out=out)])
    moved = [one for one in observer.journal.read()
             if isinstance(one, ev.NodeMoved) and one.to is NodeState.CORDONED]  # fmt: skip
    assert [(one.at_ms, one.why) for one in moved] == [(20, ev.Why.NODE_LOST)]
    found = amounts(observer.books(), "bucket")
    assert (Bucket.CORDONED,) not in found
