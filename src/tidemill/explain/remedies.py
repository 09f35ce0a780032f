"""Remedies: for each cause the cheapest fix, what else would help, and what not to do.

The first fix is the cheapest that leaves the job as it is; where none can help, the cheapest change
to the job. Fixes that only cost money come later. What not to do names the number that tempts.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from tidemill.explain import (
    enlarging,
    facts,
    holders,
    in_the_way,
    moving,
    nearest,
    phrasing,
    polite,
    prices,
    quota,
    rerun,
    setbacks,
    spared,
    supply,
    told,
    trials,
    without_host,
)
from tidemill.explain.answers import PricedFix
from tidemill.explain.context import NO_SUPPLY, Case
from tidemill.explain.nearest import Candidate
from tidemill.explain.supply import Lot, Place
from tidemill.model import lives
from tidemill.model.measures import MINUTE_MS, WHOLE_MILLI, duration_text
from tidemill.model.reasons import NEVER, Cause
from tidemill.model.rows import MOST_PRIORITY, NODE_CLAIM
from tidemill.scheduling.diagnose import fits_when_others_end
from tidemill.scheduling.preemption.candidates import Victim


class Remedy(NamedTuple):
    """Fixes, the one to take first, and what not to do."""

    fixes: tuple[PricedFix, ...]
    do_not: str


def remedy(case: Case) -> Remedy:
    """What to do about a case."""
    found = _make("", *in_the_way.fixes(case)) if case.is_only_told else _REMEDIES[case.cause](case)
    locks = () if case.waits.is_block else facts.deadlocks(case)  # they do not come free
    fixes = (*(PricedFix(one.way_out) for one in locks if one.way_out), *found.fixes)
    if setbacks.raced(case.world, case.j) and setbacks.SHARE_NO_NODES not in fixes:
        fixes = (*fixes, setbacks.SHARE_NO_NODES)
    return found._replace(fixes=(*fixes[:1], *spared.let_go(case), *fixes[1:]))


def _make(do_not: str, *fixes: PricedFix | None) -> Remedy:
    return Remedy(tuple(fix for fix in fixes if fix is not None), do_not)


# L4: no wait will help ------------------------------------------------------------------------


def _never(case: Case) -> Remedy:
    assert case.proof is not None, "a cause that never ends has its proof"
    proof = case.proof
    is_bought = not case.supply.contracts and case.cause is Cause.NOTHING_CLAIMED
    price = None if is_bought and not case.world.contract_count else 0
    return _make(
        f"do not wait: {proof.words}", PricedFix(proof.nearest, price), *enlarging.more(case),
        *_instead(case),
    )  # fmt: skip


# L2: supply lacks now -------------------------------------------------------------------------


def _supply(case: Case) -> Remedy:
    claimed = case.units(case.supply.claimed_milli)
    ready = phrasing.amount(case.supply.ready_milli)
    if not case.withheld():
        return _make(f"do not wait: {claimed} match it, all of them Ready", _fewer(case))
    held = ", ".join(
        f"{phrasing.amount(lot.milli)} {facts.place_word(case.before, place, lot)}"
        for place, lot in case.withheld()[:3]
    )
    lots = [(place, lot) for place, lot in case.withheld() if place is not Place.MAY_LAUNCH]
    named = case.detail()
    lots.sort(key=lambda item: item[0].name.lower() != named)
    fixes = [_with_what_follows(case, place, _release(case, place, lot)) for place, lot in lots]
    found = _make(
        f"do not buy: {claimed} are {phrasing.claimed(case.world)}, {ready} of them Ready"
        f" ({held})",
        *fixes, enlarging.launch(case, max(1, case.missing)),
        *_instead(case),
    )  # fmt: skip
    return found if found.fixes else _make(found.do_not, _fewer(case))


def _fewer(case: Case) -> PricedFix:
    """All that match are ready and still too few: labels leave fewer nodes than contracts say, or
    no topology domain has so many.
    """
    together = facts.bond(case)
    if together is not None and together[2] < together[1]:
        must, _, most = together
        return PricedFix(
            f"request at most {phrasing.together(case.role, most)} in one `{must.tier}`, or prefer"
            f" the `{must.tier}` instead of requiring it"
        )
    most = prices.most_ready(case)
    where = phrasing.where(case.role)
    return PricedFix(
        f"request fewer replicas: at most {most:,}{where} can run at all while these are Ready"
    )


def _release(case: Case, place: Place, lot: Lot) -> PricedFix:
    """How accelerators in one place come to take work; all of it is paid for or free."""
    lot = _needed(case, lot) if place is Place.CORDONED else lot
    what = f"{phrasing.many(lot.nodes, 'node')} ({phrasing.amounts(lot.milli, 'accelerator')})"
    named = _as_called(case, lot.examples) if lot.nodes <= len(lot.examples) else what
    ways = _RELEASED | _RELEASED_BY_THEM if case.world.is_observed else _RELEASED
    if lot.examples and all(name.startswith(NODE_CLAIM) for name in lot.examples):
        ways = ways | dict.fromkeys((Place.BOOTING, Place.UNHEALTHY), _JOINS)
    text = ways[place].format(
        what=what, named=named, contracts=phrasing.ids(_contracts(case, place)),
        count=phrasing.amounts(lot.milli, "accelerator"),
        are="is" if lot.milli == WHOLE_MILLI else "are",
        node=lives.origin("".join(lot.examples[:1]), case.world.node_number).partition("/")[0],
        claim="".join(lot.examples[:1]).removeprefix(NODE_CLAIM),
        devices=_at_least(case) + phrasing.many(lot.milli // WHOLE_MILLI, "failed device"),
    )  # fmt: skip
    if place is Place.UNHEALTHY and (shut := _cordoned_too(case)):
        are = "is" if len(shut) == 1 else "are"
        text += f"; {_as_called(case, shut)} {are} cordoned too: uncordon what is mended"
    return PricedFix(text, None if place in _UNPRICED else 0)


def _cordoned_too(case: Case) -> list[str]:
    """Nodes that it may use and that are unhealthy, and would be cordoned if they were not."""
    world = case.world
    sick = np.flatnonzero(supply.kept_in(world, case.options, Place.UNHEALTHY)).tolist()
    return [world.node_rows[n].name for n in sick if "cordoned" in world.node_words.get(n, "")]


def _needed(case: Case, lot: Lot) -> Lot:
    """Of what is on cordoned nodes, what the job needs: the fewest nodes on which it starts."""
    hosts = supply.hosts_there(case.world, case.role, case.options, Place.CORDONED)
    useful = [n for n in np.flatnonzero(hosts).tolist() if not case.world.is_full_too(n)]
    nodes = sorted(useful, key=lambda n: (-hosts[n], n))
    few = case.trials.fewest_on(case.j, nodes) if lot.nodes > 1 else ()
    return supply.free_on(case.world, few) if few else lot


def _at_least(case: Case) -> str:
    """Where more is in use than a node has, a device that is not advertised fails in the books only
    when whoever is booked on it leaves: more may have failed than they say.
    """
    is_over = any(case.before.nodes.failed[n] for n in facts.over_committed(case))
    return "at least " if is_over else ""


def _with_what_follows(case: Case, place: Place, fix: PricedFix) -> PricedFix:
    """The fix, and what keeps the job out when nodes that are closed take work: it is tried."""
    if place not in (*supply.CLOSED, Place.UNHEALTHY) or not case.trials.may_try():
        return fix
    nodes = tuple(np.flatnonzero(supply.kept_in(case.world, case.options, place)).tolist())
    if case.trials.places_on(case.j, nodes):
        return case.if_allowed(fix)
    opened, sweeps = trials.opened(case.world, nodes), case.memo.sweeps
    if case.world.is_looked_on:  # who is ahead of it there is another scheduler's to say
        cause, ahead = rerun.alone(opened, case.policy, case.s, sweeps=sweeps), 0
    else:
        cause, ahead = rerun.outcome(opened, case.policy, case.j, sweeps=sweeps)
    if cause is Cause.NONE:
        return fix
    return replace(fix, words=f"{fix.words}; {phrasing.still_waits(opened, cause, ahead)}")


_JOINS = (
    "wait for the node of {named}, which is launched and has not joined yet: {count}"
    " (kubectl describe nodeclaims.karpenter.sh {claim})"
)
_UNPRICED = (Place.UNHEALTHY, Place.FAILED, Place.UNADVERTISED)
"""What somebody has to repair or replace: nobody here knows the price."""

_RELEASED = {
    Place.STARTS_LATER: "wait until {contracts} starts: {what}",
    Place.NOT_LAUNCHED: "launch {what} that {contracts} already pays for",
    Place.ASKED: "wait: {what} requested from the provider, not launched yet",
    Place.BOOTING: "wait: {what} booting",
    Place.UNHEALTHY: "repair {named}: unhealthy, {count}",
    Place.REPAIRING: "wait for the repair of {named}: {count}",
    Place.FAILED: "replace {devices} of {named}",
    Place.UNADVERTISED: "mend the device plugin or the driver of {named}, which show too few"
    " devices: {count} more",
    Place.CORDONED: "uncordon {named}: {count} {are} free there",
    Place.TAINTED: "mend what {named} is tainted for, or remove the taint: {count} {are} free"
    " there",
    Place.FULL: "let work without GPUs on {named} end or go elsewhere: {count} {are} free there",
    Place.DRAINING: "wait until {named} is drained, or cancel the drain: {count}",
    Place.SPARE: "put {named} to use: {count} of hot spares",
}
_RELEASED_BY_THEM = {
    Place.DRAINING: "put {named} back into service, once what it was drained for is done: {count}",
    Place.UNADVERTISED: _RELEASED[Place.UNADVERTISED] + " (kubectl describe node {node})",
    Place.FULL: f"{_RELEASED[Place.FULL]} ({holders.PODS_OF_NODE}{{node}})",
}
"""On a cluster that is only looked at, where a node that is drained may be empty already."""


def _contracts(case: Case, place: Place) -> list[str]:
    """The contracts that have something in a place off the nodes."""
    contracts, now_ms = case.world.contracts, case.world.now_ms
    later = place is Place.STARTS_LATER
    mine = [c for c in case.supply.contracts if bool(contracts.is_running[c]) != later]
    return [case.world.contract_rows[c].name_at(now_ms) for c in mine]


# L3: no room now ------------------------------------------------------------------------------


def _fits_now(case: Case) -> Remedy:
    if setbacks.lost_race(case):
        return _make("", setbacks.SHARE_NO_NODES)
    if case.world.reason_of(case.j) is not None:
        return _make("", *in_the_way.fixes(case))
    if case.world.is_looked_on:
        return _make("", PricedFix(f"ask the cluster's own scheduler why ({told.ASKING})"))
    ahead = f"do not resubmit: {phrasing.many(case.line.jobs, 'job')} ahead, and it fits"
    return _make(
        ahead if case.trials.is_submitted else "", PricedFix("wait: the next cycle places it")
    )


def _over_limit(case: Case) -> Remedy:
    found = quota.binds(case)
    if found is None:  # another scheduler says so, of a quota that is none of ours
        return _fits_now(case)
    lift = quota.suggestion(case)
    free = case.units(case.blocks.free_milli)
    whose, used = phrasing.team(found.name), phrasing.amount(found.used)
    ends = f"wait until jobs of {whose} end: it uses {used}"
    wait = PricedFix(ends + (f"; {lift.beside}" if lift is not None and lift.beside else ""))
    fixes: tuple[PricedFix, ...] = (wait,)
    if lift is not None:
        raised = PricedFix(lift.words, sets=lift.queues)
        fixes = (raised, wait) if lift.starts else (wait, raised)
        if not fits_when_others_end(case.world, case.memo, case.s):
            fixes = (raised,)  # waiting never helps: services under the quota do not end
    return _make(
        f"do not buy: {free} are free, and more do not raise the maximum quota of {whose}",
        *fixes, *_instead(case),
    )  # fmt: skip


def _kept_back(case: Case) -> Remedy:
    free = case.units(case.blocks.free_milli)
    kept = facts.kept(case)
    assert kept is not None, "somebody keeps something back"
    return _make(
        f"do not buy: {free} are free, but other teams do not lend all of their guaranteed quotas",
        *_stop_idle(case, is_enough=True), _wait(case),
        PricedFix(f"raise a lending limit: {kept.words}"), *_stop_idle(case, is_enough=False),
    )  # fmt: skip


def _behind(case: Case) -> Remedy:
    world, holder = case.world, case.line.holder
    first = f"`{world.job_names[holder]}`" if holder >= 0 else "the job that holds the queue"
    lift = None
    if case.hosted >= case.role.count and holder >= 0 and case.policy.order == "priority":
        lift = _with_priority(case, min(world.shape_of(holder).priority + 1, MOST_PRIORITY), first)
    return _make(_not_again(case), PricedFix(f"wait: {first} goes first"), lift)


def _not_again(case: Case, because: str = "") -> str:
    """Not to resubmit it, where the order puts the new one no earlier; how many then go first."""
    if not case.trials.is_submitted or case.world.is_looked_on:  # the order there is not ours
        return ""
    now, then = case.line.jobs, _ahead_of_the_next(case)
    if then < now:
        return ""
    if not now:
        after = phrasing.many(then, "job") if then else "none"
        return f"do not resubmit: {because}no job is ahead of it, and {after} would be"
    told = "as many" if then == now else f"{then:,}"
    return (
        f"do not resubmit: {because}it has {phrasing.many(now, 'job')} ahead and would have {told}"
    )


def _ahead_of_the_next(case: Case) -> int:
    """How many jobs the order would put ahead of this one if it were cancelled and resubmitted."""
    row = trials.row(case.before, case.j, case.shape)
    world, j = trials.resubmitted(case.before, row, case.j)
    return rerun.line(world, case.policy, rerun.Glance(world, like=case.memo), j, {}).jobs


def _with_priority(case: Case, priority: int, first: str) -> PricedFix | None:
    """A higher priority, if the scheduler then places it at once."""
    shape = replace(case.shape, priority=priority)
    asked = Candidate("priority", case.role, f"priority {priority}", shape)
    made = nearest.tried(case.wish(), case.trials, asked)
    if made is None:
        return None
    text = f"submit it with priority {priority} instead: it then starts at once, before {first}"
    return PricedFix(text, instead=made)


def _reserved(case: Case) -> Remedy:
    world, first = case.world, "the job that has a reservation"
    if case.memo.reservations:
        first = f"`{world.job_names[case.memo.reservations[0].job]}`"
    return _make(
        f"do not {'res' if case.trials.is_submitted else 's'}ubmit it as it is: it fits, but it"
        f" would delay {first}, which goes first ({phrasing.many(case.line.jobs, 'job')} ahead)",
        PricedFix(f"wait: {first} goes first"), _shorter(case), *_instead(case),
    )  # fmt: skip


def _shorter(case: Case) -> PricedFix | None:
    """An estimate with which it ends before the reservation, if the scheduler then places it."""
    kinds, now_ms = case.memo.known(case.world, case.s).kinds, case.world.now_ms
    ends = [one.at_ms for one in case.memo.reservations if not {*one.kinds}.isdisjoint(kinds)]
    spare_ms = min(ends, default=now_ms) - now_ms - int(case.world.jobs.startup_ms[case.j])
    for minutes in (spare_ms // MINUTE_MS, spare_ms // (2 * MINUTE_MS)):
        if minutes <= 0:
            continue
        asked = Candidate("estimate", case.role, "", case.shape, minutes * MINUTE_MS)
        made = nearest.tried(case.wish(), case.trials, asked)
        if made is not None:
            text = (
                f"if it runs for {duration_text(minutes * MINUTE_MS)} or less, submit it with that"
                " estimate instead: it then starts at once"
            )
            return PricedFix(text, instead=made)
    return None


def _instead(case: Case, *changes: str) -> list[PricedFix]:
    """What the scheduler would place now instead, of these changes or of all."""
    found, does = [], phrasing.starts(case.world, "now")
    for made in case.offers:
        if not changes or made.change in changes:
            only = " (once this job is cancelled)" if made.needs_cancel else ""
            found.append(
                PricedFix(f"request {made.words} instead: that {does}{only}", instead=made)
            )
    return found


def _promised(case: Case) -> Remedy:
    jobs = facts.leaving(case)
    loss = prices.lost(case.world, jobs)
    names = phrasing.ids([case.world.job_names[j] for j in jobs])
    return _make(
        f"do not cancel or resubmit: {phrasing.many(len(jobs), 'job')}"
        f" {'stops' if len(jobs) == 1 else 'stop'} to make room for it",
        PricedFix(
            f"wait until {names} {'has' if len(jobs) == 1 else 'have'} stopped",
            0,
            loss.milli_ms,
            loss.usd_micro,
        ),
    )


def _busy(case: Case) -> Remedy:
    busy = case.units(case.busy_milli)
    opened = _opened(case, is_enough=True)
    return _make(
        _not_again(case, f"{busy} are busy, "),
        *opened, None if opened and not case.busy_milli else _wait(case),
        *_opened(case, is_enough=False),
        prices.launch(case, case.missing), *_instead(case),
    )  # fmt: skip


def _partial(case: Case) -> Remedy:
    role, hosted, others = case.role, case.hosted, case.beside
    milli = hosted * role.replica_milli + sum(one.total_milli for one in others)
    part = (
        f"{hosted:,} of its {phrasing.many(role.count, 'replica')}:"
        f" {'it' if hosted == 1 else 'they'}"
    )
    if others:
        named = phrasing.all_replicas(others)
        named += [phrasing.replicas(role, hosted)] * bool(hosted)
        part = f"only a part of it: {' and '.join(named)}"
    first, later = _moves(case)
    return _make(
        f"do not start {part} would hold {phrasing.amounts(milli, 'accelerator')} and"
        " do nothing until the others start",
        *first, *_opened(case, is_enough=True), _wait(case), *later,
        *_opened(case, is_enough=False),
        prices.launch(case, case.missing), *_instead(case),
    )  # fmt: skip


def _scattered(case: Case) -> Remedy:
    free = case.units(case.blocks.free_milli)
    first, later = _moves(case)
    return _make(
        f"do not buy: {free} are free but scattered over"
        f" {phrasing.many(case.blocks.nodes, 'node')}",
        *first, *_opened(case, is_enough=True), _wait(case), *later,
        *_opened(case, is_enough=False), *_instead(case),
        prices.launch(case, case.missing),
    )  # fmt: skip


def _moves(case: Case) -> tuple[tuple[PricedFix, ...], tuple[PricedFix, ...]]:
    """To take jobs off their nodes: before waiting if that starts the job and stops none; else
    after it. Whether it starts is tried: a job ahead may take what becomes free.
    """
    found = moving.movers(case)
    if not found:
        return (), _stops(case) if case.cause is Cause.SCATTERED else ()
    victims = [mover.victim for mover in found]
    fit = "it fits" if len(found) == 1 else "they fit"
    fix = _off(case, victims, "move", f"off {_left(case, victims)}: {fit} elsewhere")
    starts = case.trials.places_moved(case.j, found)
    fixes = _unless_alone(case, fix, is_enough=starts)
    return (fixes, ()) if starts else ((), fixes)


def _stops(case: Case) -> tuple[PricedFix, ...]:
    """To stop those in the way, where they fit nowhere else."""
    victims = moving.stops(case)
    if not victims:
        return ()
    jobs = tuple(sorted(victim.job for victim in victims))
    fix = _off(case, victims, "stop", f"on {_left(case, victims)}, to wait again")
    return _unless_alone(case, fix, is_enough=case.trials.places_without(case.j, jobs))


def _off(case: Case, victims: Sequence[Victim], verb: str, where: str) -> PricedFix:
    jobs = sorted(victim.job for victim in victims)
    names = phrasing.ids([case.world.job_names[j] for j in jobs])
    loss = prices.lost(case.world, jobs)
    return PricedFix(f"{verb} {names} {where}", 0, loss.milli_ms, loss.usd_micro)


def _left(case: Case, victims: Sequence[Victim]) -> str:
    nodes = sorted({piece.node for victim in victims for piece in victim.pieces})
    return phrasing.ids([lives.node_name(case.world, n) for n in nodes])


def _as_called(case: Case, nodes: Iterable[str]) -> str:
    """Nodes as their cluster calls them, whichever of their lives this is: somebody types it."""
    return phrasing.ids([lives.origin(name, case.world.node_number) for name in nodes])


def _apart(case: Case) -> Remedy:
    """Enough is free, but not in one domain: only prefer it, or request less."""
    free = case.units(case.blocks.free_milli)
    first, later = _moves(case)
    return _make(
        f"do not buy: {free} are free, on {phrasing.many(case.blocks.nodes, 'node')} too far apart",
        *first, *_stop_idle(case, is_enough=True), _wait(case), *later, *_instead(case),
        *_spared(case, is_enough=True), *_opened(case, is_enough=False),
    )  # fmt: skip


def _host(case: Case, what: str, units: Sequence[str]) -> Remedy:
    """What to do about CPU or memory, or both."""
    free = case.units(case.blocks.free_milli)
    moved, later = _moves(case)
    return _make(
        f"do not buy accelerators: {free} are free, {what} what is missing",
        *moved, *_opened(case, is_enough=True), _wait_for_host(case, units), *later,
        *_opened(case, is_enough=False), *_instead(case), prices.launch(case, case.missing),
    )  # fmt: skip


def _wait_for_host(case: Case, units: Sequence[str]) -> PricedFix:
    """Whose end gives it what is short, tried; who else holds most of it does not start it."""
    text, is_enough = holders.whose_end(case, units)
    if not text:
        return _wait(case)
    return _unless_alone(case, PricedFix(text), is_enough=is_enough)[0]


def _wait(case: Case) -> PricedFix:
    if case.protected is not None:
        then, jobs = case.protected.then, case.protected.jobs
        loss, names = prices.lost(then, jobs), phrasing.ids([then.job_names[j] for j in jobs])
        left = duration_text(then.now_ms - case.world.now_ms)
        return PricedFix(
            f"wait {left}: then {names} {'is' if len(jobs) == 1 else 'are'} preempted for it",
            0, loss.milli_ms, loss.usd_micro,
        )  # fmt: skip
    owed = holders.guarantee(case)
    if owed is not None and owed.held:
        first = owed.held[0].job
        return PricedFix(
            f"wait until `{case.world.job_names[first]}` ends"
            f" ({holders.until(case.world, first)}): it holds"
            f" {phrasing.amount(owed.held[0].amount)}"
            f" `{owed.kind}`{holders.unmoved(case, first)}"
        )
    busy = case.units(case.supply.milli(Place.BUSY))
    taken = "that are busy or taken first" if case.due else "that are busy"
    also = without_host.what_else(case)
    return PricedFix(f"wait until some of the {busy} {taken} become free{also}{polite.words(case)}")


def _opened(case: Case, *, is_enough: bool) -> tuple[PricedFix, ...]:
    """What others hold or keep for nothing, if giving it up starts the job (or if it does not)."""
    return _stop_idle(case, is_enough=is_enough) + _spared(case, is_enough=is_enough)


def _stop_idle(case: Case, *, is_enough: bool) -> tuple[PricedFix, ...]:
    """To cancel jobs that do nothing, if the job then starts (or if it does not): it is tried."""
    jobs = case.idle
    if not jobs or case.trials.places_without(case.j, tuple(jobs)) != is_enough:
        return ()
    milli = sum(supply.held_milli(case.world, j) for j in jobs)
    names = phrasing.ids([case.world.job_names[j] for j in jobs])
    loss = prices.lost(case.world, jobs)
    text = f"cancel {names}: {phrasing.amounts(milli, 'accelerator')} held and not used"
    return _unless_alone(
        case, PricedFix(text, 0, loss.milli_ms, loss.usd_micro), is_enough=is_enough
    )


def _spared(case: Case, *, is_enough: bool) -> tuple[PricedFix, ...]:
    """What else stands free but takes no work, if it is enough for the job (or if it is not)."""
    lots, found = case.supply.lots, list[PricedFix]()
    if is_enough and Place.BOOTING in lots and _is_enough(case, Place.BOOTING):
        found.append(_release(case, Place.BOOTING, lots[Place.BOOTING]))
    for place in supply.CLOSED:
        if place in lots and _is_enough(case, place) == is_enough:
            found.append(case.if_allowed(_release(case, place, lots[place])))
    if Place.SPARE in lots and _is_enough(case, Place.SPARE) == is_enough:
        found.append(_unspare(case, lots[Place.SPARE]))
    return _unless_alone(case, *found, is_enough=is_enough)


def _unless_alone(case: Case, *fixes: PricedFix, is_enough: bool) -> tuple[PricedFix, ...]:
    """The fixes; those that were tried and are not enough say so."""
    if is_enough or case.trials.left < 0:
        return fixes
    return tuple(replace(fix, words=f"{fix.words}; that alone does not start it") for fix in fixes)


def _is_enough(case: Case, place: Place) -> bool:
    """Whether the job starts at once when the nodes in this place take work: it is tried."""
    if supply.would_host(case.world, case.role, case.options, place) < max(1, case.missing):
        return False
    here = supply.kept_in(case.world, case.options, place)
    return case.trials.places_on(case.j, tuple(np.flatnonzero(here).tolist()))


def _unspare(case: Case, lot: Lot) -> PricedFix:
    total = phrasing.amount(lot.milli + case.supply.ready_milli)
    return PricedFix(
        f"release hot spares: {phrasing.amount(lot.milli)} of {total} that it could use are idle as"
        f" spares ({_as_called(case, lot.examples)}); set `spares` of contract"
        f" {phrasing.ids(_spare_contracts(case))} lower, and there is no reserve when a node fails",
        None,
    )


def _spare_contracts(case: Case) -> list[str]:
    rows = [case.world.contract_rows[c] for c in case.supply.contracts]
    return [row.name for row in rows if row.spares]


_REMEDIES: dict[Cause, Callable[[Case], Remedy]] = {
    Cause.OVER_LIMIT: _over_limit,
    Cause.BEHIND: _behind,
    Cause.RESERVED: _reserved,
    Cause.PROMISED: _promised,
    Cause.BUSY: _busy,
    Cause.PARTIAL_GANG: _partial,
    Cause.SCATTERED: _scattered,
    Cause.TOPOLOGY: _apart,
    Cause.CPU_BINDS: partial(_host, what="CPU is", units=("cores",)),
    Cause.MEMORY_BINDS: partial(_host, what="memory is", units=("GiB",)),
    Cause.HOST_BINDS: partial(_host, what="CPU and memory are", units=("cores", "GiB")),
    Cause.KEPT_BACK: _kept_back,
}
_REMEDIES |= dict.fromkeys(NO_SUPPLY, _supply) | dict.fromkeys(NEVER, _never)
_REMEDIES |= dict.fromkeys((Cause.NONE, Cause.NOT_ELIGIBLE, Cause.LOST_RACE), _fits_now)
