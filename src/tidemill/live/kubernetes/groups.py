"""Pod groups: which pods start together, in the words of four schedulers.

Each has a kind `PodGroup` in an API group of its own, and a pod names its group in its own way:

- Kubernetes itself (`scheduling.k8s.io`): `spec.schedulingGroup`; or `spec.workloadRef`, for the
  groups inside a `Workload`.
- scheduler-plugins (`scheduling.x-k8s.io`): the label `scheduling.x-k8s.io/pod-group`.
- Volcano (`scheduling.volcano.sh`): the annotation `scheduling.k8s.io/group-name`.
- KAI (`scheduling.run.ai`): the annotation `pod-group-name`.

Kueue groups plain pods too, by a label; Tidemill's own scheduler, by an annotation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tidemill.live.kubernetes import fields, ties
from tidemill.live.kubernetes.fields import Object
from tidemill.live.kubernetes.pods import KubePod, Owner, owner_of
from tidemill.live.kubernetes.ties import Tie

CORE, PLUGINS, VOLCANO, KAI, KUEUE, OWN = (
    "scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh", "scheduling.run.ai",
    "kueue.x-k8s.io", "tidemill",
)  # fmt: skip
DIALECTS = (CORE, PLUGINS, VOLCANO, KAI)
KINDS = dict.fromkeys(DIALECTS, ("PodGroup",)) | {CORE: ("PodGroup", "Workload")}
"""By dialect: the kinds of objects that declare groups."""
_LABELS = {
    "scheduling.x-k8s.io/pod-group": PLUGINS,
    "pod-group.scheduling.sigs.k8s.io": PLUGINS,
    "pod-group.scheduling.sigs.k8s.io/name": PLUGINS,
    "kueue.x-k8s.io/pod-group-name": KUEUE,
}
GANG = "tidemill/gang"
_ANNOTATIONS = {
    "scheduling.k8s.io/group-name": VOLCANO,
    "scheduling.volcano.sh/group-name": VOLCANO,
    "pod-group-name": KAI,
    GANG: OWN,
}
TOTALS = ("kueue.x-k8s.io/pod-group-total-count", "tidemill/gang-size")
"""Annotations that say how many pods a group has, where no object does."""

GroupKey = tuple[str, str, str]
"""Dialect, namespace and name."""


class PodGroup(Struct, frozen=True):
    """A group of pods, and how many of them start together at least."""

    dialect: str
    namespace: str
    name: str
    least: int
    """0: each pod by itself."""
    queue: str
    created_ms: int | None
    reason: str
    message: str
    owner: Owner | None
    deleted_ms: int | None = None
    ties: tuple[Tie, ...] = ()
    """In which places all of its pods have to be, or should."""
    unkept: tuple[str, ...] = ()
    """What it requires beside that, which nobody here keeps."""
    priority: int | None = None
    """Instead of its pods'; None: it does not say."""
    priority_class: str = ""

    def deleted(self, at_ms: int) -> "PodGroup":
        """The group after it was deleted: what its pods needed is still so."""
        return replace(self, deleted_ms=at_ms)

    @property
    def key(self) -> GroupKey:
        """By which pods name it."""
        return self.dialect, self.namespace, self.name

    @property
    def shown_by(self) -> str:
        """The command that shows it; of a group inside a Workload, that."""
        workload, _, inside = self.name.partition("/")
        kind = "workloads" if inside else "podgroups"
        return f"kubectl describe {kind}.{self.dialect} -n {self.namespace} {workload}"


def of_pod(pod: KubePod) -> GroupKey | None:
    """The group that a pod says it belongs to."""
    if pod.scheduling_group:
        return CORE, pod.namespace, pod.scheduling_group
    workload, group, replica = pod.workload
    if workload and group:
        return CORE, pod.namespace, core_name(workload, group, replica)
    for told, keys in ((pod.labels, _LABELS), (pod.annotations, _ANNOTATIONS)):
        if told.keys().isdisjoint(keys):  # as nearly always
            continue
        for key, dialect in keys.items():
            if told.get(key):
                return dialect, pod.namespace, told[key]
    return None


def find(known: Mapping[GroupKey, PodGroup], told: GroupKey) -> PodGroup | None:
    """The pod group of this name; one inside a Workload, whichever replica of it is meant."""
    found = known.get(told)
    if found is None and told[0] == CORE and told[2].count("/") > 1:
        workload, group, _ = told[2].split("/", 2)
        found = known.get((told[0], told[1], core_name(workload, group)))
    return found


def unknown(known: Mapping[GroupKey, PodGroup], pods: Iterable[KubePod]) -> list[GroupKey]:
    """The groups that pods name, that objects declare, and of which nobody shows that object."""
    named = {found for pod in pods if (found := of_pod(pod)) is not None
             and pod.annotations.keys().isdisjoint(TOTALS)}  # fmt: skip
    return sorted(one for one in named if one[0] in DIALECTS and find(known, one) is None)


def kubectl(told: GroupKey) -> str:
    """The command that lists what declares groups of its dialect."""
    is_inside = told[0] == CORE and "/" in told[2]
    return f"kubectl get {'workloads' if is_inside else 'podgroups'}.{told[0]} -A -o json"


def core_name(workload: str, group: str, replica: str = "") -> str:
    """What a group inside a Workload is called here."""
    return "/".join(filter(None, (workload, group, replica)))


def unkept(some: Sequence[PodGroup]) -> tuple[str, ...]:
    """What the pod groups of one job require that nobody here keeps, by name."""
    found = {one: None for group in some for one in group.unkept}
    tied = [group for group in some if ties.required(group.ties)]
    if tied and len(some) > 1:
        found["the topology of several pod groups in one job"] = None
    if any(not group.least for group in tied):
        found["the topology of a pod group that is no gang"] = None
    return tuple(found)


def priority(some: Iterable[PodGroup], classes: Mapping[str, int]) -> int | None:
    """The first that a group says, by number or by class; None: none says any."""
    told = (one.priority if one.priority is not None else classes.get(one.priority_class)
            for one in some)  # fmt: skip
    return next((one for one in told if one is not None), None)


def read(one: Object) -> PodGroup:
    """A PodGroup of any dialect."""
    dialect = fields.text(one, "apiVersion").rpartition("/")[0]
    gang = fields.number(one, "spec", "schedulingPolicy", "gang", "minCount")
    least = gang if dialect == CORE else fields.number(one, "spec", "minMember")
    condition = _unschedulable(one)
    spec = fields.inner(one, "spec")
    return PodGroup(
        dialect, fields.text(one, "metadata", "namespace") or "default",
        fields.text(one, "metadata", "name"), max(least or 0, 0),
        fields.text(one, "spec", "queue"), fields.moment_ms(one, "metadata", "creationTimestamp"),
        fields.text(condition, "reason"), fields.text(condition, "message"), owner_of(one),
        ties=tuple(ties.of_group(spec)), unkept=tuple(ties.unkept(spec)),
        priority=fields.priority(spec, "priority"),
        priority_class=fields.text(spec, "priorityClassName"),
    )  # fmt: skip


def _unschedulable(one: Object) -> Object:
    """The condition that says why it does not start."""
    for way in (("status", "conditions"), ("status", "schedulingConditions")):
        for found in fields.each(one, *way):
            kind, status = fields.text(found, "type"), fields.text(found, "status")
            bad = kind.startswith("Unschedulable") and status == "True"
            if bad or (kind == "PodGroupScheduled" and status == "False"):
                return found
    return {}


def read_workload(one: Object) -> list[PodGroup]:
    """The pod groups inside a Workload of Kubernetes itself."""
    return list(_inside(one))


def _inside(one: Object) -> Iterator[PodGroup]:
    namespace = fields.text(one, "metadata", "namespace") or "default"
    created_ms = fields.moment_ms(one, "metadata", "creationTimestamp")
    for key in ("podGroups", "podGroupTemplates"):
        for group in fields.each(one, "spec", key):
            policy = fields.inner(group, "policy") or fields.inner(group, "schedulingPolicy")
            least = fields.number(policy, "gang", "minCount") or 0
            name = core_name(fields.text(one, "metadata", "name"), fields.text(group, "name"))
            yield PodGroup(
                CORE, namespace, name, max(least, 0), "", created_ms, "", "", owner_of(one),
                ties=tuple(ties.of_group(group)), unkept=tuple(ties.unkept(group)),
                priority=fields.priority(group, "priority"),
                priority_class=fields.text(group, "priorityClassName"),
            )  # fmt: skip
