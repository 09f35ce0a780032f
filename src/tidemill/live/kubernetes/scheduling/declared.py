"""Whether a gang is declared so that it can be started whole: its size is known, and its pods come.

A pod that names a gang of which nobody says how large it is waits, and says so: bound alone it
would hold devices and do nothing.
"""

from collections.abc import Callable, Sequence

from tidemill.live.kubernetes import groups, owners
from tidemill.live.kubernetes.cluster import Cluster
from tidemill.live.kubernetes.jobs import KubeJob
from tidemill.live.kubernetes.owners import OwnerObject, PodTemplate
from tidemill.live.kubernetes.pods import KubePod, Owner
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.watching.mirror import LOOK_SOON_S
from tidemill.model.measures import count_text

SIZES = {groups.OWN: "tidemill/gang-size", groups.KUEUE: "kueue.x-k8s.io/pod-group-total-count"}
"""Gangs that are no objects: the annotation that says how many pods they have."""
MOST = 999_999
UNREAD = (
    "an object that is not watched: the cluster has no such objects, or we may not read them; a"
    f" resource definition that was just added is found within {LOOK_SOON_S:.0f} seconds"
)


def flaw(
    cluster: Cluster, pods: Sequence[KubePod], is_read: Callable[[str, str], bool]
) -> Unplaceable | None:  # fmt: skip
    """What is wrong with, or missing in, the declaration of the gang that pods name.

    ``is_read``: whether objects of a group and kind are.
    """
    for pod in pods:
        told = groups.of_pod(pod)
        if told is None:
            continue
        if told[0] in SIZES:
            found = _size_flaw(pod, told[2], SIZES[told[0]])
        elif groups.find(cluster.groups, told) is None:
            is_known = [is_read(told[0], kind) for kind in groups.KINDS[told[0]]]
            lack = "which does not exist yet" if any(is_known) else UNREAD
            named = f"the pod group `{told[1]}/{told[2]}` ({told[0]})"
            found = Unplaceable("UnknownGang", f"it names {named}, {lack}: it waits for it")
        else:
            found = None
        if found is not None:
            return found
    return None


def nameless(job: KubeJob, pods: Sequence[KubePod]) -> Unplaceable | None:
    """That pods name a gang by an empty word, where that name would say which pods are one."""
    is_sure = job.owner is not None and not owners.is_job(job.owner.kind, job.owner.group)
    empty = not is_sure and any(pod.annotations.get(groups.GANG) == "" for pod in pods)
    if not empty or any(groups.of_pod(pod) is not None for pod in pods):
        return None
    return Unplaceable(
        "MalformedGang",
        f"the annotation {groups.GANG} is empty: name the gang, or leave the annotation out",
    )


def is_told_by_owner(job: KubeJob) -> bool:
    """Whether an owner says which pods are a gang, whatever they name; a Job may be part of one."""
    owner = job.owner
    if owner is None or not owner.templates:
        return False
    return not owners.is_job(owner.kind, owner.group)


def above(cluster: Cluster, job: KubeJob, pods: Sequence[KubePod]) -> list[OwnerObject]:
    """What says something of a job as a whole: its owner, or what made its pods."""
    if job.owner is not None:
        return [job.owner]
    named = {(pod.namespace, pod.owner): None for pod in pods if pod.owner is not None}
    found = (cluster.owner(owner, namespace) for namespace, owner in named)
    return [one for one in found if one is not None]


def in_turn(found: Unplaceable, above: Sequence[OwnerObject]) -> Unplaceable:
    """Why pods are missing: a set that makes one after the other waits for the first to run."""
    some = [owner for owner in above if owner.is_in_turn]
    if not some or found.reason != "WaitingForGang":
        return found
    one = some[0]
    return found._replace(
        words=f"{found.words}. The {one.kind} `{one.namespace}/{one.name}` makes a pod when the one"
        " before runs, so the others never come: make it anew with podManagementPolicy: Parallel"
    )


def in_groups(pods: Sequence[KubePod]) -> list[KubePod]:
    """Those that name an object as their group: it may tie them to a place."""
    told = ((pod, groups.of_pod(pod)) for pod in pods)
    return [pod for pod, group in told if group is not None and group[0] not in SIZES]


def unseen(namespace: str, owner: Owner) -> Unplaceable:
    """Pods came before the object that made them: nobody knows yet how many are one gang."""
    return Unplaceable(
        "WaitingForOwner",
        f"its owner, the {owner.kind} `{namespace}/{owner.name}`, was not seen yet: how many pods"
        " start together is not known without it",
    )


def above_others(team: str, below: Sequence[str]) -> Unplaceable:
    """Jobs belong to the lowest teams."""
    some = ", ".join(f"`{name}`" for name in below[:3])
    more = f" and {len(below) - 3:,} more" if len(below) > 3 else ""
    return Unplaceable(
        "TeamAboveOthers",
        f"its team `{team}` has teams below it ({some}{more}), and jobs belong to the lowest"
        " ones: give it to one of those, or take it from above them in the policy",
    )


def templates(cluster: Cluster, job: KubeJob) -> tuple[PodTemplate, ...]:
    """The pods that the owner of a job wants, or that what it owns does; none: nobody says."""
    key = job.key
    mine = job.owner.templates if job.owner is not None else ()
    return mine or cluster.parts.get((key.namespace, key.kind, key.name), ())


def unsized(job: KubeJob, wanted: int, there: int) -> Unplaceable:
    """Pods have GPUs of which the templates of their owner show none."""
    return Unplaceable(
        "WaitingForGang",
        f"its {job.key.kind} `{job.key.shown}` wants {count_text(wanted, 'pod')}, and"
        " its templates request no"
        f" GPUs: how many of them do is known when all are there, and {there} are",
    )


def size(pods: Sequence[KubePod]) -> int:
    """How many pods all that name a gang without an object declare that it has; 0: they differ."""
    told = set[int]()
    for pod in pods:
        group = groups.of_pod(pod)
        if group is None or group[0] not in SIZES or _size_flaw(pod, group[2], SIZES[group[0]]):
            return 0
        told.add(int(pod.annotations[SIZES[group[0]]]))
    return told.pop() if len(told) == 1 else 0


def _size_flaw(pod: KubePod, gang: str, annotation: str) -> Unplaceable | None:
    told = pod.annotations.get(annotation)
    if told is not None and told.isdecimal() and len(told) < 20 and 0 < int(told) <= MOST:
        return None
    found = "is missing" if told is None else f"is `{told[:40]}`, no number from 1 to {MOST:,}"
    return Unplaceable(
        "MalformedGang", f"it names the gang `{gang}`, and the annotation {annotation} {found}"
    )


def incomplete(
    pending: Sequence[KubePod], wanted: int, there: int, of_others: Sequence[str] = ()
) -> Unplaceable:
    """A gang of which some pods are missing, or held back by somebody else.

    ``there``: how many of its pods are; ``of_others``: the schedulers that further ones name.
    """
    if gates := sorted({gate for pod in pending for gate in pod.gates}):
        held = sum(bool(pod.gates) for pod in pending)
        whose = (
            f"{held} of the {count_text(wanted, 'pod')} of its gang are" if wanted > 1 else "it is"
        )
        return Unplaceable(
            "SchedulingGated", f"{whose} held by scheduling gates: {', '.join(gates)}"
        )
    if lacks := sorted({lack for pod in pending for lack in pod.lacks}):
        more = f"; {len(lacks) - 1:,} more" if len(lacks) > 1 else ""
        return Unplaceable("WaitingForClaim", f"it waits for its devices: {lacks[0]}{more}")
    if there > wanted:
        return Unplaceable(
            "WaitingForGang",
            f"its gang has {count_text(there, 'pod')} and wants {wanted}: it starts"
            " when the others have"
            " left",
        )
    names = ", ".join(f"`{name}`" for name in sorted(set(of_others)))
    more = f"; {len(of_others):,} more by another scheduler ({names})" if of_others else ""
    return Unplaceable(
        "WaitingForGang",
        f"{there} of the {count_text(wanted, 'pod')} of its gang are there: it starts"
        f" with all{more}",
    )
