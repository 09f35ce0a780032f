"""Ports of nodes that other pods have: told as that, by port and pod, and never as the job's own.

The pods are pretended, and so are the nodes; nothing else is.
"""

from typing import Any

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill import explain
from tidemill.explain import held_jobs
from tidemill.explain.decision import stages
from tidemill.explain.decision.history import JobHistory
from tidemill.live.kubernetes.scheduling import keeping
from tidemill.model.policy import Policy

HOST = "kubernetes.io/hostname"


def with_port(name: str, *, on: str = "", gpus: int = 1, port: int = 8080) -> dict[str, Any]:
    """A pod that has a port of its node, and may be on one node alone if that is said."""
    ports = [{"containerPort": 80, "hostPort": port}]
    amounts = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"cpu": "1"}}
    spec: dict[str, Any] = {"containers": [{"name": "m", "resources": amounts, "ports": ports}]}
    return {"name": name, "gpus": gpus, "spec": spec | ({"nodeSelector": {HOST: on}} if on else {})}


def make(story: Story, name: str, **rest: Any) -> None:
    """A pod of ours with a port."""
    one = with_port(name, **rest)
    one["spec"]["schedulerName"] = "tidemill"
    story.server.make(one["name"], one["gpus"], spec=one["spec"])


def test_two_pods_for_one_node_and_port_wait_for_each_other():
    """They came together: the second is held for the port, and stays so when others come."""
    story = Story(8, 8)
    make(story, "a", on="n1")
    make(story, "b", on="n1")
    story.rest()
    assert story.bound() == {"a": "n1"}
    story.server.make("other", 1)
    story.rest()
    story.rest()
    reason, words = story.held()["ml/b"]
    assert reason in ("BindRefused", "Waiting")
    assert "port 8080/TCP of node `n1`" in words
    story.server.finish(("ml", "a"))
    story.rest()
    assert story.bound()["b"] == "n1"


def test_a_pod_that_comes_when_its_port_is_taken_is_told_by_whom():
    """A node more would not help one that may be on no other; it starts when the other is gone."""
    story = Story(8, 8)
    make(story, "a", on="n1")
    story.rest()
    make(story, "b", on="n1")
    story.rest()
    reason, words = story.held()["ml/b"]
    assert reason == "Waiting"
    assert words == (
        "others have what it would need on each node that it may be on: port 8080/TCP of node `n1`"
        " (ml/a); it is placed when one of them ends"
    )
    story.server.finish(("ml", "a"))
    story.rest()
    assert story.bound() == {"b": "n1"}


def test_where_each_node_has_its_port_taken_another_one_would_help():
    """Then an autoscaler may buy one."""
    story = Story(8, 8)
    for name in "ab":
        make(story, name)
    story.rest()
    make(story, "c")
    story.rest()
    reason, words = story.held()["ml/c"]
    assert reason == "Unschedulable"
    assert "port 8080/TCP of node `n0`" in words
    assert "or on a node with another `kubernetes.io/hostname`" in words
    story.server.put_node("n9", 8)
    story.rest()
    assert story.bound()["c"] == "n9"


def test_a_port_on_one_node_and_too_little_disk_on_the_other_are_both_told():
    """What keeps it from each is no matter of its own labels."""
    story = Story()
    for name, gib in (("n0", 10), ("n1", 200)):
        row = made.node(name, 8, amounts={"ephemeral-storage": f"{gib}Gi"})
        story.server.nodes[name] = row
        story.server.news.append(("Node", ("", name), row, False))
    make(story, "a", on="n1")
    story.rest()
    one = with_port("b")
    one["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = "100Gi"
    story.server.make("b", 1, spec=one["spec"])
    story.rest()
    reason, words = story.held()["ml/b"]
    assert reason == "BindRefused"
    assert "10.0 GiB of ephemeral-storage left" in words
    assert "elsewhere others have what it would need: port 8080/TCP of node `n1` (ml/a)" in words
    story.server.finish(("ml", "a"))
    story.rest()
    assert story.bound() == {"b": "n1"}


def test_what_keeps_it_off_is_no_request_of_its_own_while_it_waits_for_a_busy_node():
    """One node is full and the other has its port taken: it asks for one GPU, anywhere."""
    story = Story(8, 8)
    make(story, "a", on="n1")
    story.server.make("large", 8)
    story.rest()
    make(story, "b")
    story.rest()
    world = story.scheduler.loop.world
    told = explain.why(world, Policy(), world.job_number["ml/b"])
    assert "requests 1 accelerator of any type and has waited" in told.words
    assert "free on 1 node that it may not use: others have port 8080/TCP there" in told.words
    assert told.other_fixes == ()
    j = world.job_number["ml/b"]
    decided = stages.waits(world, Policy(), j, JobHistory(j, world.jobs.shape.item(j), 0))
    (stage,) = (one for one in decided.filters[0].removed if one.filter == "affinity")
    assert stage.words == "others have port 8080/TCP there"


def test_why_says_that_the_scheduler_has_it_and_that_it_is_no_fault_of_the_job():
    """A taken port is nobody's to correct: the owner is scheduling, and nothing says never."""
    story = Story(8, 8)
    make(story, "a", on="n1")
    story.rest()
    make(story, "b", on="n1")
    story.rest()
    (one,) = keeping.held(story.scheduler.differ, made.BEGIN_MS)
    told = held_jobs.answer(one, 0)
    assert told.owner == "scheduling"
    assert "whatever is free" not in told.words
