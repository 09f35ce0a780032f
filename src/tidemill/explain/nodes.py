"""Verdicts: what each node says to one role of a job, and all nodes that say the same together.

A node is asked in a fixed order and the first "no" is its verdict: kind, labels, state, spare,
size, free devices, CPU, memory, the team's limit, a reservation of
others. Columns only; rows are made at the end.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from tidemill.explain import phrasing, site, supply
from tidemill.explain.answers import NodeVerdict, VerdictGroup
from tidemill.model import lives
from tidemill.model.rows import BY_CLAIM, CLUSTER, RESOURCE, Role
from tidemill.model.site_rules import KeptNodes
from tidemill.model.states import NodeState
from tidemill.model.tables import I64
from tidemill.model.world import Group, World
from tidemill.scheduling import eligibility, shares
from tidemill.scheduling.snapshot import Snapshot


class Verdict(IntEnum):
    """What a node says, in the order in which it is asked; OK is last."""

    KIND = 0
    LABEL = 1
    STATE = 2
    SPARE = 3
    TOO_SMALL = 4
    DEVICES = 5
    CPU = 6
    MEMORY = 7
    LIMIT = 8
    RESERVED = 9
    OK = 10


UNKNOWN = "unknown"


class Survey(NamedTuple):
    """The verdicts of all nodes that are not gone, as columns."""

    world: World
    role: Role
    nodes: I64
    verdict: I64
    hosts: I64
    slots: I64
    """Free devices that count for the role, or parts of devices."""
    kept: tuple[KeptNodes, ...]
    """Reservations that keep nodes for others."""
    unkept: str
    """Rules of the job that the books do not have: where there is room it may be kept off."""


def verdicts(world: World, job: int) -> list[NodeVerdict]:
    """One row for each node that is not gone; for the first role that is short."""
    found = survey(world, job, _short_role(world, job))
    columns = (found.nodes, found.verdict, found.hosts, _lacked(found))
    return [_row(found, *row) for row in zip(*(c.tolist() for c in columns), strict=True)]


def groups(
    world: World, job: int, role: int | None = None, examples: int = 3
) -> list[VerdictGroup]:
    """The same, one row for each verdict (and state, or what of its rules keeps it out).

    Those with room come first, then the most frequent.
    """
    found = survey(world, job, _short_role(world, job) if role is None else role)
    state = np.where(found.verdict == Verdict.STATE, _states(world)[found.nodes], -1)
    state = np.where(found.verdict == Verdict.LABEL, _like_kept_out(found), state)
    lacked = _lacked(found)
    rows = []
    for verdict in Verdict:
        for at in sorted({*state[found.verdict == verdict].tolist()}):
            here = np.flatnonzero((found.verdict == verdict) & (state == at))
            rows.append(_group(found, verdict, here, lacked[here], examples))
    return sorted(rows, key=lambda row: (row.verdict not in ("ok", UNKNOWN), -row.nodes))


def survey(world: World, job: int, role: int = 0) -> Survey:
    """Ask every node."""
    asks = world.shape_of(job).roles[role]
    rows, table = world.node_count, world.nodes
    here = np.flatnonzero(table.state[:rows] != NodeState.GONE)
    slots = supply.hosting(world, asks)[here]
    hosts = Snapshot(world, sweeps=True).hosts(asks, eligibility.anywhere(world, asks).is_ok)[here]
    q = int(world.shapes.queue[world.jobs.shape[job]])
    kept, is_kept = site.kept_from(world, job), np.zeros(rows, bool)
    for one in kept:
        is_kept |= site.mask_of(world, one)
    checks = [*_checks(world, asks, here, slots, q), (Verdict.RESERVED, is_kept[here])]
    verdict = np.full(len(here), int(Verdict.OK), np.int64)
    for code, says_no in reversed(checks):
        verdict[says_no] = code
    hosts = np.where(verdict == Verdict.OK, hosts, 0)
    unkept = phrasing.unkept(world.shape_of(job))
    return Survey(world, asks, here, verdict, hosts, slots, kept, unkept)


def _short_role(world: World, job: int) -> int:
    roles = world.shape_of(job).roles
    short = (r for r, role in enumerate(roles) if survey(world, job, r).hosts.sum() < role.count)
    return next(short, 0)


def _checks(
    world: World, role: Role, here: I64, slots: I64, q: int
) -> list[tuple[Verdict, np.ndarray]]:
    table = world.nodes
    kind_ok = [eligibility.takes_type(kind, role) for kind in world.kinds]
    limit_ok = [
        not role.total_milli
        or shares.allow(world, world, world.kind_free_milli, q, k, role.total_milli)
        for k in range(len(world.kinds))
    ]
    any_kind = eligibility.anywhere(world, _rules_alone(role)).is_ok
    group_ok = np.array([*any_kind, 0], bool)
    free_cpu, free_memory = table.cpu_free_milli[here], table.memory_free_mib[here]
    return [
        (Verdict.KIND, ~np.array([*kind_ok, False])[table.kind[here]]),
        (Verdict.LABEL, ~group_ok[table.group[here]]),
        (Verdict.STATE, table.state[here] != NodeState.READY),
        (Verdict.SPARE, table.is_spare[here] == 1),
        (Verdict.TOO_SMALL, table.devices[here] < role.accelerators),
        (Verdict.DEVICES, slots < role.accelerators),
        (Verdict.CPU, free_cpu < role.cpu_milli),
        (Verdict.MEMORY, free_memory < role.memory_mib),
        (Verdict.LIMIT, ~np.array([*limit_ok, True])[table.kind[here]]),
    ]


def _lacked(found: Survey) -> I64:
    """How much each node has free of the resource of which it has too little."""
    table, verdict = found.world.nodes, found.verdict
    cpu, memory = table.cpu_free_milli[found.nodes], table.memory_free_mib[found.nodes]
    return np.where(
        verdict == Verdict.CPU, cpu, np.where(verdict == Verdict.MEMORY, memory, found.slots)
    )


def _states(world: World) -> I64:
    """The state of each node as a number; those that are closed in different ways have others."""
    found = world.nodes.state[: world.node_count].astype(np.int64)
    for i, here in enumerate(supply.closed(world).values()):
        found[here] = len(NodeState) + i
    return found


def _row(found: Survey, n: int, verdict: int, hosts: int, free: int) -> NodeVerdict:
    world = found.world
    return NodeVerdict(
        lives.node_name(world, n),
        world.kinds[world.nodes.kind.item(n)],
        phrasing.shut(world, n),
        world.nodes.free_milli.item(n),
        hosts,
        _name(found, Verdict(verdict)),
        _words(found, Verdict(verdict), n, (free, free)),
    )


def _group(found: Survey, verdict: Verdict, here: I64, free: I64, examples: int) -> VerdictGroup:
    world, nodes = found.world, found.nodes[here]
    names = tuple(lives.node_name(world, n) for n in nodes[:examples].tolist())
    name = _name(found, verdict)
    if verdict is Verdict.STATE:
        name = phrasing.shut(world, int(nodes[0]))
    return VerdictGroup(
        name, len(here), int(world.nodes.free_milli[nodes].sum()), int(found.hosts[here].sum()),
        names, _words(found, verdict, int(nodes[0]), (int(free.min()), int(free.max()))),
    )  # fmt: skip


def _name(found: Survey, verdict: Verdict) -> str:
    """The verdict as a key; unknown where there is room, and rules that the books do not have."""
    is_unknown = verdict is Verdict.OK and found.unkept
    return UNKNOWN if is_unknown else verdict.name.lower()


def _words(found: Survey, verdict: Verdict, n: int, free: tuple[int, int]) -> str:
    """The verdict of one node, or of several like it of which the free amounts span a range."""
    world, role, table = found.world, found.role, found.world.nodes
    match verdict:
        case Verdict.KIND:
            asked = f"profile `{role.profile}` of " if role.profile else ""
            return f"`{world.kinds[table.kind[n]]}`, it requests {asked}{phrasing.kinds(role)}"
        case Verdict.LABEL:
            return kept_out(found.role, world.groups[int(table.group[n])])
        case Verdict.STATE:
            if world.is_tainted(n) or world.is_full(n):
                return world.node_words[n]
            said = f": {world.node_words[n]}" if n in world.node_words else ""
            return phrasing.state(world, n) + said
        case Verdict.SPARE:
            return "kept as a hot spare"
        case Verdict.LIMIT:
            kind = world.kinds[table.kind[n]]
            return f"fits, but the team's maximum quota of `{kind}` is reached"
        case Verdict.RESERVED:
            return _reserved(found, n)
        case Verdict.OK if found.unkept:
            return f"room, but whether it may be here is unknown: it has {found.unkept}"
        case Verdict.OK:
            return "ok"
        case _:
            return _too_little(role, verdict, int(table.devices[n]), free)


def _reserved(found: Survey, n: int) -> str:
    mine = [one.name for one in found.kept if site.mask_of(found.world, one)[n]]
    return (
        f"free, but reservation {', '.join(mine)} keeps it for others: who may use it is not read"
    )


def _too_little(role: Role, verdict: Verdict, devices: int, free: tuple[int, int]) -> str:
    match verdict:
        case Verdict.TOO_SMALL:
            return f"too small: {devices} of {phrasing.many(role.accelerators, 'device')}"
        case Verdict.CPU:
            return (
                f"CPU: {_span(free, phrasing.cores)} of {phrasing.many_cores(role.cpu_milli)} free"
            )
        case Verdict.MEMORY:
            return (
                f"memory: {_span(free, phrasing.gib)} of {phrasing.gib(role.memory_mib)} GiB free"
            )
        case _ if role.profile:
            return f"no device with free slices where a `{role.profile}` may start"
        case _:
            return f"too few free devices: {_span(free, str)} of {role.accelerators}"


def _rules_alone(role: Role) -> Role:
    return Role(labels=role.labels, tolerates=role.tolerates, affinity=role.affinity)


def _span(free: tuple[int, int], text: Callable[[int], str]) -> str:
    least, most = text(free[0]), text(free[1])
    return least if least == most else f"{least} to {most}"


def _like_kept_out(found: Survey) -> I64:
    """For each node that rules keep it off, a number that those which say the same share."""
    first: dict[str, int] = {}
    like = np.zeros(len(found.world.groups) + 1, np.int64)
    groups = found.world.nodes.group[found.nodes]
    for g in np.unique(groups[found.verdict == Verdict.LABEL]).tolist():
        like[g] = first.setdefault(kept_out(found.role, found.world.groups[g]), g)
    return like[groups]


def kept_out(role: Role, group: Group) -> str:
    """What of its labels, affinity and tolerations keeps a role off nodes that are alike."""
    return "; ".join(reasons_against(role, group))


def reasons_against(role: Role, group: Group) -> list[str]:
    """The same, one by one."""
    rules = role.rules
    said = list[str]()
    missing = [pair for pair in rules.labels if pair not in group.labels]
    named = [value for key, value in missing if key == RESOURCE]
    missing = [pair for pair in missing if pair[0] != RESOURCE]
    if any(key == CLUSTER for key, _ in missing):
        said.append("it is of another cluster")
    elif missing:
        lacks = [pair for pair in missing if not phrasing.is_label(pair[0])]
        labels = [pair for pair in missing if phrasing.is_label(pair[0])]
        said += [f"label {phrasing.pairs(labels)} missing"] if labels else []
        said += [f"has no {phrasing.pairs(lacks)}"] if lacks else []
    own = rules.own
    if own.affinity and own.misses(group.labels):
        said.append(f"node affinity: it must have {own.affinity_words}")
    else:
        said += rules.said_of(group.labels)
    said += [f"does not advertise `{one}`" for one in named if " " not in one]
    said += ["gives out no devices by claims" for one in named if " " in one]
    repelled = [pair for pair in rules.repelled_by(group.taints) if pair[0] != BY_CLAIM]
    if repelled:
        said.append(f"taint {phrasing.pairs(repelled)} not tolerated")
    if len(repelled) < len(rules.repelled_by(group.taints)):
        said.append("its devices are allocated by claims")
    return said
