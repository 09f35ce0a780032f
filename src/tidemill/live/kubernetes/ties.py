"""Ties: what keeps the pods of a gang together in one place, in the words of whoever says so.

Annotations of pods (ours, Kueue's) and pod groups: a label of nodes, or the name of a tier, whose
domain has to hold all of them, or should.

- Kubernetes itself: `schedulingConstraints.topology`, each a `key`, always required.
- KAI: `topologyConstraint`, a `requiredTopologyLevel` and a `preferredTopologyLevel`.
- Volcano: `networkTopology`, `hard` or `soft`; tiers of its HyperNodes, by name or by number. Those
  objects are not read: a tier is found by its name, `hypernode-tier-2` for the number 2.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from tidemill.live.kubernetes import fields
from tidemill.live.kubernetes.fields import Object
from tidemill.live.kubernetes.pod_rules import HOSTNAME
from tidemill.model.topology import Tier, Topology

HYPERNODE = "hypernode-tier-"
"""Before the number of a tier of Volcano's: the name of ours that means it."""
REQUIRED = "tidemill/required-topology"
_REQUIRED = (REQUIRED, "kueue.x-k8s.io/podset-required-topology")
_PREFERRED = ("tidemill/preferred-topology", "kueue.x-k8s.io/podset-preferred-topology")
ANNOTATIONS = (*_REQUIRED, *_PREFERRED)
"""Annotations that tie a gang to one domain of a tier, by the tier's name or label."""


EXCLUSIVE = (
    "alpha.jobset.sigs.k8s.io/exclusive-topology", "leaderworkerset.sigs.k8s.io/exclusive-topology",
)  # fmt: skip
"""Annotations by which each Job of a JobSet, or each group, has a domain for itself: their
controllers make its other pods when its first is bound, and select the domain where that is."""
SUBGROUPS = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
"""The same for each part of a group: its pods are all made, and have affinities that say so."""
_BY_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
"""Where somebody has labelled nodes for each Job: all pods are made at once, and select those."""


class Tie(Struct, frozen=True):
    """All pods in one domain: of nodes with the same value of a label, or of a tier of this name.

    One that is not required is kept where it can be.
    """

    told: str
    is_required: bool = True


def of_pod(annotations: Mapping[str, str]) -> Iterator[Tie]:
    """What the annotations of a pod say."""
    for keys, is_required in ((_REQUIRED, True), (_PREFERRED, False)):
        told = next((annotations[key] for key in keys if key in annotations), "")
        if told:
            yield Tie(told, is_required)


def exclusive(annotations: Mapping[str, str]) -> str:
    """A domain that a Job or group is to have for itself, as it is asked for; "": none."""
    if _BY_SELECTOR in annotations:
        return ""
    found = (f"{key}: {annotations[key]}" for key in EXCLUSIVE if annotations.get(key))
    return next(found, "")


def of_workload(request: Object) -> Iterator[Tie]:
    """What the topology request of a pod set of Kueue says."""
    for key, is_required in (("required", True), ("preferred", False)):
        if told := fields.text(request, key):
            yield Tie(told, is_required)


def of_group(spec: Object) -> Iterator[Tie]:
    """What the spec of a pod group says, of whichever dialect."""
    for one in fields.each(spec, "schedulingConstraints", "topology"):
        yield Tie(fields.text(one, "key"))
    level = fields.inner(spec, "topologyConstraint")
    for key, is_required in (("requiredTopologyLevel", True), ("preferredTopologyLevel", False)):
        if told := fields.text(level, key):
            yield Tie(told, is_required)
    network = fields.inner(spec, "networkTopology")
    if network:
        number = fields.number(network, "highestTierAllowed")
        named = fields.text(network, "highestTierName")
        told = named or (f"{HYPERNODE}{number}" if number is not None else "")
        if told:  # without either, any HyperNode will do
            yield Tie(told, fields.text(network, "mode") != "soft")


def unkept(spec: Object) -> Iterator[str]:
    """What else a pod group requires of the place of its pods, which nobody here keeps; by name."""
    for key in sorted(fields.inner(spec, "schedulingConstraints")):
        if key != "topology":
            yield f"schedulingConstraints.{key} of its pod group"
    if fields.each(spec, "resourceClaims"):
        yield "resourceClaims of its pod group"
    for key in ("subGroups", "subGroupPolicy"):
        inside = fields.each(spec, key)
        if any(tie.is_required for one in inside for tie in of_group(one)):
            yield f"the topology of {key} of its pod group"


def tier(topology: Topology, told: str) -> Tier | None:
    """The tier that is meant, by its name or by the label of its domains; None: there is none."""
    for one in topology.tiers:
        is_node = told == HOSTNAME and not one.label and not one.devices
        if is_node or told in (one.name, one.label):
            return one
    return None


def required(ties: Iterable[Tie]) -> tuple[str, ...]:
    """The labels, or names of tiers, that ties require."""
    return tuple(dict.fromkeys(tie.told for tie in ties if tie.is_required))
