"""What of a pod is news: what decides nothing here comes and goes, and nobody has to look at it."""

from collections.abc import Mapping

from tidemill.live.kubernetes import groups
from tidemill.live.kubernetes.pods import KubePod

_OF_ITS_NODE = {"topology.kubernetes.io/zone", "topology.kubernetes.io/region"}
"""Labels that the server gives to a pod when it is bound."""
_READ_OF_PODS = ("tidemill/", "kueue.x-k8s.io/")
"""Annotations that decide something here; others, such as a network's, come and go."""


def is_same(before: KubePod, row: KubePod) -> bool:
    """Whether a pod is as before in all that decides anything here."""
    return (
        before.node == row.node and before.phase == row.phase and before.uid == row.uid
        and (before.up_ms is None) == (row.up_ms is None)
        and (before.leaves_ms is None) == (row.leaves_ms is None)
        and before.gates == row.gates and before.request == row.request
        and before.lacks == row.lacks
        and before.owner == row.owner and _own_labels(before) == _own_labels(row)
        and groups.of_pod(before) == groups.of_pod(row)
        and (before.annotations == row.annotations or _notes(before) == _notes(row))
    )  # fmt: skip


def _notes(pod: KubePod) -> dict[str, str]:
    return {key: pod.annotations[key] for key in pod.annotations if key.startswith(_READ_OF_PODS)}


def _own_labels(pod: KubePod) -> Mapping[str, str]:
    labels = pod.labels
    if _OF_ITS_NODE.isdisjoint(labels):
        return labels
    return {key: labels[key] for key in labels if key not in _OF_ITS_NODE}
