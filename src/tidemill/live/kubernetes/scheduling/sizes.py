"""Elastic gangs of a cluster: how small they may be, and whose scale says how large they are.

A gang is elastic if somebody says with how many of its pods it works, and if its owner has a scale:
a ReplicaSet, a Deployment, a StatefulSet, a training job, or a Job by its `parallelism`. Above the
owner nobody may stand who would set it back.
"""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.live.kubernetes import owners
from tidemill.live.kubernetes.jobs import JOB_INDEX, alone
from tidemill.live.kubernetes.owners import DEEPEST, OwnerObject
from tidemill.live.kubernetes.pods import KubePod
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
    """How many pods were asked for, as far as the cluster shows it now."""

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


def of_unit(view: ClusterView, unit: PodUnit) -> OwnerScale | Unplaceable | None:
    """The scale of an elastic gang; None: it has one size."""
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
    full = max(role.count, now)
    least = least or job.least
    if not 0 < least < full:
        return None
    return OwnerScale(owner, now, now - owner.scale, least, min(full, MAX_COUNT))


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


def elastic(shape: Shape, scale: OwnerScale, known: Shape | None) -> Shape:
    """A shape of which fewer replicas do; ``known``: as it was when it was first placed."""
    full = scale.full
    if known is not None and (r := known.elastic_role) is not None:
        full = max(full, known.roles[r].count)
    return replace(shape, roles=(replace(shape.roles[0], count=full, least=scale.least),))
