"""Quotas of namespaces (ResourceQuota): what a team may have, and what of it is used up.

The API server counts what all pods of a namespace request, also of those that wait; their number,
cores and memory too, which are no quota of a team here and may refuse its pods. A quota with scopes
is of some pods alone, by their class or deadline: it bounds no team.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from tidemill.live.kubernetes import resources
from tidemill.live.kubernetes.cluster import Quota
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI, count_text
from tidemill.model.quota_use import CORES, MEMORY, PODS, QuotaUse
from tidemill.model.rows import Queue, Share

Kinds = Sequence[tuple[str, Mapping[str, str], str]]
"""The GPU type, the labels and a resource of what there is."""


def queues(quotas: Sequence[Quota], kinds: Kinds, notes: list[str]) -> list[Queue]:
    """Namespaces with the most that they may have."""
    limits, unread, scoped = dict[str, dict[str, int]](), set[str](), set[str]()
    for quota in quotas:
        if quota.is_of_some:
            scoped |= {quota.namespace} if quota.hard or _beside(quota) else set()
            continue
        mine = limits.setdefault(quota.namespace, {})
        for resource, hard in quota.hard.items():
            having = _kinds_of(resource, kinds)
            if len(having) == 1:
                kind = having.pop()
                mine[kind] = min(mine.get(kind, hard), hard)
            elif having:
                unread.add(quota.namespace)
    if unread:
        notes.append(
            f"{count_text(len(unread), 'namespace')} with a quota of GPUs of all types together:"
            " no maximum of the team here, where quotas are by GPU type; `fit` counts what is left"
        )
    if others := _unread(quotas):
        notes.append(
            f"quotas of namespaces (ResourceQuota) of {', '.join(others)}: not read, so that `fit`"
            " does not know where they refuse pods"
        )
    if scoped:
        notes.append(
            f"{count_text(len(scoped), 'namespace')} with a quota for some of the pods alone"
            " (scopes): not read, since it is not the most that the team may have"
        )
    return [
        Queue(name, tuple(
            Share(kind, 0, min(hard * WHOLE_MILLI, FOREVER_MS))
            for kind, hard in sorted(mine.items())
        ))
        for name, mine in sorted(limits.items()) if mine
    ]  # fmt: skip


def used(quotas: Iterable[Quota], kinds: Kinds) -> tuple[QuotaUse, ...]:
    """Of each namespace and GPU type the quota of which least is left."""
    least = dict[tuple[str, str], QuotaUse]()
    for quota in quotas:
        for resource, hard in quota.hard.items():
            having = _kinds_of(resource, kinds)
            if quota.is_of_some or not having or resource not in quota.used:
                continue
            kinds_of = tuple(sorted(having)) if len(having) > 1 else ()
            found = QuotaUse(
                quota.namespace, resource if kinds_of else having.pop(), quota.name,
                quota.used[resource], hard, kinds=kinds_of,
            )  # fmt: skip
            known = least.setdefault((found.team, found.kind), found)
            if found.left < known.left:
                least[found.team, found.kind] = found
        for found in () if quota.is_of_some else _beside(quota):
            known = least.setdefault((found.team, found.kind), found)
            if found.left < known.left:
                least[found.team, found.kind] = found
    return tuple(least[key] for key in sorted(least))


def unread(quotas: Iterable[Quota]) -> list[str]:
    """What is to be said of them where teams are no namespaces."""
    some = {quota.namespace for quota in quotas if quota.hard or _beside(quota)}
    if not some:
        return []
    what = f"{count_text(len(some), 'namespace')} with quotas (ResourceQuota)"
    return [f"{what}: not read, since teams here are no namespaces"]


def _unread(quotas: Iterable[Quota]) -> list[str]:
    """What else pods may be refused for: resources that the books do not have."""
    found = {name for quota in quotas for name in quota.beside if name not in _BESIDE}
    asked = {name for name in found if name.startswith(("requests.", "limits."))}
    return sorted(
        name for name in asked
        if not resources.is_accelerator(name.partition(".")[2])
        and not name.endswith(("requests.storage", "persistentvolumeclaims"))
    )  # fmt: skip


def _beside(quota: Quota) -> list[QuotaUse]:
    """What is used up of pods, cores and memory (in thousandths, and in MiB)."""
    return [
        QuotaUse(
            quota.namespace, kind, quota.name, math.ceil(quota.beside_used[resource] * scale),
            int(quota.beside[resource] * scale),
        )
        for resource, (kind, scale) in _BESIDE.items()
        if resource in quota.beside and resource in quota.beside_used
    ]  # fmt: skip


_BESIDE = {
    "pods": (PODS, 1), "count/pods": (PODS, 1),
    "cpu": (CORES, WHOLE_MILLI), "requests.cpu": (CORES, WHOLE_MILLI),
    "limits.cpu": (CORES, WHOLE_MILLI),
    "memory": (MEMORY, 2**-20), "requests.memory": (MEMORY, 2**-20),
    "limits.memory": (MEMORY, 2**-20),
}  # fmt: skip
"""What pods are beside accelerators, and its unit here; of limits at least the requests count."""


def _kinds_of(resource: str, kinds: Kinds) -> set[str]:
    return {kind for kind, _, has in kinds if has == resource}
