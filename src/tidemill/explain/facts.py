"""Facts: the numbers behind a cause, each with its words and the command that shows it."""

from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from tidemill.engine.fold.earlier import OVER_COMMITTED
from tidemill.explain import (
    commands,
    holders,
    in_the_way,
    nodes,
    partial_gangs,
    phrasing,
    quota,
    setbacks,
    spared,
    supply,
    without_host,
)
from tidemill.explain.answers import Fact, GangDeadlock, Withheld
from tidemill.explain.context import NO_SUPPLY, Case
from tidemill.explain.supply import Lot, Place
from tidemill.model import lives
from tidemill.model.measures import duration_text, hourly_text
from tidemill.model.node_rules import EVERY_TAINT
from tidemill.model.reasons import NEVER, Cause
from tidemill.model.rows import Role
from tidemill.model.states import JobClass
from tidemill.model.topology import Bond
from tidemill.model.world import World
from tidemill.scheduling import elastic, eligibility, shares
from tidemill.scheduling.diagnose import fits_when_others_end, supply_cause
from tidemill.scheduling.order import guarded_from_ms
from tidemill.scheduling.topology import constraints, feasibility, place

Make = Callable[[Case], Fact | None]

MILLI = "accelerator_milli"
NAMED = 3
"""Nodes that are named."""


def evidence(case: Case) -> tuple[Fact, ...]:
    """The numbers that prove the cause, the most telling first."""
    shown = _ROOM if case.waits.is_block else ()
    mine = shown if case.is_only_told else _OF_CAUSE.get(case.cause, ())
    made = (make(case) for make in (_unlisted, _due, *mine, *_ALWAYS))
    return tuple(fact for fact in made if fact is not None)


def _unlisted(case: Case) -> Fact | None:
    """Nodes of which only what jobs hold is known."""
    words = supply.unlisted_words(case.before)
    if not words:
        return None
    count = int(supply.unlisted_mask(case.before).sum())
    return Fact("nodes not listed", count, "nodes", words, commands.nodes(case.in_queue))


def _due(case: Case) -> Fact | None:
    """Whom the next cycle places before it; every other number is of what they leave."""
    if not case.due:
        return None
    milli = sum(supply.held_milli(case.world, j) for j in case.due)
    names = phrasing.ids([case.world.job_names[j] for j in case.due])
    counted = f"{phrasing.amounts(milli, 'GPU')}, no longer free for it"
    text = f"the next cycle places {names} before it ({counted})"
    return Fact("placed before it", milli, MILLI, text, commands.line(case.before, case.j))


def claimed(case: Case) -> Fact:
    """What contracts promise of the kinds and labels it asks for."""
    world, milli = case.world, case.supply.claimed_milli
    names = [world.contract_rows[c].name_at(world.now_ms) for c in case.supply.contracts]
    claimed_word = phrasing.claimed(world)
    said = f"{case.units(milli)} {claimed_word}" if milli else f"none {claimed_word}"
    under = f" ({phrasing.ids([*dict.fromkeys(names)])})" if names else ""
    return Fact("claimed", milli, MILLI, f"{said}{under}", commands.contracts(world))


def ready(case: Case) -> Fact:
    """What takes work, busy or free."""
    milli = case.supply.ready_milli
    text = f"{case.units(milli)} Ready and schedulable"
    if full := case.supply.milli(Place.FULL):
        text = f"{case.units(milli)} Ready, {phrasing.amount(full)} on nodes that take no more pods"
    return Fact("ready", milli, MILLI, text, commands.ready(case.before, case.in_queue))


def free(case: Case) -> Fact:
    """What is free, and on how many nodes."""
    blocks = case.blocks
    where = f" on {phrasing.many(blocks.nodes, 'node')}" if blocks.nodes else ""
    text = f"{case.units(blocks.free_milli)} free{where}"
    if supply.unlisted_mask(case.world).any():
        text = f"at least {text}"
    return Fact("free", blocks.free_milli, MILLI, text, commands.nodes(case.in_queue))


def needs(case: Case) -> Fact:
    """What it asks for: the role alone, or every role of several."""
    roles = elastic.smallest(case.shape).roles
    texts = phrasing.all_replicas(roles)
    if len(roles) == 1:
        texts = [_alone(case.role) or texts[0]]
    if case.shape.elastic_role is not None:
        texts = [phrasing.replicas(role, role.count) for role in roles]
        texts[case.shape.elastic_role] += " at its smallest size"
    milli = sum(role.total_milli for role in roles)
    text = f"needs {' and '.join(texts)}"
    return Fact("needs", milli, MILLI, text, commands.job(case.before, case.in_queue))


def _alone(role: Role) -> str:
    """One replica that is a whole job, or MIG instances, in fewer words."""
    if role.count == 1 and role.accelerators > 1:
        return f"{role.accelerators} on one node"
    if role.profile:
        return f"{phrasing.many(role.count, 'MIG instance')} of `{role.profile}`"
    is_one = role.count == 1 and role.accelerators
    return f"{phrasing.amount(role.replica_milli)} GPU" if is_one else ""


def withheld(case: Case) -> tuple[Withheld, ...]:
    """What it could use but takes no work, as answers show it."""
    return tuple(_withheld(case.before, place, lot) for place, lot in case.withheld())


def _withheld(world: World, place: Place, lot: Lot) -> Withheld:
    named = phrasing.ids([lives.origin(one, world.node_number) for one in lot.examples])
    if any(world.node_number[name] in world.node_words for name in lot.examples):
        named = ", ".join(phrasing.with_words(world, name) for name in lot.examples)
    where = f" ({named})" if named and lot.nodes <= 3 else ""
    called = place_word(world, place, lot)
    usd = lot.usd_micro_per_hour
    paid = "" if usd == 0 else f", {'paid ' * (usd is not None)}{hourly_text(usd)}"
    on = f"{called} on {phrasing.many(lot.nodes, 'node')}"
    text = f"{phrasing.amount(lot.milli)} {on}{where}{paid}"
    return Withheld(place.name.lower(), lot.milli, lot.nodes, lot.usd_micro_per_hour, text)


def place_word(world: World, place: Place, lot: Lot) -> str:
    """Where accelerators are; where not all are advertised, how many."""
    if place is Place.UNADVERTISED:
        is_said = any(world.node_number[one] in world.node_words for one in lot.examples)
        return place if is_said else f"{place} ({phrasing.advertised(world, lot.examples)})"
    return place


def _largest(case: Case) -> Fact | None:
    if case.role.profile:
        return None
    most, what = case.blocks.largest, "largest free block"
    return Fact(what, most, "accelerators", f"{what} {most}", commands.nodes(case.in_queue))


def _barred(case: Case) -> Fact | None:
    """What is free of its GPU types on nodes that its labels, affinity or tolerations rule out."""
    world, role = case.world, case.role
    if not role.accelerators:
        return None
    loose = replace(role, labels=(), affinity=(), tolerates=(EVERY_TAINT,))
    every = supply.open_mask(world, eligibility.options(world, loose))
    here = np.flatnonzero(every & ~supply.node_mask(world, case.options))
    here = here[world.nodes.free_milli[here] > 0]
    if not len(here):
        return None
    milli = int(world.nodes.free_milli[here].sum())
    groups = np.unique(world.nodes.group[here]).tolist()
    why = list(
        dict.fromkeys(one for g in groups for one in nodes.reasons_against(role, world.groups[g]))
    )
    more = f"; and {phrasing.many(len(why) - 2, 'more reason')}" if len(why) > 2 else ""
    text = (
        f"{phrasing.amount(milli)} more free on {phrasing.many(len(here), 'node')} that it may not"
        f" use: {'; '.join(why[:2])}{more}"
    )
    return Fact("free, not for it", milli, MILLI, text, commands.nodes(case.in_queue))


def _hosted(case: Case) -> Fact | None:
    if case.role.count == 1 and not case.role.profile and not case.beside:
        return None
    text = f"{case.hosted:,} of {phrasing.many(case.role.count, 'replica')} would fit now"
    if case.beside:
        asked = phrasing.replicas(case.role, case.role.count)
        named = " and ".join(phrasing.all_replicas(case.beside))
        text = f"{case.hosted:,} of {asked} would fit now beside {named}"
    together = bond(case)
    is_apart = together is not None and together[2] < min(together[1], case.hosted)
    text += f" anywhere, not in one `{together[0].tier}`" if together and is_apart else ""
    if case.role.profile:
        text += f": no other device has free slices where one may start for `{case.role.profile}`"
    return Fact("replicas that fit", case.hosted, "replicas", text, commands.nodes(case.in_queue))


def _busy(case: Case) -> Fact:
    milli = case.busy_milli
    return Fact("busy", milli, MILLI, f"{case.units(milli)} busy", commands.running())


def over_committed(case: Case) -> dict[int, str]:
    """Nodes that it may use where more is in use than they have, and what is said of them."""
    world = case.before
    over = {n: said for n, said in world.node_words.items() if said.startswith(OVER_COMMITTED)}
    mine = supply.node_mask(world, case.options) if over else ()
    return {n: said for n, said in sorted(over.items()) if mine[n]}


def _over_committed(case: Case) -> Fact | None:
    world, over = case.before, over_committed(case)
    found = [f"`{lives.node_name(world, n)}` is {said}" for n, said in over.items()]
    if not found:
        return None
    more = f", and {len(found) - NAMED} more" if len(found) > NAMED else ""
    text = f"{', '.join(found[:NAMED])}{more}: takes work again when pods leave"
    return Fact("over-committed", len(found), "nodes", text, commands.nodes(case.in_queue))


def _idle(case: Case) -> Fact | None:
    jobs = case.idle
    if not jobs:
        return None
    milli = sum(supply.held_milli(case.world, j) for j in jobs)
    names = phrasing.ids([case.world.job_names[j] for j in jobs])
    text = f"{phrasing.amount(milli)} held by running jobs that do nothing: {names}"
    return Fact("held idle", milli, MILLI, text, commands.running())


def _use(case: Case) -> Fact | None:
    """The use of the kind it comes nearest to being allowed more of, where a limit binds."""
    found = quota.binds(case)
    if found is None:
        return None
    kind = phrasing.quota_kind(case.world, found.name, found.kind)
    text = (
        f"{phrasing.team(found.name)} uses {phrasing.amount(found.used)} of {found.bound}"
        f" {kind}{found.below}{commands.quota_words(case.world)}"
    )
    return Fact("team use", found.used, MILLI, text, commands.team(case.world, found.name))


def kept(case: Case) -> Fact | None:
    """What is free but kept back by queues that do not lend all of their floors."""
    world, q = case.world, int(case.world.shapes.queue[case.s])
    kinds = [option.kind for option in case.options if option.kind >= 0 and world.tree.keeps]
    if not kinds:
        return None
    need = case.role.total_milli
    k = max(kinds, key=lambda k: (world.kind_free_milli.item(k), -k))
    milli = shares.kept_after(world, world, q, k, need)
    keepers = [
        world.queue_rows[a].name
        for a in range(len(world.queue_rows))
        if a not in world.tree.paths[q] and world.guard[a, k] > world.used[a, k]
    ]
    text = (
        f"{phrasing.amount(world.kind_free_milli.item(k))} `{world.kinds[k]}` free, of which"
        f" {phrasing.amount(milli)} are kept for {phrasing.ids(keepers)} by their lending limits"
    )
    shown = commands.team(world, case.shape.team) if world.scheduler else commands.lending()
    return Fact("kept back", milli, MILLI, text, shown)


def _guarantee(case: Case) -> Fact | None:
    """What its team is guaranteed and does not use, and who holds it until when."""
    owed = holders.guarantee(case)
    if owed is None:
        return None
    text = (
        f"{phrasing.team(owed.team)} is guaranteed {phrasing.amount(owed.floor)} `{owed.kind}`"
        f" and uses {phrasing.amount(owed.used)}{commands.quota_words(case.world)}"
    )
    if owed.held:
        text += (
            f"; held above their own guarantee by {holders.named(case.world, owed.held, 'GPUs')}"
        )
    shown = commands.team(case.world, case.shape.team)
    return Fact("guaranteed quota", owed.floor, MILLI, text, shown)


def _limit(case: Case) -> Fact | None:
    """The same quota, and what the team would use with the job."""
    found = quota.binds(case)
    if found is None:
        return None
    text = f"with this job it would use {phrasing.amount(found.used + case.role.total_milli)}"
    return Fact("team limit", found.limit, MILLI, text, commands.team(case.world, found.name))


def _cpu(case: Case) -> Fact:
    most, nodes = case.blocks.cpu_most_milli, case.blocks.roomy_nodes
    text = (
        f"{phrasing.many(nodes, 'node')} with enough free accelerators, at most"
        f" {phrasing.many_cores(most)} free there; each replica requests"
        f" {phrasing.cores(case.role.cpu_milli)}"
    )
    text += _held_by(case, "cores", holders.host(case, is_cpu=True))
    return Fact("most free CPU", most, "cpu_milli", text, commands.nodes(case.in_queue))


def _memory(case: Case) -> Fact:
    most, nodes = case.blocks.memory_most_mib, case.blocks.roomy_nodes
    text = (
        f"{phrasing.many(nodes, 'node')} with enough free accelerators, at most"
        f" {phrasing.gib(most)} GiB"
        f" free there; each replica requests {phrasing.gib(case.role.memory_mib)}"
    )
    text += _held_by(case, "GiB", holders.host(case, is_cpu=False))
    return Fact("most free memory", most, "memory_mib", text, commands.nodes(case.in_queue))


def _held_by(case: Case, unit: str, held: tuple[holders.Held, ...]) -> str:
    return f"; held by {holders.named(case.world, held, unit)}" if held else ""


def _holder(case: Case) -> Fact | None:
    world, holder = case.world, case.line.holder
    if holder < 0:
        return None
    waited_ms = world.now_ms - int(world.jobs.since_ms[holder])
    text = (
        f"job `{world.job_names[holder]}` ({phrasing.asks(world.shape_of(holder))}) holds the"
        " queue;"
        f" it has waited {phrasing.since(waited_ms)}"
    )
    return Fact("holder waited", waited_ms, "ms", text, commands.line(case.before, case.j))


def _held(case: Case) -> Fact | None:
    """What nobody may take while the holder waits, and what of it is free."""
    world, line = case.world, case.line
    if not line.held:
        return None
    milli = sum(world.kind_free_milli.item(k) for k in line.held)
    kinds = phrasing.either(world.kinds[k] for k in line.held)
    text = f"held for `{world.job_names[line.holder]}`: {kinds}, {phrasing.amount(milli)} free"
    others = sorted(set(case.memo.known(world, case.s).kinds) - set(line.held))
    if others:
        free_kinds = phrasing.either(world.kinds[k] for k in others)
        text += f"; {free_kinds} is not held, but no job that may use either may pass"
    return Fact("held", milli, MILLI, text, commands.line(case.before, case.j))


def _reserved(case: Case) -> Fact | None:
    """Who has the reservation that it would disturb, and until when."""
    world, kinds = case.world, case.memo.known(case.world, case.s).kinds
    found = [one for one in case.memo.reservations if not {*one.kinds}.isdisjoint(kinds)]
    if not found:
        return None
    first = found[0]
    wait_ms = max(0, first.at_ms - world.now_ms)
    text = (
        f"backfill reservation for job `{world.job_names[first.job]}`"
        f" ({phrasing.asks(world.shape_of(first.job))}), which is to start in"
        f" {duration_text(wait_ms)} by estimates; this job would not end by then"
        f"{_without_estimate(case, set(first.kinds))}"
    )
    return Fact("reserved until", first.at_ms, "ms", text, commands.line(case.before, case.j))


def _without_estimate(case: Case, kinds: set[int]) -> str:
    """How many of those that are to end first say nothing of when, and what is taken instead."""
    world, policy = case.world, case.policy
    silent = [
        j for j, pieces in world.placements.items()
        if not world.jobs.estimate_ms.item(j)
        and world.shape_of(j).kind is not JobClass.INFERENCE
        and any(world.nodes.kind.item(piece.node) in kinds for piece in pieces)
    ]  # fmt: skip
    if not silent:
        return ""
    taken = f"{duration_text(policy.unknown_run_ms)} (policy `unknown_run`)"
    if policy.estimates == "history":
        taken = f"as long as their team's jobs of that size did, or {taken}"
    one = len(silent) == 1
    return (
        f"; {phrasing.many(len(silent), 'running job')} {'has' if one else 'have'} no estimate and"
        f" {'is' if one else 'are'} taken to run {taken}"
    )


def leaving(case: Case) -> list[int]:
    """Jobs that leave to make room for it."""
    asked = [j for j, s in sorted(case.world.leaving_for.items()) if s == case.s]
    return asked or [victim.job for victim in case.victims]


def _leaving(case: Case) -> Fact:
    jobs = leaving(case)
    names = phrasing.ids([case.world.job_names[j] for j in jobs])
    count = phrasing.many(len(jobs), "job")
    verb = "is" if len(jobs) == 1 else "are"
    told = f"the next cycle preempts {count}" if case.victims else f"{count} {verb} being preempted"
    text = f"{told} for it: {names}"
    return Fact("leaving", len(jobs), "jobs", text, commands.running())


def protected(case: Case) -> Fact | None:
    """Who will be preempted for it, when, and why not before."""
    found, world = case.protected, case.world
    if found is None:
        return None
    names = phrasing.ids([world.job_names[j] for j in found.jobs])
    text = (
        f"{names} {'is' if len(found.jobs) == 1 else 'are'} to be preempted for it in"
        f" {duration_text(found.then.now_ms - world.now_ms)}: until then a job that was just"
        f" started is left alone (policy `min_run`: {duration_text(case.policy.min_run_ms)})"
    )
    return Fact("protected until", found.then.now_ms, "ms", text, commands.running())


def bond(case: Case) -> tuple[Bond, int, int] | None:
    """The required bond that is hardest to keep now, what it asks of one domain, and the most
    that one has free (or, where supply lacks, has Ready); in replicas.
    """
    topology, role, memo = case.world.topology, case.role, case.memo
    room = memo.empty_room(case.world) if case.cause in NO_SUPPLY else memo.room(case.world)
    bonds = dict.fromkeys((*constraints.of_role(case.shape, case.r), *case.shape.bonds))
    here, found = place.ground(room), []
    for must in bonds:
        if must.is_required:
            tier = topology.number(must.tier)
            most = feasibility.most_together(here, role, tier)
            found.append((most - (must.each or role.count), tier, must, most))
    if not found:
        return None
    _, _, must, most = min(found, key=lambda item: item[:2])
    return must, must.each or role.count, most


def _together(case: Case) -> Fact | None:
    found = bond(case)
    if found is None or (case.cause in NO_SUPPLY and found[2] >= found[1]):
        return None
    must, asked, most = found
    has = "Ready" if case.cause in NO_SUPPLY else "free"
    text = (
        f"the largest `{must.tier}` has {phrasing.together(case.role, most)} {has}, it requests"
        f" {phrasing.together(case.role, asked)} in one"
    )
    return Fact(
        f"{has.lower()} in one {must.tier}", most, "replicas", text, commands.nodes(case.in_queue)
    )


def _proof(case: Case) -> Fact | None:
    proof = case.proof
    if proof is None:
        return None
    shown = commands.proof(case.before, proof, case.role, case.in_queue)
    words = proof.words + (commands.quota_words(case.before) if proof.team else "")
    return Fact(proof.constraint, proof.most, proof.unit, words, shown)


def _labels(case: Case) -> Fact:
    asked = phrasing.node_rules(case.role) or "no label"
    tolerated = phrasing.pairs(case.role.tolerates) or "no taint"
    text = f"requests {asked}; tolerates {tolerated}"
    count, shown = len(case.role.rules.keys), commands.rules(case.before, case.in_queue)
    shown += commands.claims(case.role, case.in_queue)
    return Fact("labels asked", count, "labels", text, shown)


def _ahead(case: Case) -> Fact:
    line = case.line
    named = phrasing.ids([case.world.job_names[j] for j in line.first])
    asking = f"{phrasing.many(line.jobs, 'job')} ahead, requesting {phrasing.amount(line.milli)}"
    first = f" (first {named})" if line.jobs > len(line.first) else f" ({named})"
    text = asking + first if line.jobs else "no job ahead"
    return Fact("jobs ahead", line.jobs, "jobs", text, commands.line(case.before, case.j))


def _passed(case: Case) -> Fact | None:
    """How many jobs that came later were placed since it waits, and what bounds that."""
    world, j = case.world, case.j
    jobs, later = world.jobs, slice(j + 1, world.job_count)
    since = (jobs.attempt[later] > 0) & (jobs.placed_ms[later] >= jobs.since_ms[j])
    if world.is_looked_on:  # what a first look shows came in no order
        since &= jobs.submit_ms[later] > jobs.submit_ms[j]
    shapes, counts = np.unique(jobs.shape[later][since], return_counts=True)
    kinds = set(case.memo.known(world, case.s).kinds)
    count = sum(
        int(n)
        for s, n in zip(shapes.tolist(), counts.tolist(), strict=True)
        if not kinds.isdisjoint(case.memo.known(world, s).kinds)
    )
    if not count:
        return None
    text = (
        f"{phrasing.many(count, 'job')} submitted later {'was' if count == 1 else 'were'}"
        " placed while it waited"
    )
    if not world.is_looked_on:  # there our guard does not rule
        text += f"; {_guard(case)}"
    return Fact("passed by", count, "jobs", text, commands.line(case.before, case.j))


def _guard(case: Case) -> str:
    """What ends that others pass the job: the scheduler's rule, by its cause."""
    policy = case.policy
    if not fits_when_others_end(case.world, case.memo, case.s):
        beside = "beside the services that run it does not fit"
        if supply_cause(case.world, case.memo, case.s) is not Cause.NONE:
            beside = "it does not fit even if nothing else runs"
        return f"the starvation guard does not end that: {beside}"
    whom = " for jobs under the same maximum quota only" * (case.cause is Cause.OVER_LIMIT)
    held = policy.backfill == "none"
    bound = "patience" if held else "hold_after"
    after_ms = policy.patience_ms if held else policy.hold_after_ms
    rule = f"(policy `{bound}`: {duration_text(after_ms)})"
    ends_ms = guarded_from_ms(case.world, policy, case.j)
    if ends_ms is None:
        when = f" {duration_text(after_ms)} after it comes first in the queue and is passed"
        return f"the starvation guard ends that{whom}{when} (policy `{bound}`)"
    left_ms = ends_ms - case.world.now_ms
    if left_ms <= 0:
        return f"{duration_text(-left_ms)} ago the starvation guard ended that{whom} {rule}"
    return f"the starvation guard ends that{whom} in {duration_text(left_ms)} {rule}"


def deadlocks(case: Case) -> tuple[GangDeadlock, ...]:
    """Partial gangs that block each other for good, and hold what it could use."""
    if not case.world.is_observed or case.cause not in _HELD_BY_OTHERS:
        return ()
    return partial_gangs.in_the_way(case.before, supply.node_mask(case.before, case.options))


_HELD_BY_OTHERS = (Cause.BUSY, Cause.PARTIAL_GANG, Cause.SCATTERED)


def _deadlocked(case: Case) -> Fact | None:
    if not (found := deadlocks(case)):
        return None
    return Fact(
        "deadlock", found[0].held_milli, MILLI, found[0].words, commands.line(case.before, case.j)
    )


_ALWAYS: tuple[Make, ...] = (
    protected, spared.fact, setbacks.races, _over_committed, needs, _ahead, _passed,
    setbacks.preempted, _deadlocked, in_the_way.fact,
)  # fmt: skip
_FREE: tuple[Make, ...] = (free, without_host.fact, _barred)
_ROOM: tuple[Make, ...] = (free, _barred, _largest, _hosted)
_OF_CAUSE: dict[Cause, tuple[Make, ...]] = {
    Cause.NONE: _ROOM,
    Cause.OVER_LIMIT: (_use, _limit, free),
    Cause.BEHIND: (_holder, _held, *_ROOM),
    Cause.RESERVED: (_reserved, *_ROOM),
    Cause.PROMISED: (_leaving, *_ROOM),
    Cause.BUSY: (_busy, _guarantee, *_ROOM, without_host.fact, _idle),
    Cause.PARTIAL_GANG: (_hosted, _guarantee, *_FREE, _busy, _idle),
    Cause.SCATTERED: (*_ROOM, _guarantee),
    Cause.TOPOLOGY: (_together, *_ROOM),
    Cause.CPU_BINDS: (free, _cpu, _hosted),
    Cause.MEMORY_BINDS: (free, _memory, _hosted),
    Cause.HOST_BINDS: (free, _cpu, _memory, _hosted),
    Cause.KEPT_BACK: (kept, free, _busy),
    Cause.IMPOSSIBLE_LABEL: (_proof, _labels, claimed),
    Cause.NOT_ELIGIBLE: _ROOM,
}
_OF_CAUSE |= dict.fromkeys(NO_SUPPLY, (_together, claimed, ready))
_OF_CAUSE |= {cause: (_proof, claimed) for cause in NEVER if cause not in _OF_CAUSE}
