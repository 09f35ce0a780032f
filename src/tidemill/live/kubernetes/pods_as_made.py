"""Pods as admission makes them: a template has less than the pods that are made of it.

Admission plug-ins and webhooks write into a pod when it is made: tolerations (GKE, wherever a pod
requests GPUs), requests (a LimitRange), selectors, containers beside its own. The template stays as
somebody wrote it. So pods that are there say what their job requests, those that are missing are
taken to become like them, and a job without any is taken to get the tolerations that admission
adds to all others (``AddedTolerations``).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from tidemill.live.kubernetes.kueue import KueueWorkload
from tidemill.live.kubernetes.nodes import OF_CONDITIONS, KubeNode
from tidemill.live.kubernetes.owners import OwnerObject, PodTemplate
from tidemill.live.kubernetes.pod_rules import HOSTNAME
from tidemill.live.kubernetes.pods import KubePod, PodRequest, Toleration

Templated = TypeVar("Templated", OwnerObject, KueueWorkload)
_Place = tuple[str, str]
"""A namespace ("" is all of them), and the resource that pods request there."""


def of(part: PodTemplate, pods: Sequence[KubePod]) -> PodTemplate:
    """A template as its pods are; without any, as it is. Pods that live count before the others.

    Of what they request most pods tell. What is kept for one of them alone, such as the node that
    Kueue chose for it, is not of the others: labels and tolerations count that all of them have.
    """
    told = [pod.request for pod in pods if not pod.is_over] or [pod.request for pod in pods]
    if not told:
        return part
    each = Counter(told)
    ((most, _),) = each.most_common(1)
    is_pinned = part.count > 1 and len(told) == 1
    own = part.request
    return replace(part, request=replace(
        most, gpu=own.gpu or most.gpu, part_milli=own.part_milli if own.gpu else most.part_milli,
        selector=tuple(
            one for one in most.selector
            if all(one in other.selector for other in each)
            and not (is_pinned and one[0] == HOSTNAME and one not in own.selector)
        ),
        terms=most.terms if len({one.terms for one in each}) == 1 else own.terms,
        tolerations=tuple(
            one for one in most.tolerations if all(one in other.tolerations for other in each)
        ),
    ))  # fmt: skip


class _Witness(NamedTuple):
    """A toleration that a pod has and its template does not."""

    toleration: Toleration
    pod: KubePod


class AddedTolerations:
    """Tolerations that admission adds to pods with accelerators, as the pods show that are there.

    One that some pod has and its template does not was added. It is taken to be added again where
    no pod is without it: in the same namespace, and everywhere if it is called as the resource that
    the pods request (the admission plug-in ``ExtendedResourceToleration``).
    """

    def __init__(
        self, pods: Iterable[KubePod], owner_of: Callable[[KubePod], OwnerObject | None]
    ) -> None:
        some = [pod for pod in pods if pod.request.gpu is not None]
        some = [pod for pod in some if not pod.is_over] or some
        self._common = dict[_Place, set[Toleration]]()
        self._added = dict[_Place, dict[Toleration, KubePod]]()
        seen = set[tuple[str, PodRequest, str]]()
        for pod in some:
            key = (pod.namespace, pod.request, pod.owner.uid if pod.owner is not None else "")
            if key in seen:  # equal pods of one owner tell the same
                continue
            seen.add(key)
            self._take(pod, owner_of(pod))

    def _take(self, pod: KubePod, owner: OwnerObject | None) -> None:
        assert pod.request.gpu is not None, "others are left out"
        mine, resource = _kept(pod.request), pod.request.gpu.resource
        for place in ((pod.namespace, resource), ("", resource)):
            self._common[place] = self._common.get(place, mine) & mine
        parts = () if owner is None else owner.makes or owner.templates
        if not parts:
            return
        added = mine.difference(*(_kept(part.request) for part in parts))
        for one in added:
            self._added.setdefault((pod.namespace, resource), {}).setdefault(one, pod)
            if one.key == resource:
                self._added.setdefault(("", resource), {}).setdefault(one, pod)

    def _for(self, namespace: str, resource: str) -> Iterator[_Witness]:
        """What is added to pods of a namespace that request a resource, each once."""
        told = dict[Toleration, KubePod]()
        for place in ((namespace, resource), ("", resource)):
            for one, pod in self._added.get(place, {}).items():
                if one in self._common[place]:
                    told.setdefault(one, pod)
        for one in sorted(told, key=repr):
            yield _Witness(one, told[one])

    def with_templates(self, one: Templated) -> Templated:
        """An object with pod templates, as pods will be made of them."""
        if not self._added:
            return one
        made = tuple(self._with_added(one.namespace, part) for part in one.templates)
        found = one if made == one.templates else replace(one, templates=made)
        if isinstance(found, OwnerObject):
            makes = tuple(self._with_added(one.namespace, part) for part in found.makes)
            found = replace(found, makes=makes)
        return found

    def _with_added(self, namespace: str, part: PodTemplate) -> PodTemplate:
        gpu, mine = part.request.gpu, part.request.tolerations
        found = [] if gpu is None else [*self._for(namespace, gpu.resource)]
        found = [one for one in found if one.toleration not in mine]
        if not found:
            return part
        request = replace(part.request, tolerations=(*mine, *(one.toleration for one in found)))
        shown = tuple((one.toleration, one.pod.full_name) for one in found)
        return replace(part, request=request, added=shown)


def _kept(request: PodRequest) -> set[Toleration]:
    """What a pod tolerates that somebody said; some of the states of nodes all pods do."""
    return {one for one in request.tolerations if not one.key.startswith(OF_CONDITIONS)}


def said(parts: Iterable[PodTemplate], nodes: Sequence[KubeNode]) -> Iterator[str]:
    """What is to be said of a job without pods whose nodes it may be on by that alone."""
    told = {one: name for part in parts for one, name in part.added}
    taints = {(t.key, t.value, t.effect) for node in nodes for t in node.taints if t.keeps_out}
    for one, name in told.items():
        if not any(one.accepts(*taint) for taint in taints):
            continue
        namespace, _, pod = name.partition("/")
        shown = f"kubectl get pod -n {namespace} {pod} -o jsonpath='{{.spec.tolerations}}'"
        yield (
            f"jobs without pods are taken to tolerate the taint `{one.key or '(any)'}`, though"
            f" their templates do not: admission adds that here, as of the pod {name} ({shown})"
        )
