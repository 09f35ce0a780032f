"""Free accelerators that no replica can have for want of CPU or memory beside them.

Where enough accelerators are busy, that is the cause; but it is not enough that those come free.
"""

from typing import NamedTuple

import numpy as np

from tidemill.explain import commands, phrasing, supply
from tidemill.explain.answers import Fact
from tidemill.explain.context import Case


class WithoutHost(NamedTuple):
    """What is free on nodes with too little of one resource for a single replica."""

    milli: int
    nodes: int
    most: int
    """The most of the resource that one of them has free."""


def cpu(case: Case) -> WithoutHost:
    """What is free where the cores of a replica are not."""
    return _without(case, is_cpu=True)


def memory(case: Case) -> WithoutHost:
    """What is free where the cores of a replica are, and its memory is not."""
    return _without(case, is_cpu=False)


def fact(case: Case) -> Fact | None:
    """How much is free and of no use, in numbers; None: nothing."""
    role, said, milli = case.role, list[str](), 0
    for found, words in (
        (
            cpu(case),
            lambda most: f"{phrasing.cores(most)} of {phrasing.many_cores(role.cpu_milli)}",
        ),
        (memory(case), lambda most: f"{phrasing.gib(most)} of {phrasing.gib(role.memory_mib)} GiB"),
    ):
        if found.milli:
            milli += found.milli
            where = phrasing.many(found.nodes, "node")
            said.append(
                f"{phrasing.amount(found.milli)} on {where} with at most {words(found.most)} free"
            )
    if not said:
        return None
    text = f"of what is free it cannot have: {'; '.join(said)}"
    return Fact("free without host", milli, "accelerator_milli", text,
                commands.nodes(case.in_queue))  # fmt: skip


def what_else(case: Case) -> str:
    """What has to come free besides accelerators, after words on those; "": nothing."""
    short = [name for name, found in (("CPU", cpu(case)), ("memory", memory(case))) if found.milli]
    return f", and {' and '.join(short)} beside the free ones" if short else ""


def _without(case: Case, *, is_cpu: bool) -> WithoutHost:
    world, role, nodes = case.world, case.role, case.world.nodes
    if not role.accelerators:
        return WithoutHost(0, 0, 0)
    rows = world.node_count
    free, memory_free = nodes.cpu_free_milli[:rows], nodes.memory_free_mib[:rows]
    lacks = free < role.cpu_milli
    if not is_cpu:
        lacks, free = ~lacks & (memory_free < role.memory_mib), memory_free
    has = supply.hosting(world, role) >= role.accelerators
    here = np.flatnonzero(supply.open_mask(world, case.options) & has & lacks)
    return WithoutHost(int(nodes.free_milli[here].sum()), len(here), int(free[here].max(initial=0)))
