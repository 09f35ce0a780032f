"""Objects as the API shows them, small and faithful: what a test does not talk about is left out.

Times are seconds after ``BEGIN``.
"""

from datetime import UTC, datetime
from typing import Any

from tidemill.live.kubernetes.objects import Objects

BEGIN = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)
BEGIN_MS = int(BEGIN.timestamp() * 1000)
Object = dict[str, Any]


def moment(seconds: int) -> str:
    """As the API writes times."""
    at = datetime.fromtimestamp(BEGIN.timestamp() + seconds, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def listed(*objects: Object) -> Object:
    """As `kubectl get -o json` prints several."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects), "metadata": {}}


def taken(*objects: Object) -> Objects:
    """Objects as read from one file."""
    found = Objects()
    found.add(listed(*objects), "file.json")
    return found


def node(name: str, gpus: int = 8, at: int = 3600, **rest: Any) -> Object:
    """A node with GPUs, Ready since the beginning, whose last heartbeat was ``at``."""
    labels = {
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        **rest.get("labels", {}),
    }
    amounts = {
        "cpu": "192", "memory": "2113929216Ki", "pods": "110", "nvidia.com/gpu": str(gpus),
        **rest.get("amounts", {}),
    }  # fmt: skip
    amounts = {key: amount for key, amount in amounts.items() if amount is not None}
    spec: Object = {"taints": rest.get("taints", [])}
    if rest.get("unschedulable"):
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "labels": labels,
            "creationTimestamp": moment(rest.get("since", -86_400)),
        },
        "spec": spec,
        "status": {
            "capacity": {**amounts, **rest.get("capacity", {})}, "allocatable": amounts,
            "conditions": [{
                "type": "Ready", "status": "True" if rest.get("ready", True) else "Unknown",
                "reason": "KubeletReady" if rest.get("ready", True) else "NodeStatusUnknown",
                "message": rest.get("message", ""), "lastHeartbeatTime": moment(at),
                "lastTransitionTime": moment(rest.get("turned", -86_400)),
            }],
        },
    }  # fmt: skip


def pod(
    name: str,
    gpus: int | dict[str, int] = 1,
    *,
    on: str = "",
    created: int = 0,
    bound: int | None = None,
    up: int | None = None,
    end: int | None = None,
    phase: str = "",
    **rest: Any,
) -> Object:
    """A pod: pending, or bound to a node at ``bound``, running since ``up``, ended at ``end``."""
    counts = {"nvidia.com/gpu": gpus} if isinstance(gpus, int) else gpus
    amounts = {key: str(count) for key, count in counts.items() if count}
    bound = created if on and bound is None else bound
    up = bound if on and up is None else up
    phase = phase or ("Running" if on and end is None else "Succeeded" if on else "Pending")
    metadata: Object = {
        "name": name, "namespace": rest.get("namespace", "ml"), "uid": f"uid-{name}",
        "creationTimestamp": moment(created), "labels": rest.get("labels", {}),
        "annotations": rest.get("annotations", {}),
    }  # fmt: skip
    if rest.get("owner"):
        version, kind, owner = rest["owner"]
        metadata["ownerReferences"] = [
            {
                "apiVersion": version,
                "kind": kind,
                "name": owner,
                "uid": f"uid-{owner}",
                "controller": True,
            }
        ]
    requests = {"cpu": rest.get("cpu", "8"), "memory": rest.get("memory", "64Gi")}
    requests |= rest.get("requests", {})
    resources = {"limits": amounts, "requests": {**requests, **amounts}}
    spec: Object = {
        "containers": [{"name": "main", "resources": resources}],
        "schedulerName": "default-scheduler", **rest.get("spec", {}),
    }  # fmt: skip
    status: Object = {"phase": phase, "conditions": list(rest.get("conditions", []))}
    if on:
        spec["nodeName"] = on
        if "taken" in rest:
            status["startTime"] = moment(rest["taken"])
        status["conditions"].append(
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment(bound or 0)}
        )
        state: Object = {"waiting": {"reason": "ContainerCreating"}}
        if end is not None:
            code = 0 if phase == "Succeeded" else 1
            state = {"terminated": {
                "startedAt": moment(up or 0), "finishedAt": moment(end), "exitCode": code,
                "reason": rest.get("why", "Completed" if not code else "Error"),
            }}  # fmt: skip
        elif up is not None and up >= 0:
            state = {"running": {"startedAt": moment(up)}}
        status["containerStatuses"] = [{"name": "main", "restartCount": 0, "state": state}]
    elif rest.get("message"):
        status["conditions"].append({
            "type": "PodScheduled", "status": "False", "message": rest["message"],
            "reason": rest.get("reason", "Unschedulable"), "lastTransitionTime": moment(created),
        })  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def with_own_claim(one: Object, *devices: str, resource: str = "nvidia.com/gpu") -> list[Object]:
    """A pod whose extended resource comes by a claim that was made for it, and that claim."""
    meta = one["metadata"]
    name = f"{meta['name']}-extended-resources-abcde"
    one["status"]["extendedResourceClaimStatus"] = {
        "resourceClaimName": name,
        "requestMappings": [{"containerName": "main", "resourceName": resource,
                             "requestName": "container-0-request-0"}],
    }  # fmt: skip
    exact = {"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": len(devices)}
    rows = [
        {"request": "container-0-request-0", "driver": "gpu.nvidia.com",
         "pool": one["spec"]["nodeName"], "device": device}
        for device in devices
    ]  # fmt: skip
    claim = owner(
        "resource.k8s.io/v1", "ResourceClaim", name,
        {"devices": {"requests": [{"name": "container-0-request-0", "exactly": exact}]}},
        namespace=meta["namespace"],
        status={"allocation": {"devices": {"results": rows}},
                "reservedFor": [{"resource": "pods", "name": meta["name"], "uid": meta["uid"]}]},
    )  # fmt: skip
    return [one, claim]


def template(gpus: int, **spec: Any) -> Object:
    """A pod template."""
    amounts = {"cpu": "8", "memory": "64Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    containers = [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]
    return {"spec": {"containers": containers, **spec}}


def owner(version: str, kind: str, name: str, spec: Object, **rest: Any) -> Object:
    """An object that owns pods."""
    return {
        "apiVersion": version, "kind": kind,
        "metadata": {
            "name": name, "namespace": rest.get("namespace", "ml"), "uid": f"uid-{name}",
            "creationTimestamp": moment(rest.get("created", 0)), "labels": rest.get("labels", {}),
            "ownerReferences": rest.get("owners", []),
        },
        "spec": spec, "status": rest.get("status", {}),
    }  # fmt: skip


def pytorch_job(name: str, workers: int, gpus: int, **rest: Any) -> Object:
    """A PyTorchJob without a master."""
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": template(gpus)}}}
    return owner("kubeflow.org/v1", "PyTorchJob", name, spec, **rest)


def workers(job: str, count: int, gpus: int, nodes: list[str], **rest: Any) -> list[Object]:
    """The pods of a PyTorchJob; those without a node left over are pending."""
    of = ("kubeflow.org/v1", "PyTorchJob", job)
    full = f"0/{max(len(nodes), 1)} nodes are available: Insufficient nvidia.com/gpu."
    return [
        pod(f"{job}-worker-{i}", gpus, on=nodes[i], owner=of, **rest)
        if i < len(nodes)
        else pod(f"{job}-worker-{i}", gpus, owner=of, message=full)
        for i in range(count)
    ]
