"""Which kinds of objects a cluster has, of those that are read here, and where they are."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tidemill.live.kubernetes import autoscaler
from tidemill.live.kubernetes import cluster as clusters
from tidemill.live.kubernetes.api.client import ApiClient, ApiRefusal, PlainObject
from tidemill.live.kubernetes.fields import Object
from tidemill.live.kubernetes.reasons import HEARD

Readers = Mapping[tuple[str, str], Callable[[Object], Any]]
READERS: Readers = {
    key: take for key, take in clusters.readers().items() if key != ("events.k8s.io", "Event")
}
"""By API group and kind: what is made of an object. Events are the same in both of their groups."""
_QUIET = ("Scheduled", "Pulling", "Pulled", "Created", "Started", "Killing", "SuccessfulCreate",
          "Completed", "BackOff", "Unhealthy", "ScalingReplicaSet", "SuccessfulDelete")  # fmt: skip
"""Reasons of most events; none of them is read."""
assert not HEARD & set(_QUIET), "what is read has to be asked for"

LOST = {
    "Node": "nodes are those that pods name, each as large as its pods show",
    "Event": "what the scheduler said last is known from the pods alone",
    "Job": "which pods of a Job belong together, and how it ended, is unknown",
    "Namespace": "labels of namespaces are unknown",
    "ResourceQuota": "quotas of namespaces are unknown",
    "PriorityClass": "priorities are those that pods say",
    "PodDisruptionBudget": "which pods must not be evicted is unknown",
    "DeviceClass": "which claims are for GPUs is told by the names of their classes alone",
    "ConfigMap": "",
}
"""By kind: what is unknown when it may not be read; other kinds are told by their name. "": nothing
is said, as most clusters have none.
"""


class ServedKind(Struct, frozen=True):
    """A kind of objects that the server has."""

    group: str
    version: str
    kind: str
    plural: str
    namespace: str = ""
    """The only one that is read; "": all are."""

    def is_same(self, other: "ServedKind") -> bool:
        """Whether it is the same kind, perhaps of another version."""
        return (self.group, self.kind) == (other.group, other.kind)

    @property
    def api_version(self) -> str:
        """As objects of it say themselves."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """Where all of them are that are read."""
        within = f"namespaces/{self.namespace}/" if self.namespace else ""
        return f"/{'apis' if self.group else 'api'}/{self.api_version}/{within}{self.plural}"

    @property
    def shown(self) -> str:
        """As kubectl calls it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def query(self) -> dict[str, str | int]:
        """What narrows it to those that are read."""
        if self.kind == "ConfigMap":
            return {"fieldSelector": f"metadata.name={autoscaler.NAME}"}
        if self.kind != "Event":
            return {}
        return {"fieldSelector": ",".join(f"reason!={reason}" for reason in _QUIET)}

    @property
    def shape(self) -> type[Any]:
        """What of its objects is made: of those that clusters have by the thousand, not all."""
        is_plain = self.group == "" and self.kind in ("Pod", "Node")
        return PlainObject if is_plain else dict[str, Any]

    @property
    def rule(self) -> str:
        """The rule of a ClusterRole that lets somebody read it."""
        return (
            f'apiGroups: ["{self.group}"], resources: ["{self.plural}"], verbs: ["list", "watch"]'
        )

    @property
    def manifest(self) -> str:
        """The file of deploy/kubernetes that has this rule."""
        is_observed = (self.group, self.kind) in READERS
        return "observe.yaml" if is_observed else "schedule.yaml"

    @property
    def remedy(self) -> str:
        """Who is allowed to read it, by which file."""
        return allowed_by(self.manifest)

    @property
    def lost(self) -> str:
        """What is unknown without it."""
        return LOST.get(self.kind, f"{self.kind} objects are unknown")


def allowed_by(manifest: str) -> str:
    """How an account comes to its rights, by a file of deploy/kubernetes."""
    account = "observer" if manifest == "observe.yaml" else "scheduler"
    return (
        f"deploy/kubernetes/{manifest} makes an account that may, `{account}` in the namespace"
        f" `tidemill`: kubectl apply -f deploy/kubernetes/{manifest}"
    )


PODS = ServedKind("", "v1", "Pod", "pods")
NODES = ServedKind("", "v1", "Node", "nodes")
OF_DEVICES = ("ResourceClaim", "ResourceSlice")
"""Kinds that say who holds devices; clusters without them have none that are claimed."""


class Discovered(NamedTuple):
    """What a server has of what is read here, and what it would not say."""

    kinds: tuple[ServedKind, ...]
    notes: tuple[str, ...]


class _Resource(Struct):
    name: str
    kind: str
    verbs: tuple[str, ...] = ()


class _ResourceList(Struct):
    resources: tuple[_Resource, ...] = ()


class _Version(Struct):
    version: str


class _Group(Struct):
    name: str
    versions: tuple[_Version, ...] = ()


class _GroupList(Struct):
    groups: tuple[_Group, ...] = ()


async def discover(
    client: ApiClient, readers: Readers, autoscaler_namespace: str = ""
) -> Discovered:
    """Ask a server what it has."""
    only = {"ConfigMap": autoscaler_namespace or autoscaler.NAMESPACE}
    found, notes = list[ServedKind](), list[str]()
    wanted = dict[str, set[str]]()
    for group, kind in readers:
        wanted.setdefault(group, set()).add(kind)
    groups = msgspec.json.decode(await client.get("/apis"), type=_GroupList).groups
    versions = {group.name: [one.version for one in group.versions] for group in groups}
    versions[""] = ["v1"]
    for group in sorted(wanted):
        missing = wanted[group]
        for version in versions.get(group, ()):  # the preferred one comes first
            if not missing:
                break
            try:
                served = await _served(client, group, version)
            except ApiRefusal as error:
                notes.append(f"the server does not say what {group}/{version} has: {error}")
                continue
            some = [replace(one, namespace=only.get(one.kind, ""))
                    for one in served if one.kind in missing]  # fmt: skip
            found += some
            missing = missing - {one.kind for one in some}
    return Discovered(tuple(found), tuple(notes))


async def _served(client: ApiClient, group: str, version: str) -> Iterable[ServedKind]:
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    told = msgspec.json.decode(await client.get(path), type=_ResourceList)
    return [
        ServedKind(group, version, one.kind, one.name)
        for one in told.resources
        if "/" not in one.name and {"list", "watch"} <= set(one.verbs)
    ]
