"""Rules of a pod about other pods: near some, away from some, spread over places.

Those that must hold (`requiredDuringScheduling…`, `DoNotSchedule`) are read; those that are only
preferred are left. What of them is not understood is named.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from tidemill.live.kubernetes import fields
from tidemill.live.kubernetes.fields import Object
from tidemill.model.node_rules import LabelCondition, LabelTest
from tidemill.model.rows import KEEPS_AWAY

if TYPE_CHECKING:
    from tidemill.live.kubernetes.pods import KubePod

HOSTNAME = "kubernetes.io/hostname"
_MUST = "requiredDuringSchedulingIgnoredDuringExecution"
_TESTS = {
    "In": LabelTest.IN, "NotIn": LabelTest.NOT_IN, "Exists": LabelTest.EXISTS,
    "DoesNotExist": LabelTest.ABSENT,
}  # fmt: skip
_WITH = " with "
_UNKEPT_SPREAD = ("minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy")


class RuleKind(StrEnum):
    """What a rule says of the pods that it names."""

    TOGETHER = "podAffinity"
    APART = KEEPS_AWAY
    SPREAD = "topologySpreadConstraints"
    PORT = "hostPort"
    """Two pods with one port of the node: the kubelet takes the first of them alone."""


class PodRule(Struct, frozen=True):
    """Where a pod may be by where others are: those with such labels, in places with such a key."""

    kind: RuleKind
    key: str
    """The label of nodes whose values are the places."""
    query: tuple[LabelCondition, ...]
    """What the labels of the other pods must be like; none: nobody is meant."""
    namespaces: tuple[str, ...] = ()
    """Of the other pods; none: its own."""
    is_anywhere: bool = False
    """Whether they may be of any namespace."""
    max_skew: int = 0
    port: str = ""
    """Number and protocol."""

    def names(self, own: str, pod: "KubePod") -> bool:
        """Whether it names a pod; ``own``: the namespace of the pod whose rule it is."""
        if self.kind is RuleKind.PORT:
            return any(one.port == self.port for one in pod.request.near)
        spaces = self.namespaces or (own,)
        return (
            bool(self.query)
            and (self.is_anywhere or pod.namespace in spaces)
            and all(one.holds(pod.labels.get(one.key)) for one in self.query)
        )


class ReadRules(Struct):
    """The rules of a pod, and what of them is not understood."""

    rules: list[PodRule]
    unkept: list[str]


def read(spec: Object, labels: Mapping[str, str] | None = None) -> ReadRules:
    """The rules that a pod of this spec has about others; ``labels``: its own."""
    found = ReadRules([], [])
    for kind in (RuleKind.TOGETHER, RuleKind.APART):
        for term in fields.each(spec, "affinity", kind, _MUST):
            _take(found, kind, term, labels or {})
    for one in fields.each(spec, "topologySpreadConstraints"):
        if fields.text(one, "whenUnsatisfiable") == "DoNotSchedule":
            _take(found, RuleKind.SPREAD, one, labels or {})
    for container in (*fields.each(spec, "containers"), *fields.each(spec, "initContainers")):
        for one in fields.each(container, "ports"):
            if port := fields.number(one, "hostPort"):
                said = f"{port}/{fields.text(one, 'protocol') or 'TCP'}"
                found.rules.append(PodRule(RuleKind.PORT, HOSTNAME, (), port=said))
    return found


def is_unread_rule(said: str) -> bool:
    """Whether a name of what is not understood (``unkept``) is one of a rule about other pods."""
    return said.startswith(tuple(f"{_shown(kind)}{_WITH}" for kind in RuleKind))


def words(rules: Iterable[PodRule]) -> str:
    """Such rules as the names of jobs' roles have them, with places larger than nodes."""
    told = {
        f"{rule.kind} over {rule.key}" if rule.key != HOSTNAME else str(rule.kind) for rule in rules
    }
    return f"rules about other pods ({', '.join(sorted(told))})"


def _take(found: ReadRules, kind: RuleKind, told: Object, labels: Mapping[str, str]) -> None:
    selector = told.get("namespaceSelector")
    unkept = [name for name in _UNKEPT_SPREAD if kind is RuleKind.SPREAD and told.get(name)]
    if selector:
        unkept.append("namespaceSelector")
    query = tuple(_query(fields.inner(told, "labelSelector")))
    if kind is RuleKind.SPREAD:  # of affinity the API server puts them into the selector itself
        query += tuple(
            LabelCondition(key, LabelTest.IN, (labels[key],))
            for key in fields.texts(told, "matchLabelKeys")
            if key in labels
        )
    if any(one.flaw for one in query):
        unkept.append("labelSelector")
    if unkept:
        found.unkept.append(f"{_shown(kind)}{_WITH}{', '.join(unkept)}")
        return
    found.rules.append(PodRule(
        kind, fields.text(told, "topologyKey"), query, fields.texts(told, "namespaces"),
        selector == {}, fields.number(told, "maxSkew") or 1,
    ))  # fmt: skip


def _query(selector: Object) -> Iterator[LabelCondition]:
    for key, value in sorted(fields.words(selector, "matchLabels").items()):
        yield LabelCondition(key, LabelTest.IN, (value,))
    for one in fields.each(selector, "matchExpressions"):
        test = _TESTS.get(fields.text(one, "operator"))
        values = fields.texts(one, "values")
        yield LabelCondition(fields.text(one, "key"), test or LabelTest.IN, values if test else ())


def _shown(kind: RuleKind) -> str:
    return kind if kind is RuleKind.SPREAD else f"affinity.{kind}"
