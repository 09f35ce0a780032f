"""Nodes that take no work, in the scheduler's own books: one that is down is not cordoned."""

from typing import Any

from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.reader import Ledger
from tidemill.ledger.statement import Statement
from tidemill.model.states import NodeState


class OneNode(Story):
    """A node of 8 GPUs with a pod of 2."""

    def __init__(self) -> None:
        super().__init__(8)
        self.server.make("a", 2)
        self.rest()

    def told(self, **how: Any) -> None:
        """The node is so now; some seconds pass, until a pod comes for which it is too small."""
        self.server.nodes["n0"] = one = made.node("n0", 8, **how)
        self.server.news.append(("Node", ("", "n0"), one, False))
        self.rest()
        self.scheduler.clock += 5000
        self.server.make(f"wide-{self.scheduler.clock}", 8)
        self.rest()

    def state(self) -> NodeState:
        """As the scheduler has the node."""
        return NodeState(self.scheduler.loop.world.nodes.state.item(0))

    def out(self) -> set[Bucket]:
        """The buckets of time in which the node took no work, but for what was held."""
        ledger = Ledger()
        for batch in self.journal.batches():
            ledger.read_batch(batch)
        return {Bucket(bucket) for (bucket,) in amounts(Statement(ledger), "bucket")} & {
            Bucket.CORDONED, Bucket.UNHEALTHY,
        }  # fmt: skip


def test_a_node_that_is_not_ready_is_unhealthy_with_work_on_it_too():
    """Six GPUs are free on it; when the pod is gone all eight are, and then it is well again."""
    story = OneNode()
    story.told(ready=False)
    assert story.state() is NodeState.CORDONED, "what runs there may go on"
    assert story.out() == {Bucket.UNHEALTHY}
    story.server.drop(("ml", "a"))
    story.rest()
    assert story.state() is NodeState.UNHEALTHY
    story.told()
    assert story.state() is NodeState.READY
    assert story.out() == {Bucket.UNHEALTHY}


def test_a_node_that_comes_back_cordoned_is_cordoned():
    """It was down, and somebody closed it meanwhile; then the other way round."""
    story = OneNode()
    story.told(ready=False)
    assert story.out() == {Bucket.UNHEALTHY}
    story.told(unschedulable=True)
    assert story.out() == {Bucket.UNHEALTHY, Bucket.CORDONED}

    story = OneNode()
    story.told(unschedulable=True)
    assert story.out() == {Bucket.CORDONED}
    story.told(ready=False, unschedulable=True)
    assert story.out() == {Bucket.UNHEALTHY, Bucket.CORDONED}
