"""What people said of nodes beforehand: spares and warm pools that are kept free, maintenance.

Free time of a spare is no leak by mistake, and is told apart from what stands free for want of
work. A node in maintenance takes no new work, whatever its cluster shows of it. Either may hold for
a time only.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.history import outages
from tidemill.live.history.rows import SeenNode
from tidemill.model.states import NodeState


class IntendedSpan(NamedTuple):
    """Nodes by name, in which `*` and `?` stand for anything, and for how long; since 1970."""

    names: tuple[str, ...]
    from_ms: int = 0
    to_ms: int | None = None
    """None: for good."""

    def holds(self, node: SeenNode) -> bool:
        """Whether it is about a node."""
        return any(fnmatchcase(node.name, name) for name in self.names)


class NodeIntent(NamedTuple):
    """What is intended with nodes."""

    spares: tuple[IntendedSpan, ...] = ()
    maintenance: tuple[IntendedSpan, ...] = ()

    def of(self, nodes: Sequence[SeenNode]) -> list[SeenNode]:
        """The nodes, with what is intended with them."""
        return [self._of(node) for node in nodes] if self != NO_INTENT else list(nodes)

    def unmatched(self, nodes: Iterable[SeenNode]) -> list[str]:
        """The names that no node has."""
        listed = [node.name for node in nodes]
        names = [name for span in (*self.spares, *self.maintenance) for name in span.names]
        return [name for name in names if not any(fnmatchcase(one, name) for one in listed)]

    def _of(self, node: SeenNode) -> SeenNode:
        spare = tuple((span.from_ms, span.to_ms) for span in self.spares if span.holds(node))
        closed = [
            (span.from_ms, span.to_ms, NodeState.CORDONED)
            for span in self.maintenance
            if span.holds(node)
        ]
        out = tuple(outages.apart((*node.out, *closed))) if closed else node.out
        return replace(node, spare=spare, out=out)


NO_INTENT = NodeIntent()
