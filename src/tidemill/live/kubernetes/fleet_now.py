"""What nodes have and pods hold now, and how many pods of a request fit: what reasons rest on."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from tidemill.live.kubernetes.beside_gpus import CPU, DISK, MEMORY, PODS
from tidemill.live.kubernetes.kueue import KueueWorkload
from tidemill.live.kubernetes.nodes import OF_CONDITIONS, UNSCHEDULABLE, KubeNode
from tidemill.live.kubernetes.pod_rules import PodRule
from tidemill.live.kubernetes.pods import KubePod, PodRequest
from tidemill.live.kubernetes.resources import CLAIMED
from tidemill.model.reasons import Cause, Layer


class WhyPending(Struct, frozen=True):
    """Why something waits: our nearest cause, the layer that owns it, in words."""

    cause: Cause
    layer: Layer
    words: str
    is_sure: bool = True
    """False: by nodes and pods it would fit, so that what the scheduler says counts."""
    is_of_facts: bool = False
    """Whether nodes and pods show it, and not only what somebody says."""


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
Found = TypeVar("Found")


class FleetNow:
    """Nodes as they are now, and what pods hold of them."""

    either: Mapping[str, str] = {}  # resources that claims give out too: as what those are counted
    cut: Mapping[str, int] = {}  # by node: whole GPUs of which claims hold instances
    heads: Mapping[tuple[str, str], KueueWorkload] = {}  # of local queues in which nobody passes

    def __init__(self, nodes: Iterable[KubeNode], pods: Iterable[KubePod]) -> None:
        self.nodes = [node.by_either for node in nodes]
        self._by_name = {node.name: node for node in self.nodes}
        self._used: dict[str, Counter[str]] = {}
        self.answered: dict[tuple[PodRequest, int, int, OnePlace], WhyPending] = {}
        """Of what was asked before: thousands of pods that wait are a few forms."""
        self.alive = [pod for pod in pods if not pod.is_over]
        self.named: dict[tuple[str, PodRule], bool] = {}
        """By namespace and rule: whether any pod is named by it, of what was asked before."""
        self._found: dict[Hashable, Any] = {}
        for pod in self.alive:
            if pod.node:
                self._hold(pod)

    def _hold(self, pod: KubePod) -> None:
        mine = self._used.setdefault(pod.node, Counter())
        mine.update(beside(pod.request))
        if pod.request.gpu is not None and not pod.request.is_of_parts:
            mine[pod.request.gpu.resource] += pod.request.gpu.each

    def once(self, key: Hashable, make: Callable[[], Found]) -> Found:
        """What was found of the same before, or is now."""
        if key not in self._found:
            self._found[key] = make()
        found: Found = self._found[key]
        return found

    def node(self, name: str) -> KubeNode | None:
        """The node of a name."""
        return self._by_name.get(name)

    def free(self, node: KubeNode, resource: str) -> int:
        """How many of a resource nobody holds on a node."""
        return max(0, node.allocatable.get(resource, 0) - self._held(node, resource))

    def _held(self, node: KubeNode, resource: str) -> int:
        cut = self.cut.get(node.name, 0) if resource == CLAIMED else 0
        mine = self._used.get(node.name)
        return cut + (mine[resource] if mine is not None else 0)

    def hosts(
        self, node: KubeNode, request: PodRequest, *,
        of_gpus: bool = False, without: Sequence[str] = (),
    ) -> int:  # fmt: skip
        """How many pods of a request fit on a node now; ``of_gpus``: by its accelerators alone;
        ``without``: if it had enough of these.
        """
        assert request.gpu is not None
        count = self.free(node, request.gpu.resource) // request.gpu.each
        if of_gpus:
            return count
        beside = self._hosts_beside(node, request)
        return min([count, *(most for name, most in beside.items() if name not in without)])

    def _hosts_beside(self, node: KubeNode, request: PodRequest) -> dict[str, int]:
        """How many fit on a node, by each of what it has beside accelerators."""
        has = ((name, asked, has_of(node, name)) for name, asked in beside(request).items())
        return {
            name: max(0, most - self._held(node, name)) // asked
            for name, asked, most in has if most is not None
        }  # fmt: skip

    def lacking(self, nodes: Iterable[KubeNode], request: PodRequest) -> Iterator[str]:
        """What keeps pods off nodes whose accelerators are free, node by node: all of it, and that
        of which there is least first.
        """
        for node in nodes:
            beside = self._hosts_beside(node, request)
            by_gpus = self.hosts(node, request, of_gpus=True)
            yield from sorted(
                (name for name, most in beside.items() if most < by_gpus), key=beside.__getitem__
            )

    def lacks(
        self, nodes: Sequence[KubeNode], request: PodRequest, missing: int
    ) -> tuple[str, ...]:
        """Of what there is too little beside free accelerators: the fewest without which all that
        is missing would fit, of those that are equally few the first.
        """
        names = [*dict.fromkeys(self.lacking(nodes, request))]
        for count in range(1, len(names)):
            for some in combinations(names, count):
                if sum(self.hosts(one, request, without=some) for one in nodes) >= missing:
                    return some
        return tuple(names)


def beside(request: PodRequest) -> dict[str, int]:
    """What a pod takes of its node beside accelerators."""
    asked = {
        CPU: request.cpu_milli, MEMORY: request.memory_mib, DISK: request.disk_bytes, PODS: 1,
        **dict(request.extras),
    }  # fmt: skip
    return {name: amount for name, amount in asked.items() if amount}


def has_of(node: KubeNode, name: str) -> int | None:
    """How much a node has of that; None: nobody says, and it may have any amount."""
    match name:
        case "cpu":
            return node.cpu_milli or None
        case "memory":
            return node.memory_mib or None
        case "ephemeral-storage":
            return node.disk_bytes or 0
        case "pods":
            return node.most_pods
        case _:
            return node.extras.get(name, 0)


def takes(node: KubeNode, request: PodRequest) -> bool:
    """Whether a node takes a pod by its state: on one that is cordoned it may tolerate that."""
    if node.is_unschedulable and not request.tolerates(UNSCHEDULABLE, "", "NoSchedule"):
        return False
    return node.is_ready and all(
        request.tolerates(one.key, one.value, one.effect) for one in node.conditions
    )


def is_open(node: KubeNode, request: PodRequest) -> bool:
    """Whether a node takes a pod, by its state and its taints."""
    return takes(node, request) and not taints(node, request)


def taints(node: KubeNode, request: PodRequest) -> list[str]:
    """What keeps a pod off a node that its owner set; what Kubernetes set by itself is a state."""
    return [
        str(taint)
        for taint in node.taints
        if not taint.key.startswith(OF_CONDITIONS)
        and not request.tolerates(taint.key, taint.value, taint.effect)
    ]
