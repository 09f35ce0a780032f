"""Pods that are missing because somebody refuses them: a quota, or a webhook.

Pods of a Job that work each by itself, and those of services, are jobs of their own; what could not
be made is on no list. An owner that has fewer than it wants, and whose last word is that one was
refused, waits for the rest.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from tidemill.live.kubernetes import owners, pods_as_made
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.owners import OwnerObject, PodTemplate
from tidemill.live.kubernetes.pods import KubePod

_KINDS = {("batch", "Job"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")}


def rest_of(cluster: Cluster) -> Iterator[OwnerObject]:
    """Owners that want more pods with accelerators than could be made, and want only those."""
    refused = {of for of, some in cluster.happenings.items()
               if any(one.reason == "FailedCreate" for one in some)}  # fmt: skip
    if not refused:
        return
    made = dict[str, list[KubePod]]()
    for pod in cluster.pods:
        if pod.owner is not None and (pod.owner.kind, pod.namespace, pod.owner.name) in refused:
            made.setdefault(pod.owner.uid, []).append(pod)
    for (group, kind, namespace, name), owner in cluster.owners.items():
        if (kind, namespace, name) not in refused or (group, kind) not in _KINDS:
            continue
        failed = cluster.last(kind, namespace, name, "FailedCreate")
        pods = made.get(owner.uid, [])
        last_ms = max((pod.created_ms for pod in pods), default=0)
        if failed is None or _is_none(owner) or failed.at_ms < last_ms:
            continue
        if rest := _missing(owner, pods):
            yield replace(owner, templates=rest)


def _is_none(owner: OwnerObject) -> bool:
    """Whether it wants no more pods, or they are a part of a gang, which counts them."""
    above = owner.owner
    is_part = above is not None and owners.is_gang_kind(above.kind, above.group)
    return owner.end is not None or owner.is_suspended or owner.is_gang or is_part


def _missing(owner: OwnerObject, pods: list[KubePod]) -> tuple[PodTemplate, ...]:
    parts = owner.makes or owner.templates
    if len(parts) != 1 or parts[0].request.gpu is None:
        return ()
    wanted = parts[0].count - owner.succeeded
    if owner.completions:
        wanted = min(parts[0].count, owner.completions - owner.succeeded)
    alive = sum(not pod.is_over for pod in pods)
    rest = replace(parts[0], count=wanted - alive)
    mine = [pod for pod in pods if pod.request.gpu == rest.request.gpu]
    return (pods_as_made.of(rest, mine),) if wanted > alive else ()
