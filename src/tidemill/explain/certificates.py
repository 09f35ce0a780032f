"""Certificates: why something never fits, in one line, with the nearest thing that would.

Asked of the contracts alone, as ``scheduling.diagnose.ever_cause`` asks: the fleet is not searched.
What would run now instead is a few counts over its columns (``nearest``). That something does not
fit *now* is read off an open case (``shortfalls``).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.explain import nearest, phrasing
from tidemill.explain.answers import Certificate
from tidemill.explain.trials import Trials
from tidemill.model import lives
from tidemill.model.reasons import NEVER, Cause
from tidemill.model.rows import Contract, Role, Shape, Template
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.scheduling import contract_capacity, diagnose, mixed_types, shares
from tidemill.scheduling.topology import feasibility, place
from tidemill.units import capability
from tidemill.units.mig import geometry as mig

SHORT = "short of devices that work"
_Look = tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]
"""Labels and taints of nodes."""


class Claim(NamedTuple):
    """The role that can never be placed, and the contracts of its kinds."""

    world: World
    shape: Shape
    role: Role
    contracts: tuple[Contract, ...]

    @property
    def labelled(self) -> tuple[Contract, ...]:
        """Those that have nodes which it may use."""
        world, role = self.world, self.role
        found = contract_capacity.usable(world, role, self.contracts)
        return tuple(row for row, _ in found) or self.contracts

    @property
    def whose(self) -> str:
        """What the largest node is the largest of, where it may not use others; "": of all."""
        return " that it may use" if len(self.labelled) < len(self.contracts) else ""


def certificate(world: World, shape: Shape, known: Cause = Cause.NONE) -> Certificate | None:
    """The proof that a gang never fits; None where it could some day. ``known``: a quota that was
    found to be too small for its roles together, by placing them.
    """
    cause = diagnose.ever_cause(world, shape)
    if cause not in NEVER and known is Cause.OVER_LIMIT_ALWAYS:
        cause = known
    if cause not in NEVER:
        return None
    role = shape.roles[guilty_role(world, shape)]
    claim = Claim(world, shape, role, tuple(contract_capacity.running_contracts(world, role)))
    return _PROOFS[cause](claim)


def with_nearest(found: Certificate, wish: nearest.Wish, trials: Trials) -> Certificate:
    """The same certificate with what the scheduler would place now instead."""
    return replace(found, fits_now=nearest.alternatives(wish, trials))


def guilty_role(world: World, shape: Shape) -> int:
    """The first role that can never be placed by itself."""
    far = feasibility.lack(world, shape)
    if far is not None:
        return far.role
    for r, role in enumerate(shape.roles):
        if diagnose.ever_cause(world, replace(shape, roles=(role,))) in NEVER:
            return r
    return 0


def _no_kind(claim: Claim) -> Certificate:
    world, role = claim.world, claim.role
    counts: dict[str, int] = {}
    for row in contract_capacity.running_contracts(world, Role()):
        counts[row.kind] = counts.get(row.kind, 0) + contract_capacity.devices(world, row)
    found = ", ".join(f"{count:,} `{kind}`" for kind, count in sorted(counts.items()))
    do = {
        phrasing.requestable(kind) for kind in counts
        if capability.may_replace(role.kinds, kind, is_strict=world.is_observed)
    } or {*map(phrasing.requestable, counts)}  # fmt: skip
    return Certificate(
        "kind", role.total_milli, 0, "accelerator_milli",
        _without(world, phrasing.kinds(role), found or "nothing at all"),
        f"request {phrasing.either(sorted(do))}"
        if counts else "sign a contract first",
    )  # fmt: skip


def _without(world: World, kinds: str, found: str) -> str:
    if world.is_observed:
        return f"no node has {kinds}; the cluster has: {found}"
    return f"no contract has {kinds}; contracts cover: {found}"


def _no_label(claim: Claim) -> Certificate:
    """Labels that no node has; else its node affinity; else taints on all that are left."""
    role, looks = claim.role, _looks(claim)
    seen = frozenset[tuple[str, str]]().union(*(labels for labels, _ in looks))
    devices = sum(contract_capacity.devices(claim.world, row) for row in claim.contracts)
    whole = f"the {devices:,} {phrasing.kinds(role)} {phrasing.claimed(claim.world)}"
    labelled = [look for look in looks if {*role.labels} <= look[0]]
    chosen = [look for look in labelled if not role.rules.misses(look[0])]
    tainted = phrasing.pairs(_repelling(role, chosen or labelled))
    tolerate = f"tolerate {tainted}, if whoever set it agrees"
    if not labelled:
        missing = [pair for pair in role.labels if pair not in seen] or list(role.labels)
        said = f"none of {whole} is on a node with {phrasing.pairs(missing)}"
        way = "; and ".join(_without_label(missing, seen))
    elif not chosen:
        asked = role.rules.affinity_words
        with_them = f" with {phrasing.labels(role)}" if phrasing.labels(role) else ""
        by = phrasing.affinity_of(claim.world)
        said = f"none of {whole}{with_them} is on a node with {asked}, as its {by} requires"
        keys = {one.key for choice in role.affinity for one in choice if phrasing.is_label(one.key)}
        values = {key: _values(seen, key) for key in sorted(keys)}
        known = [f"`{key}` is one of {phrasing.ids(some)}" for key, some in values.items() if some]
        way = f"widen its {by.rstrip(',')}{': ' if known else ''}{'; '.join(known)}"
        if all(role.rules.repelled_by(taints) for _, taints in labelled):
            way += f"; and {tolerate}"
    else:
        ways = [phrasing.labels(role)] if phrasing.labels(role) else []
        ways += [role.rules.affinity_words] if role.affinity else []
        with_them = f" with {' and '.join(ways)}" if ways else ""
        said = f"of {whole}, all{with_them} are on nodes with a taint that it does not tolerate"
        said += f": {tainted}"
        way = tolerate
    return Certificate("label", role.count, 0, "nodes", said, way)


def _without_label(
    missing: Sequence[tuple[str, str]], seen: frozenset[tuple[str, str]]
) -> Iterator[str]:
    """What to do about labels that no node has, and about resources and devices."""
    labels = [(key, _values(seen, key)) for key, _ in missing if phrasing.is_label(key)]
    known = [
        f"`{key}` is one of {phrasing.ids(values)}" if values else f"no node has a label `{key}`"
        for key, values in labels
    ]
    if known:
        yield f"change or drop the label: {'; '.join(known)}"
    if others := [pair for pair in missing if not phrasing.is_label(pair[0])]:
        yield f"request less, or something else: no node has {phrasing.pairs(others)}"


def _too_large(claim: Claim) -> Certificate:
    role, rows = claim.role, claim.labelled
    if role.profile and not any(mig.offers(r.kind, role.profile, role.milli) for r in rows):
        return _no_profile(role, sorted({row.kind for row in rows}))
    devices = max(row.node.devices for row in rows)
    if role.accelerators > devices:
        return _too_many_devices(claim, devices)
    large = [row for row in rows if row.node.devices >= role.accelerators]
    in_use = [row for row in large if contract_capacity.nodes_in_use(claim.world, row) > 0]
    if not in_use:
        spares = sum(row.spares for row in large)
        return Certificate(
            "spares", role.count, 0, "nodes",
            f"all {phrasing.many(spares, 'node')} that could hold it are hot spares",
            "keep fewer hot spares, or request another GPU type",
        )  # fmt: skip
    return _too_much_host(claim, in_use)


def _no_profile(role: Role, kinds: list[str]) -> Certificate:
    """No part that it may use has such instances: what they have, and what would do."""
    have, near = list[str](), list[str]()
    for kind in kinds:
        part = mig.of_kind(kind)
        names = phrasing.ids([row.name for row in part.profiles], 9) if part else "no MIG profiles"
        have.append(f"`{kind}` has {names}")
        close = mig.nearest(part, role.profile) if part else None
        if part is not None and close is not None:
            milli = part.milli(close)
            near.append(f"`{close.name}` ({phrasing.amount(milli)}) on `{kind}`")
    return Certificate(
        "profile", role.count, 0, "replicas",
        f"no GPU type that it may use has a profile `{role.profile}` of"
        f" {phrasing.amount(role.milli)}; {'; '.join(have)}",
        f"request {' or '.join(near)}" if near else "request a fraction of a device instead",
    )  # fmt: skip


def _too_many_devices(claim: Claim, devices: int) -> Certificate:
    role, of = claim.role, f" of {phrasing.either(claim.role.kinds)}" if claim.role.kinds else ""
    way = _in_smaller_replicas(claim, devices)
    asks = phrasing.dropped(role)
    if claim.whose and asks and max(n.node.devices for n in claim.contracts) >= role.accelerators:
        way += f"; or do not require {asks}: other nodes have more"
    return Certificate(
        "accelerators on one node", role.accelerators, devices, "accelerators",
        f"the largest node{of}{claim.whose} has {phrasing.many(devices, 'GPU')}, it requests"
        f" {role.accelerators} on one node",
        way,
    )  # fmt: skip


def _in_smaller_replicas(claim: Claim, devices: int) -> str:
    """The same GPUs in replicas that nodes hold; else as many as they hold; else what a replica may
    have of CPU or memory too.
    """
    role = replace(claim.role, profile="")
    total, sizes = role.count * role.accelerators, range(devices, 0, -1)
    first = [devices] if total % devices == 0 else []
    for size in (*first, *(size for size in sizes if role.accelerators % size == 0)):
        asked = replace(role, accelerators=size, count=total // size)
        if _most(claim, asked) >= asked.count:
            return (
                f"request {phrasing.replicas_of(asked, asked.count)} instead of"
                f" {role.count:,} of {role.accelerators}{_while_shut(claim, asked)}"
            )
    made = [replace(role, accelerators=size) for size in sizes]
    made = [replace(asked, count=_most(claim, asked)) for asked in made]
    asked = max(made, key=lambda asked: asked.count * asked.accelerators)
    if asked.count:
        return f"request at most {phrasing.replicas_of(asked, asked.count)}" + _while_shut(
            claim, asked
        )
    node = max(
        (row.node for row in claim.labelled), key=lambda node: (node.devices, node.cpu_milli)
    )
    return _with_less_host(claim, replace(role, accelerators=devices), node)


def _most(claim: Claim, asked: Role) -> int:
    """Replicas as another role has them that one kind would hold, if nothing ran."""
    return mixed_types.most(claim.world, _hosts_by_kind(claim._replace(role=asked)))


def _while_shut(claim: Claim, asked: Role) -> str:
    """What a way out needs of nodes that take no work now, and what does without; "": nothing."""
    world, hosts = claim.world, dict[str, int]()
    shut = dict[str, list[int]]()
    for row in claim.contracts:
        for kind, count in contract_capacity.hosts_by_kind(world, asked, (row,)).items():
            lost = contract_capacity.lost_replicas(world, row, asked)
            hosts[kind] = hosts.get(kind, 0) + count - sum(lost.values())
            shut.setdefault(kind, []).extend(lost)
    most = mixed_types.most(world, hosts)
    if most >= asked.count:
        return ""
    needed = sorted(n for some in shut.values() for n in some)
    if not needed:
        return ""
    return _once_open(world, needed, f"at most {phrasing.replicas_of(asked, most)}" if most else "")


def _of_milli(claim: Claim, milli: int) -> str:
    """The same of as many replicas as so much is."""
    count = milli // claim.role.replica_milli if claim.role.replica_milli else 0
    return _while_shut(claim, replace(claim.role, count=count)) if count else ""


def _once_open(world: World, nodes: Sequence[int], less: str) -> str:
    """That these nodes are to take work first; ``less``: what needs none of them."""
    is_short, is_one = any(contract_capacity.is_short(world, n) for n in nodes), len(nodes) == 1
    until = "that ends" if is_short else f"{'it takes' if is_one else 'they take'} work again"
    return f"; {out_now(world, nodes)}: until {until} {less or 'nothing runs'}"


def out_now(world: World, nodes: Sequence[int]) -> str:
    """That nodes take no work now, or less than they would if all of their devices worked."""
    names = phrasing.ids([lives.node_name(world, n) for n in nodes])
    short = {n for n in nodes if contract_capacity.is_short(world, n)}
    states = sorted({SHORT if n in short else phrasing.shut(world, n) for n in nodes})
    return f"{names} {'is' if len(nodes) == 1 else 'are'} {' or '.join(states)} now"


def _too_much_host(claim: Claim, rows: list[Contract]) -> Certificate:
    """CPU, memory or both of a replica are more than nodes have that have its accelerators."""
    role, nodes = claim.role, [row.node for row in rows]
    largest, size = f"the largest node{claim.whose}", lambda node: (node.cpu_milli, node.memory_mib)
    able = [node for node in nodes if node.cpu_milli >= role.cpu_milli]
    if able:
        node = max(able, key=lambda node: node.memory_mib)
        return Certificate(
            "memory on one node", role.memory_mib, node.memory_mib, "memory_mib",
            f"{largest} with its cores has {phrasing.gib(node.memory_mib)} GiB, each replica"
            f" requests {phrasing.gib(role.memory_mib)}",
            _with_less_host(claim, role, node),
        )  # fmt: skip
    most = max(node.cpu_milli for node in nodes)
    said = (
        f"{largest} has {phrasing.many_cores(most)}, each replica requests"
        f" {phrasing.cores(role.cpu_milli)}"
    )
    able = [node for node in nodes if node.memory_mib >= role.memory_mib]
    if not able:
        memory = max(node.memory_mib for node in nodes)
        said += (
            f"; {largest} by memory has {phrasing.gib(memory)} GiB, each requests"
            f" {phrasing.gib(role.memory_mib)}"
        )
    return Certificate(
        "CPU on one node", role.cpu_milli, most, "cpu_milli", said,
        _with_less_host(claim, role, max(able or nodes, key=size)),
    )  # fmt: skip


def _with_less_host(claim: Claim, asked: Role, node: Template) -> str:
    """What a replica may have of the CPU and memory of a node, and how many there may be then."""
    made = replace(
        asked, cpu_milli=min(asked.cpu_milli, node.cpu_milli),
        memory_mib=min(asked.memory_mib, node.memory_mib),
    )  # fmt: skip
    less = [phrasing.many_cores(made.cpu_milli)] * (made.cpu_milli < asked.cpu_milli)
    less += [f"{phrasing.gib(made.memory_mib)} GiB"] * (made.memory_mib < asked.memory_mib)
    made = replace(made, count=min(asked.count, _most(claim, made)))
    said = f"request at most {' and '.join(less)} per replica"
    if made.count < asked.count or asked.accelerators < claim.role.accelerators:
        said += f", and at most {phrasing.replicas_of(made, made.count)}"
    return said + _while_shut(claim, made)


def _too_wide(claim: Claim) -> Certificate:
    role, hosts = claim.role, _hosts_by_kind(claim)
    if claim.world.is_looked_on and len(hosts) > 1:  # there, each replica on any of them
        most = sum(hosts.values())
        return Certificate(
            "gang", role.count, most, "replicas", _held_of_all(claim, hosts),
            f"request at most {phrasing.replicas_of(role, most)}"
            f"{_while_shut(claim, replace(role, count=most))}",
        )  # fmt: skip
    kind = max(sorted(hosts), key=lambda kind: hosts[kind])
    rest = ""
    if len(hosts) > 1:
        every = sum(hosts.values())
        rest = f"; a role runs on one GPU type (all GPU types together: {every:,})"
    return Certificate(
        "gang", role.count, hosts[kind], "replicas",
        f"{_held_of(claim, kind, hosts[kind])}{rest}",
        f"request at most {phrasing.replicas_of(role, hosts[kind])}"
        f"{_while_shut(claim, replace(role, count=hosts[kind]))}",
    )  # fmt: skip


def _over_limit(claim: Claim) -> Certificate:
    world, shape, role = claim.world, claim.shape, claim.role
    q = world.queue_of(shape)
    named = contract_capacity.kinds_that_hold(world, role)
    mosts = {kind: shares.most_milli(world, q, world.kind_number[kind]) for kind in named}
    kind = max(mosts, key=lambda name: mosts[name][0])
    limit, team = mosts[kind][0], world.queue_rows[mosts[kind][1]].name
    if limit >= role.total_milli and world.tree.keeps and not diagnose.is_over_limits(world, shape):
        return _kept_back(claim, q, named)
    if limit >= role.total_milli:
        return _over_limit_together(claim, q)
    hosts, of = _hosts_by_kind(claim), phrasing.quota_kind(world, team, kind)
    said = (
        f"the maximum quota of {phrasing.team(team)} is {phrasing.amount(limit)} {of}, it"
        f" requests {phrasing.amount(role.total_milli)}"
    )
    most = sum(hosts.values()) if world.is_looked_on else hosts[kind]
    if most < role.count:
        is_all = world.is_looked_on and len(hosts) > 1
        said += f"; {_held_of_all(claim, hosts) if is_all else _held_of(claim, kind, most)}"
        way = _less_of_both(claim, kind, most, limit)
    else:
        over = _ids_below(world, q, kind, role.total_milli)
        way = f"{_at_most(limit)}raise the maximum quota of {over}{_of_milli(claim, limit)}"
    return Certificate("limit", role.total_milli, limit, "accelerator_milli", said, way, team=team)


def _held_of_all(claim: Claim, hosts: dict[str, int]) -> str:
    named = " and ".join(f"`{kind}`" for kind in sorted(hosts))
    most = f"{sum(hosts.values()):,} of its {phrasing.many(claim.role.count, 'replica')}"
    return f"all of {named} together, empty, would hold {most}"


def _held_of(claim: Claim, kind: str, most: int) -> str:
    return (
        f"all of `{kind}`, empty, would hold {most:,} of its"
        f" {phrasing.many(claim.role.count, 'replica')}"
    )


def _less_of_both(claim: Claim, kind: str, most: int, limit: int) -> str:
    """What a quota leaves of the replicas that a type would hold; if none, the quota for those."""
    world, role = claim.world, claim.role
    count = min(most, limit // role.replica_milli)
    less = phrasing.replicas_of(role, count or most)
    shut = _while_shut(claim, replace(role, count=count or most))
    if count:
        return f"request at most {less}{shut}"
    milli = most * role.replica_milli
    over = _ids_below(world, world.queue_of(claim.shape), kind, milli)
    to = phrasing.amount(milli)
    return f"raise the maximum quota of {over} to {to}, and request at most {less}{shut}"


def _over_limit_together(claim: Claim, q: int) -> Certificate:
    """Each role is within the quotas, and all of them are not."""
    world, need = claim.world, claim.shape.total_milli
    roles = [role for role in claim.shape.roles if role.total_milli]
    kinds = sorted({k for role in roles for k in contract_capacity.kinds_that_hold(world, role)})
    mosts = {kind: shares.most_milli(world, q, world.kind_number[kind]) for kind in kinds}
    limit = min(sum(most for most, _ in mosts.values()), need)
    team = world.queue_rows[min(mosts.values())[1]].name
    told = " and ".join(f"{phrasing.amount(mosts[kind][0])} `{kind}`" for kind in kinds)
    there = sum(diagnose.claimed_milli(world, world.kind_number[kind]) for kind in kinds)
    is_wide = diagnose.ever_cause(world, claim.shape) is not Cause.NONE and there < need
    over = phrasing.ids([*dict.fromkeys(world.queue_rows[a].name for _, a in mosts.values())])
    less = f"request at most {phrasing.amount(min(limit, there))} in all of its roles"
    more = f"raise the maximum quota of {over}"
    if not limit:
        less = f"{more}, and request at most {phrasing.amount(there)} in all of its roles"
    return Certificate(
        "limit", need, limit, "accelerator_milli",
        f"the maximum quota of {phrasing.team(team)} is {told}, its roles request"
        f" {phrasing.amount(need)} together",
        less if is_wide else f"{less}, or {more}" if limit else more, team=team,
    )  # fmt: skip


def _ids_below(world: World, q: int, kind: str, milli: int) -> str:
    """The teams, its own and those above, that may not use so much of a type."""
    k = world.kind_number[kind]
    over = [a for a in world.tree.paths[q] if world.limit[a, k] < milli]
    return phrasing.ids([world.queue_rows[a].name for a in over])


def _at_most(milli: int) -> str:
    return f"request at most {phrasing.amount(milli)}, or " if milli else ""


def _kept_back(claim: Claim, q: int, named: Sequence[str]) -> Certificate:
    """Others do not lend enough of their floors for it, even if nothing ran."""
    world, need = claim.world, claim.role.total_milli
    most, kind = max(
        (diagnose.unkept_milli(world, q, world.kind_number[kind], need), kind) for kind in named
    )
    return Certificate(
        "lending limit", need, most, "accelerator_milli",
        f"of all `{kind}` {phrasing.claimed(world)}, other teams leave {phrasing.amount(most)}; it"
        f" requests {phrasing.amount(need)}",
        f"{_at_most(most)}let them lend more of their guaranteed"
        f" quotas{_of_milli(claim, most)}", team=world.queue_rows[q].name,
    )  # fmt: skip


def _too_far_apart(claim: Claim) -> Certificate:
    found = feasibility.lack(claim.world, claim.shape)
    assert found is not None, "the cause says that there is one"
    tier, role = found.bond.tier, claim.shape.roles[found.role]
    asked, most = phrasing.together(role, found.asked), phrasing.together(role, found.most)
    nearest = f"do not require a `{tier}`"
    if found.most:
        nearest = f"request at most {most} in one `{tier}`{_in_open_tier(claim, found)}"
    return Certificate(
        f"one {tier}", found.asked, found.most, "replicas",
        f"the largest `{tier}` has {most}, it requests {asked} in one",
        f"{nearest}, or prefer the `{tier}` instead of requiring it",
    )  # fmt: skip


def _in_open_tier(claim: Claim, found: feasibility.Lack) -> str:
    """What that needs of nodes that take no work now, and what would do without; "": nothing."""
    world, role = claim.world, claim.shape.roles[found.role]
    rows = contract_capacity.running_contracts(world, role)
    shut = [n for row in rows for n in contract_capacity.shut_nodes(world, row, role)]
    number = world.topology.number(found.bond.tier)
    here = place.at_its_best(world, shut)
    most = min(found.most, feasibility.most_together(here, role, number)) if shut else found.most
    less = f"at most {phrasing.together(role, most)}" if most else ""
    return _once_open(world, shut, less) if most < found.most else ""


_PROOFS: dict[Cause, Callable[[Claim], Certificate]] = {
    Cause.NOTHING_CLAIMED: _no_kind,
    Cause.IMPOSSIBLE_LABEL: _no_label,
    Cause.IMPOSSIBLE_SIZE: _too_large,
    Cause.IMPOSSIBLE_GANG: _too_wide,
    Cause.OVER_LIMIT_ALWAYS: _over_limit,
    Cause.IMPOSSIBLE_TOPOLOGY: _too_far_apart,
}


def _repelling(role: Role, looks: Sequence[_Look]) -> list[tuple[str, str]]:
    """The taints of nodes that it does not tolerate."""
    return sorted({pair for _, taints in looks for pair in role.rules.repelled_by(taints)})


def _looks(claim: Claim) -> list[_Look]:
    """Labels and taints of the nodes of its kinds, as promised and as seen."""
    kinds, pools = {row.kind for row in claim.contracts}, {row.pool for row in claim.contracts}
    world, nodes = claim.world, claim.world.nodes
    there = nodes.group[: world.node_count][nodes.state[: world.node_count] != NodeState.GONE]
    groups = [world.groups[g] for g in sorted({*there.tolist()})]
    found = [
        (group.labels, group.taints) for group in groups
        if world.kinds[group.kind] in kinds and group.pool in pools
    ]  # fmt: skip
    promised = (row.node for row in claim.contracts)
    return found or [(frozenset(node.labels), frozenset(node.taints)) for node in promised]


def _values(seen: frozenset[tuple[str, str]], key: str) -> list[str]:
    return sorted(value for name, value in seen if name == key)


def _hosts_by_kind(claim: Claim) -> dict[str, int]:
    return contract_capacity.hosts_by_kind(claim.world, claim.role, claim.contracts)
