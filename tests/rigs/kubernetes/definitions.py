"""Kinds of other projects, as far as a real API server needs them: it keeps what it is given."""

from typing import Any

Object = dict[str, Any]


def kind(group: str, version: str, name: str, plural: str, *, scope: str = "Namespaced") -> Object:
    """A CustomResourceDefinition that takes any content."""
    whole = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": name, "plural": plural, "singular": name.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": whole},
                }
            ],
        },
    }


def scaled(one: Object, replicas: str) -> Object:
    """The same with a scale, which says how many replicas its objects have, at this path."""
    paths = {"specReplicasPath": replicas, "statusReplicasPath": ".status.replicas"}
    for version in one["spec"]["versions"]:
        version["subresources"] = {"scale": paths}
    return one


TRAINING = scaled(
    kind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
    ".spec.pytorchReplicaSpecs.Worker.replicas",
)
KUEUE = kind("kueue.x-k8s.io", "v1beta1", "Workload", "workloads")
POD_GROUP = kind("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups")
NODE_CLAIM = kind("karpenter.sh", "v1", "NodeClaim", "nodeclaims", scope="Cluster")
