"""Roles: equal pods of a job, as many as are wanted, and those of them that exist."""

from collections.abc import Collection
from functools import lru_cache

from msgspec import Struct

from tidemill.live.kubernetes.nodes import OF_CONDITIONS
from tidemill.live.kubernetes.owners import PodTemplate
from tidemill.live.kubernetes.pods import KubePod, PodRequest
from tidemill.live.kubernetes.resources import GpuRequest

MOST_ROLES = 64


class JobRole(Struct, frozen=True):
    """So many equal replicas, and those of them that exist."""

    name: str
    count: int
    request: PodRequest
    pods: tuple[KubePod, ...]


def of_pods(wanted: tuple[PodTemplate, ...], pods: list[KubePod]) -> tuple[JobRole, ...]:
    """Equal requests are one role; pods that nobody wanted are a role too. Without GPUs: none."""
    counts, names = dict[PodRequest, int](), dict[PodRequest, str]()
    for part in wanted:
        if part.request.gpu is not None and part.count:
            of = form(part.request)
            counts[of] = counts.get(of, 0) + part.count
            names.setdefault(of, part.name)
    mine = dict[PodRequest, list[KubePod]]()
    for pod in pods:
        if pod.request.gpu is not None:
            mine.setdefault(nearest(pod, counts), []).append(pod)
    for of, some in mine.items():
        if of not in counts:
            alive = sum(not pod.is_over for pod in some)
            counts[of] = alive or most_at_once(some)
    return tuple(
        JobRole(names.get(of, "worker"), max(count, 1), of, tuple(mine.get(of, ())))
        for of, count in list(counts.items())[:MOST_ROLES]
    )


@lru_cache(4096)
def form(request: PodRequest) -> PodRequest:
    """A request without what differs between a template and the pods made of it."""
    return PodRequest(
        gpu=request.gpu, cpu_milli=request.cpu_milli, memory_mib=request.memory_mib,
        selector=request.selector, terms=request.terms,
        tolerations=tuple(t for t in request.tolerations if not t.key.startswith(OF_CONDITIONS)),
        scheduler="", priority=0, priority_class="", claims=(), extras=request.extras,
        part_milli=request.part_milli, devices_on=request.devices_on,
        device_types=request.device_types, device_words=request.device_words,
    )  # fmt: skip


def nearest(pod: KubePod, wanted: Collection[PodRequest]) -> PodRequest:
    """The form that a pod was made of: the same, else the most alike with the same accelerators.

    Those may be its own claim's, which its template names as a resource.
    """
    of = form(pod.request)
    if of in wanted:
        return of
    count, own = of.gpu.each if of.gpu is not None else 0, pod.own_claim
    by_claim = [GpuRequest(one, count) for one in own.resources] if own is not None else []
    some = [
        other for other in wanted
        if (other.gpu, other.part_milli) == (of.gpu, of.part_milli) or other.gpu in by_claim
    ]  # fmt: skip
    return max(some, key=lambda other: _alike(of, other), default=of)


def _alike(some: PodRequest, other: PodRequest) -> int:
    """In how many of the things that tell roles apart two requests are equal."""
    told = (
        (one.cpu_milli, one.memory_mib, one.selector, one.terms, one.extras)
        for one in (some, other)
    )
    return sum(a == b for a, b in zip(*told, strict=True))


def most_at_once(pods: list[KubePod]) -> int:
    """The most of these pods that held something at the same time."""
    turns = [(pod.bound_ms, 1) for pod in pods if pod.bound_ms is not None]
    turns += [(pod.end_ms, -1) for pod in pods if pod.bound_ms is not None and pod.end_ms]
    level = most = 0
    for _, change in sorted(turns):
        level += change
        most = max(most, level)
    return max(most, 1)
