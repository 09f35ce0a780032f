"""Rules about other pods (affinity, anti-affinity, spread) and volumes, as what the loop can keep.

Where the pods that a rule names are now is a condition on the labels of nodes: not in these places,
or in one of those. Pods that name each other are placed one after the other, each after the one
before is bound, so that no plan puts two of them where only one may be. A gang that has to be
together is tied to one domain of a tier; one that has to be apart is placed if two of its pods do
not fit on a node anyway; one that has to be spread over zones has a role for each (``spreading``).
What is none of this is refused by the name of its field.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec.structs import replace

from tidemill.live.kubernetes import ties
from tidemill.live.kubernetes.nodes import NAME, KubeNode
from tidemill.live.kubernetes.pod_rules import HOSTNAME, PodRule, RuleKind
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.scheduling import shapes, spreading, volumes
from tidemill.live.kubernetes.scheduling.shapes import Unplaceable
from tidemill.live.kubernetes.scheduling.view import ClusterView, PodUnit
from tidemill.model.node_rules import LabelCondition, LabelTest, Pair, added
from tidemill.model.rows import Role, Shape
from tidemill.model.topology import Bond, Topology

UNSCHEDULABLE, WAITING, NO_SUCH_NODE = "Unschedulable", "Waiting", "NoSuchNode"
"""The reasons of pods that wait for others to leave: where a node more helps, and where not."""
MOST_NAMED = 3
MOST_PLACES = 999
"""Values of one condition, beside why it was added; a rule that needs more cannot be said."""
TAKEN = "pods are there from which it has to be apart"


class _Unkept(Exception):  # noqa: N818 - never leaves this module
    """What cannot be kept, and why."""


class RuleContext(NamedTuple):
    """What rules are kept on."""

    topology: Topology
    known: Shape | None
    """As the job waits now; None: it is new."""
    room: Callable[[KubePod, str], Mapping[str, int]]
    """For how many more pods like one each place has room, by the label of places."""


def kept(
    view: ClusterView, unit: PodUnit, shape: Shape | Unplaceable, ground: RuleContext
) -> Shape | Unplaceable:  # fmt: skip
    """A shape that keeps the rules of its pods about others, and those of others about them."""
    pods = [pod for pod in unit.pods if not pod.is_over]
    if isinstance(shape, Unplaceable) or not pods or any(pod.node for pod in pods):
        return shape
    if any(pod.request.volumes for pod in pods):
        found = volumes.kept(view.volumes, pods, shape)
        if isinstance(found, Unplaceable):
            return found
        shape = found
    ruled = view.ruled
    if unit.key not in ruled.units and unit.key not in ruled.port_units and not ruled.apart:
        return shape
    every = {rule for pod in pods for rule in pod.request.near}
    ports = {rule for rule in every if rule.port}
    rules = every - ports
    if any({*pod.request.near} - ports != rules for pod in pods):
        by = f", by {ties.SUBGROUPS}" if ties.SUBGROUPS in pods[0].annotations else ""
        return _refused(f"rules about other pods that differ between pods of one gang{by}")
    if rules and (first := _before(view, unit, pods, rules)) is not None:
        words = f"is placed after {first.full_name}, by where that is"
        return Unplaceable(WAITING, words)
    if (lack := taken(view, pods)) is not None:
        return lack
    over = [rule for rule in rules if _is_over_places(pods, rule, shape)]
    try:
        made = [*_away(view, pods), *_free_ports(view, pods, ports)]
        bonds = list[Bond]()
        for rule in sorted(rules - {*over[:1]}, key=repr):
            made += _conditions(view, pods, rule, shape)
            bonds += _bonds(pods, rule, shape, ground.topology)
        roles = tuple(with_conditions(role, [*dict.fromkeys(made)]) for role in shape.roles)
        shape = replace(shape, roles=roles, bonds=tuple(dict.fromkeys((*shape.bonds, *bonds))))
        return _spread(view, pods, over[0], shape, ground) if over else shape
    except _Unkept as error:
        return _refused(str(error))


def taken(
    view: ClusterView, pods: Sequence[KubePod], among: Iterable[KubeNode] | None = None
) -> Unplaceable | None:
    """That on all nodes where these may be others are that do not share it with them (pods from
    which they have to be apart, or with a port of theirs), who they are, and what would help; None:
    some node is left. ``among``: these nodes alone; None: all.

    A node more helps where only the names of nodes keep it off: then an autoscaler may buy one.
    """
    if not (off := obstacles(view, pods)):
        return None
    rows = view.machines.values() if among is None else among
    able = [row for row in rows if _could_carry(view, row, pods[0])]
    if not able or any(row.name not in off for row in able):
        return None
    here = dict.fromkeys(sorted(off[row.name] for row in able))
    is_pinned = bool({HOSTNAME, NAME} & pods[0].request.rules.keys)
    helps = not is_pinned and any(one.place[0] == HOSTNAME for one in here)
    keys = " or ".join(f"`{key}`" for key in dict.fromkeys(one.place[0] for one in here))
    named = ", ".join(one.words for one in list(here)[:MOST_NAMED])
    named += f" and {len(here) - MOST_NAMED:,} more" * (len(here) > MOST_NAMED)
    elsewhere = "" if is_pinned else f", or on a node with another {keys}"
    if any(one.port for one in here):
        words = f"others have what it would need on each node that it may be on: {named}"
    else:
        whose = _whose(pods[0])
        words = (
            f"by {whose} podAntiAffinity it has to be apart, by {keys}, from pods that are in each"
            f" one that it may be in: {named}"
        )
    return Unplaceable(
        UNSCHEDULABLE if helps else WAITING,
        f"{words}; it is placed when one of them ends{elsewhere}",
    )


class PlaceTaken(NamedTuple):
    """What others are or have on a node, so that a pod may not be there."""

    place: Pair
    pod: str
    """The first of them, by name."""
    port: str = ""

    @property
    def words(self) -> str:
        """The place, and who is there."""
        if self.port:
            return f"port {self.port} of node `{self.place[1]}` ({self.pod})"
        return f"`{self.place[1]}` ({self.pod})"


def obstacles(view: ClusterView, pods: Sequence[KubePod]) -> dict[str, PlaceTaken]:
    """By machine where these pods may not be beside others that are there: what is in the way."""
    found = {
        host.name: PlaceTaken((HOSTNAME, host.name), pod.full_name, port)
        for port in _single_ports(view, pods)
        for pod, host in _on_port(view, port)
    }
    if who := _in_the_way(view, pods):
        for machine in view.machines.values():
            pairs = [pair for pair in machine.labels.items() if pair in who]
            wide = [pair for pair in pairs if pair[0] != HOSTNAME]
            if pairs and (wide or machine.name not in found):
                place = min(wide or pairs)
                found[machine.name] = PlaceTaken(place, who[place])
    return found


def _whose(pod: KubePod) -> str:
    return "its" if any(rule.kind is RuleKind.APART for rule in pod.request.near) else "their"


def _could_carry(view: ClusterView, machine: KubeNode, pod: KubePod) -> bool:
    """Whether a pod may be on a machine by all but other pods, and fits there if nothing runs."""
    wanted, gpu = pod.request, pod.request.gpu
    is_large = gpu is None or any(
        one.capacity.get(gpu.resource, 0) >= gpu.each for one in view.parts_on(machine.name)
    )
    return is_large and shapes.is_open_to(machine, wanted)


def _in_the_way(view: ClusterView, pods: Sequence[KubePod]) -> dict[Pair, str]:
    """The first pod, by name, in each place that these may not be in: a label, and its value."""
    found = dict[Pair, str]()
    for rule in pods[0].request.near:
        if rule.kind is RuleKind.APART:
            for pod in view.pods.values():
                if pod.node and not pod.is_over and rule.names(pods[0].namespace, pod):
                    _note(found, view, rule, pod)
    for rule, other in _keeping_off(view, pods):
        _note(found, view, rule, other)
    return found


def _note(found: dict[Pair, str], view: ClusterView, rule: PodRule, pod: KubePod) -> None:
    machine = view.machines.get(pod.node)
    if machine is not None and rule.key in machine.labels:
        place = (rule.key, machine.labels[rule.key])
        found[place] = min(pod.full_name, found.get(place, pod.full_name))


def _is_over_places(pods: Sequence[KubePod], rule: PodRule, shape: Shape) -> bool:
    """Whether a gang of one role and size has to be spread over larger places than nodes."""
    is_gang = len(shape.roles) == 1 and shape.roles[0].count > 1 and shape.elastic_role is None
    names_itself = all(rule.names(pods[0].namespace, p) for p in pods)
    return is_gang and names_itself and rule.kind is RuleKind.SPREAD and rule.key != HOSTNAME


def _spread(
    view: ClusterView, pods: Sequence[KubePod], rule: PodRule, shape: Shape, ground: RuleContext
) -> Shape:
    """A gang with so many of its pods in each place."""
    counted = _places(view, pods[0].namespace, rule)
    there = {place: counted[place] for place in _eligible(view, pods[0], rule)}
    if not there:
        raise _Unkept(f"topologySpreadConstraints: no node has `{rule.key}`")
    room, known = ground.room(pods[0], rule.key), ground.known
    if known is not None and spreading.is_split(known):
        shares = spreading.shares_of(known)
        is_same = sum(shares.values()) == shape.roles[0].count
        if is_same and spreading.holds(shares, there, room, rule.max_skew):
            return spreading.split(shape, rule.key, shares)
    shares, _ = spreading.divided(shape.roles[0].count, there, room, rule.max_skew)
    return spreading.split(shape, rule.key, shares)


def _refused(words: str) -> Unplaceable:
    return Unplaceable("NotSupported", f"{words}: not placed by Tidemill's scheduler yet")


def with_conditions(role: Role, more: Sequence[LabelCondition]) -> Role:
    """A role with conditions that hold beside every choice that it has."""
    if not more:
        return role
    choices = role.affinity or ((),)
    return replace(role, affinity=tuple((*choice, *more) for choice in choices))


def _before(
    view: ClusterView, unit: PodUnit, pods: Sequence[KubePod], rules: set[PodRule]
) -> KubePod | None:
    """A pod that waits too, is named by these rules, and comes first."""
    mine = min((pod.created_ms, pod.full_name) for pod in pods)
    for other in view.ruled.units:
        if other == unit.key:
            continue
        for pod in view.unit_pods(other):
            is_named = pod.is_pending and pod.is_bindable and any(
                rule.names(pods[0].namespace, pod) for rule in rules
            )  # fmt: skip
            if is_named and (pod.created_ms, pod.full_name) < mine:
                return pod
    return None


def _free_ports(
    view: ClusterView, pods: Sequence[KubePod], ports: Iterable[PodRule]
) -> Iterator[LabelCondition]:
    """Not where somebody has a port of these pods; those that fill a node have it to themselves."""
    for rule in sorted(ports, key=repr):
        if _is_one_per_node(view, pods, rule):
            continue
        if sum(rule.port in pod.request.ports for pod in pods) > 1:
            raise _Unkept(f"hostPort {rule.port} of several pods of one gang")
        hosts = (host for _, host in _on_port(view, rule.port))
        if taken := {host.labels[rule.key] for host in hosts if rule.key in host.labels}:
            yield _condition(
                rule.key, LabelTest.NOT_IN, taken, f"others have port {rule.port} there"
            )


def _single_ports(view: ClusterView, pods: Sequence[KubePod]) -> list[str]:
    """The ports that one of these pods has, and that its node has to have free."""
    ports = {rule for pod in pods for rule in pod.request.near if rule.port}
    return sorted(
        rule.port for rule in ports
        if sum(rule.port in pod.request.ports for pod in pods) == 1
        and not _is_one_per_node(view, pods, rule)
    )  # fmt: skip


def _on_port(view: ClusterView, port: str) -> Iterator[tuple[KubePod, KubeNode]]:
    """Who has a port of a node, and of which; of a node the first of them by name last."""
    there = (view.pods.get(key) for key in sorted(view.ruled.on_ports, reverse=True))
    for pod in there:
        if pod is not None and port in pod.request.ports and pod.node in view.machines:
            yield pod, view.machines[pod.node]


def _places(view: ClusterView, own: str, rule: PodRule) -> Counter[str]:
    """How many pods that a rule names each place has; those without the label are nowhere."""
    found = Counter[str]()
    for pod in view.pods.values():
        if pod.node and not pod.is_over and rule.names(own, pod):
            machine = view.machines.get(pod.node)
            if machine is not None and rule.key in machine.labels:
                found[machine.labels[rule.key]] += 1
    return found


def _away(view: ClusterView, pods: Sequence[KubePod]) -> Iterator[LabelCondition]:
    """Places of pods that have to be apart from these, whatever these say themselves."""
    found = dict[Pair, str]()
    for rule, other in _keeping_off(view, pods):
        _note(found, view, rule, other)
    for label in sorted({key for key, _ in found}):
        there = [value for key, value in found if key == label]
        yield _condition(label, LabelTest.NOT_IN, there, TAKEN)


def _keeping_off(
    view: ClusterView, pods: Sequence[KubePod]
) -> Iterator[tuple[PodRule, KubePod]]:  # fmt: skip
    """Pods that sit somewhere and have to be apart from these, by which of their rules."""
    for key in view.ruled.apart:
        other = view.pods[key]
        for rule in other.request.near:
            if rule.kind is RuleKind.APART and any(rule.names(other.namespace, p) for p in pods):
                yield rule, other


def _condition(
    key: str,
    test: Literal[LabelTest.IN, LabelTest.NOT_IN],
    values: Iterable[str],
    said: str = "",
) -> LabelCondition:
    some = tuple(sorted(values))
    if len(some) > MOST_PLACES:
        raise _Unkept(f"more than {MOST_PLACES} values of `{key}`")
    return added(key, test, some, said) if said else LabelCondition(key, test, some)


def _conditions(
    view: ClusterView, pods: Sequence[KubePod], rule: PodRule, shape: Shape
) -> list[LabelCondition]:
    """Where the pods of a job may be, by where those are that a rule of theirs names."""
    own = pods[0].namespace
    there, is_gang = _places(view, own, rule), sum(role.count for role in shape.roles) > 1
    names_itself = all(rule.names(own, pod) for pod in pods)
    has_key = LabelCondition(rule.key, LabelTest.EXISTS)
    match rule.kind:
        case RuleKind.APART | RuleKind.PORT:
            if is_gang and names_itself and not _is_one_per_node(view, pods, rule):
                raise _Unkept("affinity.podAntiAffinity within a gang")
            return [_condition(rule.key, LabelTest.NOT_IN, there, TAKEN)] if there else []
        case RuleKind.TOGETHER:
            if there:
                return [_condition(rule.key, LabelTest.IN, there)]
            if not names_itself:
                raise _Unkept("affinity.podAffinity to pods that are nowhere")
            return [has_key]
        case RuleKind.SPREAD:
            every = _eligible(view, pods[0], rule)
            if is_gang and len(every) > 1:
                if there or not (names_itself and _is_one_per_node(view, pods, rule)):
                    raise _Unkept("topologySpreadConstraints within a gang")
                return [has_key]
            least = min((there[place] for place in every), default=0)
            may = [one for one in every if there[one] + names_itself - least <= rule.max_skew]
            if not may:
                raise _Unkept(f"topologySpreadConstraints: no node has `{rule.key}`")
            return [_condition(rule.key, LabelTest.IN, may)]


def _eligible(view: ClusterView, pod: KubePod, rule: PodRule) -> set[str]:
    """The places that count in a spread: of nodes that the pod selects."""
    return {
        machine.labels[rule.key]
        for machine in view.machines.values()
        if rule.key in machine.labels and pod.request.selects(machine.labels)
    }


def _is_one_per_node(view: ClusterView, pods: Sequence[KubePod], rule: PodRule) -> bool:
    """Whether two pods of a gang never fit on one node, which is all that the rule asks for."""
    gpus = {pod.request.gpu for pod in pods}
    gpu = next(iter(gpus))
    if rule.key != HOSTNAME or len(gpus) > 1 or gpu is None:
        return False
    sizes = (part.devices for part in view.nodes.values() if gpu.resource in part.capacity)
    return max(sizes, default=0) < 2 * gpu.each


def _bonds(
    pods: Sequence[KubePod], rule: PodRule, shape: Shape, topology: Topology
) -> list[Bond]:  # fmt: skip
    """A gang whose pods have to be near each other is tied to one domain of a tier."""
    is_gang = sum(role.count for role in shape.roles) > 1
    own = pods[0].namespace
    names_itself = all(rule.names(own, pod) for pod in pods)
    if rule.kind is not RuleKind.TOGETHER or not is_gang or not names_itself:
        return []
    if (tier := ties.tier(topology, rule.key)) is not None:
        return [Bond(tier.name, 0)]
    raise _Unkept(f"affinity.podAffinity by `{rule.key}`, of which the policy has no tier")
