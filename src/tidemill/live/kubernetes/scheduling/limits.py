"""What a kubelet refuses: too little of a resource, CPU, memory or disk, pods per node, ports.

A pod that is bound beyond them fails there. So each bind is held against them before it is sent;
nodes that are full of pods take no more (``Differ``), and ports are rules (``neighbours``). A job
that was kept from a node so is planned for others. Where those cannot carry it a gang is divided:
no more on each node than that takes (``spreading``). Else it is held, until pods leave or nodes
change.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.kubernetes import resources
from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.pod_rules import HOSTNAME
from tidemill.live.kubernetes.pods import KubePod, PodRequest
from tidemill.live.kubernetes.scheduling import neighbours, shapes, spreading
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.scheduling.units import Vacant
from tidemill.live.kubernetes.scheduling.view import ClusterView, Key
from tidemill.model.measures import amount_text, count_text, milli_text
from tidemill.model.node_rules import LabelTest, added
from tidemill.model.rows import Shape

REFUSED = "BindRefused"
MOST_NODES = 999
"""By which a job is kept from nodes, or to nodes; it is kept to no more than these."""
MOST_APART = 64
"""A gang is divided among no more nodes: each is a role of its own, and a job has no more."""
FULL = "the kubelet there would refuse it"
NO_NAME = ""
"""Of nodes without the label of host names: nobody can be kept from one of them alone."""


class KubeletRefusal(NamedTuple):
    """A pod that its kubelet would refuse, and what that would say."""

    seat: Vacant
    said: str
    room: int = 0
    """How many it would take of the pods that were to be there together."""


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

    def lack(self, seats: Iterable[Vacant]) -> KubeletRefusal | None:
        """Which of these pods a kubelet would refuse if all were bound; None: it takes them."""
        some = dict[str, list[Vacant]]()
        for seat in seats:
            if said := self._absent(seat):
                return KubeletRefusal(seat, said)
            some.setdefault(seat.node, []).append(seat)
        for machine, mine in some.items():
            keys = [seat.key for seat in mine]
            if said := self._lack(machine, keys):
                counts = range(len(keys) - 1, 0, -1)
                room = next((n for n in counts if not self._lack(machine, keys[:n])), 0)
                return KubeletRefusal(mine[0], said, room)
        return None

    def _absent(self, seat: Vacant) -> str:
        """That a node, or a part of one, has nothing of what a pod requests; "": it has."""
        part, pod = self._view.nodes.get(seat.place), self._view.pods.get(seat.key)
        gpu = pod.request.gpu if pod is not None else None
        if part is None or gpu is None or gpu.resource in part.capacity:
            return ""
        return f"node `{seat.node}` has no `{gpu.resource}`"

    def _lack(self, machine: str, keys: Sequence[Key]) -> str:
        view, row = self._view, self._view.machines.get(machine)
        if row is None:
            return ""
        new = [pod for key in keys if (pod := view.pods.get(key)) is not None]
        there = self._there(machine, keys)
        said = _said(row, there, [pod.request for pod in new])
        return said or view.claimed.short_of(machine, new)

    def _there(self, machine: str, but: Sequence[Key] = ()) -> list[PodRequest]:
        """What the pods request that are on a machine or on their way there."""
        here, coming = self._view.on_node.get(machine, {}), self._coming.get(machine, {})
        known = (self._view.pods.get(key) for key in {**here, **coming} if key not in but)
        return [pod.request for pod in known if pod is not None and not pod.is_over]

    def refusal(self, row: KubeNode, wanted: PodRequest) -> str:
        """What a kubelet would say to one more pod with such a request; "": it takes it."""
        return _said(row, self._there(row.name), [wanted])


class _Shortfall(NamedTuple):
    """What a node lacked for a job."""

    then: int
    """How often something had left it by then."""
    said: str
    room: int
    """So many pods of the gang it would have taken."""


class TightNodes:
    """Jobs of which kubelets would have refused a pod: where else they may be, or why nowhere."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._refused: dict[UnitKey, dict[str, _Shortfall]] = {}
        """By machine."""
        self._off: dict[UnitKey, frozenset[str]] = {}
        """The machines that jobs are kept from; the same ones as long as these do."""
        self._lacking: dict[int, dict[str, str]] = {}
        """By bytes: the machines that have less disk left, and the words for it."""
        self._usable_by: dict[PodRequest, dict[str, str]] = {}
        self._known_at = self._looked_at = -1

    def refused(self, unit: UnitKey, lack: KubeletRefusal) -> None:
        """A plan put a pod of this job where its kubelet would refuse it."""
        machine = lack.seat.node
        found = _Shortfall(self._view.vacations[machine], lack.said, lack.room)
        self._refused.setdefault(unit, {})[machine] = found

    def due(self) -> Iterable[UnitKey]:
        """The jobs to be looked at again: pods left nodes, or nodes changed, since last asked."""
        now = self._view.vacations.total()
        is_same, self._looked_at = now == self._looked_at, now
        return () if is_same else tuple(self._refused)

    @property
    def labels(self) -> set[str]:
        """By which nodes are told apart."""
        return {HOSTNAME} if self._refused else set()

    def kept(
        self, unit: UnitKey, pods: Sequence[KubePod], shape: Shape | Unplaceable
    ) -> Shape | Unplaceable:  # fmt: skip
        """A shape that keeps off nodes which would refuse its pods; or that there is no other."""
        if unit not in self._refused or isinstance(shape, Unplaceable):
            return shape
        if not pods or any(pod.node for pod in pods):
            del self._refused[unit]
            self._off.pop(unit, None)
            return shape
        self._forget()
        shut, usable = self._shut(unit, pods), self._usable(pods[0].request)
        others = neighbours.obstacles(self._view, pods)
        open_ = usable.keys() - shut.keys() - others.keys()
        left = sorted(usable[name] for name in open_)
        refused = self._refused[unit]
        rooms = {usable[name]: refused[name].room for name in usable if name not in others
                 and name in shut and name in refused and usable[name] != NO_NAME}  # fmt: skip
        able = self._able(pods[0].request, open_)
        if able < len(pods) and (apart := self._apart(shape, rooms, able)) is not None:
            return apart
        if usable and not left:
            said = [shut[name] for name in usable if name in shut]
            beside = [others[name].words for name in usable if name not in shut]
            if said:
                return Unplaceable(REFUSED, _refusing(said, beside))
        known = usable.keys() | self._refused[unit].keys()
        names = self._kept_off(unit, shut) & known
        off = sorted({self._host(name) for name in names})
        if not off:
            return shape
        rule = added(HOSTNAME, LabelTest.NOT_IN, off, FULL)
        if len(off) > MOST_NODES or NO_NAME in off:
            rule = added(HOSTNAME, LabelTest.IN, left[:MOST_NODES], FULL)
        roles = (neighbours.with_conditions(role, [rule]) for role in shape.roles)
        return replace(shape, roles=tuple(roles))

    def _able(self, wanted: PodRequest, machines: Iterable[str]) -> int:
        """How many such pods machines have devices for if they are empty."""
        if wanted.gpu is None:
            return 0
        resource, each = wanted.gpu
        rows = (one for name in machines for one in self._view.parts_on(name))
        return sum(one.capacity.get(resource, 0) // each for one in rows)

    @staticmethod
    def _apart(shape: Shape, rooms: Mapping[str, int], able: int) -> Shape | None:
        """A gang with no more pods on each node that refused it than that would take (``rooms``, by
        host name); None: they do not fit so, or nodes may not be chosen for it here.

        ``able``: how many the other nodes could carry.
        """
        role, *others = shape.roles
        is_tied = any(bond.is_required for bond in (*shape.bonds, *role.bonds))
        if others or is_tied or shape.elastic_role is not None:
            return None
        shares, left = dict[str, int](), role.count
        for host in sorted(rooms, key=lambda one: (-rooms[one], one))[: MOST_APART - 1]:
            shares[host] = min(rooms[host], left)
            left -= shares[host]
        is_fit = left <= able and any(rooms.values())
        return spreading.split(shape, HOSTNAME, shares) if is_fit else None

    def _kept_off(self, unit: UnitKey, shut: Mapping[str, str]) -> frozenset[str]:
        """The machines that it is kept from; others that are shut by now are told when refused."""
        off, refused = self._off.get(unit, frozenset()), self._refused[unit].keys() & shut.keys()
        if not refused <= off <= shut.keys():
            off = self._off[unit] = frozenset(shut)
        return off

    def _forget(self) -> None:
        """What was known of nodes before something left them, or they changed."""
        now = self._view.vacations.total()
        if now != self._known_at:
            self._lacking.clear()
            self._usable_by.clear()
            self._known_at = now

    def _usable(self, wanted: PodRequest) -> dict[str, str]:
        """The host names of the machines that could carry a pod, if nothing ran there."""
        if wanted not in self._usable_by:
            view = self._view
            self._usable_by[wanted] = {
                name: self._host(name)
                for name in sorted(view.machines)
                if any(_could_carry(one, wanted) for one in view.parts_on(name))
            }
        return self._usable_by[wanted]

    def _host(self, machine: str) -> str:
        row = self._view.machines.get(machine)
        return row.labels.get(HOSTNAME, NO_NAME) if row is not None else NO_NAME

    def _shut(self, unit: UnitKey, pods: Sequence[KubePod]) -> dict[str, str]:
        """Machines that lack disk for its largest pod, or refused it and have not changed since."""
        view, refused = self._view, self._refused[unit]
        need = max(pod.request.disk_bytes for pod in pods)
        found = {
            name: one.said for name, one in refused.items() if view.vacations[name] == one.then
        }
        return found | (self._without(need) if need else {})

    def _without(self, need: int) -> dict[str, str]:
        """Machines that have less disk left than this."""
        if need not in self._lacking:
            view = self._view
            there = {
                name: [pod.request for pod in view.pods_on(name) if not pod.is_over]
                for name in view.machines
            }
            self._lacking[need] = {
                name: said
                for name, row in view.machines.items()
                if (said := _disk(row, there[name], need))
            }
        return self._lacking[need]


def _could_carry(part: KubeNode, wanted: PodRequest) -> bool:
    """Whether a pod may be on a part of a node by its rules (what claims select is a label of such
    parts), and fits there if nothing runs.
    """
    gpu = wanted.gpu
    is_large = gpu is None or part.capacity.get(gpu.resource, 0) >= gpu.each
    return is_large and shapes.is_open_to(part, wanted)


def _refusing(said: Sequence[str], beside: Sequence[str]) -> str:
    """What the kubelets of all nodes that a job may use would say; ``beside``: what others have on
    those that would say nothing.
    """
    rest = f"; {len(said) - 1:,} more that it may use refuse it too" if len(said) > 1 else ""
    if beside:
        more = f" and on {len(beside) - 1:,} more" if len(beside) > 1 else ""
        rest += f"; elsewhere others have what it would need: {beside[0]}{more}"
    return f"the kubelet would refuse it: {said[0]}{rest}"


def full(view: ClusterView) -> set[str]:
    """Machines whose kubelet takes no further pod."""
    return {
        machine for machine in view.crowded
        if (row := view.machines.get(machine)) is not None
        and _is_tight(row, 1 + sum(not pod.is_over for pod in view.pods_on(machine)))
    }  # fmt: skip


def _is_tight(row: KubeNode, count: int) -> bool:
    return row.most_pods is not None and count > row.most_pods


def _said(row: KubeNode, there: Sequence[PodRequest], new: Sequence[PodRequest]) -> str:
    if _is_tight(row, len(there) + len(new)):
        return (
            f"node `{row.name}` takes {count_text(row.most_pods or 0, 'pod')} and has {len(there)}"
        )
    if said := _devices(row, there, new):
        return said
    if said := _cpu_and_memory(row, there, new):
        return said
    if said := _disk(row, there, sum(one.disk_bytes for one in new)):
        return said
    ports = Counter(port for one in (*there, *new) for port in one.ports)
    mine = {port for one in new for port in one.ports}
    taken = sorted(port for port in mine if ports[port] > 1)
    return f"port {taken[0]} of node `{row.name}` is taken" if taken else ""


def _devices(row: KubeNode, there: Iterable[PodRequest], new: Iterable[PodRequest]) -> str:
    """That a node has too few accelerators beside these pods; "": enough, or claims say which."""
    wanted, used = _held(new), _held(there)
    for resource, count in wanted.items():
        most = row.allocatable.get(resource, 0)
        if used[resource] + count > most and resource != resources.CLAIMED:
            return (
                f"node `{row.name}` has {most} `{resource}` allocatable, {used[resource]} are in"
                f" use, and {count} are requested"
            )
    return ""


def _cpu_and_memory(
    row: KubeNode, there: Iterable[PodRequest], new: Sequence[PodRequest]
) -> str:  # fmt: skip
    """That a node has too little CPU or memory beside these pods, or none; "": it has enough.

    The plan counts them too, by what pods requested when they were placed: those that run may
    request more by now (a resize in place), wherever on the machine they sit.
    """
    cpu, memory = _total(new)
    if not cpu and not memory:
        return ""
    cpu_used, memory_used = _total(there)
    if cpu and cpu + cpu_used > row.cpu_milli:
        left = max(0, row.cpu_milli - cpu_used)
        return (
            f"node `{row.name}` has {amount_text(left, 'core')} left, and"
            f" {milli_text(cpu)} are requested"
        )
    if memory and memory + memory_used > row.memory_mib:
        left = max(0, row.memory_mib - memory_used)
        return (
            f"node `{row.name}` has {left / 1024:,.1f} GiB of memory left, and"
            f" {memory / 1024:,.1f} are requested"
        )
    return ""


def _total(requests: Iterable[PodRequest]) -> tuple[int, int]:
    """Cores in milli and MiB that pods request together."""
    rows = [(one.cpu_milli, one.memory_mib) for one in requests]
    return sum(cpu for cpu, _ in rows), sum(mib for _, mib in rows)


def _held(requests: Iterable[PodRequest]) -> Counter[str]:
    """What pods request of accelerators, by resource."""
    found = Counter[str]()
    for one in requests:
        if one.gpu is not None:
            found[one.gpu.resource] += one.gpu.each
    return found


def _disk(row: KubeNode, there: Iterable[PodRequest], wanted: int) -> str:
    """That a node has too little disk left beside these pods, or none; "": it has enough."""
    if not wanted:
        return ""
    left = (row.disk_bytes or 0) - sum(one.disk_bytes for one in there)
    if wanted <= left:
        return ""
    return (
        f"node `{row.name}` has {max(0, left) / 2**30:,.1f} GiB of ephemeral-storage left,"
        f" and {wanted / 2**30:,.1f} are requested"
    )
