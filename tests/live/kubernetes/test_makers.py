"""Pod groups that need more pods than anybody makes, and those that are in no file."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, node, pod, taken, template
from tests.live.kubernetes.test_import import reason, world_of
from tidemill import explain
from tidemill.live.kubernetes import translate
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause, Layer

LABEL = "scheduling.x-k8s.io/pod-group"
LINE = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."


def group(least: int, **rest: Any) -> Object:
    return made.owner("scheduling.x-k8s.io/v1alpha1", "PodGroup", "g", {"minMember": least}, **rest)


def job(name: str, count: int, *, gpus: int = 8, on: tuple[str, ...] = ()) -> list[Object]:
    """A Job that makes so many pods of the group `g`; the first of them sit on nodes."""
    spec = {"parallelism": count, "completions": count, "template": template(gpus)}
    rest: dict[str, Any] = {"owner": ("batch/v1", "Job", name), "labels": {LABEL: "g"}}
    some = [
        pod(f"{name}-{i}", gpus, on=on[i] if i < len(on) else "", message=LINE, **rest)
        for i in range(count)
    ]
    return [made.owner("batch/v1", "Job", name, spec), *some]


@pytest.mark.parametrize("nodes", [2, 5])
def test_pods_that_nobody_makes_are_the_reason_and_no_node_helps(nodes: int):
    """The group needs 5, its Jobs make 3: whether or not there is room, no purchase starts it."""
    world = world_of(*(node(f"n{i}") for i in range(nodes)), group(5), *job("a", 2), *job("b", 1))
    layer, cause, words = reason(world, "ml/g")
    assert (layer, cause) == (Layer.WORKLOAD, Cause.NOT_ELIGIBLE)
    assert (
        "2 of the 5 pods that it needs to start do not exist, and nobody makes them: Job a, Job b"
        " make 3 (have its pod group need no more, or have these make more)"
    ) in words
    assert words.endswith("(kubectl describe podgroups.scheduling.x-k8s.io -n ml g)")
    told = explain.why(world, Policy(), world.job_number["ml/g"])
    assert told.owner == "workload"
    assert "add" not in told.fix.words
    assert not told.other_fixes


def test_the_rest_of_a_gang_that_nobody_makes_is_not_waited_for():
    """Two of three pods hold 16 GPUs, and two more that the group needs are not made."""
    some = [*job("a", 3, on=("n0", "n1")), group(5)]
    world = world_of(*(node(f"n{i}") for i in range(5)), *some)
    told = explain.why(world, Policy(), world.job_number["ml/g"])
    assert told.cause == "partial_gang"
    assert "nobody makes them: Job a makes 3" in told.words
    assert "wait" not in told.fix.words
    assert told.fix.words.startswith("do what its own scheduler's reason asks for")


def test_a_job_that_has_no_pods_yet_may_make_the_others():
    """Of three Jobs of the group one has none: what is missing is not said to be made by nobody."""
    late = job("c", 2)[:1]
    world = world_of(node("n0"), node("n1"), group(5), *job("a", 2), *job("b", 1), *late)
    assert "nobody makes" not in reason(world, "ml/g")[2]


def test_bare_pods_may_be_made_by_anybody():
    """Nobody owns them: who makes the others nobody knows."""
    some = [pod(f"p{i}", 1, labels={LABEL: "g"}, message=LINE) for i in range(2)]
    world = world_of(node("n0"), group(5), *some)
    _, cause, words = reason(world, "ml/g")
    assert "3 of the 5 pods that it needs to start do not exist (kubectl" in words
    assert cause is Cause.NONE


@pytest.mark.parametrize("names", ["a", "ab"])
def test_jobs_of_a_group_that_no_file_shows_are_said_so(names: str):
    """One Job or two: how many pods it needs, and whether the two are one gang, nobody knows."""
    some = [one for name in names for one in job(name, 2)]
    past = translate.translate(taken(node("n0"), node("n1"), *some))
    (note,) = (one for one in past.notes if "pod groups" in one)
    many = "1 job is" if len(names) == 1 else "2 jobs are"
    assert note.startswith(f"{many} of pod groups that nobody shows: how many")
    assert note.endswith("(kubectl get podgroups.scheduling.x-k8s.io -A -o json)")
    assert all("starts with" not in words for words in past.attempts["reason"])
    assert past.attempts["gpus"].to_list() == [16] * len(names)
