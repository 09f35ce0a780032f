"""Roles: equal pods of a job, as many as are wanted, and those of them that exist."""

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from tidemill.live.kubernetes.dra import OwnClaim
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
            form = _form(part.request)
            counts[form] = counts.get(form, 0) + part.count
            names.setdefault(form, part.name)
    mine = dict[PodRequest, list[KubePod]]()
    for pod in pods:
        if pod.request.gpu is not None:
            mine.setdefault(_nearest(_form(pod.request), counts, pod.own_claim), []).append(pod)
    for form, some in mine.items():
        if form not in counts:
            alive = sum(not pod.is_over for pod in some)
            counts[form] = alive or most_at_once(some)
    return tuple(
        JobRole(names.get(form, "worker"), max(count, 1), form, tuple(mine.get(form, ())))
        for form, count in list(counts.items())[:MOST_ROLES]
    )


@lru_cache(4096)
def _form(request: PodRequest) -> PodRequest:
    """A request without what differs between a template and the pods made of it."""
    return PodRequest(
        gpu=request.gpu, cpu_milli=request.cpu_milli, memory_mib=request.memory_mib,
        selector=request.selector, terms=request.terms,
        tolerations=tuple(t for t in request.tolerations if not t.key.startswith(OF_CONDITIONS)),
        scheduler="", priority=0, priority_class="", claims=(), extras=request.extras,
        part_milli=request.part_milli, devices_on=request.devices_on,
        device_types=request.device_types, device_words=request.device_words,
    )  # fmt: skip


def _nearest(
    form: PodRequest, wanted: Mapping[PodRequest, int], own: OwnClaim | None
) -> PodRequest:
    """The form that a pod was made of: the same, else one with the same accelerators.

    ``own``: the claim by which it has those that its template names as a resource.
    """
    if form in wanted:
        return form
    same, count = (form.gpu, form.part_milli), form.gpu.each if form.gpu is not None else 0
    by_claim = [GpuRequest(one, count) for one in own.resources] if own is not None else []
    return next((other for other in wanted if (other.gpu, other.part_milli) == same
                 or other.gpu in by_claim), form)  # fmt: skip


def most_at_once(pods: list[KubePod]) -> int:
    """The most of these pods that held something at the same time."""
    turns = [(pod.bound_ms, 1) for pod in pods if pod.bound_ms is not None]
    turns += [(pod.end_ms, -1) for pod in pods if pod.bound_ms is not None and pod.end_ms]
    level = most = 0
    for _, change in sorted(turns):
        level += change
        most = max(most, level)
    return max(most, 1)
