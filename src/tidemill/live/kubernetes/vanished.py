"""Pods and nodes that later exports do not show: what is known of them, and what is not.

A pod that went between two exports is over since the last that shows it, as for an observer that
looked away; a node is paid until the first that lacks it. What was free on these nodes between the
two is *not observed*: the pod may have held it.
"""

from collections.abc import Iterable, Iterator

from tidemill.live.kubernetes.cluster import Cluster
from tidemill.model.measures import count_text

_NAMED = 3
LONGEST_UNSAID_MS = 600_000
"""Files of one export are made within minutes of each other."""


def unseen(cluster: Cluster) -> dict[str, tuple[tuple[int, int], ...]]:
    """By node when nobody saw what was free on it: from and to, apart from each other."""
    found = dict[str, list[tuple[int, int]]]()
    told = [(pod.node, pod.last_ms, pod.gone_ms) for pod in cluster.pods if pod.node]
    told += [(node.name, node.last_ms, node.gone_ms) for node in cluster.nodes]
    for name, last_ms, gone_ms in told:
        if last_ms is not None and gone_ms is not None and last_ms < gone_ms:
            found.setdefault(name, []).append((last_ms, gone_ms))
    for node in cluster.nodes:
        found.setdefault(node.name, []).extend(node.unseen)
    return {name: tuple(_apart(some)) for name, some in found.items()}


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same with those that meet as one."""
    found = list[tuple[int, int]]()
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def said(cluster: Cluster) -> Iterator[str]:
    """The same in words."""
    gone = [pod.full_name for pod in cluster.pods if pod.request.gpu and pod.gone_ms is not None]
    if gone:
        yield (
            f"{_named(gone, 'pod')} that later exports show no more: taken as over since the last"
            " that shows them; what their nodes had free from then to the first without them is not"
            " observed"
        )
    lost = [node.name for node in cluster.nodes
            if node.devices and node.last_ms is not None and node.gone_ms is not None]  # fmt: skip
    if lost:
        yield (
            f"{_named(lost, 'node')} that later exports show no more: paid until the first without"
            " them, and not observed since the last that shows them"
        )
    left = [
        node.name for node in cluster.nodes
        if node.devices and node.last_ms is not None and node.gone_ms is None
        and cluster.seen_ms - node.last_ms > LONGEST_UNSAID_MS
    ]  # fmt: skip
    if left:
        yield (
            f"{_named(left, 'node')} in an earlier export alone, and no later one lists nodes and"
            " pods: taken to be there, and as then, to the end"
        )
    unsaid = [
        pod.full_name for pod in cluster.pods
        if pod.request.gpu and pod.last_ms is not None and not pod.is_over
        and cluster.seen_ms - pod.last_ms > LONGEST_UNSAID_MS
    ]  # fmt: skip
    if unsaid:
        yield (
            f"{_named(unsaid, 'pod')} in an earlier export alone, and no later one lists nodes and"
            " the pods of that namespace: taken to be as then"
        )


def _named(names: list[str], what: str) -> str:
    """So many, with the first of their names."""
    names = sorted(names)
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return f"{count_text(len(names), what)} ({shown})"
