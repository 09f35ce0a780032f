"""What becomes of nodes that were ordered: by autoscalers, and by machines that are no nodes yet.

A pod that is told `Unschedulable` is an order for a node. cluster-autoscaler says of its node
groups whether they grow, are at their maximum or back off; Karpenter has a NodeClaim for each
machine that it launches. Nothing is planned by either.
"""

from typing import Any

from tidemill.live.kubernetes import autoscaler, nodes
from tidemill.live.kubernetes.autoscaler import AutoscalerStatus, GroupsNow
from tidemill.live.kubernetes.nodes import KubeNode, NodeClaim
from tidemill.live.kubernetes.pods import PodRequest

AGAIN_MS = 60_000
"""A status that is not written any more is looked at again so often: it gets too old."""
MOST_NAMED = 2


class OrderedNodes:
    """What autoscalers say; ``machines``: the nodes that are there."""

    def __init__(self, machines: dict[str, KubeNode]) -> None:
        self._machines = machines
        self._status: AutoscalerStatus | None = None
        self._claims: dict[str, NodeClaim] = {}
        self._groups: GroupsNow | None = None
        self._built: tuple[AutoscalerStatus | None, int] = (None, 0)

    def take(self, row: Any, *, is_gone: bool) -> None:  # noqa: ANN401 - what readers make
        """What an autoscaler keeps writing came, changed or is gone."""
        match row:
            case AutoscalerStatus():
                self._status = None if is_gone else row
            case NodeClaim():
                self._claims.pop(row.name, None)
                if not is_gone:
                    self._claims[row.name] = row

    def words(self, request: PodRequest, now_ms: int) -> str:
        """What is on its way for a pod, or why nothing is; "": nobody says anything."""
        groups = self._groups_at(now_ms)
        return "; ".join(
            filter(None, (self._launched(request), groups.words(request) if groups else ""))
        )

    def _groups_at(self, now_ms: int) -> GroupsNow | None:
        built = self._status, now_ms // AGAIN_MS
        if self._status is None:
            return None
        if self._groups is None or self._built[0] is not built[0] or self._built[1] != built[1]:
            self._groups = GroupsNow(self._status, self._machines.values(), now_ms)
            self._built = built
        return self._groups

    def _launched(self, request: PodRequest) -> str:
        coming = sorted(
            one.name for one in self._claims.values()
            if one.is_launched and one.capacity and one.node not in self._machines
            and autoscaler.would_take(nodes.of_claim(one), request)
        )  # fmt: skip
        if not coming:
            return ""
        named = ", ".join(f"`{name}`" for name in coming[:MOST_NAMED])
        more = f" and {len(coming) - MOST_NAMED:,} more" if len(coming) > MOST_NAMED else ""
        said = f"Karpenter has launched {named}{more}, and no node has joined yet"
        return f"{said} (kubectl get nodeclaims.karpenter.sh)"
