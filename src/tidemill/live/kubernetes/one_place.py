"""Gangs that have to be in one place as a whole: nodes with the same values of some labels."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tidemill.live.kubernetes.nodes import KubeNode

if TYPE_CHECKING:
    from tidemill.live.kubernetes.reasons import FleetNow


class OnePlace(NamedTuple):
    """That all pods of a gang have to be where nodes have the same values of these labels."""

    labels: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    """Nodes that some of them are on."""

    @property
    def words(self) -> str:
        """Said after what they request."""
        return f" in one {' and one '.join(self.labels)}" if self.labels else ""

    def places(self, fleet: "FleetNow", nodes: Iterable[KubeNode]) -> list[list[KubeNode]]:
        """Nodes of each place where they may all be; without labels all are one place."""
        mine = {self._place(node) for node in map(fleet.node, self.bound) if node is not None}
        found = dict[tuple[str, ...], list[KubeNode]]()
        for node in nodes:
            place = self._place(node)
            if all(place) and (not mine or place in mine):
                found.setdefault(place, []).append(node)
        return [*found.values()]

    def _place(self, node: KubeNode) -> tuple[str, ...]:
        return tuple(node.labels.get(label, "") for label in self.labels)


ANYWHERE = OnePlace()
