"""Parts of GPUs that KAI-Scheduler gives out: by annotations of pods, not by a resource.

A pod says which part of a GPU it wants (``gpu-fraction``), or how much memory of one
(``gpu-memory``, in MiB), and of how many (``gpu-fraction-num-devices``). KAI holds each GPU that is
shared with a reservation pod that requests a whole one, and names the GPU in a label of all that
share it (``runai-gpu-group``). A reservation is no job: what is in use are the parts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from msgspec.structs import replace

from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.resources import GpuRequest
from tidemill.model.measures import WHOLE_MILLI, count_text
from tidemill.model.rows import MAX_DEVICES

FRACTION, MEMORY, DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
GROUP = "runai-gpu-group"
"""The label with the GPU that a pod shares; with several `runai-gpu-group/GROUP` for each."""
_RESERVATION = "app.runai.resource.reservation"
_RESERVATIONS = ("kai-resource-reservation", "runai-reservation")
"""Namespaces of reservation pods, and what they are called in the label `app`."""
NODE_MEMORY = "nvidia.com/gpu.memory"
"""The label of GPU feature discovery with the memory of each GPU of a node, in MiB."""
RESOURCE = "nvidia.com/gpu"
_NAMED, _LONGEST = 5, 20
_DECIMAL = re.compile(r"\d{1,6}(\.\d{1,9})?|\.\d{1,9}")


def is_reservation(pod: KubePod) -> bool:
    """Whether a pod only holds a GPU for those that share it."""
    is_of_kai = pod.namespace in _RESERVATIONS or pod.labels.get("app") in _RESERVATIONS
    return _RESERVATION in pod.labels or (GROUP in pod.labels and is_of_kai)


def without_reservations(pods: Iterable[KubePod]) -> Iterator[KubePod]:
    """Pods that work."""
    return (pod for pod in pods if not is_reservation(pod))


def with_parts(pods: Iterable[KubePod], nodes: Iterable[KubeNode]) -> list[KubePod]:
    """Pods; those that say so in annotations request parts of GPUs."""
    memory = {node.name: mib for node in nodes if (mib := _number(node.labels.get(NODE_MEMORY)))}
    return [_with_part(pod, memory) for pod in pods]


def _with_part(pod: KubePod, memory: Mapping[str, Fraction]) -> KubePod:
    if pod.request.gpu is not None or not {FRACTION, MEMORY} & pod.annotations.keys():
        return pod
    part, wanted = _number(pod.annotations.get(FRACTION)), _number(pod.annotations.get(MEMORY))
    if not 0 < part <= 1 and wanted:  # where nobody says the node, of the smallest GPUs
        has = memory.get(pod.node) or min(memory.values(), default=Fraction(0))
        if not has:
            return replace(pod, request=replace(pod.request, uncounted=MEMORY))
        part = min(wanted / has, Fraction(1))
    if not 0 < part <= 1:
        return pod
    each = max(1, min(int(_number(pod.annotations.get(DEVICES))), MAX_DEVICES))
    milli = max(1, round(part * WHOLE_MILLI))
    return replace(pod, request=replace(
        pod.request, gpu=GpuRequest(RESOURCE, each), part_milli=milli,
    ))  # fmt: skip


def misread(pods: Iterable[KubePod]) -> Iterator[str]:
    """What to say of pods whose annotations say no part of a GPU."""
    bad = [
        (pod.full_name, key, pod.annotations[key])
        for pod in pods if pod.request.gpu is None and not pod.request.uncounted
        for key in (FRACTION, MEMORY) if key in pod.annotations
    ]  # fmt: skip
    if bad:
        some = sorted(bad)[:_NAMED]
        named = ", ".join(f"{name}: {key} `{told[:_LONGEST]}`" for name, key, told in some)
        more = ", …" if len(bad) > _NAMED else ""
        yield (
            f"{count_text(len({name for name, *_ in bad}), 'pod')} of KAI's with an annotation that"
            f" is no part of a GPU: not booked ({named}{more})"
        )


def _number(told: str | None) -> Fraction:
    """A number as annotations and labels have it; 0: it is none."""
    return Fraction(told) if told and _DECIMAL.fullmatch(told) else Fraction(0)


def groups_of(pod: KubePod) -> list[str]:
    """The GPUs that a pod shares, by the name that KAI gives them."""
    told = [pod.labels[GROUP]] if pod.labels.get(GROUP) else []
    return told or sorted(
        key.removeprefix(f"{GROUP}/") for key in pod.labels if key.startswith(f"{GROUP}/")
    )


class SharedGpus:
    """Which GPU of a node each group is, for the books: nobody says their numbers.

    The first group of a node is its last GPU, and so on; whole ones are booked from the first on.
    """

    def __init__(self, pods: Iterable[KubePod]) -> None:
        self._rank = dict[tuple[str, str], int]()
        count = dict[str, int]()
        bound = [pod for pod in pods if pod.node and not is_reservation(pod)]
        for pod in sorted(bound, key=lambda pod: (pod.bound_ms or 0, pod.full_name)):
            for group in groups_of(pod):
                if (pod.node, group) not in self._rank:
                    self._rank[pod.node, group] = count.get(pod.node, 0)
                    count[pod.node] = count.get(pod.node, 0) + 1

    def masks(self, pod: KubePod, size: int) -> Iterator[int]:
        """The devices that a pod has parts of, of so many of its node; 0: nobody says which."""
        for group in groups_of(pod):
            rank = self._rank.get((pod.node, group), size)
            yield 1 << (size - 1 - rank) if rank < size else 0
