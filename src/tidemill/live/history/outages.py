"""Stretches of time in which a node takes no new work, each in one state."""

from collections.abc import Iterable

from tidemill.model.states import NodeState

Outage = tuple[int, int | None, NodeState]
"""From, to (None: still), and how a node took no new work."""

_WORST_LAST = (
    NodeState.CORDONED, NodeState.DRAINING, NodeState.UNHEALTHY, NodeState.BOOTING,
)  # fmt: skip


def apart(told: Iterable[Outage]) -> list[Outage]:
    """The same with one state at a time: where stretches overlap, the worst."""
    told = sorted(told, key=lambda one: one[0])
    ends = [end for _, end, _ in told[:-1]]
    if all(
        end is not None and end <= start for end, (start, _, _) in zip(ends, told[1:], strict=True)
    ):
        return told
    edges = sorted({ms for start, end, _ in told for ms in (start, end) if ms is not None})
    found = list[Outage]()
    for start, end in zip(edges, [*edges[1:], None], strict=True):
        at_once = [s for a, b, s in told if a <= start and (b is None or b > start)]
        worst = max(at_once, key=_WORST_LAST.index, default=None)
        if worst is not None and found and found[-1][1:] == (start, worst):
            found[-1] = (found[-1][0], end, worst)
        elif worst is not None:
            found.append((start, end, worst))
    return found
