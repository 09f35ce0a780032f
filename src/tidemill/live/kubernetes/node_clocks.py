"""Clocks of nodes that are ahead or behind: when their pods started and ended, by the API server's.

The API server says when a pod was bound; its kubelet, by its own clock, when it took the pod
(`status.startTime`), and when the containers started and ended. A kubelet takes a pod within a
second: what lies between the two is how far its clock is off. That is believed of pods that tell
what cannot be (they ended before they were bound, or after the files were made), and of those on
nodes whose heartbeats are of the future. Where no kubelet says when it took a pod, the heartbeat
tells how far its clock is ahead, and a pod that started before it was bound started then.

How long a container ran is right by any clock that only runs. Whatever a clock says, a pod that is
over had ended when the files were made, and when its owner was over.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.fields import LATEST_MS
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.pods import KubePod
from tidemill.model.measures import count_text, duration_text

SLACK_MS = 5_000
"""Times of Kubernetes are whole seconds, and clocks that are set by NTP agree to less than one."""
_NAMED = 3


class RightedPod(NamedTuple):
    """A pod whose times were moved, and how far its node's clock was ahead; negative: behind."""

    pod: KubePod
    ahead_ms: int


def righted(cluster: Cluster, *, looks_back: bool = True) -> tuple[Cluster, list[str]]:
    """The cluster with such times moved, and what to say of that; of pods with accelerators.

    ``looks_back``: all that there is was seen by its youngest time; a watch goes on.
    """
    ahead, moved = _ahead(cluster), dict[int, RightedPod]()
    for i, pod in enumerate(cluster.pods):
        if (off_ms := _ahead_ms(cluster, ahead, pod)) is not None:
            last_ms = _last_ms(cluster, pod) if looks_back else LATEST_MS
            moved[i] = RightedPod(_moved(pod, off_ms, last_ms), off_ms)
    all_pods = list(cluster.pods) if moved else []
    for i, one in moved.items():
        all_pods[i] = one.pod
    return replace(
        cluster, nodes=tuple(_righted_node(cluster, node) for node in cluster.nodes),
        pods=tuple(all_pods) if moved else cluster.pods,
    ), list(_said([*moved.values()], looks_back=looks_back))  # fmt: skip


def _righted_node(cluster: Cluster, node: KubeNode) -> KubeNode:
    """The node, with since when it is Ready or not, of which its kubelet tells."""
    ahead_ms = node.seen_ms - cluster.seen_ms
    if ahead_ms <= 0 or node.ready_since_ms is None or node.ready_since_ms <= cluster.seen_ms:
        return node
    return replace(node, ready_since_ms=node.ready_since_ms - ahead_ms)


def _ahead(cluster: Cluster) -> dict[str, int]:
    """Nodes whose clocks are ahead, and how much by their heartbeats; 0: those do not tell."""
    found = {
        node.name: node.seen_ms - cluster.seen_ms
        for node in cluster.nodes if node.seen_ms > cluster.seen_ms
    }  # fmt: skip
    for pod in cluster.pods:
        if _is_told(pod) and max(_told(pod), default=0) > cluster.seen_ms + SLACK_MS:
            found.setdefault(pod.node, 0)
    return found


def _is_told(pod: KubePod) -> bool:
    return pod.request.gpu is not None and bool(pod.node) and pod.bound_ms is not None


def _told(pod: KubePod) -> Iterator[int]:
    """What its kubelet says; 0 stands for a start that nobody keeps."""
    stuck_ms = pod.stuck.since_ms if pod.stuck is not None else None
    for at_ms in (pod.taken_ms, pod.up_ms, pod.ended_ms, stuck_ms, *(pod.again or ())):
        if at_ms:
            yield at_ms


def _ahead_ms(cluster: Cluster, ahead: Mapping[str, int], pod: KubePod) -> int | None:
    """How far the clock is ahead by which a pod's kubelet told its times; None: it is right."""
    if not _is_told(pod) or not (told := [*_told(pod)]) or pod.bound_ms is None:
        return None
    if min(told) < pod.bound_ms - SLACK_MS:
        return (pod.taken_ms or pod.up_ms or pod.bound_ms) - pod.bound_ms
    if pod.node not in ahead:
        return None
    by_itself = pod.taken_ms - pod.bound_ms if pod.taken_ms is not None else None
    if by_itself is not None and by_itself > SLACK_MS:
        return by_itself
    is_later = max(told) > cluster.seen_ms + SLACK_MS
    return ahead[pod.node] if by_itself is None or is_later else None


def _moved(pod: KubePod, off_ms: int, last_ms: int) -> KubePod:
    """The pod with what its kubelet told as the API server's clock would have it."""
    assert pod.bound_ms is not None, "it was bound"
    last_ms = max(pod.created_ms, last_ms)
    bound_ms = pod.bound_ms if pod.bound_ms <= last_ms else pod.created_ms  # its kubelet said it

    def at(told_ms: int) -> int:
        return min(max(told_ms - off_ms, bound_ms), last_ms)

    end_ms = pod.end_ms
    if end_ms is not None:
        end_ms = min(end_ms, last_ms) if pod.ended_ms is None else at(pod.ended_ms)
    stuck_ms = pod.stuck.since_ms if pod.stuck is not None else None
    return replace(
        pod, bound_ms=bound_ms, end_ms=end_ms,
        up_ms=at(pod.up_ms) if pod.up_ms else pod.up_ms,
        again=(at(pod.again[0]), at(pod.again[1])) if pod.again else None,
        stuck=replace(pod.stuck, since_ms=at(stuck_ms)) if pod.stuck and stuck_ms else pod.stuck,
    )  # fmt: skip


def _last_ms(cluster: Cluster, pod: KubePod) -> int:
    """By when all had happened that a pod tells: the files were made, and its owner was over."""
    owner = cluster.owner(pod.owner, pod.namespace)
    if pod.is_over and owner is not None and owner.end is not None:
        return min(owner.end[1], cluster.seen_ms)
    return cluster.seen_ms


def _said(moved: list[RightedPod], *, looks_back: bool) -> Iterator[str]:
    """Whose clocks are off, how far, and what was made of it; to a watch the same at each look."""
    by_node = dict[str, list[RightedPod]]()
    for one in moved:
        by_node.setdefault(one.pod.node, []).append(one)
    for name, some in sorted(by_node.items())[:_NAMED]:
        most = max(some, key=lambda one: abs(one.ahead_ms))
        way = "behind" if most.ahead_ms < 0 else "ahead of"
        far = f"{duration_text(abs(most.ahead_ms))} " if most.ahead_ms and looks_back else ""
        pods, shown = "pods", f"kubectl describe node {name}"
        if looks_back:
            pods = count_text(len(some), "pod")
            shown = f"kubectl get pod -n {most.pod.namespace} {most.pod.name} -o yaml"
        yield (
            f"the clock of node `{name}` is, or was, {far}{way} the API server's: when {pods} there"
            f" started and ended is inferred from when they were bound ({shown})"
        )
    if more := sorted(by_node)[_NAMED:]:
        yield f"so are the clocks of {count_text(len(more), 'more node')} ({more[0]}, …)"
