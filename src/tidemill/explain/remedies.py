"""Remedies: for each cause the cheapest fix, what else would help, and what not to do.

The first fix is the cheapest that leaves the job as it is; where none can help, the cheapest change
to the job. Fixes that only cost money come later. What not to do names the number that tempts.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidemill.explain import facts, prices, words
from tidemill.explain.answers import Fix
from tidemill.explain.case import NO_SUPPLY, Case
from tidemill.explain.supply import Lot, Place
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.reasons import NEVER, Cause
from tidemill.scheduling import diagnose


class Remedy(NamedTuple):
    """Fixes, the one to take first, and what not to do."""

    fixes: tuple[Fix, ...]
    do_not: str


def remedy(case: Case) -> Remedy:
    """What to do about a case."""
    return _REMEDIES[case.cause](case)


def _make(do_not: str, *fixes: Fix | None) -> Remedy:
    return Remedy(tuple(fix for fix in fixes if fix is not None), do_not)


# L4: no wait will help ------------------------------------------------------------------------


def _never(case: Case) -> Remedy:
    assert case.proof is not None, "a cause that never ends has its proof"
    proof = case.proof
    return _make(f"do not wait: {proof.words}", Fix(proof.nearest), *_MORE[case.cause](case))


def _sign(case: Case) -> tuple[Fix, ...]:
    asked = words.units(case.role.total_milli, case.role)
    return (Fix(f"sign a contract for {asked}", None),)


def _nothing_more(case: Case) -> tuple[Fix, ...]:  # noqa: ARG001 - one signature for the table
    return ()


def _widen(case: Case) -> tuple[Fix, ...]:
    """As many more nodes as the gang lacks, at the cheapest rate paid now."""
    assert case.proof is not None
    lacking = case.proof.asked - case.proof.most
    offers = []
    for c in case.supply.contracts:
        row = case.world.contract_rows[c]
        per_node = diagnose.replicas_per_node(row, case.role)
        if per_node:
            nodes = -(-lacking // per_node)
            offers.append((nodes * row.node.devices * row.usd_micro_per_hour, c, nodes))
    if not offers:
        return ()
    usd, c, nodes = min(offers)
    name = case.world.contract_rows[c].name
    return (Fix(f"enlarge contract `{name}` by {words.many(nodes, 'node')}", usd),)


_MORE: dict[Cause, Callable[[Case], tuple[Fix, ...]]] = {
    Cause.NOTHING_CLAIMED: _sign,
    Cause.IMPOSSIBLE_LABEL: _nothing_more,
    Cause.IMPOSSIBLE_SIZE: _nothing_more,
    Cause.IMPOSSIBLE_GANG: _widen,
    Cause.OVER_LIMIT_ALWAYS: _nothing_more,
    Cause.IMPOSSIBLE_TOPOLOGY: _nothing_more,
}


# L2: supply lacks now -------------------------------------------------------------------------


def _supply(case: Case) -> Remedy:
    claimed = words.units(case.supply.claimed_milli, case.role)
    ready = words.amount(case.supply.ready_milli)
    if not case.withheld():
        return _make(f"do not wait: {claimed} match it, all of them ready", _fewer(case))
    held = ", ".join(f"{words.amount(lot.milli)} {place}" for place, lot in case.withheld()[:3])
    lots = [(place, lot) for place, lot in case.withheld() if place is not Place.MAY_LAUNCH]
    named = case.detail()
    lots.sort(key=lambda item: item[0].name.lower() != named)
    fixes = [_release(case, place, lot) for place, lot in lots]
    tied = facts.bond(case) if case.world.topology.tiers else None
    found = _make(
        f"do not buy: {claimed} are claimed, {ready} of them ready ({held})",
        *fixes, prices.launch(case, max(1, case.missing)),
        Fix(f"prefer one `{tied[0].tier}` instead of requiring it") if tied else None,
    )  # fmt: skip
    return found if found.fixes else _make(found.do_not, _fewer(case))


def _fewer(case: Case) -> Fix:
    """All that match are ready and still too few: labels leave fewer nodes than contracts say."""
    room = case.memo.empty_room(case.world)
    most = max((room.count_hosts(case.role, o.is_ok) for o in case.options), default=0)
    where = f" with {words.labels(case.role)}" if case.role.labels else ""
    return Fix(f"ask for at most {words.many(most, 'replica')}{where}")


def _release(case: Case, place: Place, lot: Lot) -> Fix:
    """How accelerators in one place come to take work; all of it is paid for or free."""
    what = f"{words.many(lot.nodes, 'node')} ({words.amount(lot.milli)} accelerators)"
    named = words.ids(lot.examples) if lot.nodes <= len(lot.examples) else what
    text = _RELEASED[place].format(
        what=what,
        named=named,
        contracts=words.ids(_contracts(case, place)),
        count=words.amount(lot.milli),
        devices=words.many(lot.milli // WHOLE_MILLI, "failed device"),
    )
    return Fix(text)


_RELEASED = {
    Place.STARTS_LATER: "wait until {contracts} starts: {what}",
    Place.NOT_LAUNCHED: "launch {what} that {contracts} already pays for",
    Place.ASKED: "wait: {what} asked for and not here yet",
    Place.BOOTING: "wait: {what} booting",
    Place.UNHEALTHY: "repair {named}: unhealthy, {count} accelerators",
    Place.REPAIRING: "wait for the repair of {named}: {count} accelerators",
    Place.FAILED: "replace {devices} of {named}",
    Place.CORDONED: "uncordon {named}: {count} accelerators stand free there",
    Place.DRAINING: "wait until {named} is drained, or take the drain back: {count} accelerators",
    Place.SPARE: "put {named} to use: {count} accelerators kept as spares",
}


def _contracts(case: Case, place: Place) -> list[str]:
    """The contracts that have something in a place off the nodes."""
    contracts, rows = case.world.contracts, case.world.contract_rows
    later = place is Place.STARTS_LATER
    return [rows[c].name for c in case.supply.contracts if bool(contracts.is_running[c]) != later]


# L3: no room now ------------------------------------------------------------------------------


def _fits_now(case: Case) -> Remedy:
    return _make(
        f"do not resubmit: {words.many(case.line.jobs, 'job')} ahead, and there is room for it",
        Fix("wait: the next cycle places it"),
    )


def _over_limit(case: Case) -> Remedy:
    found, need = facts.binds(case), case.role.total_milli
    assert found is not None, "a limit binds"
    team, raised = found.name, found.used + need
    free = words.units(case.blocks.free_milli, case.role)
    wait = Fix(f"wait until jobs of team `{team}` end: it uses {words.amount(found.used)}")
    lift = Fix(
        f"raise the limit of team `{team}` from {words.amount(found.limit)} to"
        f" {words.amount(raised)} `{found.kind}`"
    )
    fixes = (lift, wait) if case.blocks.free_milli >= need else (wait, lift)
    return _make(f"do not buy: {free} are free, the limit of team `{team}` keeps it out", *fixes)


def _kept_back(case: Case) -> Remedy:
    free = words.units(case.blocks.free_milli, case.role)
    kept = facts.kept(case)
    assert kept is not None, "somebody keeps something back"
    return _make(
        f"do not buy: {free} are free, others do not lend all of their floors",
        _stop_idle(case), _wait(case), Fix(f"raise a lending limit: {kept.words}"),
    )  # fmt: skip


def _behind(case: Case) -> Remedy:
    world, holder = case.world, case.line.holder
    first = f"`{world.job_names[holder]}`" if holder >= 0 else "the job that holds the queue"
    lift = None
    if case.hosted >= case.role.count and holder >= 0 and case.policy.order == "priority":
        above = world.shape_of(holder).priority
        lift = Fix(f"give it a priority above {above}: it would fit now, before {first}")
    return _make(
        f"do not resubmit: {words.many(case.line.jobs, 'job')} ahead, and it would go to the end",
        Fix(f"wait: {first} goes first"),
        lift,
    )


def _reserved(case: Case) -> Remedy:
    world, first = case.world, "the job that has a reservation"
    if case.memo.reservations:
        first = f"`{world.job_names[case.memo.reservations[0].job]}`"
    shorter = "give a shorter estimate if it is true: a job that ends in time may pass"
    return _make(
        f"do not resubmit: it fits, but would delay {first}, which goes before it",
        Fix(f"wait: {first} goes first"),
        Fix(shorter),
    )


def _promised(case: Case) -> Remedy:
    jobs = facts.leaving(case)
    loss = prices.lost(case.world, jobs)
    names = words.ids([case.world.job_names[j] for j in jobs])
    return _make(
        f"do not cancel or resubmit: {words.many(len(jobs), 'job')} leave to make room for it",
        Fix(f"wait until {names} have left", 0, loss.milli_ms, loss.usd_micro),
    )


def _busy(case: Case) -> Remedy:
    busy = words.units(case.supply.milli(Place.BUSY), case.role)
    return _make(
        f"do not resubmit: {busy} are busy, it has {words.many(case.line.jobs, 'job')} ahead and"
        " would go to the end",
        _stop_idle(case), _wait(case), *_spared(case), prices.launch(case, case.missing),
    )  # fmt: skip


def _partial(case: Case) -> Remedy:
    role, hosted = case.role, case.hosted
    held = words.amount(hosted * role.replica_milli)
    return _make(
        f"do not start part of it: {hosted:,} of {role.count:,} replicas would hold {held}"
        " accelerators and do nothing",
        _stop_idle(case), _wait(case), *_spared(case), prices.launch(case, case.missing),
        Fix(f"ask for {words.many(hosted, 'replica')} instead of {role.count:,}: that fits now"),
    )  # fmt: skip


def _scattered(case: Case) -> Remedy:
    role, largest = case.role, case.blocks.largest
    free = words.units(case.blocks.free_milli, role)
    moves, smaller = prices.moves(case), None
    if 0 < largest < role.accelerators:
        smaller = Fix(f"ask for at most {largest} on one node instead of {role.accelerators}")
    return _make(
        f"do not buy: {free} are free but scattered over {words.many(case.blocks.nodes, 'node')}",
        moves.fix if moves and moves.is_free else None, _stop_idle(case), _wait(case),
        moves.fix if moves and not moves.is_free else None, *_spared(case), smaller,
        prices.launch(case, case.missing),
    )  # fmt: skip


def _apart(case: Case) -> Remedy:
    """Enough is free, but not in one domain: ask for less of one, or only prefer it."""
    free, found = words.units(case.blocks.free_milli, case.role), facts.bond(case)
    smaller = prefer = None
    if found is not None:
        must, _, most = found
        prefer = Fix(f"prefer one `{must.tier}` instead of requiring it: that fits now")
        if most:
            held = words.together(case.role, most)
            smaller = Fix(f"ask for at most {held} in one `{must.tier}`: so much is free there")
    return _make(
        f"do not buy: {free} are free, on {words.many(case.blocks.nodes, 'node')} too far apart",
        _stop_idle(case), _wait(case), prefer, smaller, *_spared(case),
    )  # fmt: skip


def _cpu(case: Case) -> Remedy:
    return _host(case, "CPU", f"{words.cores(case.blocks.cpu_most_milli)} cores")


def _memory(case: Case) -> Remedy:
    return _host(case, "memory", f"{words.gib(case.blocks.memory_most_mib)} GiB")


def _host(case: Case, resource: str, most: str) -> Remedy:
    free = words.units(case.blocks.free_milli, case.role)
    smaller = Fix(f"ask for at most {most} a replica: the accelerators are free")
    return _make(
        f"do not buy accelerators: {free} are free, {resource} is what is missing",
        _wait(case), smaller, prices.launch(case, case.missing),
    )  # fmt: skip


def _wait(case: Case) -> Fix:
    busy = words.units(case.supply.milli(Place.BUSY), case.role)
    return Fix(f"wait until some of the {busy} that are busy come free")


def _stop_idle(case: Case) -> Fix | None:
    jobs = case.idle
    if not jobs:
        return None
    milli = sum(case.world.shape_of(j).total_milli for j in jobs)
    names = words.ids([case.world.job_names[j] for j in jobs])
    return Fix(f"cancel {names}: {words.amount(milli)} accelerators held, nothing done with them")


def _spared(case: Case) -> tuple[Fix, ...]:
    """What else stands free but takes no work: spares and cordoned nodes."""
    lots = case.supply.lots
    return tuple(
        _release(case, place, lots[place])
        for place in (Place.CORDONED, Place.SPARE)
        if place in lots
    )


_REMEDIES: dict[Cause, Callable[[Case], Remedy]] = {
    Cause.NONE: _fits_now,
    Cause.OVER_LIMIT: _over_limit,
    Cause.BEHIND: _behind,
    Cause.RESERVED: _reserved,
    Cause.PROMISED: _promised,
    Cause.BUSY: _busy,
    Cause.PARTIAL_GANG: _partial,
    Cause.SCATTERED: _scattered,
    Cause.TOPOLOGY: _apart,
    Cause.CPU_BINDS: _cpu,
    Cause.MEMORY_BINDS: _memory,
    Cause.KEPT_BACK: _kept_back,
}
_REMEDIES |= dict.fromkeys(NO_SUPPLY, _supply) | dict.fromkeys(NEVER, _never)
