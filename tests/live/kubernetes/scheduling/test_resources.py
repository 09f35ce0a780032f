"""A pod is only ever bound to a node that advertises the resource which it requests."""

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import GPU, MIG, Object
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill.live.kubernetes.scheduling.shapes import RESOURCE

AMD = "amd.com/gpu"
PRODUCT = "nvidia.com/gpu.product"


def join(story: Story, name: str, labels: dict[str, str] | None = None, **amounts: int) -> None:
    """A node comes with so many units of each resource, and with no others."""
    named = {"gpu": GPU, "amd": AMD, "mig": MIG}
    told: dict[str, str | None] = {GPU: None}
    told |= {named[one]: str(count) for one, count in amounts.items()}
    put(story, made.node(name, amounts=told, labels=labels or {}))


def put(story: Story, node: Object) -> None:
    name = node["metadata"]["name"]
    story.server.nodes[name] = node
    story.server.news.append(("Node", ("", name), node, False))


@pytest.mark.parametrize("other", ["amd", "mig"])
def test_a_job_that_waits_is_not_bound_to_a_node_of_another_resource_that_joins(other: str):
    """All GPUs are held, a gang waits; a node with another resource comes, then one with GPUs."""
    story = Story(2)
    story.server.make("first", 2)
    story.rest()
    for i in range(2):
        story.server.make(f"g{i}", 1, gang="g", size=2)
    story.rest()
    join(story, "other", {PRODUCT: "AMD_Instinct_MI300X_OAM"} if other == "amd" else None,
         **{other: 7})  # fmt: skip
    story.rest()
    assert set(story.bound()) == {"first"}
    join(story, "more", gpu=2)
    story.rest()
    assert story.bound() == {"first": "n0", "g0": "more", "g1": "more"}
    assert "ml/g#2" not in story.scheduler.loop.world.job_number


def test_a_job_that_comes_before_any_node_is_bound_to_its_own_resource():
    """No node has any; the first that comes has another resource."""
    story = Story(0)
    story.server.make("p", 1)
    story.rest()
    join(story, "a", {PRODUCT: "MI300X"}, amd=8)
    story.rest()
    assert story.bound() == {}
    join(story, "b", gpu=1)
    story.rest()
    assert story.bound() == {"p": "b"}


@pytest.mark.parametrize("is_late", [False, True])
def test_resources_that_nodes_have_under_one_type_are_told_apart(is_late: bool):
    """Two nodes whose labels do not say what their devices are, one of each vendor."""
    story = Story(0)
    unnamed = {PRODUCT: ""}
    join(story, "amd", unnamed, amd=8)
    if not is_late:
        join(story, "nvidia", unnamed, gpu=2)
    for i in range(3):
        story.server.make(f"p{i}", 1)
    story.server.make("a", 4, resource=AMD)
    story.rest()
    if is_late:
        assert story.bound() == {"a": "amd"}
        join(story, "nvidia", unnamed, gpu=2)
        story.rest()
    assert story.bound() == {"a": "amd", "p0": "nvidia", "p1": "nvidia"}


def test_instances_that_are_called_gpus_and_such_that_are_not_are_told_apart():
    """One operator calls its 1g.10gb instances `nvidia.com/gpu`, another does not."""
    story = Story(0)
    join(story, "single", {PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}, gpu=2)
    join(story, "mixed", mig=2)
    for i in range(4):
        story.server.make(f"p{i}", 1, resource=MIG)
    story.rest()
    assert story.bound() == {"p0": "mixed", "p1": "mixed"}
    labels = [dict(row.labels).get(RESOURCE) for row in story.scheduler.loop.world.node_rows]
    assert {GPU, MIG} <= {*labels}


def test_a_bind_to_a_node_without_the_resource_is_not_sent(monkeypatch: pytest.MonkeyPatch):
    """Were a plan to say so all the same: the job is kept from that node, and goes to another."""
    monkeypatch.setattr("tidemill.live.kubernetes.scheduling.shapes.has_twin", lambda *_: False)
    story = Story(0)
    join(story, "amd", {PRODUCT: ""}, amd=8)
    join(story, "nvidia", {PRODUCT: ""}, gpu=8)
    for i in range(3):
        story.server.make(f"p{i}", 2)
    story.rest()
    story.rest()
    assert story.bound() == {"p0": "nvidia", "p1": "nvidia", "p2": "nvidia"}
    assert ("p0", "amd") not in story.server.asked
