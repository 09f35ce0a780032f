"""Nodes that take no work, in the scheduler's own books: one that is down is not cordoned."""

from pathlib import Path
from typing import Any

from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.test_holding import Story
from tests.live.kubernetes.scheduling.test_reading import Read
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


def test_the_fix_of_a_gang_that_is_too_large_starts_though_nodes_are_broken(tmp_path: Path):
    """A node with 4 of its 8 GPUs, one cordoned, one tainted, one gone: of 7×8 four replicas start
    now, six when what is broken is mended, and seven when there is one node more.
    """
    story = Read(tmp_path / "live.sqlite", *[8] * 8)
    story.rest()
    story.server.put_node("n0", 8, sick=4)
    story.server.put_node("n1", 8, unschedulable=True)
    story.server.nodes["n2"]["spec"]["taints"] = [{"key": "team", "effect": "NoSchedule"}]
    story.server.news.append(("Node", ("", "n2"), story.server.nodes["n2"], False))
    story.server.drop_node("n3")
    gang(story, "seven", 7)
    told = story.asked("why", "ml/seven")
    broken = "`n0` and `n1` are cordoned or short of devices that work now: until that ends"
    assert f"request at most 6 replicas of 8 GPUs; {broken} at most 4 replicas of 8 GPUs" in told
    assert f"add 1 node of 8×`H100`; {broken} 3 more nodes" in told
    for name, count, is_placed in (("five", 5, False), ("four", 4, True)):
        assert gang(story, name, count) is is_placed
        take_away(story, name, count)
    story.server.put_node("n0", 8)
    story.server.put_node("n1", 8)
    assert gang(story, "six", 6)
    take_away(story, "six", 6)
    story.server.put_node("n8", 8)
    story.rest()
    assert all(story.server.pods[key]["spec"].get("nodeName") for key in pods("seven", 7))
    story.journal.close()


def gang(story: Read, name: str, count: int) -> bool:
    """A gang of so many pods with 8 GPUs comes; whether it begins."""
    for _, pod in pods(name, count):
        story.server.make(pod, 8, gang=name, size=count)
    story.rest()
    return all(story.server.pods[key]["spec"].get("nodeName") for key in pods(name, count))


def take_away(story: Read, name: str, count: int) -> None:
    for key in pods(name, count):
        story.server.finish(key)
    story.rest()


def pods(name: str, count: int) -> list[tuple[str, str]]:
    return [("ml", f"{name}-{i}") for i in range(count)]
