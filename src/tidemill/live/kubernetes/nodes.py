"""Nodes: what they advertise and should have, what they are called and cost, since when they are
out.
"""

import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tidemill.live.history import cut_gpus
from tidemill.live.kubernetes import fields, notices, resources
from tidemill.live.kubernetes.fields import MalformedObjectError, Object
from tidemill.live.kubernetes.notices import NodeNotice
from tidemill.live.prices import labels as prices
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import MAX_DEVICES, NODE_CLAIM
from tidemill.model.states import NodeState

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
LEAVING = ("karpenter.sh/disrupted", "karpenter.sh/disruption", "ToBeDeletedByClusterAutoscaler")
"""Taints of nodes that an autoscaler takes away."""
OF_CONDITIONS = "node.kubernetes.io/"
"""Taints that Kubernetes sets by itself: not-ready, unreachable, unschedulable, …-pressure."""
COUNT = "nvidia.com/gpu.count"
"""The label of GPU feature discovery that says how many GPUs a node has."""
NAME = "metadata.name"
"""The name of a node, as node affinity calls it (`matchFields`): kept as a label is."""
RARELY_ASKED = ("feature.node.kubernetes.io/", NAME)
"""How labels begin that are kept when somebody selects by them alone: of a node's parts there are
about a hundred per node, and its name tells no two sorts of nodes apart."""


class Taint(Struct, frozen=True):
    """A taint: who does not tolerate it stays away."""

    key: str
    value: str
    effect: str
    added_ms: int | None = None

    @property
    def keeps_out(self) -> bool:
        """Whether it was set for who does not tolerate it; others show the state of the node."""
        is_state = self.key.startswith(OF_CONDITIONS) or self.key in LEAVING
        return not is_state and self.effect != "PreferNoSchedule"

    def __str__(self) -> str:
        return f"{{{self.key}: {self.value}}}"


class StateTurn(NamedTuple):
    """How a node that is watched takes work, and since when."""

    state: NodeState | None
    """None: it takes new work."""
    at_ms: int


class KubeNode(Struct, frozen=True, kw_only=True):
    """A node as the API shows it."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    created_ms: int | None
    allocatable: Mapping[str, int]
    """Accelerators that pods may have, by resource."""
    capacity: Mapping[str, int]
    cpu_milli: int
    memory_mib: int
    is_ready: bool
    ready_since_ms: int | None
    not_ready_why: str
    is_unschedulable: bool
    box: str
    terms: str
    gpu_type: str
    profile: str
    """The MIG profile that each of its `nvidia.com/gpu` is; "": whole devices."""
    seen_ms: int
    """The youngest time in it: the kubelet's last heartbeat."""
    expected: int
    """Devices that it should have by its labels or instance type; 0: nobody says."""
    notice: NodeNotice | None = None
    """That it is going to be taken."""
    unread: tuple[str, str] | None = None
    """An annotation that should say when, and cannot be read; None: there is none."""
    is_cordoned_by_us: bool = False
    extras: Mapping[str, int] = {}
    """What pods may have of other resources that nodes give out."""
    last_ms: int | None = None
    """When the last export was made that shows it, where later ones do not; None: all do."""
    gone_ms: int | None = None
    """When the first was made that would show it, and does not; None: none says that it is gone."""
    most_pods: int | None = None
    """How many its kubelet takes; None: nobody says."""
    disk_bytes: int | None = None
    """What pods may have of its own disk; None: it advertises none."""
    turned: StateTurn | None = None
    """Since when it is in its state, as a watch saw it; None: nobody watches."""
    was_out: tuple[tuple[int, int, NodeState], ...] = ()
    """Stretches of time in which a watch saw that it took no new work, and that are over."""
    changed_ms: Mapping[str, int] = {}
    """When a watch saw that a label changed, by key, and under "" its devices."""
    given: tuple[tuple[int, Mapping[str, int]], ...] = ()
    """What pods might have, and from when on, as a watch saw it; the first: when it was listed."""
    unseen: tuple[tuple[int, int], ...] = ()
    """Stretches of time in which it, or who has its devices, could not be read any more."""
    claimable: int = 0
    """Whole devices that claims (DRA) give out too, beside its plug-in: the same ones."""

    def vanished(self, last_ms: int, gone_ms: int) -> "KubeNode":
        """The node, gone by a moment and last seen before."""
        return replace(self, last_ms=last_ms, gone_ms=gone_ms)

    @property
    def by_either(self) -> "KubeNode":
        """The node with what claims give out beside what its plug-in does."""
        if not self.claimable:
            return self
        more = {resources.CLAIMED: self.claimable}
        return replace(
            self, capacity={**self.capacity, **more}, allocatable={**self.allocatable, **more}
        )

    @property
    def is_coming(self) -> bool:
        """Whether it is a machine that Karpenter launched and that is no node yet."""
        return self.name.startswith(NODE_CLAIM)

    @property
    def is_silent(self) -> bool:
        """Whether it is Ready, has accelerators and advertises none."""
        return self.is_ready and bool(self.devices and not self.advertised(self.allocatable))

    @property
    def takes_work(self) -> bool:
        """Whether it takes new pods that tolerate what its owner set."""
        return self.is_ready and not self.is_unschedulable and not self.conditions

    @property
    def conditions(self) -> list[Taint]:
        """Taints that Kubernetes set by itself on a node that is Ready: a disk that is full, …"""
        return [
            taint for taint in self.taints
            if taint.key.startswith(OF_CONDITIONS) and taint.key != UNSCHEDULABLE
            and taint.effect != "PreferNoSchedule" and self.is_ready
        ]  # fmt: skip

    def shares(self, resource: str) -> int:
        """Into how many each device or instance is divided (time-slicing, MPS); 1: it is whole."""
        return resources.replicas(self.labels, resource)

    def profile_of(self, resource: str) -> str:
        """The MIG profile that each unit of a resource is, or is a share of; "": none."""
        told = resources.GpuRequest(resource, 1).profile
        return told or (self.profile if resource == "nvidia.com/gpu" else "")

    def is_whole(self, resource: str) -> bool:
        """Whether each unit of a resource is a device of its own."""
        is_shared = resource.endswith(resources.SHARED) or self.shares(resource) > 1
        return not is_shared and not self.profile_of(resource)

    @property
    def devices(self) -> int:
        """Physical accelerators: what it advertises, or should by its labels.

        Where some are cut or shared, labels say better than their parts how many there are, unless
        they count the whole ones alone.
        """
        whole = sum(count for name, count in self.capacity.items() if self.is_whole(name))
        is_cut = any(not self.is_whole(name) for name in self.capacity)
        is_told = is_cut and self.expected > whole
        told = self.expected if is_told else max(self.advertised(self.capacity), self.expected)
        return min(told, MAX_DEVICES)

    @property
    def unadvertised(self) -> int:
        """Physical accelerators that no pod may have, while others are advertised."""
        healthy = self.advertised(self.allocatable)
        return max(0, self.devices - healthy) if healthy else 0

    def advertised(self, amounts: Mapping[str, int]) -> int:
        """Physical accelerators behind what it advertises, as far as that can be told."""
        together = math.ceil(sum(count * self.size(name) for name, count in amounts.items()))
        cut, whole = Counter[str](), 0
        for name, count in amounts.items():
            if profile := self.profile_of(name):
                cut[profile] += -(-count // self.shares(name))
            elif self.is_whole(name):
                whole += count
        return max(together, whole + cut_gpus.fewest(self.gpu_type, cut)) if cut else together

    def size(self, resource: str) -> Fraction:
        """How much of a device one unit of a resource is by itself; what nobody knows is one."""
        profile = self.profile_of(resource)
        milli = cut_gpus.instance_milli(self.gpu_type, profile) if profile else 0
        return Fraction(milli or WHOLE_MILLI, WHOLE_MILLI * self.shares(resource))

    def why_out(self) -> str:
        """Why it takes no new work; a taint is called one: only `kubectl cordon` cordons."""
        cordoned = ["cordoned (spec.unschedulable)"] if self.is_unschedulable else []
        if not self.is_ready:
            return "; ".join(["not Ready", *cordoned])
        told = [taint for taint in self.taints if taint.key in LEAVING] + self.conditions
        words = sorted(f"{t.key}:{t.effect}" for t in told if t.effect != "PreferNoSchedule")
        parts = [f"tainted {', '.join(words)}"] if words else []
        return "; ".join([*parts, *cordoned])

    def out(self) -> tuple[tuple[int, int | None, NodeState], ...]:
        """When it took no new work, and how; the last, open one: it does not now."""
        since_ms, state = self.out_since()
        if state is None:
            return self.was_out
        if self.turned is not None and self.turned.state is state:
            since_ms = self.turned.at_ms
        return (*self.was_out, (self.seen_ms if since_ms is None else since_ms, None, state))

    def out_since(self) -> tuple[int | None, NodeState | None]:
        """The same; None of a state: nobody says since when."""
        if self.is_coming:
            return self.created_ms or 0, NodeState.BOOTING
        if not self.is_ready:
            since = self.ready_since_ms if self.ready_since_ms is not None else self.created_ms
            return since or 0, NodeState.UNHEALTHY
        if self.is_silent:  # where work was there in between, it was not so all the time
            return self.created_ms or 0, NodeState.UNHEALTHY
        leaving = [taint for taint in self.taints if taint.key in LEAVING]
        if leaving:
            return leaving[0].added_ms or None, NodeState.DRAINING
        added = [taint.added_ms for taint in self.conditions]
        if self.is_unschedulable:
            added = [t.added_ms for t in self.taints if t.key == UNSCHEDULABLE]
        is_out = self.is_unschedulable or bool(self.conditions)
        return min(filter(None, added), default=None), NodeState.CORDONED if is_out else None


def read(one: Object) -> KubeNode:
    """A node."""
    labels = fields.words(one, "metadata", "labels")
    if provider := fields.text(one, "spec", "providerID"):
        labels[prices.PROVIDER_ID] = provider
    ready = fields.condition(one, "Ready")
    name, box = fields.text(one, "metadata", "name"), prices.instance_type_in(labels)
    labels[NAME] = name
    capacity = fields.amounts(one, "status", "capacity")
    if "status" not in one:
        raise MalformedObjectError("has no status")
    allocatable = fields.amounts(one, "status", "allocatable")
    product = resources.product(labels, box)
    created_ms = fields.moment_ms(one, "metadata", "creationTimestamp")
    beats = [
        fields.moment_ms(c, key)
        for c in fields.each(one, "status", "conditions")
        for key in ("lastHeartbeatTime", "lastTransitionTime")
    ]
    return KubeNode(
        name=name, labels=labels, taints=tuple(map(_taint, fields.each(one, "spec", "taints"))),
        created_ms=created_ms,
        allocatable=resources.accelerators(allocatable),
        capacity=resources.accelerators(capacity),
        cpu_milli=resources.cpu_milli(allocatable.get("cpu", capacity.get("cpu", 0))),
        memory_mib=resources.memory_mib(allocatable.get("memory", capacity.get("memory", 0))),
        is_ready=fields.text(ready, "status") == "True",
        ready_since_ms=fields.moment_ms(ready, "lastTransitionTime"),
        not_ready_why=fields.text(ready, "message") or fields.text(ready, "reason"),
        is_unschedulable=fields.flag(one, "spec", "unschedulable"),
        box=box, terms=prices.terms_in(labels), gpu_type=product.gpu_type, profile=product.profile,
        seen_ms=max([ms for ms in (*beats, created_ms) if ms is not None], default=0),
        expected=_expected(labels, box, product.profile), notice=notices.of_node(one),
        unread=notices.unread(one), extras=dict(resources.others(allocatable)),
        most_pods=_whole(allocatable, "pods"),
        disk_bytes=_whole(allocatable, "ephemeral-storage"),
        is_cordoned_by_us=notices.CORDONED in fields.words(one, "metadata", "annotations"),
    )  # fmt: skip


def _whole(amounts: Mapping[str, float], name: str) -> int | None:
    return int(amounts[name]) if name in amounts else None


def _expected(labels: Mapping[str, str], box: str, profile: str) -> int:
    """Devices by the label of GPU feature discovery, else by the instance type."""
    told = labels.get(COUNT, "")
    if told.isdecimal() and len(told) < 6 and not profile:  # with a profile it counts instances
        return int(told)
    return resources.box_size(box)


def _taint(one: Object) -> Taint:
    return Taint(
        fields.text(one, "key"), fields.text(one, "value"), fields.text(one, "effect"),
        fields.moment_ms(one, "timeAdded"),
    )  # fmt: skip


class NodeClaim(Struct, frozen=True):
    """A machine that Karpenter asked for; one without a node is launched and not there yet."""

    name: str
    node: str
    created_ms: int | None
    is_launched: bool
    labels: Mapping[str, str]
    capacity: Mapping[str, int]
    cpu_milli: int
    memory_mib: int
    why: str


def read_claim(one: Object) -> NodeClaim:
    """A Karpenter NodeClaim."""
    capacity = fields.amounts(one, "status", "capacity")
    launched, registered = (fields.condition(one, kind) for kind in ("Launched", "Registered"))
    return NodeClaim(
        fields.text(one, "metadata", "name"), fields.text(one, "status", "nodeName"),
        fields.moment_ms(one, "metadata", "creationTimestamp"),
        fields.text(launched, "status") == "True",
        fields.words(one, "metadata", "labels"), resources.accelerators(capacity),
        resources.cpu_milli(capacity.get("cpu", 0)),
        resources.memory_mib(capacity.get("memory", 0)),
        fields.text(registered, "message"),
    )  # fmt: skip


def of_claim(claim: NodeClaim) -> KubeNode:
    """The machine of a claim whose node has not come yet: it is paid, and takes no work."""
    box = prices.instance_type_in(claim.labels)
    product = resources.product(claim.labels, box)
    return KubeNode(
        name=f"{NODE_CLAIM}{claim.name}", labels=claim.labels, taints=(),
        created_ms=claim.created_ms,
        allocatable={}, capacity=claim.capacity, cpu_milli=claim.cpu_milli,
        memory_mib=claim.memory_mib, is_ready=False, ready_since_ms=claim.created_ms,
        not_ready_why=claim.why or "launched, but no node has joined the cluster",
        is_unschedulable=False, box=box, terms=prices.terms_in(claim.labels),
        gpu_type=product.gpu_type,
        profile="", seen_ms=claim.created_ms or 0, expected=resources.box_size(box),
    )  # fmt: skip
