"""Pods of ours without GPUs, and the gangs that they are parts of.

One that is placed by itself goes to a node without GPUs that has room (``GpulessSeats``), else to
one with GPUs, if it may: it waits in the queue for those. A gang does not begin as long as such a
part of it finds no room on the only nodes that could carry it, or no node could: it would hold GPUs
and do nothing.
One that has to be in one place with all of its pods is placed by the plan, which knows nodes with
GPUs alone: where another one would be needed for a part of it, all of it is held.
"""

from tidemill.live.kubernetes import jobs
from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.nodes import NAME, KubeNode
from tidemill.live.kubernetes.pod_rules import HOSTNAME
from tidemill.live.kubernetes.pods import KubePod, PodRequest
from tidemill.live.kubernetes.scheduling import (
    declared,
    gpuless_seats,
    neighbours,
    purchase,
    shapes,
)
from tidemill.live.kubernetes.scheduling.gpuless_seats import GpulessSeats
from tidemill.live.kubernetes.scheduling.neighbours import NO_SUCH_NODE, UNSCHEDULABLE, WAITING
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.scheduling.units import UnitNow, Vacant
from tidemill.live.kubernetes.scheduling.view import ClusterView, PodUnit
from tidemill.model.measures import amount_text
from tidemill.model.rows import Role
from tidemill.model.world import World

NO_ROOM = "none has room now"
NOWHERE = "no node, with GPUs or without, could carry it, even if it were empty"
ONE_PLACE = "a gang that has to be in one place is placed on nodes with GPUs only"
_MOST_NAMED = 2
_MOST_KEPT = 4_096  # requests: about a megabyte


class NodesWithoutGpus:
    """Which pods are to be on nodes without GPUs, or could be on none but those."""

    def __init__(self, world: World, view: ClusterView) -> None:
        self._world, self._view = world, view
        self.seats = GpulessSeats(view)
        self._words: dict[PodRequest, str] = {}
        """The nodes without GPUs that alone could carry such a request; "": one with GPUs could, or
        none at all. Until a node changes."""
        self._beside: dict[PodRequest, bool] = {}
        """Whether a node with GPUs could, as long."""
        self._names: dict[PodRequest, str] = {}
        """The nodes without GPUs that could, as long."""
        self._looked_at = -1
        """How often something had left a node, or a node had changed, by then."""
        self.held: dict[UnitKey, None] = {}
        """Gangs that are held for a part of them: looked at again when nodes change."""

    def forget(self) -> None:
        """Nodes changed, or there is too much to remember."""
        self._words.clear()
        self._beside.clear()
        self._names.clear()
        self.seats.forget()

    def due(self) -> tuple[UnitKey, ...]:
        """Pods that wait for room, and gangs that wait for theirs, if something left a node, or one
        changed, since last asked.
        """
        if not self.seats.waiting and not self.held:
            return ()
        now = self._view.vacations.total()
        is_same, self._looked_at = now == self._looked_at, now
        return () if is_same else (*self.seats.waiting, *self.held)

    def seat(self, unit: PodUnit, now: UnitNow) -> Vacant | None:
        """A seat for a pod without GPUs on a node without; its gang is looked at again, if that is
        held for a part of it.
        """
        was_waiting = unit.key in self.seats.waiting
        gang, seat = self.seats.note(unit.key, unit.pods), self.seats.seat(unit.key, now)
        if gang in self.held and (seat or was_waiting != (unit.key in self.seats.waiting)):
            self._view.dirty_units[gang] = None
            self._view.changed()
        return seat

    def hold_alone(self, unit: UnitKey, now: UnitNow) -> Unplaceable | None:
        """Why the plan does not place a pod without GPUs: nodes without alone could carry it, and
        none of them has room; or no node could; or others have what it needs on all with GPUs.
        None: it does.
        """
        if unit not in self.seats.waiting:
            return None
        pod = now.waits[0][0]
        request = pod.request
        only, lack = self._words_of(request), self.seats.lack(now)
        if only and lack:
            is_pinned = bool({HOSTNAME, NAME} & request.rules.keys)
            reason = WAITING if is_pinned else UNSCHEDULABLE
            return Unplaceable(reason, f"{only} could carry it, and {NO_ROOM}: {lack}")
        if self._is_nowhere(request):
            words = self._nowhere_words(request)
            return Unplaceable(NO_SUCH_NODE, words) if words else None
        return self._taken(unit, pod)

    def _taken(self, unit: UnitKey, pod: KubePod) -> Unplaceable | None:
        """That on all nodes with GPUs others have what it needs, where others could carry it."""
        beside, view = self.beside(unit), self._view
        with_gpus = (m for m in view.machines.values() if gpuless_seats.has_gpus(view, m.name))
        found = neighbours.taken(view, [pod], with_gpus) if beside else None
        return found and found._replace(words=f"{found.words}; {beside}")

    def _is_nowhere(self, request: PodRequest) -> bool:
        """Whether no node could carry such a pod, none that is there and none like those before."""
        return not self._named(request) and not self._may_have_gpus(request)

    def _nowhere_words(self, request: PodRequest) -> str:
        """Why no node could, of those without GPUs too; "": there are none, and `why` knows it."""
        view = self._view
        if all(gpuless_seats.has_gpus(view, name) for name in view.machines):
            return ""
        is_open = [row for row in view.machines.values() if shapes.is_open_to(row, request)]
        if not is_open:
            return f"{NOWHERE}: labels, taints or node affinity keep it off all of them"
        cores = amount_text(max(row.cpu_milli for row in is_open), "core")
        memory_gib = max(row.memory_mib for row in is_open) / 1024
        return (
            f"{NOWHERE}: it requests {amount_text(request.cpu_milli, 'core')} and"
            f" {request.memory_mib / 1024:,.1f} GiB of memory, and of those that it may be on none"
            f" has both (at most {cores}, and {memory_gib:,.1f} GiB)"
        )

    def hold_of(self, unit: PodUnit) -> Unplaceable | None:
        """Why a gang is not placed: a pod of it without GPUs could not begin; None: none is."""
        if len(self._words) + len(self._names) > _MOST_KEPT:
            self.forget()
        found = self._without_room(unit) or self._in_no_place(unit)
        if found is not None:
            self.held[unit.key] = None
        return found

    def beside(self, unit: UnitKey) -> str:
        """Which nodes without GPUs could carry a pod that waits for one with; "": none."""
        pods = self._view.unit_pods(unit) if unit in self.seats.waiting else ()
        named = self._named(pods[0].request) if pods else ""
        return f"{named} could carry it too, and none of these has room now" if named else ""

    def _without_room(self, unit: PodUnit) -> Unplaceable | None:
        """That nodes without GPUs alone could carry a part of a gang, and none has room for it; or
        that no node could.
        """
        seats, view = self.seats, self._view
        parts = seats.parts_of(unit.key)
        for pod in parts:
            lack = self._lack_of(pod.request) if jobs.alone(pod) in seats.waiting else ""
            if lack:
                return _without_part(pod.name, WAITING, lack)
        for part in () if parts else declared.templates(view.cluster, unit.job):
            is_ours = part.request.gpu is None and part.request.scheduler == view.scheduler
            lack = self._lack_of(part.request) if is_ours else ""
            if lack and not seats.has_room(part.request):
                return _without_part(part.name, WAITING, lack)
        return None

    def _lack_of(self, request: PodRequest) -> str:
        """Why a part of a gang that nodes without GPUs have no room for waits; "": it could be
        beside GPUs.
        """
        if only := self._words_of(request):
            return f"{only} could carry it, and {NO_ROOM}"
        return NOWHERE if self._is_nowhere(request) else ""

    def _in_no_place(self, unit: PodUnit) -> Unplaceable | None:
        """That a pod of a gang that has to be in one place could be on nodes without GPUs only."""
        view = self._view
        for key in view.apart.tied(unit.key):
            pod = view.pods.get(key)
            if pod is None or not view.is_ours(pod) or pod.is_over:
                continue
            if (only := self._words_of(pod.request)) and not self._has_begun(unit):
                words = f"{only} could carry it, and {ONE_PLACE}"
                return _without_part(pod.name, "NotSupported", words)
        return None

    def _has_begun(self, unit: PodUnit) -> bool:
        """Whether somebody else placed such a pod all the same, or it has done its work."""
        every = self._view.all_pods(unit.key)
        return any(pod.request.gpu is None and (pod.node or pod.is_over) for pod in every)

    def _words_of(self, request: PodRequest) -> str:
        if request not in self._words:
            named = "" if self._may_have_gpus(request) else self._named(request)
            self._words[request] = f"{named} alone" if named else ""
        return self._words[request]

    def _may_have_gpus(self, request: PodRequest) -> bool:
        """Whether a node with GPUs could carry it, one that is there or one like those before."""
        if request not in self._beside:
            self._beside[request] = self._could_be_beside(request)
        return self._beside[request]

    def _could_be_beside(self, request: PodRequest) -> bool:
        view = self._view
        if any(
            shapes.is_schedulable(part) and _could_carry(part, view.machines[name], request)
            for name in view.machines
            for part in view.parts_on(name)
        ):
            return True
        return purchase.was_there(
            self._world,
            Role(
                "pod", 1, 0, cpu_milli=request.cpu_milli, memory_mib=request.memory_mib,
                **request.rules._asdict(),
            ),
        )  # fmt: skip

    def _named(self, request: PodRequest) -> str:
        if request not in self._names:
            self._names[request] = self._nodes_without(request)
        return self._names[request]

    def _nodes_without(self, request: PodRequest) -> str:
        """The nodes without GPUs that could carry it, in words; "": none."""
        view, found = self._view, list[str]()
        for name, machine in view.machines.items():
            if not gpuless_seats.has_gpus(view, name) and _could_carry(machine, machine, request):
                found.append(name)
        if not found:
            return ""
        named = ", ".join(f"`{name}`" for name in sorted(found)[:_MOST_NAMED])
        more = f" and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
        return f"nodes without GPUs ({named}{more})"


def _without_part(name: str, reason: str, words: str) -> Unplaceable:
    """A gang that would hold GPUs and do nothing."""
    lead = (
        f"a part of its gang (`{name}`) could not begin, and the rest would hold GPUs for nothing"
    )
    return Unplaceable(reason, f"{lead}: {words}")


def _could_carry(size: KubeNode, machine: KubeNode, request: PodRequest) -> bool:
    """Whether a pod may be on a machine, and fits there if nothing runs."""
    is_large = request.cpu_milli <= size.cpu_milli and request.memory_mib <= size.memory_mib
    return is_large and shapes.is_open_to(machine, request)
