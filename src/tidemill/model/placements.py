"""Placement scores: one row per score, by the name that a policy's ``placement`` says.

The scores of our own are compiled (``scheduling.scores``) and have no function here. The score of a
plug-in is a function of a node and of what a replica requests; it is asked in Python, node by node,
and only where a policy names it.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidemill.model.rows import Role


class FreeNode(NamedTuple):
    """What a score may read of a node that can take one replica, at this point of the cycle."""

    name: str
    """What the node is called."""
    gpu_type: str
    """The type of its accelerators."""
    labels: dict[str, str]
    """Its labels."""
    free_milli: tuple[int, ...]
    """What is free of each of its accelerators, in thousandths; 1000 is a whole one."""
    cpu_free_milli: int
    """CPU that is free, in thousandths of a core."""
    memory_free_mib: int
    """Host memory that is free, in MiB."""


NodeScore = Callable[[FreeNode, Role], int]
"""How well a node suits a request: the highest score is taken, the first node among equals."""

COMPILED = ("pack", "spread", "best-fit", "dot-product", "clustering", "sharing", "fgd", "tide")

PLACEMENTS: dict[str, NodeScore | None] = dict.fromkeys(COMPILED)
"""None: compiled."""


def score_of(names: str | tuple[str, ...]) -> NodeScore | None:
    """The function of a plug-in that a policy's placement names; None: it is compiled."""
    return PLACEMENTS[names if isinstance(names, str) else names[0]] if names else None
