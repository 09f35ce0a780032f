"""Nodes as they are told: with their labels, taints and times; and those that only pods name."""

from collections.abc import Iterable

from tidemill.live.history.rows import SeenNode
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.nodes import RARELY_ASKED, KubeNode
from tidemill.live.kubernetes.pods import taint_pair
from tidemill.live.prices import labels as prices


def of(node: KubeNode, selected: Iterable[str], unseen: tuple[tuple[int, int], ...]) -> SeenNode:
    """A node with all its labels: one that nobody selects by now may be selected by later."""
    named = {*selected, *prices.KEYS}
    return SeenNode(
        name=node.name, gpus=node.devices, gpu_type=node.gpu_type, cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        labels=tuple(sorted(
            (k, v) for k, v in node.labels.items() if k in named or not k.startswith(RARELY_ASKED)
        )),
        taints=tuple(sorted({
            taint_pair(taint.key, taint.value, taint.effect) for taint in node.taints
            if taint.keeps_out
        })),
        out=node.out(), since_ms=node.created_ms, made_ms=node.created_ms, terms=node.terms,
        box=node.box,
        reason=node.why_out(), until_ms=node.gone_ms, unseen=unseen, changed_ms=node.changed_ms,
    )  # fmt: skip


def advertised(node: KubeNode) -> tuple[tuple[int, int], ...]:
    """How many of its devices a node, or a part of one, showed to a watch, and from when on."""
    counts = [(at_ms, node.advertised(amounts)) for at_ms, amounts in node.given]
    return tuple(
        one for i, one in enumerate(counts) if not i or one[1] != counts[i - 1][1]
    )  # fmt: skip


def left(cluster: Cluster) -> list[SeenNode]:
    """Nodes that pods name and that are not among those that are listed: they have left."""
    there = {node.name for node in cluster.nodes}
    named = {pod.node for pod in cluster.pods if pod.node and pod.request.gpu} if there else set()
    return [SeenNode(name=name, gpus=0, gpu_type="", is_off=True) for name in sorted(named - there)]
