"""Who is in the way of a pod that rules about other pods keep from nodes with room, by name.

Its scheduler says which sort of rule keeps it out; the pods and nodes of the same moment show whom
it is about: who would have to go from the node where that is the fewest, whom it has to be beside,
how many pods a spread counts in each place, which claims of volumes it has. ``explain.in_the_way``
reads it again out of the reason.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from tidemill.live.kubernetes import fleet_now
from tidemill.live.kubernetes.fleet_now import FleetNow, WhyPending
from tidemill.live.kubernetes.nodes import KubeNode
from tidemill.live.kubernetes.pod_rules import HOSTNAME, PodRule, RuleKind
from tidemill.live.kubernetes.pods import KubePod, PodRequest
from tidemill.model.reasons import CLAIMS, IN_ITS_WAY, MAY_SPREAD, TO_BE_BESIDE, PlaceRule

_NAMED = 3
_PLACES = 5
_Places = Mapping[str, list[KubePod]]
_Kept = tuple[str, PodRule]
"""The namespace of a pod, and a rule of it."""


def words(fleet: FleetNow, pod: KubePod, found: WhyPending) -> str:
    """Whom a reason is about; "": it is about nobody, or nothing shows whom."""
    sort = next((one for one in _MADE if found.words.endswith(f"({one})")), None)
    if sort is None or pod.request.gpu is None:
        return ""
    if sort is PlaceRule.VOLUME:
        return _claims(pod)
    keys = fleet.once("keys", lambda: _asked_of_labels(fleet))
    labels = tuple(sorted((key, value) for key, value in pod.labels.items() if key in keys))
    alike = (sort, pod.namespace, pod.request, labels)
    return fleet.once(alike, lambda: _MADE[sort](fleet, pod))


def _asked_of_labels(fleet: FleetNow) -> frozenset[str]:
    """The labels of pods that some rule asks for: by the others they do not differ here."""
    rules = {rule for request in {pod.request for pod in fleet.alive} for rule in request.near}
    return frozenset(one.key for rule in rules for one in rule.query)


def _off(fleet: FleetNow, pod: KubePod) -> str:
    """Who would have to go from the node with room where that is the fewest."""
    mine, request = [*_against(fleet, pod)], pod.request
    free = fleet.once(
        ("free", request), lambda: [n for n in _may_use(fleet, request) if fleet.hosts(n, request)]
    )
    blocked = [(node, _there(node, mine)) for node in free]
    some = [(node, names) for node, names in blocked if names]
    if not some:
        return ""
    node, names = min(some, key=lambda one: (len(one[1]), one[0].name))
    more = len(some) - 1
    text = f"{IN_ITS_WAY}{node.name}: {_listed(names)}"
    return text + (f" (others on {more} more node{'s' * (more > 1)})" if more else "")


def _against(fleet: FleetNow, pod: KubePod) -> Iterator[tuple[str, _Places]]:
    """By the label of places: who is there and may not be with a pod, by its rules or by theirs."""
    for rule in pod.request.near:
        if rule.kind in (RuleKind.APART, RuleKind.PORT):
            yield rule.key, _placed(fleet, pod.namespace, rule)
    for (own, rule), places in fleet.once("keepers", lambda: _keepers(fleet)).items():
        if rule.names(own, pod):
            yield rule.key, places


def _there(node: KubeNode, against: Sequence[tuple[str, _Places]]) -> list[str]:
    found = (
        pod.full_name for key, places in against for pod in places.get(node.labels.get(key, ""), ())
    )
    return sorted(dict.fromkeys(found))


def _keepers(fleet: FleetNow) -> Mapping[_Kept, _Places]:
    """Rules by which pods keep others away, and who has each, by the place that they are in."""
    found = dict[_Kept, dict[str, list[KubePod]]]()
    for pod in fleet.alive:
        for rule in pod.request.near if pod.node else ():
            if rule.kind is RuleKind.APART and (place := _place_of(fleet, pod, rule)) is not None:
                found.setdefault((pod.namespace, rule), {}).setdefault(place, []).append(pod)
    return found


def _placed(fleet: FleetNow, own: str, rule: PodRule) -> _Places:
    """The pods that a rule names, by the place that they are in."""
    return fleet.once((own, rule), lambda: _look(fleet, own, rule))


def _look(fleet: FleetNow, own: str, rule: PodRule) -> _Places:
    found = dict[str, list[KubePod]]()
    for pod in fleet.alive:
        place = _place_of(fleet, pod, rule) if pod.node else None
        if place is not None and rule.names(own, pod):
            found.setdefault(place, []).append(pod)
    return found


def _place_of(fleet: FleetNow, pod: KubePod, rule: PodRule) -> str | None:
    host = fleet.node(pod.node)
    return None if host is None else host.labels.get(rule.key)


def _may_use(fleet: FleetNow, request: PodRequest) -> list[KubeNode]:
    """Nodes that a pod could be on by themselves, if nothing else ran."""
    assert request.gpu is not None, "only those that request GPUs are asked about"
    resource, count = request.gpu
    return fleet.once(request, lambda: [
        node for node in fleet.nodes
        if node.allocatable.get(resource, 0) >= count and request.selects(node.labels)
        and fleet_now.is_open(node, request)
    ])  # fmt: skip


def _beside(fleet: FleetNow, pod: KubePod) -> str:
    """The place in which the pods are that it has to be beside; the fullest of several."""
    for rule in pod.request.near:
        if rule.kind is not RuleKind.TOGETHER:
            continue
        there, able = _placed(fleet, pod.namespace, rule), _able(fleet, pod, rule)
        if places := {value: there[value] for value in there if value in able}:
            value = min(places, key=lambda one: (-len(places[one]), one))
            names = sorted(one.full_name for one in places[value])
            return f"{TO_BE_BESIDE}{_place(rule, value)}: {_listed(names)}"
    return ""


def _spread(fleet: FleetNow, pod: KubePod) -> str:
    """The places in which one more pod keeps the skew, and how many are in each."""
    for rule in pod.request.near:
        if rule.kind is not RuleKind.SPREAD:
            continue
        there = _placed(fleet, pod.namespace, rule)
        values = sorted({
            node.labels[rule.key] for node in fleet.nodes
            if rule.key in node.labels and pod.request.selects(node.labels)
        })  # fmt: skip
        counts = {value: len(there.get(value, ())) for value in values}
        most = min(counts.values(), default=0) + rule.max_skew - rule.names(pod.namespace, pod)
        able = _able(fleet, pod, rule)
        may = [value for value in values if counts[value] <= most and value in able]
        if may and len(may) < len(values):
            told = ", ".join(f"{value} {counts[value]}" for value in values[:_PLACES])
            more = ", …" * (len(values) > _PLACES)
            left = ", ".join(_place(rule, value) for value in may[:_NAMED])
            return f"{MAY_SPREAD}{left} (pods there: {told}{more})"
    return ""


def _able(fleet: FleetNow, pod: KubePod, rule: PodRule) -> set[str]:
    """The places of nodes that it could be on by themselves."""
    nodes = _may_use(fleet, pod.request)
    return {node.labels[rule.key] for node in nodes if rule.key in node.labels}


def _claims(pod: KubePod) -> str:
    names = [
        pod.name + name if name.startswith("-") else name for name in pod.request.volumes[:_NAMED]
    ]
    return f"{CLAIMS}{', '.join(names)}" if names else ""


def _place(rule: PodRule, value: str) -> str:
    return value if rule.key == HOSTNAME else f"{rule.key}={value}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + ", …" * (len(names) > _NAMED)


_MADE: Mapping[PlaceRule, Callable[[FleetNow, KubePod], str]] = {
    PlaceRule.PORT: _off,
    PlaceRule.APART: _off,
    PlaceRule.TOGETHER: _beside,
    PlaceRule.SPREAD: _spread,
    PlaceRule.VOLUME: lambda _, pod: _claims(pod),
}
