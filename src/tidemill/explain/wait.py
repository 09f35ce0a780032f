"""Why does this job wait? Four questions, the cause, its owner, the numbers, the cheapest fix.

Reads the World as it is now and the policy; decides nothing. At 10,000 nodes and 5,000 waiting jobs
it takes a fraction of a second, because only columns are read (``docs/concepts/explain.md``).
"""

from tidemill.explain import context as cases
from tidemill.explain import (
    facts,
    growth,
    nodes,
    partial_gangs,
    phrasing,
    questions,
    remedies,
    rerun,
    setbacks,
    shortfalls,
    told,
)
from tidemill.explain.answers import Answer, Certificate, Fact, PricedFix
from tidemill.explain.context import Case
from tidemill.explain.rerun import Glance
from tidemill.explain.supply import Place
from tidemill.model import lives
from tidemill.model.columns import JOB
from tidemill.model.policy import Policy
from tidemill.model.reasons import LAYER_OF, Cause, Layer
from tidemill.model.states import ACTIVE, JobState
from tidemill.model.world import World


def why(
    world: World, policy: Policy, job: int, memo: Glance | None = None, *, is_submitted: bool = True
) -> Answer:
    """Why a job waits; or where it is, when it does not wait."""
    if world.jobs.state[job] != JobState.WAITING:
        return _not_waiting(world, policy, job, rerun.glance(world, memo))
    memo = rerun.glance(world, memo)
    case = cases.open_case(world, policy, memo, job, is_submitted=is_submitted)
    certificate = shortfalls.shortfall(case)
    case = case._replace(offers=certificate.fits_now if certificate else ())
    found = remedies.remedy(case)
    layer = case.waits.layer
    evidence = facts.evidence(case)
    since_ms = int(world.jobs.since_ms[job])
    return Answer(
        job=case.name,
        team=case.shape.team,
        state=JobState.WAITING.name.lower(),
        asks=phrasing.asks(case.shape),
        cause=case.waits.cause.name.lower(),
        said=_said(world, job),
        detail=case.detail(),
        layer=int(layer),
        owner=layer.name.lower(),
        since_ms=since_ms,
        waited_ms=world.now_ms - since_ms,
        jobs_ahead=case.line.jobs,
        milli_ahead=case.line.milli,
        questions=questions.questions(case),
        evidence=evidence,
        withheld=facts.withheld(case),
        nodes=tuple(nodes.groups(case.world, job, case.r)),
        fix=found.fixes[0],
        other_fixes=found.fixes[1:],
        do_not=found.do_not,
        words=_words(case, found),
        certificate=certificate,
        untried=case.trials.untried(),
        reason=_reason(world, job),
    )


def _words(case: Case, found: remedies.Remedy) -> str:
    world, fix = case.world, found.fixes[0]
    waited = phrasing.since(world.now_ms - int(world.jobs.since_ms[case.j]))
    proof = "; ".join(fact.words for fact in facts.evidence(case))
    held = "; ".join(row.words for row in facts.withheld(case))
    asks = f"requests {phrasing.asks(case.shape)} and has waited {waited}"
    lines = [
        f"job `{case.name}` of team `{case.shape.team}` {asks}",
        _reason(world, case.j),
        _cause(case),
        f"evidence: {proof}",
        f"not schedulable: {held}" if held else "",
        f"fix: {fix.words} ({phrasing.price(fix)})",
        *(
            f"or: {other.words} ({phrasing.price(other)})"
            for other in found.fixes[1:]
            if other.instead not in case.offers
        ),
        case.trials.untried(),
        found.do_not,
    ]
    return "\n".join(line for line in lines if line)


def _cause(case: Case) -> str:
    """The cause and its owner; where its own scheduler says it, what the books find beside that."""
    is_told = case.world.reason_of(case.j) is not None
    by_books = phrasing.cause(case.world, case.cause)
    if case.cause is Cause.NONE and case.unkept:
        by_books = f"unknown, for nobody here can tell: {case.unkept}"
    elif case.cause is Cause.NONE and is_told:
        by_books = "what it requests is free"
    elif case.cause is Cause.BUSY and (full := case.supply.milli(Place.FULL)):
        by_books += f"; {phrasing.amount(full)} are free on nodes that take no more pods"
    waits, owner = case.waits, f"(owner: {case.waits.layer.name.lower()})"
    if waits.is_block or waits.cause is not case.cause:
        said = phrasing.waits_for(case.world, waits)
        if waits.cause is Cause.NONE and told.place_rule(case.world, case.j):
            said = told.meaning(told.words(case.world, case.j))
        return f"cause, as that scheduler says: {said} {owner}\nby the books alone: {by_books}"
    if case.cause is Cause.NONE and is_told:
        return f"by the books alone: {by_books}"
    return f"cause: {by_books} {owner}"


def _reason(world: World, j: int) -> str:
    """What the cluster's own scheduler says, where it said something."""
    said = phrasing.own_reason(world, j)
    if not said and world.is_held(j):
        said = f"{phrasing.CAUSES[Cause.NOT_ELIGIBLE]} (owner: workload)"
    return f"its own scheduler says: {said}" if said else ""


def _not_waiting(world: World, policy: Policy, j: int, memo: Glance) -> Answer:
    shape, state = world.shape_of(j), JobState(world.jobs.state[j])
    since_ms = int(world.jobs.since_ms[j])
    lasted = phrasing.since(world.now_ms - since_ms)
    reason = phrasing.own_reason(world, j)
    is_so = "has a place and does not run" if reason else "does not wait"
    said = _STATES[state]
    if state is JobState.STARTING and world.jobs.attempt[j] > 1:  # in its place, or in another
        said = "it began to start again"
    text = f"job `{world.job_names[j]}` {is_so}: {said} {lasted} ago"
    evidence: tuple[Fact, ...] = ()
    if raced := setbacks.raced(world, j):
        text += f"; it {raced}"
    if state in ACTIVE:
        parts = partial_gangs.facts(world, j)
        if parts and state is JobState.STARTING:
            return _partial(world, j, parts)
        if parts:
            text = f"job `{world.job_names[j]}` does not wait: it has run as it is for {lasted}"
        evidence = parts or growth.facts(world, policy, memo, j)
        on = sorted({lives.node_name(world, piece.node) for piece in world.placements[j]})
        if on and not parts:
            text += f", on {phrasing.ids(on)}" + phrasing.slices(shape, world.placements[j])
        if over := world.matrices.jobs.item(j, JOB.OVER_MILLI):
            shared = f"{phrasing.amounts(over, 'GPU')} that others hold as well: not booked to it"
            text += f", {'and ' * bool(on)}on {shared}"
        text += ", being stopped or moved" * bool(world.jobs.is_leaving[j])
        text += _down(world, j)
        text += phrasing.hop(world, j)
        text += phrasing.shares(world, j)
        text += growth.said(evidence)
        if reason:
            text += f"\nwhy it does not run, its own cluster says: {reason}"
    return Answer(
        job=world.job_names[j],
        team=shape.team,
        state=state.name.lower(),
        asks=phrasing.asks(shape),
        cause=Cause.NONE.name.lower(), said=_said(world, j), detail=state.name.lower(),
        layer=int(Layer.WORKLOAD), owner=Layer.WORKLOAD.name.lower(), since_ms=since_ms,
        waited_ms=0, jobs_ahead=0, milli_ahead=0, questions=(), evidence=evidence, withheld=(),
        nodes=(),
        fix=PricedFix("nothing to fix"), other_fixes=(), do_not="", words=text,
    )  # fmt: skip


def _partial(world: World, j: int, found: tuple[Fact, ...]) -> Answer:
    """A gang of which a part holds GPUs, and waits for the rest."""
    shape, name, since_ms = world.shape_of(j), world.job_names[j], world.jobs.since_ms.item(j)
    waited_ms, layer = world.now_ms - since_ms, LAYER_OF[Cause.PARTIAL_GANG]
    never = partial_gangs.never_whole(world, j)
    fix = PricedFix(_rest(world, j, never))
    head = (
        f"job `{name}` of team `{shape.team}` requests {phrasing.asks(shape)}; a part of it has"
        f" been placed for {phrasing.since(waited_ms)}"
    )
    lines = [head, *(fact.words for fact in found), f"fix: {fix.words} ({phrasing.price(fix)})"]
    return Answer(
        job=name, team=shape.team, state=JobState(world.jobs.state[j]).name.lower(),
        asks=phrasing.asks(shape), cause=Cause.PARTIAL_GANG.name.lower(), said=_said(world, j),
        detail=_partial_detail(found, never),
        layer=int(layer), owner=layer.name.lower(), since_ms=since_ms, waited_ms=waited_ms,
        jobs_ahead=0, milli_ahead=0, questions=(), evidence=found, withheld=(), nodes=(), fix=fix,
        other_fixes=(), do_not="", words="\n".join(lines), reason=_reason(world, j),
        certificate=never,
    )  # fmt: skip


def _rest(world: World, j: int, never: Certificate | None) -> str:
    """What to do about the rest of a gang: one that is held waits for no GPU."""
    reason = world.reason_of(j)
    if reason is not None and reason.cause == Cause.NOT_ELIGIBLE:
        return _HELD
    return _way_out(never) if never else _completed(world, j)


def _partial_detail(found: tuple[Fact, ...], never: Certificate | None) -> str:
    if never is not None:
        return "never_whole"
    return "deadlock" if any(fact.name == "deadlock" for fact in found) else "partial_gang"


_HELD = (
    "do what its own scheduler's reason asks for: no GPU that comes free, and no node, completes"
    " it; or stop it so that others can use what it holds"
)
_STOP = "stop it so that others can use what it holds"
_WAIT = f"wait for the rest of it, or {_STOP}"


def _completed(world: World, j: int) -> str:
    """What would complete a gang; of one that nothing blocks, machines that come, cordoned nodes,
    or the wait.
    """
    if locked := partial_gangs.way_out(world, j):
        return locked
    comes, opened = partial_gangs.joined(world, j), partial_gangs.completed(world, j)
    return "; or ".join(way for way in (comes, opened, _STOP if comes else _WAIT) if way)


def _way_out(never: Certificate) -> str:
    """What to do about a gang of which the rest never fits: no wait helps."""
    return f"stop it: without more nodes no wait completes it; then {never.nearest}"


def _said(world: World, j: int) -> str:
    return Cause(world.shapes.cause[world.jobs.shape[j]]).name.lower()


def _down(world: World, j: int) -> str:
    """That nodes of a job are not Ready, and since when: what it does there nobody sees."""
    rows = sorted({piece.node for piece in world.placements[j]})
    down = [n for n in rows if phrasing.shut(world, n) == Place.UNHEALTHY]
    if not down:
        return ""
    since_ms = min(world.nodes.since_ms.item(n) for n in down)
    names = phrasing.ids([lives.node_name(world, n) for n in down])
    said = next((world.node_words[n] for n in down if n in world.node_words), "not Ready")
    return (
        f"; {names} {'is' if len(down) == 1 else 'are'} out for"
        f" {phrasing.since(world.now_ms - since_ms)} ({said}): whether it still works is not known"
    )


_STATES = {
    JobState.STARTING: "it was placed and began to start",
    JobState.RUNNING: "it began to run",
    JobState.DONE: "it finished",
    JobState.FAILED: "it failed for good",
    JobState.CANCELLED: "it was cancelled",
}
