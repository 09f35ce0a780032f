"""A label that a pod is the first to select by tells nodes apart; they stay who they are."""

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import CLAIMED
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill import explain
from tidemill.explain.decision import reading
from tidemill.journal.replay import rebuild
from tidemill.model import events as ev
from tidemill.model.policy import Policy
from tidemill.model.rows import RESOURCE

HOSTNAME = "kubernetes.io/hostname"


def names(story: Story) -> list[str]:
    return [row.name for row in rebuild(story.journal).node_rows]


def test_the_first_pod_that_selects_a_label_finds_its_node_and_no_node_is_told_anew():
    """A job runs; another selects the third node by its name: it is put there, nothing moved."""
    story = Story(8, 8, 8)
    story.server.make("first", 8)
    story.rest()
    assert len(story.scheduler.differ.world.groups) == 1, "nobody asks: nodes are alike"
    story.server.make("second", 8, spec={"nodeSelector": {HOSTNAME: "n2"}})
    story.rest()
    assert story.bound()["second"] == "n2"
    assert names(story) == ["n0", "n1", "n2"]
    assert not any(isinstance(one, ev.PlacementSeen) for one in story.journal.read())
    assert rebuild(story.journal).topology.unasked == (HOSTNAME, RESOURCE)


def test_the_first_nodes_of_another_resource_leave_those_that_are_there_who_they_are():
    """Nodes that give their devices out by claims join: who asks for a resource tells them apart,
    and those with a device plugin are Ready since they came.
    """
    story = Story(8, 8)
    story.server.make("first", 2)
    story.rest()
    story.server.put_node("d0", 8)
    story.rest()
    story.server.make("second", 2, resource=CLAIMED)
    story.rest()
    assert story.bound() == {"first": "n0", "second": "d0"}
    assert [name for name in names(story) if name[0] == "n"] == ["n0", "n1"]


def test_a_label_that_changes_tells_a_node_anew_only_once_somebody_selects_by_it():
    """`pace` of a node changes twice: first nobody cares, then a job selects by it."""
    story = Story(8, 8)
    relabel(story, "slow")
    relabel(story, "quick")
    assert names(story) == ["n0", "n1"]
    story.server.make("one", 1, spec={"nodeSelector": {"pace": "quick"}})
    story.rest()
    assert story.bound() == {"one": "n1"}
    relabel(story, "slow")
    story.server.make("two", 1, spec={"nodeSelector": {"pace": "quick"}})
    story.rest()
    assert story.bound() == {"one": "n1"}


def relabel(story: Story, pace: str) -> None:
    one = made.node("n1", 8, labels={"pace": pace})
    story.server.nodes["n1"] = one
    story.server.news.append(("Node", ("", "n1"), one, False))
    story.rest()


def test_who_decided_on_a_job_is_remembered_when_its_node_is_told_anew():
    """Its node becomes larger, and is another one in the books: we placed the job still."""
    story = Story(8)
    story.server.make("first", 8)
    story.rest()
    story.server.put_node("n0", 16)
    story.rest()
    assert names(story) == ["n0", "n0#2"]
    world = rebuild(story.journal)
    world.scheduler = "tidemill"
    found = reading.history_of(story.journal, world, world.job_number["ml/first"], None)
    assert found.placed is not None
    assert found.placed.is_ours


def test_fixes_name_a_node_as_the_cluster_does_whatever_its_life():
    """A node that was told anew is cordoned: people are told to uncordon `n0`, not `n0#2`."""
    story = Story(8)
    story.server.put_node("n0", 16)
    story.rest()
    story.server.put_node("n0", 16, unschedulable=True)
    story.server.make("next", 8)
    story.rest()
    world = rebuild(story.journal)
    world.scheduler = "tidemill"
    found = explain.why(world, Policy(), world.job_number["ml/next"])
    assert any("uncordon `n0`:" in one.words for one in (found.fix, *found.other_fixes))


def test_a_job_pinned_to_a_node_with_fewer_gpus_is_told_that_and_what_would_do():
    """Others have 8, the one that it selects has 6, and it requests 7: fewer, or any node."""
    story = Story(8, 8, 6)
    story.server.make("whole", 7, spec={"nodeSelector": {"kubernetes.io/hostname": "n2"}})
    story.rest()
    world = story.scheduler.loop.world
    found = explain.why(world, Policy(), world.job_number["ml/whole"])
    assert "the largest node that it may use has 6 GPUs, it requests 7" in found.words
    fix = found.words.partition("fix: ")[2]
    assert fix.startswith("request at most 1 replica of 6 GPUs")
    assert "or do not require `kubernetes.io/hostname=n2`: other nodes have more" in fix
