"""Gangs that say how they divide their model have the ranks that talk most beside each other."""

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import OWNER, Scheduler
from tests.live.kubernetes.scheduling.test_group_topology import story_of
from tests.live.kubernetes.scheduling.test_holding import Story
from tidemill import explain
from tidemill.explain import phrasing
from tidemill.explain.decision import reading
from tidemill.live.kubernetes.scheduling.running import live_policy
from tidemill.model.policy import Policy
from tidemill.model.rows import Shape
from tidemill.model.states import JobState
from tidemill.model.topology import Parallelism, Tier, Topology

CLIQUE, RACK = "nvidia.com/gpu.clique", "topology.kubernetes.io/rack"
ASKED = ", if possible with the ranks of tensor=8, pipeline=2 together"
TIERS = Topology((Tier("rack", RACK), Tier("nvlink", CLIQUE), Tier("node")))


def gang(story: Story, count: int, each: int, parallelism: str, **more: str) -> None:
    """A gang of a StatefulSet, all of whose pods say how they divide its model."""
    notes = {"tidemill/parallelism": parallelism, **{f"tidemill/{k}": more[k] for k in more}}
    for i in range(count):
        story.server.make(f"p-{i}", each, gang="g", size=count, annotations=notes)


def shape_of(story: Story) -> Shape:
    world = story.scheduler.differ.world
    (shape,) = [world.shape_of(j) for j in range(len(world.job_names))]
    return shape


def said(story: Story) -> list[str]:
    """What was told of annotations."""
    return [word for some in story.scheduler.differ.unread.values() for word in some]


def groups(story: Story, size: int) -> list[set[str]]:
    """The nodes of each so many pods, by their numbers."""
    bound = story.bound()
    return [
        {bound[f"p-{i}"] for i in range(first, first + size)}
        for first in range(0, len(bound), size)
    ]


def test_tensor_groups_are_on_one_node_and_pipelines_in_one_rack():
    """Twelve pods of 4 GPUs on nodes whose racks take turns: each two are on one node, each four
    in one rack, by their numbers: pod 10 comes after pod 9. `why` says what was asked for.
    """
    story = story_of("a", "b", "c", "a", "b", "c", rules=TIERS)
    gang(story, 12, 4, "tensor=8,pipeline=2")
    story.rest()
    assert all(len(on) == 1 for on in groups(story, 2))
    racks = [{int(name[1:]) % 3 for name in on} for on in groups(story, 4)]
    assert all(len(one) == 1 for one in racks)
    assert shape_of(story).parallelism == Parallelism(tensor=8, pipeline=2, data=3)
    assert phrasing.asks(shape_of(story)).endswith(ASKED)
    assert said(story) == []


@pytest.mark.parametrize(("parallelism", "racks"), [("", 2), ("tensor=8,pipeline=2", 1)])
def test_a_pipeline_goes_to_one_rack_where_it_has_a_choice(parallelism: str, racks: int):
    """Two nodes are wanted of three, in racks a, b and b: without a word the first two are taken;
    stages that talk are in b.
    """
    story = story_of("a", "b", "b", rules=TIERS)
    gang(story, 2, 8, parallelism)
    story.rest()
    (on,) = groups(story, 2)
    assert len({{"n0": "a"}.get(name, "b") for name in on}) == racks


def test_why_and_the_decision_name_what_was_asked_for_and_what_came_of_it():
    """Two stages in rack b of three nodes: which domains were compared, and how far it sits."""
    story = story_of("a", "b", "b", rules=TIERS)
    gang(story, 2, 8, "tensor=8,pipeline=2")
    story.rest()
    world, policy = story.scheduler.differ.world, live_policy(Policy())
    made = reading.read(story.journal, world, policy, 0, None)
    assert made.asks.endswith(ASKED)
    assert [one.name for one in made.scores[0].candidates if one.is_taken] == ["rack b"]
    found = explain.why(world, policy, 0)
    assert found.asks.endswith(ASKED)
    assert "; worst hop: `rack`" in found.words


def test_a_tensor_group_over_nodes_is_in_one_nvlink_domain():
    """Four nodes of 4 GPUs, two in each NVLink domain, which take turns: 8 ranks of a tensor group
    are two nodes of one domain.
    """
    story = Story()
    for i in range(4):
        one = made.node(f"n{i}", 4, labels={RACK: "r", CLIQUE: "xy"[i % 2]})
        story.server.nodes[f"n{i}"] = one
        story.server.news.append(("Node", ("", f"n{i}"), one, False))
    story.scheduler.differ.rules = story.scheduler.differ.rules._replace(topology=TIERS)
    gang(story, 4, 4, "tensor=8")
    story.rest()
    assert [{int(name[1:]) % 2 for name in on} for on in groups(story, 2)] == [{0}, {1}]


def test_a_gang_that_cannot_have_its_ranks_together_is_placed_all_the_same():
    """Two stages, and each rack has one node: it is only preferred."""
    story = story_of("a", "b", rules=TIERS)
    gang(story, 2, 8, "pipeline=2,tensor=8")
    story.rest()
    assert len(story.bound()) == 2


def test_an_owner_says_it_for_its_pods():
    """An annotation of the Job alone, whose two pods are a gang."""
    story = story_of("a", "b", "b", rules=TIERS)
    job = made.owner("batch/v1", "Job", "j", {
        "completionMode": "Indexed", "completions": 2, "parallelism": 2,
        "template": made.template(8, subdomain="j"),
    })  # fmt: skip
    job["metadata"]["annotations"] = {"tidemill/parallelism": "tensor=8, pipeline=2"}
    story.server.put(job)
    for i in range(2):
        index = {"batch.kubernetes.io/job-completion-index": str(i)}
        story.server.make(f"j-{i}", 8, owner=("batch/v1", "Job", "j"), labels=index,
                          spec={"subdomain": "j"})  # fmt: skip
    story.rest()
    assert {*story.bound().values()} == {"n1", "n2"}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("8", "no sizes such as tensor=8,pipeline=4"),
        ("tensor=eight", "no sizes such as"),
        ("tensor=0", "no sizes such as"),
        ("tensor=8,tensor=4", "no sizes such as"),
        ("tensor=8,data=2", "of tensor, context, expert, pipeline, no others"),
        ("tensor=99999999999", "no sizes such as"),
        ("tensor=8,pipeline=3", "groups of 24 GPUs, which do not divide the 16 of its gang"),
        ("tensor=8,expert=3", "experts over 3 ranks do not divide those of data and context"),
    ],
)
def test_a_division_that_cannot_be_is_told_and_the_gang_is_placed(told: str, words: str):
    """Once, and without it."""
    story = story_of("a", "b", rules=TIERS)
    gang(story, 2, 8, told)
    story.rest()
    assert len(story.bound()) == 2
    assert shape_of(story).parallelism is None
    (flaw,) = said(story)
    assert flaw.startswith(f"annotation tidemill/parallelism is `{told}`, ")
    assert words in flaw
    assert flaw.endswith("it is not heeded")


def test_pods_that_differ_in_it_are_told():
    """Nobody knows which of the two it is."""
    story = story_of("a", "b", rules=TIERS)
    gang(story, 2, 8, "tensor=8")
    story.server.annotate("p-1", parallelism="tensor=4")
    story.rest()
    assert len(story.bound()) == 2
    assert "is `tensor=4`, and `tensor=8` in the same gang" in said(story)[0]


def test_a_gang_of_several_sizes_is_placed_without_it():
    """The core has no such gangs: it is told, nothing ends, and the gang has its sizes."""
    story = story_of("a", "b", rules=TIERS)
    story.scheduler.let_resize()
    story.server.put(made.owner(*OWNER, {"replicas": 2, "podManagementPolicy": "Parallel"}))
    gang(story, 2, 8, "tensor=8,pipeline=2", **{"gang-least": "1"})
    story.rest()
    assert len(story.bound()) == 2
    assert shape_of(story).elastic_role == 0
    assert shape_of(story).parallelism is None
    assert "the gang may have several sizes" in said(story)[0]


@pytest.mark.parametrize("free", [8, 4])
def test_a_gang_that_may_have_several_sizes_after_a_restart_goes_on(free: int):
    """A gang with groups runs, or waits for room; the next scheduler may make it smaller."""
    story = story_of("a", "b", rules=TIERS, free=free)
    story.server.put(made.owner(*OWNER, {"replicas": 2, "podManagementPolicy": "Parallel"}))
    gang(story, 2, 8, "tensor=8,pipeline=2", **{"gang-least": "1"})
    story.rest()
    assert shape_of(story).parallelism is not None
    story.scheduler = Scheduler(story.server, story.journal)
    story.scheduler.differ.rules = story.scheduler.differ.rules._replace(topology=TIERS)
    story.scheduler.let_resize()
    story.server.put(made.owner(*OWNER, {"replicas": 2, "podManagementPolicy": "Parallel"}))
    story.rest()
    assert len(story.bound()) == (2 if free == 8 else 0)


def test_a_gang_that_waits_is_divided_as_it_says_now():
    """The annotation comes, changes and goes while there is no room for it."""
    story = story_of("a", "b", "b", rules=TIERS, free=4)
    gang(story, 2, 8, "")
    story.rest()
    for told in ("tensor=8,pipeline=2", "tensor=16", "", "tensor=3", "tensor=8"):
        for i in range(2):
            story.server.annotate(f"p-{i}", parallelism=told)
        story.rest()
        world = story.scheduler.differ.world
        (j,) = [j for j in range(len(world.job_names)) if world.jobs.state.item(j) < JobState.DONE]
        found = world.shape_of(j).parallelism
        assert (found is not None) == (told not in ("", "tensor=3"))
