"""What pods that are on no books hold of nodes: CPUs, memory, and places for pods.

Pods without GPUs come and go all the time, and no event tells of them. So what they have is of the
last look alone (``SeenNode.host_taken``): nodes are not told anew for it.
"""

from collections.abc import Container, Iterable, Mapping, Sequence

from msgspec.structs import replace

from tidemill.live.history.rows import SeenNode
from tidemill.live.kubernetes import parts
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.pods import KubePod
from tidemill.model.measures import share_out
from tidemill.model.world import FULL


class HostsTaken:
    """What is taken of each node now; ``booked``: pods that are on the books."""

    def __init__(
        self, nodes: Iterable[KubeNode], pods: Iterable[KubePod], booked: Container[tuple[str, str]]
    ) -> None:
        self._nodes: Mapping[str, KubeNode] = {one.name: one for one in nodes}
        self._taken = dict[str, list[int]]()
        """By node: pods, CPUs (milli) and memory (MiB); lists, for there are 30 pods to a node."""
        for pod in pods:
            if not (node := pod.node) or pod.is_over:
                continue
            if (mine := self._taken.get(node)) is None:
                mine = self._taken[node] = [0, 0, 0]
            mine[0] += 1
            if (asked := pod.request).gpu is None or (pod.namespace, pod.name) not in booked:
                mine[1] += asked.cpu_milli
                mine[2] += asked.memory_mib

    def put_into(self, seen: Sequence[SeenNode]) -> list[SeenNode]:
        """Nodes as the books have them, or parts of some: each has its share of what is taken."""
        shares = dict[str, tuple[int, int]]()
        of_machine = dict[str, dict[str, SeenNode]]()
        for one in seen:
            of_machine.setdefault(parts.machine(one.name), {})[one.name] = one
        for name, of_name in of_machine.items():
            node, taken, mine = self._nodes.get(name), self._taken.get(name), of_name.values()
            if node is not None and taken is not None:
                cpu = _shares(taken[1], [part.cpu_milli for part in mine], node.cpu_milli)
                memory = _shares(taken[2], [part.memory_mib for part in mine], node.memory_mib)
                shares |= zip(of_name, zip(cpu, memory, strict=True), strict=True)
        return [self._with_less(one, shares[one.name]) if one.name in shares else one
                for one in seen]  # fmt: skip

    def _with_less(self, seen: SeenNode, taken: tuple[int, int]) -> SeenNode:
        name = parts.machine(seen.name)
        node, count = self._nodes[name], self._taken[name][0]
        if node.gone_ms is not None:
            return seen
        is_full = node.most_pods is not None and count >= node.most_pods
        full = f"{FULL}pods: {count:,} of {node.most_pods:,} are there" if is_full else ""
        return replace(seen, host_taken=taken if any(taken) else None, full=full)


def _shares(taken: int, of_parts: list[int], of_all: int) -> list[int]:
    """What is taken of each part of a machine; of parts that nobody shows, the rest."""
    rest = max(0, of_all - sum(of_parts))
    weights = [*of_parts, rest]
    return share_out(taken, weights)[:-1] if any(weights) else [0] * len(of_parts)
