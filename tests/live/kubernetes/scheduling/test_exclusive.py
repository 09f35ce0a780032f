"""JobSets and LeaderWorkerSets of which each part is to have a domain for itself.

Their controllers make the other pods of a Job, or of a group, when its first one is bound, and give
them the domain of that one: a gang that is bound whole would wait for them for ever.
"""

import pytest

from tests.live.kubernetes.scheduling.pretended import Object
from tests.live.kubernetes.scheduling.test_holding import Story
from tests.live.kubernetes.scheduling.test_owners import jobset, leader_workers, make

POOL = "cloud.provider.com/topology-domain"
OF_JOBS = "alpha.jobset.sigs.k8s.io/exclusive-topology"
OF_GROUPS = "leaderworkerset.sigs.k8s.io/exclusive-topology"
OF_PARTS = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
SELECTED = "alpha.jobset.sigs.k8s.io/node-selector"
JOB = ("batch/v1", "Job", "g-w-0")


def leader(name: str, of: str) -> Object:
    """What the webhook puts into the first pod of a Job: with its own, and away from all others."""
    key = "jobset.sigs.k8s.io/job-key"
    own = {"key": key, "operator": "In", "values": [name]}
    others = [{"key": key, "operator": "Exists"}, own | {"operator": "NotIn"}]
    told = {"topologyKey": of, "namespaceSelector": {}}
    must = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {
        "podAffinity": {must: [told | {"labelSelector": {"matchExpressions": [own]}}]},
        "podAntiAffinity": {must: [told | {"labelSelector": {"matchExpressions": others}}]},
    }}  # fmt: skip


def labels(kind: str) -> Object:
    if kind == "JobSet":
        return {"jobset.sigs.k8s.io/jobset-name": "g", "jobset.sigs.k8s.io/job-key": "k"}
    name = "leaderworkerset.sigs.k8s.io/"
    return {f"{name}name": "g", f"{name}group-index": "0"}


@pytest.mark.parametrize(
    ("kind", "annotation"), [("JobSet", OF_JOBS), ("LeaderWorkerSet", OF_GROUPS)]
)
def test_a_gang_whose_pods_are_made_one_after_the_other_is_held_by_the_annotation(
    kind: str, annotation: str
):
    """Its first pod is there, two others never come: it says what to do instead, and is bound when
    that was done.
    """
    story = Story(8)
    owner = jobset("g", 3) if kind == "JobSet" else leader_workers("g", 3)
    owner["metadata"]["annotations"] = {annotation: POOL}
    story.server.put(owner)
    story.server.make("g-0", 2, owner=JOB, labels=labels(kind), spec=leader("k", POOL),
                      annotations={annotation: POOL})  # fmt: skip
    story.rest()
    assert story.bound() == {}
    ((reason, words),) = story.held().values()
    assert reason == "NotSupported"
    assert f"by its annotation `{annotation}: {POOL}` the other pods are made when" in words
    assert f"`tidemill/required-topology: {POOL}`" in words
    story.server.drop(("ml", "g-0"))
    owner["metadata"]["annotations"] = {}
    story.server.put(owner)
    for i in range(3):
        make(story, i, JOB, labels(kind))
    story.rest()
    assert len(story.bound()) == 3


def test_parts_of_a_group_with_places_for_themselves_are_held_by_the_annotation():
    """All four pods are there, two with an affinity to one part and two to the other."""
    story, notes = Story(8), {OF_PARTS: POOL}
    story.server.put(leader_workers("g", 4))
    for i in range(4):
        story.server.make(f"g-{i}", 2, owner=JOB, labels=labels("LeaderWorkerSet"),
                          spec=leader(f"part-{i // 2}", POOL), annotations=notes)  # fmt: skip
    story.rest()
    assert story.bound() == {}
    ((reason, words),) = story.held().values()
    assert reason == "NotSupported"
    assert f"differ between pods of one gang, by {OF_PARTS}" in words


def test_jobs_for_which_somebody_has_labelled_nodes_are_placed():
    """All pods are made at once there, and select their nodes: nothing is held."""
    story = Story(8)
    owner = jobset("g", 3)
    owner["metadata"]["annotations"] = notes = {OF_JOBS: POOL, SELECTED: "true"}
    story.server.put(owner)
    for i in range(3):
        story.server.make(f"g-{i}", 2, owner=JOB, labels=labels("JobSet"), annotations=notes)
    story.rest()
    assert len(story.bound()) == 3


def test_a_job_of_one_pod_has_its_place_for_itself():
    """There is nobody to be made after it; the rules of the pod say the same, and are kept."""
    story = Story(8, 8)
    owner = jobset("g", 1)
    owner["metadata"]["annotations"] = {OF_JOBS: "kubernetes.io/hostname"}
    story.server.put(owner)
    other = {"jobset.sigs.k8s.io/job-key": "other"}
    story.server.make("theirs", 1, on="n0", labels=other)
    story.server.make("g-0", 2, owner=JOB, labels=labels("JobSet"),
                      spec=leader("k", "kubernetes.io/hostname"),
                      annotations={OF_JOBS: "kubernetes.io/hostname"})  # fmt: skip
    story.rest()
    assert story.bound()["g-0"] == "n1"
