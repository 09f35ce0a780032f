"""What pods that are on no books hold of nodes: CPUs, memory, and places for pods.

Pods without GPUs come and go all the time, and no event tells of them. So what they have is of the
last look alone (``SeenNode.host_taken``): nodes are not told anew for it.
"""

from collections.abc import Container, Iterable, Mapping

from msgspec.structs import replace

from tidemill.live.history.rows import SeenNode
from tidemill.live.kubernetes import parts
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.pods import KubePod
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

    def put_into(self, seen: SeenNode) -> SeenNode:
        """A node as the books have it, or a part of one: it has its share of what is taken."""
        name = parts.machine(seen.name)
        node, mine = self._nodes.get(name), self._taken.get(name)
        if node is None or mine is None or node.gone_ms is not None:
            return seen
        count, cpu_milli, memory_mib = mine
        taken = (
            _share(cpu_milli, seen.cpu_milli, node.cpu_milli),
            _share(memory_mib, seen.memory_mib, node.memory_mib),
        )
        is_full = node.most_pods is not None and count >= node.most_pods
        full = f"{FULL}pods: {count:,} of {node.most_pods:,} are there" if is_full else ""
        return replace(seen, host_taken=taken if any(taken) else None, full=full)


def _share(taken: int, of_part: int, of_all: int) -> int:
    return -(-taken * of_part // of_all) if of_all else 0
