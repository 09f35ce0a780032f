"""Volumes of pods: where they can be reached is where a pod may be.

A volume that exists says on which nodes it can be used (`nodeAffinity` of a PersistentVolume, or
its zone as a label). A claim of a volume that is not bound to one yet is waited for.
"""

from collections.abc import Sequence
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from tidemill.live.kubernetes import fields, pods
from tidemill.live.kubernetes.fields import Object
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.model.node_rules import MOST_CONDITIONS, LabelCondition, LabelTest
from tidemill.model.rows import Role, Shape

Terms = tuple[tuple[LabelCondition, ...], ...]
Key = tuple[str, str]
_ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class VolumeClaim(Struct, frozen=True):
    """A PersistentVolumeClaim, and the volume that it is bound to; "": none yet."""

    namespace: str
    name: str
    volume: str


class Volume(Struct, frozen=True):
    """A PersistentVolume, and what the labels of nodes must be like that can use it."""

    name: str
    terms: Terms
    """Any of these, all conditions of it; none: all nodes can."""
    is_unkept: bool
    """Whether it is tied to nodes by something else than their labels."""


def read_claim(one: Object) -> VolumeClaim:
    """A PersistentVolumeClaim."""
    is_bound = fields.text(one, "status", "phase") == "Bound"
    return VolumeClaim(
        fields.text(one, "metadata", "namespace") or "default",
        fields.text(one, "metadata", "name"),
        fields.text(one, "spec", "volumeName") if is_bound else "",
    )  # fmt: skip


def read_volume(one: Object) -> Volume:
    """A PersistentVolume."""
    told = list(fields.each(one, "spec", "nodeAffinity", "required", "nodeSelectorTerms"))
    labels = fields.words(one, "metadata", "labels")
    zoned = tuple(
        LabelCondition(key, LabelTest.IN, tuple(labels[key].split("__")))
        for key in _ZONES
        if labels.get(key)
    )
    terms = tuple((*pods.conditions_of(term), *zoned) for term in told)
    return Volume(
        fields.text(one, "metadata", "name"), terms or ((zoned,) if zoned else ()),
        any(any(fields.each(term, "matchFields")) for term in told),
    )  # fmt: skip


class VolumeBook:
    """The volumes of a cluster, as they are now."""

    def __init__(self) -> None:
        self._claims: dict[Key, VolumeClaim] = {}
        self._volumes: dict[str, Volume] = {}
        self.keys: set[str] = set()
        """The labels of nodes that volumes go by, or went."""

    def take(self, row: VolumeClaim | Volume, *, is_gone: bool) -> None:
        """A volume, or a claim of one, came, changed or is gone."""
        if isinstance(row, VolumeClaim):
            self._claims.pop((row.namespace, row.name), None)
            if not is_gone:
                self._claims[row.namespace, row.name] = row
            return
        self._volumes.pop(row.name, None)
        if not is_gone:
            self._volumes[row.name] = row
            self.keys |= {one.key for term in row.terms for one in term}

    def found(self, pod: KubePod) -> tuple[list[Terms], str]:
        """What each volume of a pod asks of its node, and why that is not known; "": it is."""
        made = list[Terms]()
        for told in pod.request.volumes:
            name = pod.name + told if told.startswith("-") else told
            claim = self._claims.get((pod.namespace, name))
            if claim is None or not claim.volume:
                return made, f"persistentVolumeClaim `{name}` is not bound to a volume"
            volume = self._volumes.get(claim.volume)
            if volume is None or volume.is_unkept:
                return made, f"nobody says which nodes can use persistentVolume `{claim.volume}`"
            made += [volume.terms] if volume.terms else []
        return made, ""


def kept(book: VolumeBook, some: Sequence[KubePod], shape: Shape) -> Shape | Unplaceable:
    """A shape on nodes that can use the volumes of its pods."""
    asked = list[list[Terms]]()
    for pod in some:
        terms, problem = book.found(pod)
        if problem:
            return Unplaceable("WaitingForVolume", problem)
        asked.append(terms)
    if any(terms != asked[0] for terms in asked):
        return Unplaceable(
            "NotSupported", "volumes of one gang in different places: not placed yet"
        )
    roles = [_on(role, asked[0] if asked else []) for role in shape.roles]
    found = tuple(role for role in roles if role is not None)
    if len(found) < len(roles):
        return Unplaceable("NotSupported", "volumes that are tied to nodes in too many ways")
    return replace(shape, roles=found)


def _on(role: Role, asked: Sequence[Terms]) -> Role | None:
    """A role whose nodes are right for all of these; None: that cannot be said."""
    if not asked:
        return role
    choices = tuple(
        tuple(one for term in some for one in term)
        for some in product(role.affinity or ((),), *asked)
    )
    too_many = len(choices) > MOST_CONDITIONS or max(map(len, choices)) > MOST_CONDITIONS
    return None if too_many else replace(role, affinity=choices)
