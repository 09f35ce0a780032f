"""When files were made, by the times in them: the youngest, but for clocks that are ahead.

Nobody says when a file was made. Each object tells when it was last seen: a node by its kubelet's
heartbeat, by that machine's clock; a pod by when it was made, and by what its node says of it. One
clock that is a day ahead would have the whole fleet paid for a day that has not been. So a time is
left out that lies far behind what nearly all others say, and that is said.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.pods import KubePod

APART_MS = 600_000
"""Kubelets tell their state every five minutes at the latest (`nodeStatusReportFrequency`): those
that are Ready agree to within that, and files of one export are made within minutes."""
ALONE_MS = 86_400_000
"""What one object alone says is believed for so long after all else: nodes and pods may be listed
hours apart."""
ALONE_BEATS_MS = 5 * 366 * 86_400_000
"""The same of the only node, which nothing contradicts: it may have had no new pod for long, but
Kubernetes itself is not much older."""
_NAMED = 3


class ToldMoment(NamedTuple):
    """A time that somebody tells."""

    at_ms: int
    who: str
    """By whose clock, or of which object: `node n0`."""
    shown_by: str
    is_servers: bool = False
    """Whether the API server's clock tells it."""


class LastMoment(NamedTuple):
    """When files were made."""

    at_ms: int
    """The youngest time that is believed."""
    left_out: tuple[ToldMoment, ...] = ()
    """Those that are younger, the youngest first, each clock or object once."""

    def said(self) -> Iterator[str]:
        """What was left out, and what to do about it."""
        if not self.left_out:
            return
        lie = "that lies" if len(self.left_out) == 1 else "that lie"
        named = "; ".join(
            f"{one.who} says {_date(one.at_ms)} ({one.shown_by})" for one in self.left_out[:_NAMED]
        )
        more = len(self.left_out) - _NAMED
        yield (
            f"the books end at {_date(self.at_ms)}, the last time in the files but for"
            f" {len(self.left_out):,} {lie} long after the others: {named}"
            + (f"; and {more} more" if more > 0 else "")
            + "; --to DATE: when the files were made"
        )


def last(
    all_nodes: Sequence[KubeNode], all_pods: Iterable[KubePod], others: Iterable[ToldMoment]
) -> LastMoment:
    """When all this was seen; ``others``: what events and owners tell."""
    pods, told = [*all_pods], [*others]
    usual_ms = usual(
        node.seen_ms for node in all_nodes
        if node.is_ready and node.last_ms is None and node.gone_ms is None
    )  # fmt: skip
    server_ms = _second_ms(
        [pod.created_ms for pod in pods] + [one.at_ms for one in told if one.is_servers]
    )
    ahead, limit_ms = set[str](), None
    if usual_ms is not None:
        limit_ms = max(usual_ms, server_ms) + APART_MS
        ahead = {node.name for node in all_nodes if node.seen_ms > limit_ms}
    every = {f"node {node.name}": _of_node(node) for node in all_nodes}
    for pod in pods:  # what its node says of it is by that one's clock
        who = f"node {pod.node}" if pod.node in ahead else f"pod {pod.full_name}"
        at_ms = pod.seen_ms if limit_ms is None else _seen_ms(pod, limit_ms)
        if who not in every or every[who].at_ms < at_ms:
            every[who] = ToldMoment(
                at_ms, who, every[who].shown_by if who in every else _shows_pod(pod)
            )
    for one in told:
        if one.who not in every or every[one.who].at_ms < one.at_ms:
            every[one.who] = one
    left_out = [every.pop(f"node {name}") for name in sorted(ahead)]
    return _but_alone(every, left_out, has_ready=any(node.is_ready for node in all_nodes))


def _seen_ms(pod: KubePod, limit_ms: int) -> int:
    """The youngest time of a pod, but of one whose node's clock was ahead, and is right by now.

    By that clock its kubelet took it long after it was bound.
    """
    taken_ms, bound_ms = pod.taken_ms, pod.bound_ms
    if pod.seen_ms <= limit_ms or taken_ms is None or bound_ms is None:
        return pod.seen_ms
    return pod.seen_ms if taken_ms - bound_ms <= APART_MS else max(pod.created_ms, bound_ms)


def usual(beats: Iterable[int]) -> int | None:
    """What nearly all nodes that are Ready say, but for the tenth that says most; None: too few."""
    found = sorted(beats)
    return found[len(found) - 1 - max(1, len(found) // 10)] if len(found) > 1 else None


def _second_ms(times: Iterable[int]) -> int:
    """What two objects at least tell of; 0: nothing."""
    found = sorted(times)
    return found[-2] if len(found) > 1 else 0


def _but_alone(
    every: Mapping[str, ToldMoment], left_out: list[ToldMoment], *, has_ready: bool
) -> LastMoment:
    """The youngest; one that a single object tells, long after all else, is left out too."""
    found = sorted(every.values(), reverse=True)
    if len(found) > 1:
        first, second = found[:2]
        is_node = first.who.startswith("node ")
        most_ms = ALONE_BEATS_MS if is_node or not has_ready else ALONE_MS
        if first.at_ms - second.at_ms > most_ms:
            left_out.append(found.pop(0))
    if not found:
        return LastMoment(0)
    return LastMoment(found[0].at_ms, tuple(sorted(left_out, reverse=True)))


def _date(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _of_node(node: KubeNode) -> ToldMoment:
    return ToldMoment(node.seen_ms, f"node {node.name}", f"kubectl get node {node.name} -o yaml")


def _shows_pod(pod: KubePod) -> str:
    return f"kubectl get pod -n {pod.namespace} {pod.name} -o yaml"
