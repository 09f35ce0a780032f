"""Objects to put into a real cluster: nodes with GPUs, pods and jobs that request some."""

from typing import Any

Object = dict[str, Any]
GPU = "nvidia.com/gpu"


def node(
    name: str,
    gpus: int = 8,
    *,
    product: str = "NVIDIA-H100-80GB-HBM3",
    rack: str = "a",
    labels: dict[str, str] | None = None,
    taints: list[Object] | None = None,
    advertised: int | None = None,
    more: dict[str, int] | None = None,
) -> Object:
    """A node with GPUs; ``advertised``: fewer than its labels say; ``more``: other resources."""
    has = {"cpu": "96", "memory": "1024Gi", "pods": "110"}
    shown = gpus if advertised is None else advertised
    amounts = has | ({GPU: str(shown)} if shown else {})
    amounts |= {name: str(count) for name, count in (more or {}).items()}
    told = {
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(gpus),
        "topology.kubernetes.io/zone": "z1",
        "topology.kubernetes.io/rack": rack,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": told | (labels or {})},
        "spec": {"taints": taints or []},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod(name: str, gpus: int = 1, *, namespace: str = "ml", cpu: str = "1", **spec: Any) -> Object:
    """A pod that requests GPUs, or so many of another ``resource``; further fields of its spec by
    name, `metadata` beside them.
    """
    metadata = {"name": name, "namespace": namespace} | spec.pop("metadata", {})
    resource = spec.pop("resource", GPU)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "containers": [container(gpus, cpu=cpu, resource=resource)],
            "restartPolicy": "Never",
        }
        | spec,
    }


def container(gpus: int, *, cpu: str = "1", memory: str = "1Gi", resource: str = GPU) -> Object:
    """The one container of a pod."""
    amounts = {"cpu": cpu, "memory": memory} | ({resource: str(gpus)} if gpus else {})
    return {
        "name": "main",
        "image": "registry.example/train:1",
        "resources": {"requests": amounts, "limits": amounts},
    }


def gang(name: str, pods: int, gpus: int, *, namespace: str = "ml", **spec: Any) -> Object:
    """An indexed Job all of whose pods run at once, and call each other by name."""
    resource = spec.pop("resource", GPU)
    main = container(gpus, resource=resource)
    told = {"containers": [main], "restartPolicy": "Never", "subdomain": name}
    template = {"spec": told | spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "completionMode": "Indexed",
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 6,
            "template": template,
        },
    }


def replica_set(
    name: str, pods: int, gpus: int, notes: dict[str, str] | None = None, **spec: Any
) -> Object:
    """A ReplicaSet, which replaces a lost pod at once; ``notes``: annotations of its pods."""
    told: Object = {"labels": {"set": name}} | ({"annotations": notes} if notes else {})
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"replicas": pods, "selector": {"matchLabels": {"set": name}},
                 "template": {"metadata": told,
                              "spec": {"containers": [container(gpus)]} | spec}},
    }  # fmt: skip


def gang_notes(name: str, pods: int, **more: str) -> dict[str, str]:
    """The annotations that make pods a gang; others of ours by name: `gang_least`."""
    told = {"gang": name, "gang_size": str(pods)} | more
    return {f"tidemill/{key.replace('_', '-')}": value for key, value in told.items()}


DRIVER = "gpu.nvidia.com"


def device_class(
    name: str = DRIVER, *expressions: str, driver: str = DRIVER, extended: str = ""
) -> Object:
    """A class of devices: those of a driver of which these expressions hold.

    ``extended``: the extended resource that they are too.
    """
    told = (f'device.driver == "{driver}"', *expressions)
    named = {"extendedResourceName": extended} if extended else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": one}} for one in told], **named},
    }


def resource_slice(node: str, devices: list[Object], *, driver: str = DRIVER) -> Object:
    """All devices of a driver that a node publishes."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver, "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        },
    }  # fmt: skip


def device(name: str, product: str = "NVIDIA H100 80GB HBM3", **attributes: Any) -> Object:
    """A device; attributes by name, of which `type` and `memory` have a default."""
    told = {"type": "gpu", "productName": product} | attributes
    memory = told.pop("memory", "80Gi")
    kinds = {str: "string", int: "int", bool: "bool"}
    return {
        "name": name,
        "attributes": {
            key.replace("__", "/"): {kinds[type(value)]: value} for key, value in told.items()
        },
        "capacity": {"memory": {"value": memory}},
    }


SLICES = {"1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 3}
"""Of the seven compute slices of a GPU, those that an instance takes."""


def partitioned(node: str, gpus: int = 1) -> list[Object]:
    """GPUs that are cut when somebody asks: each whole, and as instances, with shared counters.

    The counters are in a slice of their own, as the API wants it.
    """
    devices, sets = list[Object](), list[Object]()
    for i in range(gpus):
        name = f"gpu-{i}"
        sets.append({"name": name, "counters": _amounts(7, 80)})
        devices.append(device(name) | _consuming(name, 7, 80))
        for profile, slices in SLICES.items():
            for k in range(7 // slices):
                memory = int(profile.partition(".")[2].removesuffix("gb"))
                one = device(f"{name}-{profile[:2]}-{k}", type="mig", profile=profile,
                             memory=f"{memory}Gi")  # fmt: skip
                devices.append(one | _consuming(name, slices, memory))
    told = resource_slice(node, devices)
    counters = resource_slice(node, [])
    counters["metadata"]["name"] += "-counters"
    del counters["spec"]["devices"]
    counters["spec"]["sharedCounters"] = sets
    for one in (told, counters):
        one["spec"]["pool"]["resourceSliceCount"] = 2
    return [counters, told]


def _amounts(slices: int, memory_gib: int) -> Object:
    return {"compute-slices": {"value": str(slices)}, "memory": {"value": f"{memory_gib}Gi"}}


def _consuming(name: str, slices: int, memory_gib: int) -> Object:
    told = {"counterSet": name, "counters": _amounts(slices, memory_gib)}
    return {"consumesCounters": [told]}


def of_profile(profile: str) -> str:
    """The expression that holds of the instances of a profile."""
    told = f'device.attributes["{DRIVER}"]'
    return f'{told}.type == "mig" && {told}.profile == "{profile}"'


WHOLE = f'device.attributes["{DRIVER}"].type == "gpu"'
"""The expression that holds of whole devices."""


def claim_spec(
    count: int = 1, *expressions: str, device_class: str = DRIVER, **rest: Any
) -> Object:
    """What a claim asks for."""
    exact: Object = {"deviceClassName": device_class} | rest.pop("exactly", {})
    if "allocationMode" not in exact:
        exact["count"] = count
    if expressions:
        exact["selectors"] = [{"cel": {"expression": one}} for one in expressions]
    return {"devices": {"requests": [{"name": "gpu", "exactly": exact}], **rest}}


def claim(name: str, spec: Object, *, namespace: str = "ml") -> Object:
    """A claim by itself."""
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    }  # fmt: skip


def claim_template(name: str, spec: Object, *, namespace: str = "ml") -> Object:
    """What the claims of many pods are made of."""
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"spec": spec},
    }  # fmt: skip


def claiming(*, template: str = "", claim: str = "") -> Object:
    """The fields of a pod's spec that name its claim."""
    by = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    main = container(0)
    main["resources"]["claims"] = [{"name": "gpu"}]
    return {"resourceClaims": [{"name": "gpu", **by}], "containers": [main]}
