"""Pods without GPUs that only nodes without GPUs could carry: those nodes are in no books of ours.

A gang of which such a pod is a part (a launcher that selects a pool of CPU nodes) would hold GPUs
and never begin: it is held with it.
"""

from collections.abc import Iterator, Sequence

from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.pods import KubePod, PodRequest
from tidemill.live.kubernetes.scheduling import declared, purchase, shapes
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.scheduling.view import ClusterView, PodUnit
from tidemill.model.rows import Role
from tidemill.model.world import World

WAY_OUT = "this scheduler places pods on nodes with GPUs only: let another one place it"
_MOST_NAMED = 2
_MOST_KEPT = 4_096  # requests: about a megabyte


class NodesWithoutGpus:
    """Which pods could be on none but nodes without GPUs."""

    def __init__(self, world: World, view: ClusterView) -> None:
        self._world, self._view = world, view
        self._words: dict[PodRequest, str] = {}
        """Why none with GPUs could carry such a request; "": one could. Until a node changes."""
        self._names: dict[PodRequest, str] = {}
        """The nodes without GPUs that could, as long."""
        self.held: dict[UnitKey, None] = {}
        """Jobs that are held for it: looked at again when nodes change."""

    def forget(self) -> None:
        """Nodes changed, or there is too much to remember."""
        self._words.clear()
        self._names.clear()

    def hold_of(self, unit: PodUnit, pending: Sequence[KubePod]) -> Unplaceable | None:
        """Why a job is not placed: a pod of it may only be on nodes without GPUs; None: none is."""
        if len(self._words) + len(self._names) > _MOST_KEPT:
            self.forget()
        found = self._found(unit, pending)
        if found is not None:
            self.held[unit.key] = None
        return found

    def beside(self, pods: Sequence[KubePod]) -> str:
        """Which nodes without GPUs could carry pods that wait for one with GPUs; "": none."""
        requests = {pod.request for pod in pods}
        if len(requests) != 1 or next(iter(requests)).gpu is not None:
            return ""
        named = self._named(next(iter(requests)))
        return f"{named} could carry it, but {WAY_OUT}" if named else ""

    def _found(self, unit: PodUnit, pending: Sequence[KubePod]) -> Unplaceable | None:
        if all(pod.request.gpu is None for pod in pending):
            words = self._words_of(pending[0].request)
            return Unplaceable("NotSupported", words) if words else None
        for name, request in self._without_gpus(unit):
            words = self._words_of(request)
            if words and not self._has_begun(unit):
                return Unplaceable(
                    "NotSupported",
                    f"a part of its gang (`{name}`) could not begin, and the rest would hold GPUs"
                    f" for nothing: {words}",
                )
        return None

    def _without_gpus(self, unit: PodUnit) -> Iterator[tuple[str, PodRequest]]:
        """Of a gang with GPUs, what its pods without any request, and what these are called."""
        view = self._view
        for part in declared.templates(view.cluster, unit.job):
            if part.request.gpu is None and part.request.scheduler == view.scheduler:
                yield part.name, part.request
        for key in (*view.apart.without_gpus(unit.key), *view.apart.tied(unit.key)):
            pod = view.pods.get(key)
            if pod is not None and view.is_ours(pod) and not pod.is_over:
                yield pod.name, pod.request

    def _has_begun(self, unit: PodUnit) -> bool:
        """Whether somebody else placed such a pod all the same, or it has done its work."""
        every = self._view.all_pods(unit.key)
        return any(pod.request.gpu is None and (pod.node or pod.is_over) for pod in every)

    def _words_of(self, request: PodRequest) -> str:
        if request not in self._words:
            named = "" if self._may_have_gpus(request) else self._named(request)
            self._words[request] = f"{named} alone could carry it, and {WAY_OUT}" if named else ""
        return self._words[request]

    def _may_have_gpus(self, request: PodRequest) -> bool:
        """Whether a node with GPUs could carry it, one that is there or one like those before."""
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
            has_gpus = any(shapes.is_schedulable(part) for part in view.parts_on(name))
            if not has_gpus and _could_carry(machine, machine, request):
                found.append(name)
        if not found:
            return ""
        named = ", ".join(f"`{name}`" for name in sorted(found)[:_MOST_NAMED])
        more = f" and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
        return f"nodes without GPUs ({named}{more})"


def _could_carry(size: KubeNode, machine: KubeNode, request: PodRequest) -> bool:
    """Whether a pod may be on a machine, and fits there if nothing runs."""
    is_large = request.cpu_milli <= size.cpu_milli and request.memory_mib <= size.memory_mib
    return is_large and shapes.is_open_to(machine, request)
