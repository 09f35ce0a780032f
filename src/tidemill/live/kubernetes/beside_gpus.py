"""What nodes have beside accelerators, and what of it is short where accelerators are free."""

from collections import Counter
from collections.abc import Iterable

from tidemill.model.measures import count_text

CPU, MEMORY, DISK, PODS = "cpu", "memory", "ephemeral-storage", "pods"
"""That which every node has beside them, as Kubernetes calls it."""
_CALLED = {CPU: "CPU", MEMORY: "memory", DISK: "disk"}


def short(*what: str) -> str:
    """That there is too little of these resources beside free accelerators."""
    named = " and ".join(_CALLED.get(one, one) for one in what if one != PODS)
    words = [f"not the {named} beside them"] * bool(named)
    return " and ".join([*words, *["their nodes take no more pods"] * (PODS in what)])


def also_short(lacking: Iterable[str]) -> str:
    """The same after other words; ``lacking``: of what, node by node. "": of nothing."""
    found = Counter(lacking)
    words = (
        f"{short(what)} on {count_text(count, 'node')}" for what, count in sorted(found.items())
    )
    return f", but {', '.join(words)}" if found else ""
