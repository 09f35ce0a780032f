"""Why a pod waits: what its scheduler says, held against what nodes have.

The scheduler's one line ("3 Insufficient nvidia.com/gpu") is the same for a cluster that is full, a
request larger than any node, free GPUs in pieces too small, a device plugin that does not run and a
gang that can never fit. The nodes and pods of the same moment tell them apart, so facts decide, and
the line is quoted. Where no nodes were given the line has to do.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from tidemill.live.kubernetes import beside_gpus, fields, selected_devices
from tidemill.live.kubernetes.beside_gpus import CPU, DISK, MEMORY
from tidemill.live.kubernetes.cluster import Quota
from tidemill.live.kubernetes.fields import MalformedObjectError
from tidemill.live.kubernetes.fleet_now import (
    ANYWHERE,
    FleetNow,
    OnePlace,
    WhyPending,
    beside,
    has_of,
    is_open,
    taints,
    takes,
)
from tidemill.live.kubernetes.nodes import COUNT, KubeNode
from tidemill.live.kubernetes.pods import PodRequest
from tidemill.live.kubernetes.resources import CLAIMED
from tidemill.live.kubernetes.selected_devices import ENOUGH
from tidemill.model.measures import WHOLE_MILLI, cores_text, count_text, gib_text, noun_text
from tidemill.model.reasons import BY_FACTS, LAYER_OF, NEVER, Cause, Layer, PlaceRule

L1, L2, L3, L4 = Layer.RESERVATION, Layer.PROVISIONING, Layer.SCHEDULING, Layer.WORKLOAD
LONGEST_WORDS = 500
"""Of a reason, as events keep it."""
SHORTEST_QUOTE = 20
_NAMED = 3
REFUSALS = {
    "MalformedRequest": "what it requests makes no sense: no room that comes free starts it",
    "MalformedGang": "what it says of its gang cannot be read: no room that comes free starts it",
    "UnknownGang": "it waits for a pod group that does not exist",
    "UnknownTopology": "it requires a tier of the topology that its scheduler does not know",
    "TeamAboveOthers": "its team has teams below it, and jobs belong to the lowest ones",
    "NotSupported": "its scheduler does not place what it requests",
}
"""Reasons of pods whose scheduler does not look for room: what is free has no part in it."""


def _ours(cause: Cause, words: str) -> WhyPending:
    return WhyPending(cause, LAYER_OF[cause], words)


_BOUND = {
    frozenset({CPU}): Cause.CPU_BINDS, frozenset({MEMORY}): Cause.MEMORY_BINDS,
    frozenset({CPU, MEMORY}): Cause.HOST_BINDS,
}  # fmt: skip
"""Of what else is short, the books have nothing: no cause of theirs is it."""


def _amount(name: str, amount: int) -> str:
    """So much of a resource as people read it, without its unit."""
    match name:
        case "cpu":
            return cores_text(amount)
        case "memory":
            return gib_text(amount)
        case "ephemeral-storage":
            return gib_text(amount >> 20)
    return f"{amount:,}"


_UNITS = {MEMORY: "GiB of memory", DISK: "GiB of its node's disk"}
"""What the amounts are; of other resources these are their names."""


def by_facts(
    fleet: FleetNow, request: PodRequest, missing: int, size: int, where: OnePlace = ANYWHERE
) -> WhyPending | None:
    """Why ``missing`` pods of a gang of ``size`` find no place; None: no node was given."""
    if request.gpu is None or not fleet.nodes or request.is_of_parts:
        return None  # of parts of GPUs no resource says what is free
    asked = (request, missing, size, where)
    if asked not in fleet.answered:
        every = request.instead or (request,)  # any of them would do
        if other := fleet.either.get(request.gpu.resource):  # a claim would do as well
            gpu = request.gpu._replace(resource=other)
            every = (*every, replace(request, gpu=gpu))
        tried = [_by_facts(fleet, one, missing, size, where) for one in every]
        found = min(tried, key=lambda one: (one.is_sure, one.cause in NEVER))
        one = every[tried.index(found)]
        words = selected_devices.said(found.words, one.device_types, one.unkept)
        fleet.answered[asked] = replace(found, words=words, is_of_facts=True)
    return fleet.answered[asked]


def _by_facts(
    fleet: FleetNow, request: PodRequest, missing: int, size: int, where: OnePlace
) -> WhyPending:
    assert request.gpu is not None, "only those that request GPUs are asked about"
    resource, count = request.gpu
    able = [node for node in fleet.nodes if node.capacity.get(resource)]
    if not able:
        return _not_advertised(fleet, resource)
    large = [node for node in able if node.capacity.get(resource, 0) >= count]
    if not large:
        most = max(node.capacity.get(resource, 0) for node in able)
        words = f"requests {count} {resource} on one node; the largest node has {most}"
        return _ours(Cause.IMPOSSIBLE_SIZE, words)
    chosen = [node for node in large if request.selects(node.labels)]
    if not chosen:
        selected = [node for node in fleet.nodes if request.selects(node.labels)]
        if most := max((node.capacity.get(resource, 0) for node in selected), default=0):
            words = f"requests {count} {resource} on one node; the largest that it selects has"
            return _ours(Cause.IMPOSSIBLE_SIZE, f"{words} {most}")
        if should := [node for node in selected if _should_have(node, resource)]:
            return _silent("no node that it selects", should, resource)
        words = f"selects {_selected(request)}, which no node with {resource} has"
        words += _by_claims(selected)
        return _ours(Cause.IMPOSSIBLE_LABEL, words)
    found = _too_large_beside(chosen, request) or _too_large(chosen, request, size)
    found = found or _too_large_for_one(fleet, chosen, request, size, where)
    found = found or _not_taking(chosen, request)
    if found:
        return found
    found = _no_room(fleet, chosen, request, missing, size)
    if found.is_sure or not where.labels:
        return found
    apart = _apart(fleet, chosen, request, missing, where)
    return apart or replace(found, words=found.words + where.words)


def _not_advertised(fleet: FleetNow, resource: str) -> WhyPending:
    """No node has it: none was cut or shared so; or those that should have any show nothing."""
    if should := [node for node in fleet.nodes if _should_have(node, resource)]:
        return _silent("no node", should, resource)
    has = sorted({name for node in fleet.nodes for name in node.capacity if name != CLAIMED})
    beside = f"; they have {', '.join(has)}" if has else ""
    return _ours(Cause.NOTHING_CLAIMED, f"no node has {resource}{beside}{_by_claims(fleet.nodes)}")


def _should_have(node: KubeNode, resource: str) -> bool:
    """Whether a node should have accelerators of a resource's vendor, and shows none of them."""
    vendor = resource.partition("/")[0]
    told = COUNT.partition("/")[0] if COUNT in node.labels else ""
    shown = (name == CLAIMED or name.startswith(vendor) or not told for name in node.capacity)
    return bool(node.expected) and told in ("", vendor) and not any(shown)


def _by_claims(nodes: list[KubeNode]) -> str:
    """That nodes have accelerators, and give them out otherwise than by a resource."""
    some = [node for node in nodes if node.capacity.get(CLAIMED)]
    return f"; GPUs of {_nodes(some)} are given out by claims (DRA)" if some else ""


def _silent(who: str, should: list[KubeNode], resource: str) -> WhyPending:
    words = (
        f"{who} advertises {resource}, though {_nodes(should)} should have accelerators: the"
        " device plugin does not run there, or its driver failed"
    )
    return _ours(Cause.NOTHING_READY, words)


def _too_large_beside(chosen: list[KubeNode], request: PodRequest) -> WhyPending | None:
    """No node that it could use has as much of something else as one pod requests; all of it is
    told, and whose no cause of ours is counts first.
    """
    over = dict[str, int]()
    for name, asked in beside(request).items():
        have = [has_of(node, name) for node in chosen]
        most = max((0 if one is None else one for one in have), default=0)
        if asked > most and not any(one is None for one in have):
            over[name] = most
    if not over:
        return None
    words = "; it ".join(_larger(name, beside(request)[name], most) for name, most in over.items())
    if all(frozenset({name}) in _BOUND for name in over):
        return _ours(Cause.IMPOSSIBLE_SIZE, words)
    return WhyPending(Cause.NONE, L4, words)


def _larger(name: str, asked: int, most: int) -> str:
    if not most:
        return f"requests {name}, which no node that it could use has"
    unit = noun_text(asked / WHOLE_MILLI, "CPU") if name == CPU else _UNITS.get(name, name)
    return (
        f"requests {_amount(name, asked)} {unit} on one node; the largest that it could use has"
        f" {_amount(name, most)}"
    )


def _too_large(chosen: list[KubeNode], request: PodRequest, size: int) -> WhyPending | None:
    assert request.gpu is not None
    resource, count = request.gpu
    most = sum(node.capacity.get(resource, 0) // count for node in chosen)
    if size <= most:
        return None
    words = (
        f"a gang of {count_text(size, 'pod')} of {count} {resource}; all nodes that it may"
        f" use hold {most}"
    )
    return _ours(Cause.IMPOSSIBLE_GANG, words)


def _too_large_for_one(
    fleet: FleetNow, chosen: list[KubeNode], request: PodRequest, size: int, where: OnePlace
) -> WhyPending | None:
    """No place that it has to be in as a whole is as large as it is."""
    assert request.gpu is not None
    resource, count = request.gpu
    places = where.places(fleet, chosen) if where.labels else []
    hold = [sum(one.capacity.get(resource, 0) // count for one in nodes) for nodes in places]
    if not where.labels or size <= max(hold, default=0):
        return None
    words = f"a gang of {count_text(size, 'pod')} of {count} {resource}{where.words}"
    found = f"the largest that it may use holds {max(hold)}" if hold else "no node has that label"
    return _ours(Cause.IMPOSSIBLE_TOPOLOGY, f"{words}; {found}")


def _apart(
    fleet: FleetNow, chosen: list[KubeNode], request: PodRequest, missing: int, where: OnePlace
) -> WhyPending | None:
    """What is free would do, but not where it has to be in one place."""
    assert request.gpu is not None
    usable = [node for node in chosen if node.takes_work and not taints(node, request)]
    places = where.places(fleet, usable)
    fits = max((sum(fleet.hosts(one, request) for one in nodes) for nodes in places), default=0)
    if fits >= missing:
        return None
    free = sum(fleet.free(node, request.gpu.resource) for node in usable)
    words = f"{free} {request.gpu.resource} are free, but at most {fits} of its"
    return _ours(Cause.TOPOLOGY, f"{words} {count_text(missing, 'missing pod')} fit{where.words}")


def _not_taking(chosen: list[KubeNode], request: PodRequest) -> WhyPending | None:
    """All nodes that it could use are closed to it: by a taint, cordoned, not Ready, or unwell."""
    assert request.gpu is not None
    resource, count = request.gpu
    open_ = [node for node in chosen if not taints(node, request)]
    if not open_:
        first = taints(chosen[0], request)[0]
        words = f"does not tolerate the taint {first} of {_nodes(chosen)}, all that it could use"
        return _ours(Cause.IMPOSSIBLE_LABEL, words)
    ready = [node for node in open_ if takes(node, request)]
    if not ready:
        cordoned = sum(node.is_unschedulable for node in open_)
        tainted = [node for node in open_ if node.conditions and not node.is_unschedulable]
        how = f"{cordoned} cordoned, {len(open_) - cordoned - len(tainted)} not Ready"
        if tainted:
            set_by_it = tainted[0].conditions[0]
            how += f", {len(tainted)} Ready but tainted by Kubernetes"
            how += f" ({set_by_it.key}:{set_by_it.effect})"
        return _ours(Cause.NOTHING_READY, f"no node that it could use takes work: {how}")
    if not any(node.allocatable.get(resource, 0) >= count for node in ready):
        most = max(node.allocatable.get(resource, 0) for node in ready)
        words = f"requests {count} {resource} on one node; at most {most} of a node are healthy"
        return _ours(Cause.NOT_ENOUGH_READY, words)
    return None


def _no_room(
    fleet: FleetNow, chosen: list[KubeNode], request: PodRequest, missing: int, size: int
) -> WhyPending:
    """Nodes take work, and have no room for it now."""
    assert request.gpu is not None
    resource, count = request.gpu
    usable = [node for node in chosen if is_open(node, request)]
    most = sum(node.allocatable.get(resource, 0) // count for node in usable)
    if size > most:
        words = (
            f"a gang of {count_text(size, 'pod')} of {count} {resource}; nodes that take"
            f" work hold {most}"
        )
        return _ours(Cause.NOT_ENOUGH_READY, words)
    free = [fleet.free(node, resource) for node in usable]
    fits = sum(fleet.hosts(node, request) for node in usable)
    by_gpus = sum(fleet.hosts(node, request, of_gpus=True) for node in usable)
    if fits >= missing:
        words = f"{sum(free)} {resource} are free{ENOUGH}"
        return WhyPending(Cause.NONE, L3, words, is_sure=False)
    if by_gpus >= missing:
        what = fleet.lacks(usable, request, missing)
        words = f"enough {resource} are free, but {beside_gpus.short(*sorted(what))}"
        return WhyPending(_BOUND.get(frozenset(what), Cause.NONE), L3, words)
    if sum(free) >= missing * count and count > 1:
        words = f"{sum(free)} {resource} are free, but at most {max(free)} on one node"
        return _ours(Cause.SCATTERED, words)
    if fits and missing > 1:
        words = (
            f"only {fits} of its {count_text(missing, 'missing pod')} fit: {sum(free)}"
            f" {resource} are free"
        )
        return _ours(
            Cause.PARTIAL_GANG, words + beside_gpus.also_short(fleet.lacking(usable, request))
        )
    words = f"needs {missing * count} {resource}, and {sum(free)} are free"
    return _ours(Cause.BUSY, words + beside_gpus.also_short(fleet.lacking(usable, request)))


def _selected(request: PodRequest) -> str:
    told = [f"{key}={value}" for key, value in request.selector]
    told += [" and ".join(one.words for one in term) for term in request.terms[:_NAMED]]
    return "; ".join(told)[:200]


def _nodes(nodes: list[KubeNode]) -> str:
    names = ", ".join(node.name for node in nodes[:_NAMED])
    more = len(nodes) - _NAMED
    return names + (f" and {more} more" if more > 0 else "")


_Rule = Callable[[re.Match[str]], WhyPending]
_Lines = tuple[tuple[str, _Rule], ...]
_OF_BINDS: _Lines = (
    (
        r"binding rejected.*(?:already assigned|cannot be fulfilled|[Cc]onflict|OutOf)",
        lambda m: lost_race(assigned(m.string), 1),
    ),
    (
        r"binding rejected",
        lambda _: WhyPending(Cause.NONE, L3, "the API server refused to bind it"),
    ),
)
"""Lines about binds: its scheduler had found a place."""
_OF_AMOUNTS: _Lines = (
    (r"Insufficient cpu", lambda _: _ours(Cause.CPU_BINDS, "not enough CPU is free")),
    (r"Insufficient memory", lambda _: _ours(Cause.MEMORY_BINDS, "not enough memory is free")),
    (r"Insufficient (\S+?)[,.]?(?:\s|$)", lambda m: _ours(Cause.BUSY, f"not enough {m[1]} free")),
)
"""Lines of a scheduler about what nodes have left."""
_BY_OTHER_PODS = (
    "where other pods are keeps it from nodes that are free",
    f"kept away from other pods ({PlaceRule.APART})",
    f"tied to other pods, beside which it cannot be ({PlaceRule.TOGETHER})",
    f"where other pods are keeps it from nodes that are free ({PlaceRule.SPREAD})",
)
_OF_OTHERS: _Lines = (
    (
        r"(?i)(?:resource ?claim|device ?class)[^,;]*(?:not found|does not exist|not created)",
        lambda _: WhyPending(Cause.NONE, L4, "a claim of devices that it names is not there"),
    ),
    (
        r"cannot allocate all claims|resourceclaim",
        lambda _: _ours(Cause.BUSY, "its claim of devices cannot be allocated now"),
    ),
    (
        r"(?:pod group|podgroup|PodGroup|gang|minMember|minAvailable|Coscheduling)",
        lambda _: _ours(Cause.PARTIAL_GANG, "not all of its pods fit together"),
    ),
    (
        r"(pods? anti-affinity)|(pod affinity)|(topology spread)|topology",
        lambda m: _ours(Cause.TOPOLOGY, _BY_OTHER_PODS[m.lastindex or 0]),
    ),
    (
        r"[Vv]olume",
        lambda _: WhyPending(
            Cause.NONE, L4, f"its volumes are not there, or on other nodes ({PlaceRule.VOLUME})"
        ),
    ),
    (
        r"free ports",
        lambda _: WhyPending(
            Cause.NONE, L3, f"nodes have no port that it needs left ({PlaceRule.PORT})"
        ),
    ),
    (
        r"Too many pods",
        lambda _: WhyPending(
            Cause.NONE, L3, f"nodes have no place for a pod left ({PlaceRule.PODS})"
        ),
    ),
)
"""Lines about what nodes and requests do not show."""
_OF_NODES: _Lines = (
    (
        r"(?=.*didn't match (?:Pod's )?node).*untolerated taint (\{(?!node\.kubernetes)[^}]*\})",
        lambda m: WhyPending(
            Cause.NONE,
            L2,
            f"does not tolerate the taint {m[1]} of some nodes; the others have other labels than"
            " it selects",
        ),
    ),
    (
        r"node affinity/selector|node\(s\) didn't match (?:Pod's )?node",
        lambda _: _ours(Cause.IMPOSSIBLE_LABEL, "no node has the labels that it selects"),
    ),
    (
        r"untolerated taint \{node\.kubernetes\.io/(?:not-|unre|unsc)|were unsched|not ready",
        lambda _: _ours(Cause.NOTHING_READY, "nodes are cordoned or not Ready"),
    ),
    (
        r"untolerated taint (\{node\.kubernetes\.io/[^}]*\})",
        lambda m: _ours(Cause.NOTHING_READY, f"Kubernetes has tainted nodes: {m[1]}"),
    ),
    (
        r"untolerated taint (\{[^}]*\})",
        lambda m: WhyPending(Cause.NONE, L2, f"does not tolerate the taint {m[1]}"),
    ),
)
"""Lines about what nodes are. The scheduler counts each node under the first rule that keeps a pod
off it, and asks these first: where another line is beside them, nodes passed these and fell there.
"""


def assigned(message: str) -> list[str]:
    """The nodes to which somebody else has assigned a pod, by the API server's words."""
    return re.findall(r'assigned to node "([^"]+)"', message)


def lost_race(nodes: Iterable[str], count: int) -> WhyPending:
    """Somebody else took the GPUs that pods were given, so many times."""
    names = ", ".join(f"`{name}`" for name in sorted({*nodes})[:_NAMED])
    whose = f"the GPUs of node {names}" if names else "its GPUs"
    times = "once" if count == 1 else f"{count:,} times"
    words = f"lost a race for {whose} {times}: another scheduler or a static pod took them first"
    return _ours(Cause.LOST_RACE, words)


def by_message(message: str, *, beside_room: bool = False) -> WhyPending | None:
    """What a scheduler's own line says; ``beside_room``: where by nodes and pods it would fit.

    Then some node is as it must be and has accelerators left: only the rest can keep it off.
    """
    told = message.partition(" preemption: ")[0]
    if beside_room:
        rules: _Lines = (*_OF_BINDS, *_OF_OTHERS, *_OF_AMOUNTS[:2])
    else:
        rules = (*_OF_BINDS, *_OF_AMOUNTS, *_OF_OTHERS, *_OF_NODES)
    for pattern, rule in rules:
        found = re.search(pattern, told)
        if found:
            return rule(found)
    return None


_QUOTAS: tuple[tuple[str, Cause, str], ...] = (
    (
        r"request > maximum capacity|maximum capacity|ExceedsMaxQuota",
        Cause.OVER_LIMIT_ALWAYS,
        "requests more than its queue may ever use",
    ),
    (r"topology|TopologyPlacementFailed", Cause.TOPOLOGY, "no topology domain has room for it"),
    (r"insufficient (?:unused )?quota", Cause.OVER_LIMIT, "the quota of its queue is used up"),
    (r"preempted to accommodate", Cause.OVER_LIMIT, "was preempted, and waits for quota again"),
    (r"preempt", Cause.PROMISED, "waits for workloads that are being preempted"),
    (r"affinity|taint", Cause.IMPOSSIBLE_LABEL, "no flavor of its queue has what it selects"),
)


def by_kueue(reason: str, message: str) -> WhyPending:
    """What Kueue says of a workload without quota."""
    told = f"{reason} {message}"
    if re.search(r"(?:doesn't|does not) exist|inactive|stopped|not found", told):
        return WhyPending(Cause.NONE, L3, "its queue does not exist, or takes no workloads")
    for pattern, cause, words in _QUOTAS:
        if re.search(pattern, told, re.IGNORECASE):
            return _ours(cause, words)
    return _ours(Cause.OVER_LIMIT, "waits in its queue for quota")


_LIMITED = re.compile(r"requested: (?P<asked>.*?), used: .*?, limited: (?P<most>[^;]*)")
_AMOUNT = re.compile(r"(\S+?)=(\d+)(?=,|\s|$)")


def by_quota(message: str, quotas: Iterable[Quota] = ()) -> WhyPending:
    """What the API server says of a pod that the quota of its namespace refuses; ``quotas``: those
    of the namespace as they are now, which may have been raised, or have got free, since.
    """
    if name := _has_room_now(message, quotas):
        words = (
            f"the quota `{name}` of its namespace was used up, and has room for the pod now: it is"
            " made when its controller tries again"
        )
        return WhyPending(Cause.NONE, Layer.WORKLOAD, words, is_of_facts=True)
    told = _LIMITED.search(message)
    asked, most = (dict(_AMOUNT.findall(told[part])) if told else {} for part in ("asked", "most"))
    if any(name in most and int(count) > int(most[name]) for name, count in asked.items()):
        words = "one pod requests more than the quota of its namespace ever allows"
        return _ours(Cause.OVER_LIMIT_ALWAYS, words)
    return _ours(Cause.OVER_LIMIT, "the quota of its namespace is used up")


_EXCEEDED = re.compile(r"exceeded quota: ([^,\s]+), requested: (.*?), used: ")


def _has_room_now(message: str, quotas: Iterable[Quota]) -> str:
    """The quota that refused a pod, where it would not now; "": it would, or nobody can tell."""
    told = _EXCEEDED.search(message)
    quota = next((one for one in quotas if told and one.name == told[1]), None)
    if told is None or quota is None:
        return ""
    pairs = [pair.partition("=") for pair in told[2].split(",")]
    try:
        asked = {name: fields.quantity(amount) for name, _, amount in pairs}
    except MalformedObjectError:  # the message was cut
        return ""
    has_room = all(
        name in quota.beside and name in quota.beside_used
        and quota.beside_used[name] + amount <= quota.beside[name]
        for name, amount in asked.items()
    )  # fmt: skip
    return quota.name if has_room else ""


SCALING: Mapping[str, str] = {
    "TriggeredScaleUp": "the autoscaler is adding nodes",
    "NotTriggerScaleUp": "the autoscaler says that no node it may add would help",
    "Nominated": "a node is being launched for it",
}
"""Events of autoscalers, in words."""
OF_NODES = frozenset({
    Cause.NOTHING_CLAIMED, Cause.NOTHING_READY, Cause.NOT_ENOUGH_READY, Cause.BUSY,
    Cause.PARTIAL_GANG, Cause.SCATTERED, Cause.CPU_BINDS, Cause.MEMORY_BINDS, Cause.HOST_BINDS,
    Cause.IMPOSSIBLE_LABEL, Cause.IMPOSSIBLE_SIZE, Cause.IMPOSSIBLE_GANG,
})  # fmt: skip
"""Causes that one more node, of the right kind, would end."""
VOLUMES = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
"""Events about a volume of a pod that has a node."""
HEARD = frozenset({"FailedScheduling", "FailedCreate", "Unschedulable", *VOLUMES, *SCALING})
"""Reasons of events that say why something waits; the others are many and say nothing here."""


def told(why: WhyPending, scheduler: str, quoted: str, shown_by: str, also: str = "") -> str:
    """A reason as events keep it: what the scheduler said, what it is, how to see it."""
    source = BY_FACTS if why.is_of_facts else "that is"
    tail = f"; {source}: {why.words}" + (f"; {also}" if also else "") + f" ({shown_by})"
    room = LONGEST_WORDS - len(scheduler) - len(tail) - 3
    if also and room < 0:  # how to see it counts more
        return told(why, scheduler, quoted, shown_by)
    said = " ".join(quoted.split())
    if not said or room < SHORTEST_QUOTE:
        return (scheduler + tail)[:LONGEST_WORDS]
    cut = said if len(said) <= room else said[: room - 1] + "…"
    return f'{scheduler} "{cut}"{tail}'
