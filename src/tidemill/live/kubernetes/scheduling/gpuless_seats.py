"""Seats of pods without GPUs on nodes without GPUs: a launcher, a head, a coordinator, a driver.

Those nodes are in no books: no accelerators are paid for there, and no plan has to know what others
do on them. So no event tells of a pod that goes there, and where no such pod names us the nodes
cost nothing, however many there are. Such a pod gets the first node, by name, that it may use and
whose kubelet takes it, with all that is there or on its way there (``NodeLimits``). Where none has
room it waits for one; if it may be on nodes with GPUs, in the queue for these.
"""

from collections.abc import Iterable, Sequence
from itertools import count

from tidemill.live.kubernetes import jobs
from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.pods import KubePod, PodRequest, taint_pair
from tidemill.live.kubernetes.scheduling import shapes
from tidemill.live.kubernetes.scheduling.draining import Drains
from tidemill.live.kubernetes.scheduling.limits import NodeLimits
from tidemill.live.kubernetes.scheduling.units import UnitNow, Vacant, key_of
from tidemill.live.kubernetes.scheduling.view import ClusterView
from tidemill.model.rows import Role, Shape

_MOST_KEPT = 16  # forms of pods: of each a word for every node, half a megabyte of 5,000 nodes


class GpulessSeats:
    """Which pods without GPUs are on their way to nodes without, and which wait for one."""

    def __init__(self, view: ClusterView) -> None:
        self._view, self._limits = view, NodeLimits(view)
        self.drains: Drains | None = None
        """Who drains nodes, if anybody may."""
        self._numbers = count(-2, -1)
        self._coming: dict[UnitKey, Vacant] = {}
        self._sent: dict[int, UnitKey] = {}
        """By the number that stands for that of a job: whoever is on its way."""
        self.waiting: dict[UnitKey, None] = {}
        """Pods that found no room: looked at again when something leaves a node."""
        self._gang_of: dict[UnitKey, UnitKey] = {}
        self._parts_of: dict[UnitKey, dict[UnitKey, None]] = {}
        """By gang: its pods without GPUs that are placed by themselves."""
        self._able: dict[Role, list[KubeNode]] = {}
        """Nodes without GPUs that could carry such a pod, if empty; until one changes."""
        self._full: dict[PodRequest, dict[str, tuple[int, str]]] = {}
        """By node: how often something had left it when it would not take such a pod, and why."""
        self._nowhere: dict[tuple[Role, PodRequest], int] = {}
        """Forms of pods that no node took, and how often anything had left any node by then."""
        self._left = 0

    def forget(self) -> None:
        """Nodes changed."""
        self._able.clear()
        self._nowhere.clear()
        most = 2 * len(self._view.machines)
        if any(len(said) > most for said in self._full.values()):
            self._full.clear()  # most of them are of nodes that are gone

    def first(self, units: Iterable[UnitKey]) -> list[UnitKey]:
        """Pods without GPUs before all else, by priority and age: gangs begin when theirs have a
        seat.
        """
        every, mine = [*units], dict[UnitKey, tuple[int, int]]()
        for unit in every:
            pods = self._view.unit_pods(unit) if unit.kind == "Pod" else ()
            if pods and pods[0].request.gpu is None:
                mine[unit] = (-pods[0].request.priority, pods[0].created_ms)
        if mine or self._nowhere:
            self._left = self._view.vacations.total()
        if not mine:
            return every
        return [
            *sorted(mine, key=lambda unit: (mine[unit], unit)),
            *(unit for unit in every if unit not in mine),
        ]

    def note(self, unit: UnitKey, pods: Sequence[KubePod]) -> UnitKey | None:
        """A pod is there, or gone, and of which gang it is a part; None: it has GPUs, or is alone
        in its job.
        """
        if (before := self._gang_of.pop(unit, None)) is not None:
            mine = self._parts_of[before]
            del mine[unit]
            if not mine:
                del self._parts_of[before]
        if unit.kind != "Pod" or not pods or pods[0].request.gpu is not None:
            return before
        gang = jobs.unit_of(self._view.cluster, pods[0])
        if gang == unit:
            return before
        self._gang_of[unit] = gang
        self._parts_of.setdefault(gang, {})[unit] = None
        return gang

    def parts_of(self, gang: UnitKey) -> list[KubePod]:
        """The pods of a gang without GPUs that are placed by themselves."""
        mine = self._parts_of.get(gang, ())
        return [pod for unit in mine for pod in self._view.unit_pods(unit)]

    def seat(self, unit: UnitKey, now: UnitNow) -> Vacant | None:
        """A seat for a pod without GPUs that could be bound; None: no node without GPUs has room,
        or it is on its way to one.
        """
        self.waiting.pop(unit, None)
        role = _role(unit, now)
        if role is None or unit in self._coming:
            return None
        pod = now.waits[0][0]
        if (node := self._with_room(role, pod.request)) is None:
            self.waiting[unit] = None
            return None
        seat = Vacant(next(self._numbers), key_of(pod), pod.uid, node.name, node.name)
        self._limits.begin(seat)
        self._coming[unit], self._sent[seat.job] = seat, unit
        return seat

    def has_room(self, request: PodRequest) -> bool:
        """Whether a node without GPUs would take such a pod now, if one came."""
        role = Role(
            "pod", 1, 0, cpu_milli=request.cpu_milli, memory_mib=request.memory_mib,
            **request.rules._asdict(),
        )  # fmt: skip
        return self._with_room(role, request) is not None

    def is_coming(self, unit: UnitKey) -> bool:
        """Whether a pod is on its way to a node without GPUs."""
        return unit in self._coming

    def lack(self, now: UnitNow) -> str:
        """Why the first of the nodes that could carry a pod does not take it; "": none could."""
        (role,) = now.shape.roles if isinstance(now.shape, Shape) else ()
        request = now.waits[0][0].request
        said = self._full.get(request, {})
        return next((said[one.name][1] for one in self._candidates(role) if one.name in said), "")

    def settled(self, number: int) -> bool:
        """The answer about a pod that was on its way is there; whether there was such a one."""
        unit = self._sent.pop(number, None)
        if unit is None:
            return False
        seat = self._coming.pop(unit)
        self._limits.end(seat)
        for said in self._full.values():  # its room there may be free again
            said.pop(seat.node, None)
        self._nowhere.clear()
        self._view.dirty_units[unit] = None
        return True

    def _candidates(self, role: Role) -> list[KubeNode]:
        if role not in self._able:
            if len(self._able) >= _MOST_KEPT:
                self.forget()
            view = self._view
            rows = (view.machines[name] for name in sorted(view.machines))
            self._able[role] = [
                one for one in rows
                if not has_gpus(view, one.name) and could_carry(one, role)
            ]  # fmt: skip
        return self._able[role]

    def _with_room(self, role: Role, request: PodRequest) -> KubeNode | None:
        form = role, request
        if self._nowhere.get(form) == self._left:
            return None
        able = self._candidates(role)
        found = next((node for node in able if not self._refusal(node, request)), None)
        if found is None:
            self._nowhere[form] = self._left
        return found

    def _refusal(self, node: KubeNode, request: PodRequest) -> str:
        """Why a node does not take a pod, which stays so until something leaves it; "": it does."""
        if request not in self._full and len(self._full) >= _MOST_KEPT:
            self._full.clear()
            self._nowhere.clear()
        known, left = self._full.setdefault(request, {}), self._view.vacations[node.name]
        before = known.get(node.name)
        if before is None or before[0] != left:
            said = self._why_out(node) or self._limits.refusal(node, request)
            known.pop(node.name, None)
            if not said:
                return ""
            known[node.name] = before = (left, said)
        return before[1]

    def _why_out(self, node: KubeNode) -> str:
        is_drained = self.drains is not None and self.drains.is_on(node)
        said = node.why_out() or ("going to be taken" if is_drained else "")
        return f"node `{node.name}` is {said}" if said else ""


def has_gpus(view: ClusterView, machine: str) -> bool:
    """Whether a machine is in the books."""
    return any(shapes.is_schedulable(part) for part in view.parts_on(machine))


def could_carry(node: KubeNode, role: Role) -> bool:
    """Whether a pod may be on a node, and fits there if nothing runs."""
    if role.cpu_milli > node.cpu_milli or role.memory_mib > node.memory_mib:
        return False
    taints = (taint_pair(t.key, t.value, t.effect) for t in node.taints if t.keeps_out)
    return role.rules.allow(frozenset(node.labels.items()), frozenset(taints))


def _role(unit: UnitKey, now: UnitNow) -> Role | None:
    """What a pod without GPUs requests that may be bound by itself; None: it is none.

    Who has to be in one place with its gang, or has devices by claim, is placed by the plan.
    """
    if unit.kind != "Pod" or not now.is_complete or not isinstance(now.shape, Shape):
        return None
    role, *others = now.shape.roles
    pods: list[KubePod] = [pod for pod, _ in now.waits]
    is_tied = bool(now.shape.bonds or role.bonds or others)
    is_alone = len(pods) == 1 and pods[0].request.gpu is None and not pods[0].request.claims
    return None if is_tied or role.accelerators or not is_alone else role
