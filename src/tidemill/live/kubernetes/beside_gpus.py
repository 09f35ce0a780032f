"""What nodes have beside accelerators, and what of it is short where accelerators are free."""

from collections import Counter
from collections.abc import Iterable

CPU, MEMORY, DISK, PODS = "cpu", "memory", "ephemeral-storage", "pods"
"""That which every node has beside them, as Kubernetes calls it."""
_SHORT = {
    CPU: "not the CPU beside them", MEMORY: "not the memory beside them",
    DISK: "not the disk beside them", PODS: "their nodes take no more pods",
}  # fmt: skip


def short(what: str) -> str:
    """That there is too little of a resource beside free accelerators."""
    return _SHORT.get(what, f"not the {what} beside them")


def also_short(lacking: Iterable[str]) -> str:
    """The same after other words; ``lacking``: of what, node by node. "": of nothing."""
    found = Counter(lacking)
    words = (
        f"{short(what)} on {count} node{'s' * (count != 1)}"
        for what, count in sorted(found.items())
    )
    return f", but {', '.join(words)}" if found else ""
