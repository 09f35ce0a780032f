"""Pods and what made them come by watches of their own: a gang waits until its owner is known."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import Object
from tests.live.kubernetes.scheduling.test_holding import Story

JOBSET, LWS = "jobset.x-k8s.io/v1alpha2", "leaderworkerset.x-k8s.io/v1"


def job(name: str, size: int, **rest: Any) -> Object:
    """An indexed Job all of whose pods run at once."""
    spec = {
        "completionMode": "Indexed", "parallelism": size, "completions": size,
        "template": made.template(2, schedulerName="tidemill", subdomain="g"),
    }  # fmt: skip
    return made.owner("batch/v1", "Job", name, spec, **rest)


def jobset(name: str, size: int) -> Object:
    """A JobSet of one Job."""
    one = {"name": "w", "replicas": 1, "template": {"spec": job("", size)["spec"]}}
    return made.owner(JOBSET, "JobSet", name, {"replicatedJobs": [one]})


def leader_workers(name: str, size: int) -> Object:
    """A LeaderWorkerSet of one group."""
    both = {"size": size, "workerTemplate": made.template(2, schedulerName="tidemill")}
    return made.owner(LWS, "LeaderWorkerSet", name, {"replicas": 1, "leaderWorkerTemplate": both})


def below(above: str, kind: str, name: str) -> list[Object]:
    return [{"apiVersion": above, "kind": kind, "name": name, "uid": "u", "controller": True}]


CASES: list[tuple[str, list[Object], tuple[str, str, str], Object]] = [
    ("Job", [job("g", 3)], ("batch/v1", "Job", "g"), {}),
    ("JobSet", [job("g-w-0", 3, owners=below(JOBSET, "JobSet", "g")), jobset("g", 3)],
     ("batch/v1", "Job", "g-w-0"), {}),
    ("JobSet", [jobset("g", 3)], ("batch/v1", "Job", "g-w-0"),
     {"jobset.sigs.k8s.io/jobset-name": "g"}),
    ("LeaderWorkerSet", [leader_workers("g", 3)], ("apps/v1", "StatefulSet", "g-0"),
     {"leaderworkerset.sigs.k8s.io/name": "g", "leaderworkerset.sigs.k8s.io/group-index": "0"}),
]  # fmt: skip
"""Which kind is waited for at last, what owns the pods, their owner, and their labels."""


def make(story: Story, number: int, owner: tuple[str, str, str], labels: Object) -> None:
    index = {"batch.kubernetes.io/job-completion-index": str(number)}
    spec = {"schedulerName": "tidemill", "subdomain": "g"}
    story.server.make(f"g-{number}", 2, owner=owner, labels={**index, **labels}, spec=spec)


@pytest.mark.parametrize(("kind", "objects", "owner", "labels"), CASES)
def test_a_gang_that_comes_before_its_owner_starts_whole(
    kind: str, objects: list[Object], owner: tuple[str, str, str], labels: Object
):
    """Two of three pods come, then what made them, step by step, then the third: bound together."""
    story = Story(8)
    story.scheduler.view.awaited.is_read = lambda _, __: True
    make(story, 0, owner, labels)
    make(story, 1, owner, labels)
    story.rest()
    for one in objects:
        assert story.bound() == {}
        assert {reason for reason, _ in story.held().values()} == {"WaitingForOwner"}
        story.server.put(one)
        story.rest()
    assert {reason for reason, _ in story.held().values()} == {"WaitingForGang"}, kind
    make(story, 2, owner, labels)
    story.rest()
    assert len(story.bound()) == 3
    assert story.held() == {}


def test_the_owner_is_named_and_pods_that_go_are_not_waited_for():
    """The words say which Job is missing; pods that are deleted leave nothing behind."""
    story = Story(8)
    story.scheduler.view.awaited.is_read = lambda group, kind: (group, kind) == ("batch", "Job")
    make(story, 0, ("batch/v1", "Job", "train"), {})
    story.rest()
    (words,) = (words for _, words in story.held().values())
    assert "the Job `ml/train`, was not seen yet" in words
    story.server.delete(("ml", "g-0"))
    story.rest()
    assert story.held() == {}
    assert not story.scheduler.view.awaited


def test_owners_of_kinds_that_may_not_be_read_are_not_waited_for():
    """Whoever may not read PyTorchJobs gets the pods that are there, each as it is."""
    story = Story(8)
    story.scheduler.view.awaited.is_read = lambda _, __: False
    story.server.make("w0", 2, owner=("kubeflow.org/v1", "PyTorchJob", "p"))
    story.rest()
    assert set(story.bound()) == {"w0"}


def bare_jobset(*counts: int) -> Object:
    """A JobSet of Jobs of so many pods, whose templates say nothing of GPUs."""
    rows = [
        {"name": f"w{i}", "template": {"spec": {"parallelism": count, "completions": count}}}
        for i, count in enumerate(counts)
    ]
    return made.owner(JOBSET, "JobSet", "g", {"replicatedJobs": rows})


@pytest.mark.parametrize("last_gpus", [2, 0])
def test_a_gang_whose_templates_show_no_gpus_starts_when_all_of_its_pods_are_there(last_gpus: int):
    """Nobody says which of three pods have GPUs: two wait for the third, whatever it requests."""
    story = Story(8)
    story.server.put(bare_jobset(1, 2))
    for name in ("g-w0-0", "g-w1-0"):
        story.server.put(job(name, 1, owners=below(JOBSET, "JobSet", "g")))
    labels = {"jobset.sigs.k8s.io/jobset-name": "g"}
    for i in range(2):
        make(story, i, ("batch/v1", "Job", "g-w1-0"), labels)
        story.rest()
        assert story.bound() == {}
        reason, words = story.held()["ml/g"]
        assert reason == "WaitingForGang"
        assert words.startswith("its JobSet `ml/g` wants 3 pods, and its templates request no GPUs")
        assert words.endswith(f"when all are there, and {i + 1} are")
    story.server.make("last", last_gpus, owner=("batch/v1", "Job", "g-w0-0"), labels=labels)
    story.rest()
    assert {"g-0", "g-1", "last"} == {*story.bound()}
    assert story.held() == {}
    assert not [one for one in story.server.asked if one[1] == "eviction"]
