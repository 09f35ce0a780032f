"""What a kubelet refuses and the loop does not count: pods per node, its own disk, its ports.

A pod that is bound beyond them fails there. So each bind is held against them before it is sent;
nodes that are full of pods take no more (``Differ``), and ports are rules (``neighbours``).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling.units import Vacant
from tidemill.live.kubernetes.scheduling.view import ClusterView, Key


class NodeLimits:
    """The pods that are on nodes or on their way there, against what kubelets take."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._coming: dict[str, dict[Key, None]] = {}
        """By machine: pods that are being bound to it."""

    def begin(self, seat: Vacant) -> None:
        """A pod is being bound."""
        self._coming.setdefault(seat.node, {})[seat.key] = None

    def end(self, seat: Vacant) -> None:
        """It is bound, or will not be."""
        mine = self._coming.get(seat.node, {})
        mine.pop(seat.key, None)
        if not mine:
            self._coming.pop(seat.node, None)

    def lack(self, seats: Iterable[Vacant]) -> str:
        """What a kubelet would say of one of these pods if all were bound; "": it takes them."""
        some = dict[str, list[Key]]()
        for seat in seats:
            some.setdefault(seat.node, []).append(seat.key)
        found = (self._lack(machine, keys) for machine, keys in some.items())
        return next(filter(None, found), "")

    def _lack(self, machine: str, keys: Sequence[Key]) -> str:
        view, row = self._view, self._view.machines.get(machine)
        new = [pod for key in keys if (pod := view.pods.get(key)) is not None]
        here, coming = view.on_node.get(machine, {}), self._coming.get(machine, {})
        if row is None or not (
            _is_tight(row, len(here) + len(coming) + len(new))
            or any(pod.request.disk_bytes or pod.request.ports for pod in new)
        ):  # as nearly always
            return ""
        known = (view.pods.get(key) for key in {**here, **coming} if key not in keys)
        there = [pod for pod in known if pod is not None and not pod.is_over]
        return _said(row, there, new)


def full(view: ClusterView) -> set[str]:
    """Machines whose kubelet takes no further pod."""
    return {
        machine for machine in view.crowded
        if (row := view.machines.get(machine)) is not None
        and _is_tight(row, 1 + sum(not pod.is_over for pod in view.pods_on(machine)))
    }  # fmt: skip


def _is_tight(row: KubeNode, count: int) -> bool:
    return row.most_pods is not None and count > row.most_pods


def _said(row: KubeNode, there: Sequence[KubePod], new: Sequence[KubePod]) -> str:
    if _is_tight(row, len(there) + len(new)):
        return f"node `{row.name}` takes {row.most_pods} pods and has {len(there)}"
    wanted = sum(pod.request.disk_bytes for pod in new)
    if wanted and row.disk_bytes is not None:
        left = row.disk_bytes - sum(pod.request.disk_bytes for pod in there)
        if wanted > left:
            return (
                f"node `{row.name}` has {max(0, left) / 2**30:,.1f} GiB of ephemeral-storage left,"
                f" and {wanted / 2**30:,.1f} are requested"
            )
    ports = Counter(port for pod in (*there, *new) for port in pod.request.ports)
    mine = {port for pod in new for port in pod.request.ports}
    taken = sorted(port for port in mine if ports[port] > 1)
    return f"port {taken[0]} of node `{row.name}` is taken" if taken else ""
