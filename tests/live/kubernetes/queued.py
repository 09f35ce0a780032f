"""Objects of Kueue, small and faithful: queues with quotas, and jobs that they admit, or do not."""

from typing import Any

from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, node, pod, template

V2 = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
LABEL = "kueue.x-k8s.io/queue-name"
UNUSED = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in"
    " flavor all, 8 more needed"
)


def flavor(name: str = "all", **labels: str) -> Object:
    """Nodes with these labels; all of them."""
    return made.owner(V2, "ResourceFlavor", name, {"nodeLabels": labels})


def queue(
    name: str, gpus: int | dict[str, int], *, local: str = "", namespace: str = "ml", **spec: Any
) -> list[Object]:
    """A cluster queue with so many GPUs, of each flavor, and the local queue of a namespace."""
    limits = {key: str(spec.pop(key)) for key in ("borrowingLimit", "lendingLimit") if key in spec}
    flavors = [
        {"name": of, "resources": [{"name": GPU, "nominalQuota": str(count), **limits}]}
        for of, count in (gpus if isinstance(gpus, dict) else {"all": gpus}).items()
    ]
    groups = [{"coveredResources": [GPU], "flavors": flavors}]
    status = spec.pop("status", {})
    rows = {"resourceGroups": groups, **spec}
    return [
        made.owner(V2, "ClusterQueue", name, rows, status=status),
        made.owner(V2, "LocalQueue", local or name, {"clusterQueue": name}, namespace=namespace),
    ]


def condition(kind: str, status: str = "True", at: int = 0, **rest: str) -> Object:
    """Of a workload, or a queue."""
    return {"type": kind, "status": status, "lastTransitionTime": made.moment(at), **rest}


class Work:
    """A Job of equal pods that goes through a local queue, with its workload."""

    def __init__(
        self, name: str, pods: int, gpus: int, local: str, *, namespace: str = "ml",
        is_gang: bool = True, metadata: Object | None = None,
    ) -> None:  # fmt: skip
        self.name, self.pods, self.gpus, self._namespace = name, pods, gpus, namespace
        self._local, self._is_gang, self._metadata = local, is_gang, metadata or {}

    def job(self, *, suspend: bool) -> Object:
        """The Job."""
        form = template(self.gpus)
        spec = {"parallelism": self.pods, "completions": self.pods, "template": form,
                "suspend": suspend}  # fmt: skip
        if self._is_gang:
            spec["completionMode"], form["spec"]["subdomain"] = "Indexed", self.name
        found = made.owner("batch/v1", "Job", self.name, spec, namespace=self._namespace,
                           labels={LABEL: self._local})  # fmt: skip
        found["metadata"].update(self._metadata)
        return found

    def workload(self, *told: Object, **rest: Any) -> Object:
        """Its workload, of one pod set."""
        of = {"apiVersion": "batch/v1", "kind": "Job", "name": self.name,
              "uid": f"uid-{self.name}", "controller": True}  # fmt: skip
        pods = {"name": "main", "count": self.pods, "template": template(self.gpus)}
        pods |= rest.pop("pod_set", {})
        return made.owner(
            V2, "Workload", f"job-{self.name}", {"queueName": self._local, "podSets": [pods]},
            owners=[of], namespace=self._namespace, status={"conditions": list(told), **rest},
        )  # fmt: skip

    def waits(self, message: str = UNUSED, **rest: Any) -> list[Object]:
        """It has no quota."""
        held = condition("QuotaReserved", "False", reason="Pending", message=message)
        return [self.job(suspend=True), self.workload(held, **rest)]

    def runs(self, by: str, *nodes: str, of: str = "all") -> list[Object]:
        """A cluster queue admitted it; so many of its pods sit on nodes, and the others wait."""
        part = {"name": "main", "count": self.pods, "flavors": {GPU: of},
                "resourceUsage": {GPU: str(self.gpus * self.pods)}}  # fmt: skip
        admission = {"clusterQueue": by, "podSetAssignments": [part]}
        told = (condition("QuotaReserved"), condition("Admitted"))
        job = ("batch/v1", "Job", self.name)
        rest: dict[str, Any] = {"owner": job, "namespace": self._namespace,
                                "spec": {"subdomain": self.name}}  # fmt: skip
        full = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
        pods = [
            pod(f"{self.name}-{i}", self.gpus, on=on, message=full,
                labels={"batch.kubernetes.io/job-completion-index": str(i)}, **rest)
            for i, on in enumerate((*nodes, *("",) * (self.pods - len(nodes))))
        ]  # fmt: skip
        workload = self.workload(*told, admission=admission)
        return [self.job(suspend=False), workload, *pods]


def nodes(count: int) -> list[Object]:
    """So many nodes of 8."""
    return [node(f"n{i}") for i in range(count)]
