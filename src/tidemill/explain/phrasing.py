"""Words: numbers and names as people read them. Ids are in backticks, everything is lower case."""

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tidemill.core.places import LOST
from tidemill.explain.answers import Band, PricedFix
from tidemill.explain.told import SAY_LITTLE, WaitsFor
from tidemill.model import lives
from tidemill.model.admission import ADMITTED
from tidemill.model.columns import NODE
from tidemill.model.measures import (
    HOUR_MS,
    WHOLE_MILLI,
    amount_text,
    cores_text,
    count_text,
    dollars_text,
    duration_text,
    gib_text,
    hourly_text,
    milli_text,
    noun_text,
)
from tidemill.model.reasons import CLAIM_NOTHING, JOB_NUMBER, TO_SEE_IT, Cause, Layer
from tidemill.model.rows import (
    BESIDE,
    BY_CLAIM,
    CLUSTER,
    COHORT,
    OF_FLAVOR,
    PER_ACCELERATOR,
    QUOTA_QUEUE,
    RESOURCE,
    UNKEPT,
    Piece,
    Role,
    Shape,
)
from tidemill.model.states import CONFIDENCES, Confidence, NodeState
from tidemill.model.topology import APART, NO_HOP, Bond, Parallelism
from tidemill.model.world import World

AFFINITY = "node affinity"
TAINTED = "tainted"
"""The state of a node that its cluster has tainted for a condition, and nobody cordoned."""


CAUSES = {
    Cause.NONE: "starts in the next scheduling cycle",
    Cause.NOTHING_CLAIMED: "no contract covers anything that it may use",
    Cause.NOTHING_LAUNCHED: "under contract, but not launched",
    Cause.NOTHING_READY: "launched, but no node that it may use takes work",
    Cause.IMPOSSIBLE_LABEL: "labels, taints or node affinity keep it off every node",
    Cause.IMPOSSIBLE_SIZE: "larger than any node",
    Cause.IMPOSSIBLE_GANG: "a larger gang than all nodes together could hold",
    Cause.OVER_LIMIT_ALWAYS: "more than its team's maximum quota",
    Cause.NOT_ENOUGH_READY: "too little is Ready, even if nothing else ran",
    Cause.OVER_LIMIT: "it would exceed its team's maximum quota",
    Cause.BEHIND: "held behind another job",
    Cause.PROMISED: "waiting for preempted jobs to stop",
    Cause.BUSY: "not enough is free",
    Cause.PARTIAL_GANG: "only part of the gang fits",
    Cause.SCATTERED: "enough is free, but scattered over nodes",
    Cause.CPU_BINDS: "accelerators are free, CPU is not",
    Cause.MEMORY_BINDS: "accelerators are free, memory is not",
    Cause.HOST_BINDS: "accelerators are free, CPU and memory are not",
    Cause.KEPT_BACK: "what is free is kept for other teams",
    Cause.IMPOSSIBLE_TOPOLOGY: "no topology domain is large enough to hold it together",
    Cause.TOPOLOGY: "enough is free, but not close enough together",
    Cause.RESERVED: "behind a backfill reservation",
    Cause.NOT_ELIGIBLE: "held, or waiting for something other than GPUs",
    Cause.LOST_RACE: "somebody else took the GPUs that it was given first",
}


NOT_RECORDED = (
    "what it requests is free, and the cluster's own scheduler has not started it; why is not"
    " recorded here"
)

NO_SUCH_NODE = "no node of the cluster has what it may use"

LABELS = {
    Cause.NONE: "next cycle",
    Cause.NOTHING_CLAIMED: "no contract",
    Cause.NOTHING_LAUNCHED: "not launched",
    Cause.NOTHING_READY: "none Ready",
    Cause.IMPOSSIBLE_LABEL: "never: labels, taints",
    Cause.IMPOSSIBLE_SIZE: "never: size",
    Cause.IMPOSSIBLE_GANG: "never: gang",
    Cause.OVER_LIMIT_ALWAYS: "never: maximum quota",
    Cause.NOT_ENOUGH_READY: "too few Ready",
    Cause.OVER_LIMIT: "maximum quota",
    Cause.BEHIND: "held behind a job",
    Cause.PROMISED: "preemption under way",
    Cause.BUSY: "too few free",
    Cause.PARTIAL_GANG: "partial gang",
    Cause.SCATTERED: "scattered",
    Cause.CPU_BINDS: "CPU",
    Cause.MEMORY_BINDS: "memory",
    Cause.HOST_BINDS: "CPU and memory",
    Cause.KEPT_BACK: "lending limits",
    Cause.IMPOSSIBLE_TOPOLOGY: "never: topology",
    Cause.TOPOLOGY: "topology",
    Cause.RESERVED: "backfill reservation",
    Cause.NOT_ELIGIBLE: "not eligible",
    Cause.LOST_RACE: "lost a race",
}
"""Causes in a column of a table."""

_OBSERVED_CAUSES = {Cause.NONE: NOT_RECORDED, Cause.NOTHING_CLAIMED: NO_SUCH_NODE}
_OBSERVED_LABELS = {Cause.NONE: "not recorded", Cause.NOTHING_CLAIMED: "no such node"}


def label(world: World, name: str) -> str:
    """A cause, by the name that answers use, as short as a column wants it."""
    found = Cause[name.upper()]
    return (
        _OBSERVED_LABELS.get(found, LABELS[found]) if _is_said_of(world, found) else LABELS[found]
    )


def cause(world: World, found: Cause) -> str:
    """A cause as people say it; of a cluster with a scheduler of its own, no more than is known."""
    words = CAUSES[found]
    if _is_said_of(world, found):
        words = _OBSERVED_CAUSES.get(found, words)
    if any(row.name.startswith(QUOTA_QUEUE) for row in world.admission.queues):
        words = words.replace("its team's", "its team's or queue's")
    return words


def waits_for(world: World, found: WaitsFor) -> str:
    """For what a job waits; of what no cause of ours says, that its own scheduler says it."""
    if found.is_block and found.cause in (Cause.NONE, *CLAIM_NOTHING):
        return "what its reason names, whatever is free"
    if found.says and found.cause is Cause.TOPOLOGY:  # for one GPU nothing is close together
        return "where it must be, or must not be, keeps it from what is free"
    return cause(world, found.cause)


def said_or_label(world: World, name: str, says: str) -> str:
    """For what a job waits, as short as a column wants it: what its own scheduler says, unless that
    word stands before reasons of many kinds.
    """
    is_label = not says or (says in SAY_LITTLE and Cause[name.upper()] is not Cause.NONE)
    return label(world, name) if is_label else says


def _is_said_of(world: World, found: Cause) -> bool:
    """Whether a cause is said as of a cluster that is looked at; ours says what it starts next."""
    return world.is_looked_on if found is Cause.NONE else world.is_observed


def starts(world: World, when: str = "at once") -> str:
    """What a job does for which there is room; where another scheduler decides, it just fits."""
    return "fits what is free" if world.is_looked_on else f"starts {when}"


def still_waits(world: World, found: Cause, ahead: int) -> str:
    """That a fix does not start a job at once, and what keeps it out then."""
    text = f"then it still waits, because {cause(world, found)}"
    if found is Cause.NONE:
        text = "whether it then starts at once was not tried"
    return text + (f"; {many(ahead, 'job')} ahead of it" if ahead else "")


def is_down(world: World, n: int) -> bool:
    """Whether a node that work is still shown on is not Ready, or silent: the books have it as
    closed, for on one that is unhealthy there is none.
    """
    is_closed = world.nodes.state.item(n) == NodeState.CORDONED
    if is_closed and world.nodes.why.item(n) == LOST:
        return True
    return is_closed and world.node_words.get(n, "").startswith(("not Ready", "not responding"))


def shut(world: World, n: int) -> str:
    """Why a node takes no work, in one word."""
    return "full" if world.is_full(n) else state(world, n)


def state(world: World, n: int) -> str:
    """How a node is, in the words of its states."""
    is_, down = NodeState(world.nodes.state.item(n)), is_down(world, n)
    if world.is_full(n):
        return NodeState.READY.name.lower()
    if world.is_tainted(n):
        return TAINTED
    return (NodeState.UNHEALTHY if down else is_).name.lower()


def claimed(world: World) -> str:
    """Of accelerators: that the fleet has them, launched or not."""
    return "in the cluster" if world.is_observed else "under contract"


amount, amounts, cores, gib = milli_text, amount_text, cores_text, gib_text


def many_cores(cpu_milli: int) -> str:
    """The same with its noun: ``1 core``, ``96 cores``."""
    return f"{cores(cpu_milli)} {noun_text(cpu_milli / WHOLE_MILLI, 'core')}"


many = count_text


def ids(names: Sequence[str], most: int = 3) -> str:
    """The first few names: ```a`, `b` and 3 more``."""
    shown = [f"`{name}`" for name in names[:most]]
    rest = len(names) - len(shown)
    if rest:
        return ", ".join(shown) + f" and {rest:,} more"
    return ", ".join(shown[:-1]) + " and " * (len(shown) > 1) + (shown[-1] if shown else "none")


def team(name: str) -> str:
    """Whose a quota is: a team's, or that of another scheduler's queue beside them."""
    if name.startswith(QUOTA_QUEUE):
        queue, _, flavor = name.removeprefix(QUOTA_QUEUE).partition(OF_FLAVOR)
        return f"Kueue's queue `{queue}`" + (f" (flavor `{flavor}`)" if flavor else "")
    return f"team `{name}`"


def quota_kind(world: World, name: str, kind: str) -> str:
    """Of what a quota is: of a GPU type, or of several together."""
    return "GPUs of all types" if name in world.admission.together else f"`{kind}`"


def teams(world: World) -> list[str]:
    """Whose work there may be, by name."""
    others = (COHORT, QUOTA_QUEUE)
    return sorted(
        name for name in world.queue_number if not name.startswith(others) and name != ADMITTED
    )


def either(names: Iterable[str]) -> str:
    """A choice: ```a` or `b```."""
    return " or ".join(f"`{name}`" for name in names)


def requestable(kind: str) -> str:
    """What a pod requests to get accelerators of a type; MIG instances have a resource each."""
    found = _INSTANCES.fullmatch(kind)
    return f"nvidia.com/mig-{found[1].lower().replace('+', '.')}" if found else kind


_INSTANCES = re.compile(r"(\d+G\.\d+GB(?:\+ME)?) OF .+")
"""How the books of a Kubernetes cluster call MIG instances that are requested one by one."""


def kinds(role: Role) -> str:
    """What a role may run on."""
    return either(role.kinds) if role.kinds else "accelerators of any type"


def units(milli: int, role: Role) -> str:
    """So many of what a role may run on: ``48 `h100```."""
    plain = "accelerator" if milli == WHOLE_MILLI else "accelerators"
    return f"{amount(milli)} {either(role.kinds) if role.kinds else plain}"


def labels(role: Role) -> str:
    """The labels a role asks for, but for that of its own cluster."""
    return pairs(pair for pair in role.labels if pair[0] != CLUSTER)


def node_rules(role: Role) -> str:
    """What a role asks of its nodes: labels, and what its affinity requires of them."""
    affinity = role.rules.own.affinity_words
    return " and ".join(part for part in (labels(role), affinity) if part)


def where(role: Role) -> str:
    """On which nodes, after what is asked for: `` with `zone=z` in cluster `alpha```."""
    asked = f" with {node_rules(role)}" if node_rules(role) else ""
    return asked + "".join(f" in cluster `{of}`" for key, of in role.labels if key == CLUSTER)


def pairs(some: Iterable[tuple[str, str]]) -> str:
    """Labels or taints: ```dedicated=inference` and `gpu```; what is no label, by its words."""
    return " and ".join(_pair(key, value) for key, value in some)


def _pair(key: str, value: str) -> str:
    if key == RESOURCE:
        return f"devices by {value}" if " " in value else f"an advertised `{value}`"
    if key == BY_CLAIM:
        return "devices that are allocated by claims"
    return f"`{key}={value}`" if value and is_label(key) else f"`{key}`"


def is_label(key: str) -> bool:
    """Whether this names a label; else it is words for a resource, or devices, that nodes have."""
    return " " not in key and key not in (RESOURCE, BY_CLAIM)


def may_drop(key: str) -> bool:
    """Whether somebody may leave out this label, or this resource beside the accelerators; by what
    resource, or of what device class, those themselves are requested is no label of anybody's.
    """
    return key != CLUSTER and (is_label(key) or key.endswith(PER_ACCELERATOR))


def dropped(role: Role) -> str:
    """What a role asks of its nodes that somebody may leave out; "": nothing."""
    labels = tuple(pair for pair in role.labels if may_drop(pair[0]))
    return node_rules(replace(role, labels=labels))


def affinity_of(world: World) -> str:
    """What an affinity stands for: our scheduler keeps rules about other pods as such, too."""
    return "node affinity, or a rule about other pods or ports," if world.scheduler else AFFINITY


def unkept(shape: Shape) -> str:
    """What a role asks of its nodes that the books cannot say; "": nothing."""
    more = (one.name.removeprefix(UNKEPT) for one in shape.roles if one.name.startswith(UNKEPT))
    return next(more, "")


def place_rules(shape: Shape) -> str:
    """By which rules a job is where it is, beside those about nodes; "": none."""
    names = (one.name for one in shape.roles if one.name.startswith(BESIDE))
    return unkept(shape) or next((name.removeprefix(BESIDE) for name in names), "")


def asks(shape: Shape) -> str:
    """What a gang asks for: ``4×8 `h100```, roles joined by ``+``; elastic: ``1 to 4×8 `h100```."""
    tied = "".join(map(_tied, shape.bonds)) + _divided(shape.parallelism)
    return " + ".join(_asks(role) for role in shape.roles) + tied


def replicas(role: Role, count: int) -> str:
    """So many replicas of a role and the size of each: ``2 replicas of 4``."""
    size = f"`{role.profile}`" if role.profile else amount(role.replica_milli)
    size = size if role.accelerators else many_cores(role.cpu_milli)
    return f"{many(count, 'replica')} of {size}"


def all_replicas(roles: Iterable[Role]) -> list[str]:
    """The replicas of several roles; those of one size in one: ``4 replicas of 8``."""
    counts, first = dict[str, int](), dict[str, Role]()
    for role in roles:
        size = replicas(role, 1)
        counts[size] = counts.get(size, 0) + role.count
        first.setdefault(size, role)
    return [replicas(first[size], count) for size, count in counts.items()]


def replicas_of(role: Role, count: int) -> str:
    """The same as it may be requested, with what it is of: ``8 replicas of 0.25 GPU``."""
    if role.profile or not role.accelerators:
        return replicas(role, count)
    return f"{replicas(role, count)} GPU" + "s" * (role.replica_milli > WHOLE_MILLI)


def together(role: Role, replicas: int) -> str:
    """Replicas that are to sit together, as accelerators where they have any."""
    if not role.accelerators:
        return many(replicas, "replica")
    return amount(replicas * role.replica_milli)


def hop(world: World, j: int) -> str:
    """How far apart a gang sits: ``; worst hop: `rack`, steps take 12.5 % longer``.

    Nothing of one node in a fleet that declares no tier inside nodes: it leaves none.
    """
    found, slow_ppm = world.jobs.hop.item(j), world.jobs.slow_ppm.item(j)
    if found == NO_HOP or not world.placements[j]:
        return ""
    tier = None if found == APART else world.topology.tiers[found - 1]
    if len({piece.node for piece in world.placements[j]}) == 1 and (tier is None or tier.label):
        return ""
    where = "beyond every tier" if tier is None else f"`{tier.name}`"
    slow = f", steps take {amount(slow_ppm, 10_000)} % longer than at its best" if slow_ppm else ""
    return f"; worst hop: {where}{slow}"


def shares(world: World, j: int) -> str:
    """How the productive time of a job divides: ``; its time at its best: 41 % useful, …``."""
    jobs, known = world.jobs, CONFIDENCES[world.jobs.confidence.item(j)]
    if known is Confidence.UNKNOWN:
        return ""
    parts = (
        (jobs.mfu_ppm.item(j), "useful"),
        (jobs.links_ppm.item(j), "waiting for links"),
        (jobs.host_ppm.item(j), "waiting for its host"),
    )
    told = ", ".join(f"{amount(ppm, 10_000)} % {what}" for ppm, what in parts if ppm)
    return f"; its time: {told or 'all below peak FLOP/s'} ({known})"


def slices(shape: Shape, pieces: Sequence[Piece], most: int = 3) -> str:
    """Which MIG instances a job holds: `` (`3g.40gb` on slices 0 to 3 of device 2)``."""
    found = [_instance(shape, piece) for piece in pieces if piece.slices]
    rest = f" and {len(found) - most:,} more" * (len(found) > most)
    return f" ({', '.join(found[:most])}{rest})" if found else ""


def _instance(shape: Shape, piece: Piece) -> str:
    run = piece.slices & 0xFF  # above them is the bit of the media engines
    first, last = (run & -run).bit_length() - 1, run.bit_length() - 1
    where = f"slice {first}" if first == last else f"slices {first} to {last}"
    device = piece.devices.bit_length() - 1
    return f"`{shape.roles[piece.role].profile}` on {where} of device {device}"


def advertised(world: World, nodes: Iterable[str]) -> str:
    """How many of their accelerators nodes show, such as ``advertises 6 of 8``."""
    told = sorted({_advertised(world, world.node_number[name]) for name in nodes})
    return f"advertises {' or '.join(told)}"


def _advertised(world: World, n: int) -> str:
    whole, silent = world.nodes.devices.item(n), world.matrices.nodes.item(n, NODE.UNADVERTISED)
    lacking = world.nodes.failed.item(n) if world.is_looked_on else silent
    return f"{whole - lacking} of {whole}"


def with_words(world: World, name: str) -> str:
    """A node, and why it is out where its own cluster says it."""
    said = world.node_words.get(world.node_number[name])
    called = f"`{lives.origin(name, world.node_number)}`"
    return f"{called}: {said}" if said else called


def own_reason(world: World, j: int) -> str:
    """What the cluster's own scheduler says of a waiting job, who owns that, and how to see it."""
    found = world.reason_of(j)
    if found is None:
        return ""
    said, to_see, command = found.words.partition(TO_SEE_IT)
    number = world.job_names[j].rpartition("/")[2].partition("#")[0]
    owner = Layer(found.layer).name.lower()
    return f"{said} (owner: {owner}){to_see}{command.replace(JOB_NUMBER, number)}"


def since(waited_ms: int) -> str:
    """How long something has lasted."""
    return duration_text(waited_ms)


def band(found: Band, reach_ms: int) -> str:
    """When something starts: ``about 16m (p10 to p90: 9m to 1h 9m)``; its middle is known."""
    late = f"more than {since(reach_ms)}" if found.p90_ms is None else since(found.p90_ms)
    return f"about {since(found.p50_ms or 0)} (p10 to p90: {since(found.p10_ms or 0)} to {late})"


def price(fix: PricedFix) -> str:
    """What a fix costs."""
    if fix.usd_micro_per_hour is None:
        return "price unknown"
    if fix.lost_milli_ms:
        hours = amount(fix.lost_milli_ms // HOUR_MS)
        lost = f"{hours} accelerator-hours of lost work"
        if fix.lost_usd_micro is not None:
            lost += f", {dollars_text(fix.lost_usd_micro)}"
        return lost + (f", and {_hourly(fix)}" if fix.usd_micro_per_hour else "")
    nothing = "no extra cost" if fix.lost_usd_micro is not None else "unknown lost work"
    return _hourly(fix) if fix.usd_micro_per_hour else nothing


def _hourly(fix: PricedFix) -> str:
    return hourly_text(fix.usd_micro_per_hour)


def _asks(role: Role) -> str:
    count = f"{role.least} to {role.count}×" if 0 < role.least < role.count else f"{role.count}×"
    if not role.accelerators:
        size = many_cores(role.cpu_milli)
        return f"{count}{size}" if role.count > 1 else size
    size = f"`{role.profile}`" if role.profile else amount(role.replica_milli)
    is_one = role.count == 1 and size == "1"
    any_type = " accelerator of any type" if is_one else " accelerators of any type"
    kinds = f" {either(role.kinds)}" if role.kinds else any_type
    tied = "".join(map(_tied, role.bonds))
    return (f"{count}{size}" if role.count > 1 else size) + kinds + where(role) + tied


def _divided(stated: Parallelism | None) -> str:
    """The groups of ranks that a gang would have together."""
    names = ("tensor", "context", "expert", "pipeline") if stated is not None else ()
    found = [f"{name}={size}" for name in names if (size := getattr(stated, name)) > 1]
    return f", if possible with the ranks of {', '.join(found)} together" if found else ""


def _tied(bond: Bond) -> str:
    each = f", every {bond.each}" if bond.each else ""
    return f"{each} {'in' if bond.is_required else 'if possible in'} one `{bond.tier}`"
