"""Why a pod waits: what its scheduler says, held against what nodes have.

The scheduler's one line ("3 Insufficient nvidia.com/gpu") is the same for a cluster that is full, a
request larger than any node, free GPUs in pieces too small, a device plugin that does not run and a
gang that can never fit. The nodes and pods of the same moment tell them apart, so facts decide, and
the line is quoted. Where no nodes were given the line has to do.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tidemill.live.kubernetes.nodes import OF_CONDITIONS, KubeNode
from tidemill.live.kubernetes.pods import KubePod, PodRequest
from tidemill.live.kubernetes.resources import CLAIMED
from tidemill.model.reasons import LAYER_OF, Cause, Layer

L1, L2, L3, L4 = Layer.RESERVATION, Layer.PROVISIONING, Layer.SCHEDULING, Layer.WORKLOAD
LONGEST_WORDS = 500
"""Of a reason, as events keep it."""
SHORTEST_QUOTE = 20
_NAMED = 3
REFUSALS = {
    "MalformedGang": "what it says of its gang cannot be read: no room that comes free starts it",
    "UnknownGang": "it waits for a pod group that does not exist",
    "UnknownTopology": "it requires a tier of the topology that its scheduler does not know",
    "NotSupported": "its scheduler does not place what it requests",
}
"""Reasons of pods whose scheduler does not look for room: what is free has no part in it."""


class WhyPending(Struct, frozen=True):
    """Why something waits: our nearest cause, the layer that owns it, in words."""

    cause: Cause
    layer: Layer
    words: str
    is_sure: bool = True
    """False: by nodes and pods it would fit, so that what the scheduler says counts."""
    is_of_facts: bool = False
    """Whether nodes and pods show it, and not only what somebody says."""


def _ours(cause: Cause, words: str) -> WhyPending:
    return WhyPending(cause, LAYER_OF[cause], words)


class OnePlace(NamedTuple):
    """That all pods of a gang have to be where nodes have the same values of these labels."""

    labels: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    """Nodes that some of them are on."""

    @property
    def words(self) -> str:
        """Said after what they request."""
        return f" in one {' and one '.join(self.labels)}" if self.labels else ""

    def places(self, fleet: "FleetNow", nodes: Iterable[KubeNode]) -> list[list[KubeNode]]:
        """Nodes of each place where they may all be; without labels all are one place."""
        mine = {self._place(node) for node in map(fleet.node, self.bound) if node is not None}
        found = dict[tuple[str, ...], list[KubeNode]]()
        for node in nodes:
            place = self._place(node)
            if all(place) and (not mine or place in mine):
                found.setdefault(place, []).append(node)
        return [*found.values()]

    def _place(self, node: KubeNode) -> tuple[str, ...]:
        return tuple(node.labels.get(label, "") for label in self.labels)


ANYWHERE = OnePlace()


class FleetNow:
    """Nodes as they are now, and what pods hold of them."""

    def __init__(self, nodes: Iterable[KubeNode], pods: Iterable[KubePod]) -> None:
        self.nodes = list(nodes)
        self._by_name = {node.name: node for node in self.nodes}
        self._used: dict[str, dict[str, int]] = {}
        self._cpu: dict[str, int] = {}
        self._memory: dict[str, int] = {}
        self.answered: dict[tuple[PodRequest, int, int, OnePlace], WhyPending] = {}
        """Of what was asked before: thousands of pods that wait are a few forms."""
        for pod in pods:
            if pod.node and not pod.is_over:
                self._hold(pod)

    def _hold(self, pod: KubePod) -> None:
        request, node = pod.request, pod.node
        if request.gpu is not None:
            mine = self._used.setdefault(node, {})
            mine[request.gpu.resource] = mine.get(request.gpu.resource, 0) + request.gpu.each
        self._cpu[node] = self._cpu.get(node, 0) + request.cpu_milli
        self._memory[node] = self._memory.get(node, 0) + request.memory_mib

    def node(self, name: str) -> KubeNode | None:
        """The node of a name."""
        return self._by_name.get(name)

    def free(self, node: KubeNode, resource: str) -> int:
        """How many of a resource nobody holds on a node."""
        used = self._used.get(node.name, {}).get(resource, 0)
        return max(0, node.allocatable.get(resource, 0) - used)

    def hosts(self, node: KubeNode, request: PodRequest, *, of_gpus: bool = False) -> int:
        """How many pods of a request fit on a node now; ``of_gpus``: by its accelerators alone."""
        assert request.gpu is not None
        count = self.free(node, request.gpu.resource) // request.gpu.each
        if of_gpus:
            return count
        if request.cpu_milli:
            left = node.cpu_milli - self._cpu.get(node.name, 0)
            count = min(count, max(0, left) // request.cpu_milli)
        if request.memory_mib:
            left = node.memory_mib - self._memory.get(node.name, 0)
            count = min(count, max(0, left) // request.memory_mib)
        return count

    def is_bound_by(self, nodes: list[KubeNode], request: PodRequest) -> Cause:
        """Which of CPU and memory keeps pods off nodes whose accelerators are free."""
        for node in nodes:
            left = node.cpu_milli - self._cpu.get(node.name, 0)
            if self.hosts(node, request, of_gpus=True) and left < request.cpu_milli:
                return Cause.CPU_BINDS
        return Cause.MEMORY_BINDS


def by_facts(
    fleet: FleetNow, request: PodRequest, missing: int, size: int, where: OnePlace = ANYWHERE
) -> WhyPending | None:
    """Why ``missing`` pods of a gang of ``size`` find no place; None: no node was given."""
    if request.gpu is None or not fleet.nodes:
        return None
    asked = (request, missing, size, where)
    if asked not in fleet.answered:
        found = _by_facts(fleet, request, missing, size, where)
        fleet.answered[asked] = replace(found, is_of_facts=True)
    return fleet.answered[asked]


def _by_facts(
    fleet: FleetNow, request: PodRequest, missing: int, size: int, where: OnePlace
) -> WhyPending:
    assert request.gpu is not None, "only those that request GPUs are asked about"
    resource, count = request.gpu
    able = [node for node in fleet.nodes if node.capacity.get(resource)]
    if not able:
        return _not_advertised(fleet, resource)
    large = [node for node in able if node.capacity.get(resource, 0) >= count]
    if not large:
        most = max(node.capacity.get(resource, 0) for node in able)
        words = f"requests {count} {resource} on one node; the largest node has {most}"
        return _ours(Cause.IMPOSSIBLE_SIZE, words)
    chosen = [node for node in large if request.selects(node.labels)]
    if not chosen:
        selected = [node for node in fleet.nodes if request.selects(node.labels)]
        if most := max((node.capacity.get(resource, 0) for node in selected), default=0):
            words = f"requests {count} {resource} on one node; the largest that it selects has"
            return _ours(Cause.IMPOSSIBLE_SIZE, f"{words} {most}")
        if should := [node for node in selected if node.expected]:
            return _silent("no node that it selects", should, resource)
        words = f"selects {_selected(request)}, which no node with {resource} has"
        return _ours(Cause.IMPOSSIBLE_LABEL, words)
    found = _too_large_beside(chosen, request) or _too_large(chosen, request, size)
    found = found or _too_large_for_one(fleet, chosen, request, size, where)
    found = found or _not_taking(chosen, request)
    if found:
        return found
    found = _no_room(fleet, chosen, request, missing, size)
    if found.is_sure or not where.labels:
        return found
    apart = _apart(fleet, chosen, request, missing, where)
    return apart or replace(found, words=found.words + where.words)


def _not_advertised(fleet: FleetNow, resource: str) -> WhyPending:
    """No node has it: none was cut or shared so; or those that should have any show nothing."""
    vendor = resource.partition("/")[0]
    should = [node for node in fleet.nodes if node.expected
              and not any(name.startswith(vendor) for name in node.capacity)]  # fmt: skip
    if should:
        return _silent("no node", should, resource)
    has = sorted({name for node in fleet.nodes for name in node.capacity if name != CLAIMED})
    beside = f"; they have {', '.join(has)}" if has else ""
    return _ours(Cause.NOTHING_CLAIMED, f"no node has {resource}{beside}")


def _silent(who: str, should: list[KubeNode], resource: str) -> WhyPending:
    words = (
        f"{who} advertises {resource}, though {_nodes(should)} should have accelerators: the"
        " device plugin does not run there, or its driver failed"
    )
    return _ours(Cause.NOTHING_READY, words)


def _too_large_beside(chosen: list[KubeNode], request: PodRequest) -> WhyPending | None:
    """No node that it could use has as much CPU or memory as one pod requests."""
    for what, asked, most in (
        ("CPUs", request.cpu_milli / 1000, max(node.cpu_milli for node in chosen) / 1000),
        ("GiB of memory", request.memory_mib / 1024, max(n.memory_mib for n in chosen) / 1024),
    ):
        if asked > most > 0:  # a node that says nothing of it may have any amount
            words = f"requests {asked:,.6g} {what} on one node; the largest that it could use has"
            return _ours(Cause.IMPOSSIBLE_SIZE, f"{words} {most:,.6g}")
    return None


def _too_large(chosen: list[KubeNode], request: PodRequest, size: int) -> WhyPending | None:
    assert request.gpu is not None
    resource, count = request.gpu
    most = sum(node.capacity.get(resource, 0) // count for node in chosen)
    if size <= most:
        return None
    words = f"a gang of {size} pods of {count} {resource}; all nodes that it may use hold {most}"
    return _ours(Cause.IMPOSSIBLE_GANG, words)


def _too_large_for_one(
    fleet: FleetNow, chosen: list[KubeNode], request: PodRequest, size: int, where: OnePlace
) -> WhyPending | None:
    """No place that it has to be in as a whole is as large as it is."""
    assert request.gpu is not None
    resource, count = request.gpu
    places = where.places(fleet, chosen) if where.labels else []
    hold = [sum(one.capacity.get(resource, 0) // count for one in nodes) for nodes in places]
    if not where.labels or size <= max(hold, default=0):
        return None
    words = f"a gang of {size} pods of {count} {resource}{where.words}"
    found = f"the largest that it may use holds {max(hold)}" if hold else "no node has that label"
    return _ours(Cause.IMPOSSIBLE_TOPOLOGY, f"{words}; {found}")


def _apart(
    fleet: FleetNow, chosen: list[KubeNode], request: PodRequest, missing: int, where: OnePlace
) -> WhyPending | None:
    """What is free would do, but not where it has to be in one place."""
    assert request.gpu is not None
    usable = [node for node in chosen if node.takes_work and not _taints(node, request)]
    places = where.places(fleet, usable)
    fits = max((sum(fleet.hosts(one, request) for one in nodes) for nodes in places), default=0)
    if fits >= missing:
        return None
    free = sum(fleet.free(node, request.gpu.resource) for node in usable)
    words = f"{free} {request.gpu.resource} are free, but at most {fits} of its {missing} missing"
    return _ours(Cause.TOPOLOGY, f"{words} pods fit{where.words}")


def _not_taking(chosen: list[KubeNode], request: PodRequest) -> WhyPending | None:
    """All nodes that it could use are closed to it: by a taint, cordoned, not Ready, or unwell."""
    assert request.gpu is not None
    resource, count = request.gpu
    open_ = [node for node in chosen if not _taints(node, request)]
    if not open_:
        first = _taints(chosen[0], request)[0]
        words = f"does not tolerate the taint {first} of {_nodes(chosen)}, all that it could use"
        return _ours(Cause.IMPOSSIBLE_LABEL, words)
    ready = [node for node in open_ if node.takes_work]
    if not ready:
        cordoned = sum(node.is_unschedulable for node in open_)
        tainted = [node for node in open_ if node.conditions and not node.is_unschedulable]
        how = f"{cordoned} cordoned, {len(open_) - cordoned - len(tainted)} not Ready"
        if tainted:
            set_by_it = tainted[0].conditions[0]
            how += f", {len(tainted)} Ready but tainted by Kubernetes"
            how += f" ({set_by_it.key}:{set_by_it.effect})"
        return _ours(Cause.NOTHING_READY, f"no node that it could use takes work: {how}")
    if not any(node.allocatable.get(resource, 0) >= count for node in ready):
        most = max(node.allocatable.get(resource, 0) for node in ready)
        words = f"requests {count} {resource} on one node; at most {most} of a node are healthy"
        return _ours(Cause.NOT_ENOUGH_READY, words)
    return None


def _no_room(
    fleet: FleetNow, chosen: list[KubeNode], request: PodRequest, missing: int, size: int
) -> WhyPending:
    """Nodes take work, and have no room for it now."""
    assert request.gpu is not None
    resource, count = request.gpu
    usable = [node for node in chosen if node.takes_work and not _taints(node, request)]
    most = sum(node.allocatable.get(resource, 0) // count for node in usable)
    if size > most:
        words = f"a gang of {size} pods of {count} {resource}; nodes that take work hold {most}"
        return _ours(Cause.NOT_ENOUGH_READY, words)
    free = [fleet.free(node, resource) for node in usable]
    fits = sum(fleet.hosts(node, request) for node in usable)
    by_gpus = sum(fleet.hosts(node, request, of_gpus=True) for node in usable)
    if fits >= missing:
        words = f"{sum(free)} {resource} are free, which is enough for it"
        return WhyPending(Cause.NONE, L3, words, is_sure=False)
    if by_gpus >= missing:
        what = fleet.is_bound_by(usable, request)
        short = "CPU" if what is Cause.CPU_BINDS else "memory"
        return _ours(what, f"enough {resource} are free, but not the {short} beside them")
    if sum(free) >= missing * count and count > 1:
        words = f"{sum(free)} {resource} are free, but at most {max(free)} on one node"
        return _ours(Cause.SCATTERED, words)
    if fits and missing > 1:
        words = f"only {fits} of its {missing} missing pods fit: {sum(free)} {resource} are free"
        return _ours(Cause.PARTIAL_GANG, words)
    return _ours(Cause.BUSY, f"needs {missing * count} {resource}, and {sum(free)} are free")


def _taints(node: KubeNode, request: PodRequest) -> list[str]:
    """What keeps a pod off a node that its owner set; what Kubernetes set by itself is a state."""
    return [
        str(taint)
        for taint in node.taints
        if not taint.key.startswith(OF_CONDITIONS)
        and not request.tolerates(taint.key, taint.value, taint.effect)
    ]


def _selected(request: PodRequest) -> str:
    told = [f"{key}={value}" for key, value in request.selector]
    told += [" and ".join(one.words for one in term) for term in request.terms[:_NAMED]]
    return "; ".join(told)[:200]


def _nodes(nodes: list[KubeNode]) -> str:
    names = ", ".join(node.name for node in nodes[:_NAMED])
    more = len(nodes) - _NAMED
    return names + (f" and {more} more" if more > 0 else "")


_Rule = Callable[[re.Match[str]], WhyPending]
_LINES: tuple[tuple[str, _Rule], ...] = (
    (r"Insufficient cpu", lambda _: _ours(Cause.CPU_BINDS, "not enough CPU is free")),
    (r"Insufficient memory", lambda _: _ours(Cause.MEMORY_BINDS, "not enough memory is free")),
    (r"Insufficient (\S+?)[,.]?(?:\s|$)", lambda m: _ours(Cause.BUSY, f"not enough {m[1]} free")),
    (
        r"cannot allocate all claims|resourceclaim",
        lambda _: _ours(Cause.BUSY, "its claim of devices cannot be allocated now"),
    ),
    (
        r"(?:pod group|podgroup|PodGroup|gang|minMember|minAvailable|Coscheduling)",
        lambda _: _ours(Cause.PARTIAL_GANG, "not all of its pods fit together"),
    ),
    (
        r"(?=.*didn't match (?:Pod's )?node).*untolerated taint (\{(?!node\.kubernetes)[^}]*\})",
        lambda m: WhyPending(
            Cause.NONE,
            L2,
            f"does not tolerate the taint {m[1]} of some nodes; the others have other labels than"
            " it selects",
        ),
    ),
    (
        r"node affinity/selector|node\(s\) didn't match (?:Pod's )?node",
        lambda _: _ours(Cause.IMPOSSIBLE_LABEL, "no node has the labels that it selects"),
    ),
    (
        r"untolerated taint \{node\.kubernetes\.io/(?:not-|unre|unsc)|were unsched|not ready",
        lambda _: _ours(Cause.NOTHING_READY, "nodes are cordoned or not Ready"),
    ),
    (
        r"untolerated taint (\{node\.kubernetes\.io/[^}]*\})",
        lambda m: _ours(Cause.NOTHING_READY, f"Kubernetes has tainted nodes: {m[1]}"),
    ),
    (
        r"untolerated taint (\{[^}]*\})",
        lambda m: WhyPending(Cause.NONE, L2, f"does not tolerate the taint {m[1]}"),
    ),
    (
        r"pod affinity|pod anti-affinity|topology spread|topology",
        lambda _: _ours(Cause.TOPOLOGY, "where other pods are keeps it from nodes that are free"),
    ),
    (
        r"volume|persistentvolumeclaim|PersistentVolumeClaim",
        lambda _: WhyPending(Cause.NONE, L4, "its volumes are not there, or on other nodes"),
    ),
    (
        r"free ports|Too many pods",
        lambda _: WhyPending(Cause.NONE, L3, "nodes have no port, or no place for a pod, left"),
    ),
)
_OTHER_THAN_ROOM = tuple(
    rule for rule in _LINES if not rule[0].startswith("Insufficient (")
)  # fmt: skip


def by_message(message: str, *, beside_room: bool = False) -> WhyPending | None:
    """What a scheduler's own line says; ``beside_room``: of what nodes and pods do not show."""
    told = message.partition(" preemption: ")[0]
    for pattern, rule in _OTHER_THAN_ROOM if beside_room else _LINES:
        found = re.search(pattern, told)
        if found:
            return rule(found)
    return None


_QUOTAS: tuple[tuple[str, Cause, str], ...] = (
    (
        r"request > maximum capacity|maximum capacity|ExceedsMaxQuota",
        Cause.OVER_LIMIT_ALWAYS,
        "requests more than its queue may ever use",
    ),
    (r"topology|TopologyPlacementFailed", Cause.TOPOLOGY, "no topology domain has room for it"),
    (r"insufficient (?:unused )?quota", Cause.OVER_LIMIT, "the quota of its queue is used up"),
    (r"preempt", Cause.PROMISED, "waits for workloads that are being preempted"),
    (r"affinity|taint", Cause.IMPOSSIBLE_LABEL, "no flavor of its queue has what it selects"),
)


def by_kueue(reason: str, message: str) -> WhyPending:
    """What Kueue says of a workload without quota."""
    told = f"{reason} {message}"
    if re.search(r"(?:doesn't|does not) exist|inactive|stopped|not found", told):
        return WhyPending(Cause.NONE, L3, "its queue does not exist, or takes no workloads")
    for pattern, cause, words in _QUOTAS:
        if re.search(pattern, told, re.IGNORECASE):
            return _ours(cause, words)
    return _ours(Cause.OVER_LIMIT, "waits in its queue for quota")


_LIMITED = re.compile(r"requested: (?P<asked>.*?), used: .*?, limited: (?P<most>[^;]*)")
_AMOUNT = re.compile(r"(\S+?)=(\d+)(?=,|\s|$)")


def by_quota(message: str) -> WhyPending:
    """What the API server says of a pod that the quota of its namespace refuses."""
    told = _LIMITED.search(message)
    asked, most = (dict(_AMOUNT.findall(told[part])) if told else {} for part in ("asked", "most"))
    if any(name in most and int(count) > int(most[name]) for name, count in asked.items()):
        words = "one pod requests more than the quota of its namespace ever allows"
        return _ours(Cause.OVER_LIMIT_ALWAYS, words)
    return _ours(Cause.OVER_LIMIT, "the quota of its namespace is used up")


SCALING: Mapping[str, str] = {
    "TriggeredScaleUp": "the autoscaler is adding nodes",
    "NotTriggerScaleUp": "the autoscaler says that no node it may add would help",
    "Nominated": "a node is being launched for it",
}
"""Events of autoscalers, in words."""
OF_NODES = frozenset({
    Cause.NOTHING_CLAIMED, Cause.NOTHING_READY, Cause.NOT_ENOUGH_READY, Cause.BUSY,
    Cause.PARTIAL_GANG, Cause.SCATTERED, Cause.CPU_BINDS, Cause.MEMORY_BINDS,
    Cause.IMPOSSIBLE_LABEL, Cause.IMPOSSIBLE_SIZE, Cause.IMPOSSIBLE_GANG,
})  # fmt: skip
"""Causes that one more node, of the right kind, would end."""
HEARD = frozenset({"FailedScheduling", "FailedCreate", *SCALING})
"""Reasons of events that say why something waits; the others are many and say nothing here."""


def told(why: WhyPending, scheduler: str, quoted: str, shown_by: str, also: str = "") -> str:
    """A reason as events keep it: what the scheduler said, what it is, how to see it."""
    source = "by its nodes and pods" if why.is_of_facts else "that is"
    tail = f"; {source}: {why.words}" + (f"; {also}" if also else "") + f" ({shown_by})"
    room = LONGEST_WORDS - len(scheduler) - len(tail) - 3
    if also and room < 0:  # how to see it counts more
        return told(why, scheduler, quoted, shown_by)
    said = " ".join(quoted.split())
    if not said or room < SHORTEST_QUOTE:
        return (scheduler + tail)[:LONGEST_WORDS]
    cut = said if len(said) <= room else said[: room - 1] + "…"
    return f'{scheduler} "{cut}"{tail}'
