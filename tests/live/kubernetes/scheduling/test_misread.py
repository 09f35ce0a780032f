"""What people write that nobody can heed is told to them; it is never dropped, and ends nothing."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import CLAIMED, GPU, MIG, Object
from tests.live.kubernetes.scheduling.test_holding import Story, in_group, pod_group
from tidemill.explain import held_jobs
from tidemill.live.kubernetes.scheduling import keeping


def ask(story: Story, name: str, **amounts: Any) -> None:
    """A pod that requests what is written here; `gpu` and `memory` by these names."""
    story.server.make(name, 1)
    one = story.server.pods["ml", name]
    told = {{"gpu": GPU, "mig": MIG, "disk": "ephemeral-storage"}.get(key, key): amounts[key]
            for key in amounts}  # fmt: skip
    resources = {GPU: "1", "cpu": "1", "memory": "1Gi"} | told
    one["spec"]["containers"][0]["resources"] = {"requests": resources, "limits": resources}


@pytest.mark.parametrize(
    ("amounts", "words"),
    [
        ({"gpu": "1000000000"}, "`nvidia.com/gpu` is 1000000000: no number of devices"),
        ({"gpu": "1e999"}, "`nvidia.com/gpu` is 1000000000000000000 or more: no number of"),
        ({"gpu": "1e15"}, "`nvidia.com/gpu` is 1000000000000000: no number of devices"),
        ({"gpu": "-1"}, "`nvidia.com/gpu` is -1"),
        ({"gpu": "0.5"}, "`nvidia.com/gpu` is 0.5"),
        ({"gpu": "many"}, "'many', which is no quantity such as 8 or 500m"),
        ({"cpu": {}}, "`resources.limits.cpu` is {}"),
        ({"mig": "100k"}, "`nvidia.com/mig-1g.10gb` is 100000"),
    ],
)
def test_a_request_that_makes_no_sense_is_told_and_the_others_are_placed(
    amounts: Object, words: str
):
    """It is held by name, with what was found; `why` says so, and that its size is unknown."""
    story = Story(8)
    story.server.make("fine", 1)
    ask(story, "odd", **amounts)
    story.rest()
    assert story.bound() == {"fine": "n0"}
    reason, said = story.held()["ml/odd"]
    assert reason == "MalformedRequest"
    assert words in said
    (held,) = keeping.held(story.scheduler.differ, 0)
    assert "an unknown number of accelerators" in held_jobs.answer(held, 0).words
    story.server.drop(("ml", "odd"))
    story.rest()
    assert story.held() == {}


@pytest.mark.parametrize(
    ("amounts", "words"),
    [
        ({"cpu": "1000000000"}, "`cpu` is 1000000000: more than any node has"),
        ({"cpu": "1E"}, "`cpu` is 1000000000000000000 or more: more than any node has"),
        ({"memory": "200P"}, "`memory` is 200000000000000000: more than any node has"),
    ],
)
def test_more_of_a_host_than_is_counted_is_told_as_it_was_requested(amounts: Object, words: str):
    """The books have no such number, so another one would be told: it is held by the field."""
    story = Story(8)
    ask(story, "odd", **amounts)
    story.rest()
    assert story.held()["ml/odd"][0] == "MalformedRequest"
    assert words in story.held()["ml/odd"][1]


@pytest.mark.parametrize(
    "amounts",
    [{"cpu": "1E"}, {"cpu": "9E"}, {"memory": "9E"}, {"memory": "1e400"}, {"rdma/x": "9E"},
     {"gpu": "5000"}, {"gpu": "20"}, {"hugepages-2Mi": "9E"}, {"disk": "9E"}],
)  # fmt: skip
def test_more_than_any_node_has_is_counted_and_never_bound(amounts: Object):
    """Of a pod, of a gang of them, and on a node that says that it has so much."""
    story = Story(8)
    ask(story, "odd", **amounts)
    for i in range(4):
        ask(story, f"g{i}", **amounts)
        story.server.annotate(f"g{i}", gang="g", gang_size="4")
    story.server.nodes["n0"]["status"]["allocatable"]["example.com/x"] = "9E"
    story.server.make("fine", 1)
    story.rest()
    assert story.bound() == {"fine": "n0"}


def test_a_node_with_more_than_can_be_counted_takes_pods():
    """As many CPUs and as much memory as a quantity can say."""
    story = Story()
    story.server.put_node("n0", 8)
    for amounts in ("allocatable", "capacity"):
        story.server.nodes["n0"]["status"][amounts] |= {"cpu": "9E", "memory": "9E"}
    story.server.make("fine", 1)
    story.rest()
    assert story.bound() == {"fine": "n0"}


def test_a_gang_with_a_member_that_nobody_can_read_waits_for_it():
    """That one is no launcher without GPUs: the other is not bound without it."""
    story = Story(8)
    story.server.put(pod_group("pair", 2))
    story.server.make("a0", 1, spec=in_group("pair"))
    ask(story, "a1", gpu="1000000000")
    story.server.pods["ml", "a1"]["spec"] |= in_group("pair")
    story.rest()
    assert story.bound() == {}
    assert {name: why for name, (why, _) in story.held().items()} == {
        "ml/pair": "WaitingForGang", "ml/a1": "MalformedRequest",
    }  # fmt: skip


def test_a_claim_for_a_thousand_million_devices_waits():
    """Nothing is allocated for it, and others are placed."""
    story = Story()
    story.server.put_node("d0", 8)
    story.server.make("odd", 1_000_000_000, resource=CLAIMED)
    story.server.make("fine", 1, resource=CLAIMED)
    story.rest()
    assert story.bound() == {"fine": "d0"}
    assert "ml/odd" in story.held()


def test_a_pod_whose_status_makes_no_sense_holds_what_it_requests():
    """A clock of the year 9999 on its node: its GPUs are in use all the same."""
    story = Story(8)
    story.server.make("theirs", 5, on="n0")
    late = {"type": "Ready", "status": "True", "lastTransitionTime": "9999-01-01T00:00:00Z"}
    one = story.server.pods["ml", "theirs"]
    one["status"]["conditions"] = [late, late | {"type": "PodScheduled"}]
    story.server.make("large", 4)
    story.server.make("small", 3)
    story.rest()
    assert story.bound() == {"theirs": "n0", "small": "n0"}


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ({"expected-duration": "soon"}, "is `soon`, no duration such as 2h30m (of"),
        ({"expected-duration": "99999999999999h"}, "(of at most 100 years), or a number of"),
        ({"preemptible": "maybe"}, "tidemill/preemptible is `maybe`, neither true nor false"),
        ({"gang-size": "2"}, "tidemill/gang-size without tidemill/gang"),
        ({"gang-least": "abc"}, "tidemill/gang-least is `abc`, no number above 0"),
        ({"preferred-topology": "datacentre"}, "is `datacentre`, no tier of the policy (none)"),
        ({"drain-by": "2026-11-17T08:00:00Z"}, "tidemill/drain-by is read of nodes"),
        ({"expected-duraton": "2h"}, "did you mean `tidemill/expected-duration`?"),
        ({"expected-duration": "2h", "preemptible": "true"}, ""),
    ],
)
def test_an_annotation_that_means_nothing_is_told_and_the_pod_is_placed(notes: Object, words: str):
    """Each in words; one that is understood is not mentioned."""
    story = Story(8)
    told = {f"tidemill/{key}": notes[key] for key in notes}
    story.server.make("p", 1, annotations=told)
    story.rest()
    assert story.bound() == {"p": "n0"}
    said = [word for some in story.scheduler.differ.unread.values() for word in some]
    assert len(said) == bool(words)
    assert words in "".join(said)


def test_numbers_of_pods_that_cannot_be_so_are_told():
    """A gang of two that works with nine, and one whose pods say two and three: both are placed."""
    story = Story(8)
    for i in range(2):
        story.server.make(f"a{i}", 1, gang="a", size=2, annotations={"tidemill/gang-least": "9"})
    for i in range(3):
        story.server.make(f"b{i}", 1, gang="b", size=2 + i % 2)
    story.rest()
    assert len(story.bound()) == 5
    said = {unit.name: words for unit, words in story.scheduler.differ.unread.items()}
    assert said == {
        "a": ("annotation tidemill/gang-least is `9`, and its gang has 2 pods: it is not heeded",),
        "b": ("annotation tidemill/gang-size is 2 and 3 of pods of one gang: the largest counts",),
    }


def test_a_place_that_a_pod_group_prefers_and_no_tier_is_about_is_told():
    """`networkTopology` of Volcano, soft, of a tier that the policy does not have: placed."""
    story, version = Story(8), "scheduling.volcano.sh/v1beta1"
    network = {"mode": "soft", "highestTierAllowed": 2}
    told = {"minMember": 2, "networkTopology": network}
    story.server.put(made.owner(version, "PodGroup", "v", told))
    for i in range(2):
        story.server.make(f"v{i}", 1, annotations={"scheduling.k8s.io/group-name": "v"})
    story.rest()
    assert len(story.bound()) == 2
    ((words,),) = story.scheduler.differ.unread.values()
    assert words == (
        "the pod group `ml/v` prefers one `hypernode-tier-2`, no tier of the policy (none): it is"
        " not heeded"
    )
