"""Nodes of a cluster that is watched, which take no work: Slurm does not write all of it down.

A drain is in its record (`sacctmgr show event`) only from when no job is on the node. Until then
`scontrol show node` alone tells it, and forgets it when it is over. Such a stretch begins when the
node's reason says, if that is news, else when it was first seen; it ends when it was first seen to
be over, or when the record says so in between.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.history.outages import Outage
from tidemill.live.slurm import nodes
from tidemill.live.slurm.rows import SlurmNode, SlurmNodeEvent


class SeenOutage(NamedTuple):
    """A stretch of time in which a node was seen to take no work, in one state."""

    node: SlurmNode
    """As it was shown last in that state."""
    since_ms: int
    last_ms: int
    """When it was last seen so."""
    end_ms: int | None = None
    """When it was first seen to be over; None: it is not."""


class SeenOutages:
    """What was seen of nodes, as long as what is told has not passed it."""

    def __init__(self) -> None:
        self._out = dict[str, SeenOutage]()
        self._over = list[SeenOutage]()
        self._known = set[str]()
        self._looked_ms = 0
        """When nodes were last looked at."""

    def look(self, shown: Iterable[SlurmNode], now_ms: int, since_ms: int) -> list[SlurmNode]:
        """Nodes as they are shown now; those that are out with since when, as far as it was seen.

        ``since_ms``: since when one is out of which nobody says since when. One that is out no more
        keeps the reason that it had, until what is told has passed that.
        """
        found = [self._seen(node, now_ms, since_ms) for node in shown]
        self._known |= {node.name for node in found}
        self._looked_ms = now_ms
        self._over = [one for one in self._over if (one.end_ms or 0) > since_ms]
        words = {one.node.name: one.node.reason for one in self._over}
        return [
            replace(node, reason=words.get(node.name)) if node.name not in self._out else node
            for node in found
        ]

    def over(self, recorded: Mapping[str, Sequence[Outage]]) -> list[SlurmNodeEvent]:
        """Stretches that are over, as Slurm would write them down. ``recorded``: those that it did,
        by node, which end to the second.
        """
        found = list[SlurmNodeEvent]()
        for node, since_ms, last_ms, end_ms in self._over:
            ends = (stop for _, stop, _ in recorded.get(node.name, ()) if stop is not None)
            within = (stop for stop in ends if last_ms <= stop <= (end_ms or stop))
            found.append(SlurmNodeEvent(
                node=node.name, start_ms=since_ms, end_ms=min(within, default=end_ms),
                state=node.state, state_flags=node.state_flags,
            ))  # fmt: skip
        return found

    def _seen(self, node: SlurmNode, now_ms: int, since_ms: int) -> SlurmNode:
        state, before = nodes.out_as(node.state, node.state_flags), self._out.get(node.name)
        if before is not None and nodes.out_as(before.node.state, before.node.state_flags) is state:
            begun_ms = before.since_ms  # a later time of its reason: somebody gave another one
        else:
            begun_ms = self._begun_ms(node, now_ms, since_ms)
            if before is not None:
                self._over.append(before._replace(end_ms=now_ms if state is None else begun_ms))
        if state is None:
            self._out.pop(node.name, None)
            return node
        self._out[node.name] = SeenOutage(node, begun_ms, now_ms)
        return replace(node, reason_ms=begun_ms)

    def _begun_ms(self, node: SlurmNode, now_ms: int, since_ms: int) -> int:
        """When a node came to its state: as its reason says if that is news, or when it was seen.

        Of one that was never seen before only its reason can say it.
        """
        if node.name not in self._known:
            return since_ms if node.reason_ms is None else node.reason_ms
        if node.reason_ms is not None and node.reason_ms >= self._looked_ms:
            return node.reason_ms  # which may be later than the clock: that was asked first
        return now_ms
