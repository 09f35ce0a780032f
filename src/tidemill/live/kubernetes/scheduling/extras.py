"""Further resources of nodes (network cards, huge pages, whatever a plug-in gives out) by the GPU.

The loop counts accelerators, CPU and memory. Of any other resource a pod requests so much for each
of its accelerators, and may be on nodes that have at least as much for each of theirs: as long as
everybody there keeps to that, accelerators run out first, and nothing is given out twice. Who takes
more than his share, or has no accelerator (a pod of another scheduler), is taken off what the node
has. Which nodes have enough is a label that they are given here.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.pods import KubePod, PodRequest
from tidemill.model.rows import PER_ACCELERATOR

ENOUGH = "enough"
MOST_SHOWN = 6
"""Digits of a share, for people."""


class ExtraShare(NamedTuple):
    """So much of a resource for each accelerator."""

    resource: str
    each: Fraction

    @property
    def label(self) -> str:
        """The label of nodes that have as much, as people read it in `why`."""
        return f"{self.resource}: {float(self.each):.{MOST_SHOWN}g}{PER_ACCELERATOR}"


def shares(request: PodRequest) -> tuple[ExtraShare, ...]:
    """What a pod with accelerators requests beside them, for each of them."""
    gpu = request.gpu
    if gpu is None:
        return ()
    return tuple(ExtraShare(name, Fraction(amount, gpu.each)) for name, amount in request.extras)


def labels(request: PodRequest) -> tuple[tuple[str, str], ...]:
    """The labels that a node has to have for that."""
    return tuple((one.label, ENOUGH) for one in shares(request))


def units(parts: Iterable[KubeNode]) -> int:
    """How many accelerators can be held of a machine, instances and shares one by one."""
    return max(sum(part.advertised(part.allocatable) for part in parts), 1)


def taken_apart(machine: KubeNode, count: int, pods: Iterable[KubePod]) -> dict[str, int]:
    """What pods hold that take more than their share of a machine, by resource: all of it."""
    found = dict[str, int]()
    for pod in pods:
        each = pod.request.gpu.each if pod.request.gpu is not None else 0
        for name, amount in pod.request.extras:
            if amount * count > machine.extras.get(name, 0) * each:
                found[name] = found.get(name, 0) + amount
    return found


def enough_for(
    machine: KubeNode, count: int, taken: Mapping[str, int], wanted: Iterable[ExtraShare]
) -> dict[str, str]:
    """The labels of a machine of so many accelerators: which of these shares it can serve."""
    has = {one: machine.extras.get(one.resource, 0) - taken.get(one.resource, 0) for one in wanted}
    return {one.label: ENOUGH for one in has if has[one] > 0 and has[one] >= one.each * count}
