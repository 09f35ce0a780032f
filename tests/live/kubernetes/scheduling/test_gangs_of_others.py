"""Gangs in the words of other projects, on a real API server: each starts whole, or not at all."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.test_placing import PODS
from tests.rigs.kubernetes.cluster import Cluster, Object
from tests.rigs.kubernetes.definitions import POD_GROUP, kind
from tests.rigs.kubernetes.scheduled import (
    OURS,
    held_in_cluster,
    held_in_journal,
    scheduling,
)
from tests.rigs.kubernetes.wanted import node, pod
from tidemill.journal import open_journal
from tidemill.journal.replay import rebuild
from tidemill.model.states import JobClass

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KINDS = {
    "JobSet": kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
    "LeaderWorkerSet": kind(
        "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"
    ),
    "RayCluster": kind("ray.io", "v1", "RayCluster", "rayclusters"),
    "volcano Job": kind("batch.volcano.sh", "v1alpha1", "Job", "jobs"),
    "volcano PodGroup": kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
    "kai PodGroup": kind("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups"),
    "plugins PodGroup": POD_GROUP,
}
SIZE = 3
RULES = """
[[rule]]
label = "ray.io/cluster=*"
team = "rays"
class = "inference"
"""


def job_spec(size: int) -> Object:
    return {"parallelism": size, "completions": size, "template": made.template(1)}


SPECS: dict[str, Object] = {
    "JobSet": {"replicatedJobs": [{"name": "w", "template": {"spec": job_spec(SIZE)}}]},
    "LeaderWorkerSet": {
        "replicas": 1, "leaderWorkerTemplate": {"size": SIZE, "workerTemplate": made.template(1)}
    },
    "RayCluster": {"workerGroupSpecs": [
        {"groupName": "w", "replicas": SIZE, "minReplicas": SIZE, "template": made.template(1)}
    ]},
    "volcano Job": {
        "minAvailable": SIZE,
        "tasks": [{"name": "w", "replicas": SIZE, "template": made.template(1)}],
    },
    "volcano PodGroup": {"minMember": SIZE},
    "kai PodGroup": {"minMember": SIZE},
    "plugins PodGroup": {"minMember": SIZE},
}  # fmt: skip
NAMED: dict[str, Object] = {
    "JobSet": {"labels": {"jobset.sigs.k8s.io/jobset-name": "jobset"}},
    "LeaderWorkerSet": {"labels": {
        "leaderworkerset.sigs.k8s.io/name": "leaderworkerset",
        "leaderworkerset.sigs.k8s.io/group-index": "0",
    }},
    "RayCluster": {"labels": {
        "ray.io/cluster": "raycluster", "ray.io/node-type": "worker", "ray.io/group": "w",
    }},
    "volcano Job": {"labels": {"volcano.sh/job-name": "volcano-job", "volcano.sh/task-spec": "w"}},
    "volcano PodGroup": {"annotations": {"scheduling.k8s.io/group-name": "volcano-podgroup"}},
    "kai PodGroup": {"annotations": {"pod-group-name": "kai-podgroup"}},
    "plugins PodGroup": {"labels": {"scheduling.x-k8s.io/pod-group": "plugins-podgroup"}},
}  # fmt: skip
"""How a pod says to which object of each kind it belongs."""


def name_of(source: str) -> str:
    return source.lower().replace(" ", "-")


def declare(rig: Cluster, source: str, spec: Object, name: str = "") -> None:
    """An object of one of these kinds, whose definition may have come just now."""
    group = KINDS[source]["spec"]
    version, plural = group["versions"][0]["name"], group["names"]["plural"]
    path = f"/apis/{group['group']}/{version}/namespaces/ml/{plural}"
    one = {
        "apiVersion": f"{group['group']}/{version}", "kind": group["names"]["kind"],
        "metadata": {"name": name or name_of(source)}, "spec": spec,
    }  # fmt: skip
    rig.wait_for("the kind is served", lambda: rig.try_to("POST", path, one)[0] in (201, 409))


def make(rig: Cluster, source: str, *numbers: int) -> None:
    """Pods of ours with one GPU each that belong to the object of a kind."""
    told = NAMED[source]
    for i in numbers:
        about: Any = {"schedulerName": OURS, "metadata": told}
        rig.create(PODS, pod(f"{name_of(source)}-{i}", **about))


def bound(rig: Cluster) -> set[str]:
    return {name for name, one in rig.pods("ml").items() if one["spec"].get("nodeName")}


def reasons(rig: Cluster) -> Counter[str]:
    """Why pods are not bound, and how many for each reason."""
    found = Counter[str]()
    for one in rig.pods("ml").values():
        told = one["status"].get("conditions", [])
        found.update(c.get("reason", "") for c in told if c["type"] == "PodScheduled")
    return found


def job_in_group(name: str, size: int) -> Object:
    """A Job whose pods are of the group `both`; the cluster's own controller makes them."""
    spec = job_spec(size)
    template = spec["template"]
    template["metadata"] = {"labels": {"scheduling.x-k8s.io/pod-group": "both"}}
    template["spec"] = pod("x")["spec"] | {"schedulerName": OURS, "restartPolicy": "Never"}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture(name="served")
def of_others(rig: Cluster) -> Iterator[Cluster]:
    """The cluster with these kinds, which are taken away again with all objects of them."""
    rig.create(DEFINITIONS, *KINDS.values())
    try:
        yield rig
    finally:
        names = [one["metadata"]["name"] for one in KINDS.values()]
        for name in names:
            rig.ask("DELETE", f"{DEFINITIONS}/{name}")
        rig.wait_for("they are gone", lambda: all(
            rig.try_to("GET", f"{DEFINITIONS}/{name}")[0] == 404 for name in names
        ))  # fmt: skip


def test_gangs_of_seven_kinds_and_of_two_jobs_start_whole_or_not_at_all(
    served: Cluster, tmp_path: Path
):
    """Of each gang of three two pods come, and a Job of one in a group of three: nobody is bound,
    and each says that it waits for its gang. Then the rest comes, and all are; teams and classes by
    a file of rules.
    """
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    rig = served
    rig.add_nodes(*(node(f"n{i}") for i in range(4)))
    for source, spec in SPECS.items():
        declare(rig, source, spec)
    declare(rig, "plugins PodGroup", {"minMember": SIZE}, "both")
    with scheduling(rig, tmp_path, "--team-by", f"file:{rules}") as ours:
        for source in SPECS:
            make(rig, source, 0, 1)
        jobs = "/apis/batch/v1/namespaces/ml/jobs"
        rig.create(jobs, job_in_group("lead", 1))
        some = 2 * len(SPECS) + 1
        rig.wait_for("all wait", lambda: reasons(rig) == {"WaitingForGang": some}, 30)
        assert bound(rig) == set()
        for source in SPECS:
            make(rig, source, 2)
        rig.create(jobs, job_in_group("work", 2))
        every = SIZE * (len(SPECS) + 1)
        rig.wait_for("all are bound", lambda: len(bound(rig)) == every, 60)
        rig.wait_for(
            "all is told", lambda: held_in_cluster(rig) == held_in_journal(ours.journal), 30
        )
        assert ours.stop() == 0
    with open_journal(ours.journal) as journal:
        world = rebuild(journal)
    shapes = {name: world.shape_of(j) for j, name in enumerate(world.job_names)}
    serving = {name for name, shape in shapes.items() if shape.kind is JobClass.INFERENCE}
    assert serving == {"ml/raycluster", "ml/leaderworkerset-0"}
    assert {name for name, shape in shapes.items() if shape.team == "rays"} == {"ml/raycluster"}
    assert {*shapes} == {f"ml/{name}" for name in (*map(name_of, SPECS), "both")} - {
        "ml/leaderworkerset"
    } | {"ml/leaderworkerset-0"}
