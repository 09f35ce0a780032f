"""What a pod, or the pods of a job, request, in the words of the model; or why that cannot be said.

Accelerators through the device plugin, whole ones, MIG instances and shares alike: so many units of
one resource (``parts``); and pods without any. What has other constraints on its place than those
that the model keeps is not placed at all: a rule that is broken in silence is worse than a pod that
waits and says why.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tidemill.engine.fold.shapes import refuse_unless_possible
from tidemill.live.history.attempts import LONGEST_NAME, kind_of
from tidemill.live.history.rows import SeenNode
from tidemill.live.kubernetes import pod_rules, resources, ties
from tidemill.live.kubernetes.jobs import KubeJob
from tidemill.live.kubernetes.nodes import LEAVING, OF_CONDITIONS, KubeNode
from tidemill.live.kubernetes.pods import KubePod, PodRequest, taint_pair
from tidemill.live.kubernetes.scheduling import extras
from tidemill.live.kubernetes.ties import Tie
from tidemill.model.errors import EventRefused
from tidemill.model.measures import count_text
from tidemill.model.node_rules import NodeRules
from tidemill.model.rows import BESIDE, MAX_COUNT, MAX_DEVICES, RESOURCE, Job, Role, Shape
from tidemill.model.states import JobClass, NodeState
from tidemill.model.topology import Bond, Topology

POOLS = (
    "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "kubernetes.io/arch",
    "kubernetes.io/os", resources.PRODUCT, "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
)  # fmt: skip
"""Labels that most selectors name, with few values in a cluster. Of the others only those that
somebody selects by are kept: every label more makes nodes differ that are alike."""


class Unplaceable(NamedTuple):
    """Why pods of ours are not placed, whatever is free."""

    reason: str
    words: str


def _beside(role: Role, words: str) -> Role:
    """A role that says by which rules its place goes by others: whoever only looks at nodes, as to
    name moves, leaves it where it is.
    """
    return replace(role, name=f"{BESIDE}{words}: {role.name}"[:LONGEST_NAME])


KindsOf = Mapping[str, tuple[str, ...]]
"""By resource: the GPU types that have it."""


def of_job(job: KubeJob, kinds_of: KindsOf, topology: Topology) -> Shape | Unplaceable:
    """What a job of ours requests."""
    roles = list[Role]()
    for role in job.roles:
        done = sum(pod.phase == "Succeeded" for pod in role.pods)
        found = _role(role.name, at_once(job, role.count, done), role.request, kinds_of)
        if isinstance(found, Unplaceable):
            return found
        roles.append(found)
    if job.exclusive:
        return _one_by_one(job.exclusive)
    for pod in job.pods:
        request = pod.request
        if request.also or request.unkept or request.uncounted or request.unread:
            return unkept(pod)
    if job.unkept:
        return _refused(job.unkept)
    if near := [rule for pod in job.pods for rule in pod.request.near]:
        roles[:1] = [_beside(roles[0], pod_rules.words(near))]
    bonds = _bonds(job.ties, topology)
    if isinstance(bonds, Unplaceable):
        return bonds
    shape = _shape(job.team, tuple(roles), job.job_class, job.priority, job.is_preemptible, bonds)
    return shape if job.may_preempt else _meek(shape)


@lru_cache(4096)
def _shape(
    team: str, roles: tuple[Role, ...], kind: JobClass, priority: int, is_preemptible: bool,
    bonds: tuple[Bond, ...],
) -> Shape:  # fmt: skip
    """One shape for all jobs that are alike: most are, and what is the same is soon compared."""
    return Shape(
        team[:LONGEST_NAME] or "unknown", roles, kind, priority, is_preemptible,
        bonds=bonds,
    )  # fmt: skip


@lru_cache(4096)
def unstoppable(shape: Shape) -> Shape:
    """The same, of a job that is not stopped for another."""
    return replace(shape, is_preemptible=False)


@lru_cache(4096)
def _meek(shape: Shape) -> Shape:
    """The same, of a job for which nobody else is stopped."""
    return replace(shape, may_preempt=False)


def at_once(job: KubeJob, count: int, done: int) -> int:
    """How many pods of a role, or in all, run at once: a Job may have more to do after those."""
    return job.at_once(count, done)


def of_pod(pod: KubePod, team: str, job_class: JobClass) -> Shape:
    """What a pod of somebody else's holds, or one without accelerators requests."""
    gpu = pod.request.gpu
    each = min(gpu.each, MAX_DEVICES) if gpu is not None else 0
    rules = NodeRules() if pod.node else pod.request.rules
    role = Role(
        "pod", 1, each, cpu_milli=pod.request.cpu_milli, memory_mib=pod.request.memory_mib,
        **rules._asdict(),
    )  # fmt: skip
    return Shape(
        team[:LONGEST_NAME] or "unknown", (role,), job_class,
        pod.request.priority, is_preemptible=False,
        may_preempt=pod.request.may_preempt or bool(pod.node),
    )  # fmt: skip


def _role(name: str, count: int, request: PodRequest, kinds_of: KindsOf) -> Role | Unplaceable:
    assert request.gpu is not None, "roles without GPUs are left out"
    resource, each = request.gpu
    if each > MAX_DEVICES:
        return Unplaceable(
            "NotSupported", f"{count_text(each, 'accelerator')} in one pod; at most {MAX_DEVICES}"
        )
    absent = (resource,) if kinds_of else ()
    kinds = kinds_of.get(resource, absent)
    return _whole_role(name, count, request, kinds, has_twin(kinds_of, resource))


@lru_cache(4096)
def _whole_role(
    name: str, count: int, request: PodRequest, kinds: tuple[str, ...], is_named: bool
) -> Role:
    """``is_named``: whether nodes are told apart by their resource, as types do not."""
    assert request.gpu is not None, "asked before"
    rules = request.rules
    more = [*extras.labels(request), *([(RESOURCE, request.gpu.resource)] if is_named else [])]
    if more:
        rules = rules._replace(labels=tuple(sorted((*rules.labels, *more))))
    return Role(
        name[:LONGEST_NAME], min(count, MAX_COUNT), request.gpu.each, cpu_milli=request.cpu_milli,
        memory_mib=request.memory_mib, kinds=kinds, **rules._asdict(),
    )  # fmt: skip


def kinds_by_resource(nodes: Iterable[KubeNode]) -> KindsOf:
    """GPU types by resource. No nodes: none."""
    having = dict[str, set[str]]()
    for node in nodes:
        for one in node.capacity:
            having.setdefault(one, set()).add(kind_of(node.gpu_type))
    return {one: tuple(sorted(kinds)) for one, kinds in having.items()}


def both_kinds(some: KindsOf, others: KindsOf) -> KindsOf:
    """GPU types by resource, of the one and the other."""
    return {
        one: tuple(sorted({*some.get(one, ()), *others.get(one, ())})) for one in {**some, **others}
    }


def any_if_one(kinds_of: KindsOf) -> KindsOf:
    """The same; where a cluster has one resource any type will do, and the cheapest is taken.

    Whoever asks so has to ask again when nodes of another resource come.
    """
    return dict.fromkeys(kinds_of, ()) if len(kinds_of) == 1 else kinds_of


def has_twin(kinds_of: KindsOf, resource: str) -> bool:
    """Whether nodes have another resource under a type that this one has too."""
    mine = set(kinds_of.get(resource, ()))
    return any(one != resource and mine.intersection(kinds_of[one]) for one in kinds_of)


def _bonds(told: Iterable[Tie], topology: Topology) -> tuple[Bond, ...] | Unplaceable:
    found = dict[Bond, None]()
    for tie in told:
        tier = ties.tier(topology, tie.told)
        if tier is not None:
            found[Bond(tier.name, 0, tie.is_required)] = None
        elif tie.is_required:
            known = ", ".join(f"`{t.name}`" for t in topology.tiers) or "none"
            return Unplaceable(
                "UnknownTopology",
                f"has to be in one `{tie.told}`; tiers that the policy declares: {known}",
            )
    return tuple(found)


def refused(topology: Topology, name: str, shape: Shape) -> Unplaceable | None:
    """What of a job the books would refuse, by the tiers that they have, or could not keep; None:
    nothing.
    """
    try:
        refuse_unless_possible(topology, Job(name, shape))
        msgspec.json.decode(msgspec.json.encode(shape), type=Shape)
    except EventRefused as error:
        said = f"{error.message}; {error.hint}"
    except msgspec.ValidationError as error:
        said = f"what it requests is beyond what is kept of a job: {error}"
    else:
        return None
    return Unplaceable("NotSupported", said)


def unkept(pod: KubePod) -> Unplaceable:
    """What of a pod's constraints is not kept here, by name."""
    request = pod.request
    if request.unread:
        fix = "correct it where its pods are made, and make them anew"
        return Unplaceable(
            "MalformedRequest", f"what it requests makes no sense: {request.unread}; {fix}"
        )
    named = () if request.gpu is not None else (name for name, _ in request.extras)
    also = [_several(request.gpu.resource, request.also)] if request.gpu and request.also else []
    return _refused((*request.unkept, *also, *named, *filter(None, (request.uncounted,))))


def _one_by_one(told: str) -> Unplaceable:
    """Pods that are made when the first of their gang is bound, which is bound with all."""
    instead = f"{ties.REQUIRED}: {told.partition(': ')[2]}"
    return Unplaceable(
        "NotSupported",
        f"by its annotation `{told}` the other pods are made when the first is bound, and a gang is"
        " bound whole: leave that annotation out, and tie its pods to one place by the annotation"
        f" `{instead}` (others may be there, too)",
    )


def _several(first: str, also: Sequence[str]) -> str:
    names = " and ".join(f"`{name}`" for name in (first, *also))
    return f"{len(also) + 1} resources of accelerators in one pod ({names})"


def _refused(what: Iterable[str]) -> Unplaceable:
    return Unplaceable("NotSupported", f"{', '.join(what)}: not placed by Tidemill's scheduler yet")


# Nodes ----------------------------------------------------------------------------------------


def is_schedulable(node: KubeNode) -> bool:
    """Whether a node has accelerators."""
    return node.devices > 0


def is_open_to(node: KubeNode, request: PodRequest) -> bool:
    """Whether a pod may be on a node, or a part of one, by its labels and taints."""
    return request.selects(node.labels) and all(
        request.tolerates(one.key, one.value, one.effect) for one in node.taints if one.keeps_out
    )


def seen_node(node: KubeNode, kept: Iterable[str]) -> SeenNode:
    """A node as the books have it, with the labels that somebody asks for."""
    labels = {key: node.labels[key] for key in kept if key in node.labels}
    return SeenNode(
        name=node.name, gpus=node.devices, gpu_type=node.gpu_type, cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib, labels=tuple(sorted(labels.items())),
        taints=tuple(sorted({
            taint_pair(taint.key, taint.value, taint.effect) for taint in node.taints
            if taint.keeps_out
        })),
        terms=node.terms, box=node.box,
    )  # fmt: skip


def state_of(node: KubeNode) -> NodeState:
    """Whether a node takes new work, and if not, how."""
    if not node.is_ready or not node.advertised(node.allocatable):
        return NodeState.UNHEALTHY
    if any(taint.key in LEAVING for taint in node.taints):
        return NodeState.DRAINING
    is_tainted = any(
        taint.key.startswith(OF_CONDITIONS) and taint.effect != "PreferNoSchedule"
        for taint in node.taints
    )
    return NodeState.CORDONED if node.is_unschedulable or is_tainted else NodeState.READY
