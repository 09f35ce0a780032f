"""Roles of jobs of other projects: pods of unlike sizes that start together."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.made import node, pod, template
from tests.live.kubernetes.test_import import Object, world_of
from tidemill.explain.partial_gangs import partial_gangs

NODES = [node(f"n{i}") for i in range(3)]


def trained(kind: str, key: str, **roles: int) -> tuple[str, str, Object, dict[str, Any]]:
    """A job of the training operator: one replica of the first role, two of the last."""
    one, *more = [(name, {"template": template(gpus)}) for name, gpus in roles.items()]
    each = {one[0]: {"replicas": 1, **one[1]}} | {n: {"replicas": 2, **role} for n, role in more}
    return "kubeflow.org/v1", kind, {f"{key}ReplicaSpecs": each}, {}


RAY: Object = {
    "headGroupSpec": {"template": template(1)},
    "workerGroupSpecs": [{"groupName": "w", "replicas": 2, "template": template(2)}],
}
TWO_ROLES: dict[str, tuple[str, str, Object, dict[str, Any]]] = {
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [
        {"name": "ps", "replicas": 1, "template": {"spec": {"template": template(1)}}},
        {"name": "w", "replicas": 2, "template": {"spec": {"template": template(2)}}},
    ]}, {}),
    "PyTorchJob": trained("PyTorchJob", "pytorch", Master=1, Worker=2),
    "TFJob": trained("TFJob", "tf", PS=1, Worker=2),
    "XGBoostJob": trained("XGBoostJob", "xgb", Master=1, Worker=2),
    "PaddleJob": trained("PaddleJob", "paddle", Master=1, Worker=2),
    "RayCluster": ("ray.io/v1", "RayCluster", RAY, {}),
    "RayJob": ("ray.io/v1", "RayJob", {"rayClusterSpec": RAY}, {}),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {
        "replicas": 1, "leaderWorkerTemplate": {
            "size": 3, "leaderTemplate": template(1), "workerTemplate": template(2),
        },
    }, {"leaderworkerset.sigs.k8s.io/name": "g", "leaderworkerset.sigs.k8s.io/group-index": "0"}),
    "Volcano": ("batch.volcano.sh/v1alpha1", "Job", {"minAvailable": 3, "tasks": [
        {"name": "ps", "replicas": 1, "template": template(1)},
        {"name": "w", "replicas": 2, "template": template(2)},
    ]}, {}),
}  # fmt: skip


@pytest.mark.parametrize("kind", TWO_ROLES)
def test_roles_of_an_owner_are_roles_of_the_gang(kind: str):
    """A small pod and two larger ones, of which one does not exist yet: one job of two roles."""
    version, name, spec, labels = TWO_ROLES[kind]
    world = world_of(
        *NODES, made.owner(version, name, "g", spec),
        *(pod(f"g-{i}", 1 + i, on="n0", owner=(version, name, "g"), labels=labels)
          for i in range(2)),
    )  # fmt: skip
    (j,) = range(len(world.job_names))
    assert [(role.count, role.accelerators) for role in world.shape_of(j).roles] == [(1, 1), (2, 2)]
    (found,) = partial_gangs(world).gangs
    assert (found.placed, found.replicas) == (2, 3)


def test_a_job_of_one_role_of_the_training_operator_has_that_role():
    """A JAXJob has workers alone."""
    spec = {"jaxReplicaSpecs": {"Worker": {"replicas": 3, "template": template(2)}}}
    of = ("kubeflow.org/v1", "JAXJob", "g")
    world = world_of(
        *NODES, made.owner(*of, spec), *(pod(f"g-{i}", 2, on="n0", owner=of) for i in range(2))
    )
    (role,) = world.shape_of(world.job_number["ml/g"]).roles
    assert (role.count, role.accelerators) == (3, 2)
