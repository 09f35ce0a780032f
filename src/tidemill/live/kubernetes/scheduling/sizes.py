"""Elastic gangs of a cluster: how small they may be, and whose scale says how large they are.

A gang is elastic if somebody says with how many of its pods it works, and if its owner has a scale:
a ReplicaSet, a Deployment, a StatefulSet, a training job, or a Job by its `parallelism`. Above the
owner nobody may stand who would set it back. It is never larger than its owner was asked for, or
than its pods declare: a group that needs more pods than one owner makes has others to come, and one
size; and so has a gang whose pods must sit together, since what grows may have to go elsewhere.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.kubernetes import groups, owners, ties
from tidemill.live.kubernetes.jobs import JOB_INDEX, alone
from tidemill.live.kubernetes.owners import DEEPEST, OwnerObject
from tidemill.live.kubernetes.pod_rules import RuleKind
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import declared
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.scheduling.view import ClusterView, PodUnit
from tidemill.model.measures import count_text
from tidemill.model.rows import MAX_COUNT, Shape

LEAST = "tidemill/gang-least"
"""The annotation, of pods or of their owner, with how many pods a gang works at least."""
AT_WILL = frozenset({"ReplicaSet", "Deployment"})
"""Owners that choose who leaves when they shrink, those first that are on no node; the others let
the pods with the highest numbers go."""
MOST_DIGITS = 6


class OwnerScale(NamedTuple):
    """An owner that can be asked for more or fewer pods of a gang."""

    owner: OwnerObject
    now: int
    """How many pods of the gang it wants."""
    fixed: int
    """Those of them that its scale does not count."""
    least: int
    full: int
    """How many pods were asked for: the most that it ever has."""

    @property
    def is_by_number(self) -> bool:
        """Whether the pods with the highest numbers leave first."""
        return self.owner.kind not in AT_WILL

    @property
    def is_below(self) -> bool:
        """Whether the owner wants fewer pods than the gang works with: that is its own wish."""
        return self.now < self.least

    @property
    def why_below(self) -> Unplaceable:
        """Why nothing of such a gang starts."""
        kind, name = self.owner.kind, f"{self.owner.namespace}/{self.owner.name}"
        return Unplaceable(
            "WaitingForGang",
            f"its owner, the {kind} `{name}`, wants {count_text(self.now, 'pod')}, and the"
            f" gang works with {self.least} at least: it starts when that many are wanted",
        )


class KnownSizes(NamedTuple):
    """What a gang and its owner are known to have been, before anybody made them smaller."""

    placed: int = 0
    """The full size of the gang as it was placed first; 0: it was not yet."""
    owners: Mapping[str, int] = {}
    """Full sizes by uid, of owners that were asked for another number."""


UNKNOWN = KnownSizes()


def of_unit(
    view: ClusterView, unit: PodUnit, known: KnownSizes = UNKNOWN
) -> OwnerScale | Unplaceable | None:  # fmt: skip
    """The scale of an elastic gang; None: it has one size."""
    return None if tied(unit) else _untied(view, unit, known)


def _untied(view: ClusterView, unit: PodUnit, known: KnownSizes) -> OwnerScale | Unplaceable | None:
    """The same, wherever its pods have to be."""
    job, pods = unit.job, [pod for pod in unit.pods if not pod.is_over]
    if any(unit.key == alone(pod) for pod in pods):
        return None  # a job by itself, however many its owner makes
    if len(job.roles) != 1 or not pods or any(p.phase == "Succeeded" for p in unit.pods):
        return None  # of one that ends already, nobody makes another size
    owner = scaled(view, job.owner, pods)
    if owner is None or owner.scale < 0 or owner.completions or _is_fixed(owner, pods):
        return None
    least = _least(pods, owner)
    if isinstance(least, Unplaceable):
        return least
    role = job.roles[0]
    now = role.count if job.owner is owner and owner.templates else owner.scale
    fixed = now - owner.scale
    own = max(now, known.placed, known.owners.get(owner.uid, 0))
    if (full := _full(unit, owner, own)) is None:
        return None
    least = least or job.least
    return OwnerScale(owner, now, fixed, least, min(full, MAX_COUNT)) if 0 < least < full else None


def _full(unit: PodUnit, owner: OwnerObject, own: int) -> int | None:
    """How many pods a gang has at most; None: it needs more than its owner was asked for.

    ``own``: the most that this was asked for, by its people. Its pods may declare more, in
    `tidemill/gang-size`; but those of a Job, whose `completions` say it, are of a gang of several.
    """
    key, count = unit.key, unit.job.roles[0].count
    if key.kind != "PodGroup":
        return max(count, own)
    if key.group == groups.OWN and not owners.is_job(owner.kind, owner.group):
        return max(declared.size(unit.pods) or count, own)
    needed = sum(one.least for one in unit.job.groups) or declared.size(unit.pods)
    return own if needed <= own else None


def tied(unit: PodUnit) -> str:
    """What the pods of a gang have to be in one of, by a tier or a label; "": nothing."""
    told = ties.required(unit.job.ties)
    rules = (
        rule.key for pod in unit.pods for rule in pod.request.near
        if rule.kind is RuleKind.TOGETHER and rule.names(pod.namespace, pod)
    )  # fmt: skip
    return next(iter((*told, *rules)), "")


def unheeded(view: ClusterView, unit: PodUnit) -> tuple[str, ...]:
    """That a gang could have several sizes but for the place in which all of it has to be."""
    place = tied(unit) if view.heeds_scales else ""
    if not place or not isinstance(_untied(view, unit, UNKNOWN), OwnerScale):
        return ()
    said = (
        f"it works with fewer pods than all ({LEAST}, or its owner's own words), and they have to"
        f" be in one `{place}`: such a gang keeps its full size. To let it have several, only"
        " prefer its topology"
    )
    return (said,)


def _is_fixed(owner: OwnerObject, pods: Iterable[KubePod]) -> bool:
    """Whether it is a Job whose `completions` nobody can change: one that is not indexed."""
    is_job = owners.is_job(owner.kind, owner.group)
    return is_job and any(JOB_INDEX not in (*pod.labels, *pod.annotations) for pod in pods)


def scaled(
    view: ClusterView, owner: OwnerObject | None, pods: Iterable[KubePod]
) -> OwnerObject | None:
    """The topmost owner of all of these pods; None: they have none, or not one alone."""
    if owner is not None:
        return _top(view, owner)
    tops = [_top(view, view.cluster.owner(pod.owner, pod.namespace)) for pod in pods]
    first = tops[0]
    is_one = first is not None and all(top is first for top in tops)
    return first if is_one else None


def _top(view: ClusterView, owner: OwnerObject | None) -> OwnerObject | None:
    for _ in range(DEEPEST):
        if owner is None or owner.owner is None:
            return owner
        owner = view.cluster.owner(owner.owner, owner.namespace)
    return None


def _least(pods: Iterable[KubePod], owner: OwnerObject) -> int | Unplaceable:
    """What the annotation says; 0: there is none."""
    for notes in (*(pod.annotations for pod in pods), owner.annotations):
        told = notes.get(LEAST)
        if told is None:
            continue
        if found := number(told):
            return found
        return Unplaceable(
            "MalformedGang", f"its annotation {LEAST} is `{told[:40]}`, no number above 0"
        )
    return 0


def number(told: str) -> int:
    """What the annotation says; 0: nothing that can be heeded."""
    return int(told) if told.isdecimal() and len(told) <= MOST_DIGITS else 0


def elastic(shape: Shape, scale: OwnerScale) -> Shape:
    """A shape of which fewer replicas do."""
    role = replace(shape.roles[0], count=scale.full, least=scale.least)
    return replace(shape, roles=(role,))
