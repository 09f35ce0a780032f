"""Forecast: would it run now, when will it start, or can it never fit?

What never fits is proved by the contracts; when anything else starts is ``futures``' to say.
"""

from msgspec.structs import replace

from tidemill.core import snapshot
from tidemill.engine.fold.admission import as_admitted
from tidemill.engine.fold.one_event import fold
from tidemill.explain import (
    certificates,
    futures,
    nearest,
    phrasing,
    quota_use,
    rerun,
    site,
    supply,
    told,
    trials,
    wait,
)
from tidemill.explain.answers import Answer, Band, Certificate, Forecast
from tidemill.explain.bands import USUAL, Sides
from tidemill.explain.futures import Futures
from tidemill.explain.supply import Place
from tidemill.model import events as ev
from tidemill.model.admission import Entrance
from tidemill.model.errors import EventRefused, SpecError
from tidemill.model.measures import duration_text
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import CLUSTER, Job
from tidemill.model.states import Confidence, JobState
from tidemill.model.world import World
from tidemill.scheduling import diagnose, mixed_types
from tidemill.scheduling.snapshot import Snapshot

OTHER = "another scheduler"
OTHER_SCHEDULER = (
    "by Tidemill's own scheduler on the same state; this cluster has another, which decides"
)


def fit(
    world: World, policy: Policy, job: Job, sides: Sides = USUAL, cluster: str = ""
) -> Forecast:
    """Before submitting: runs now, waits about so long, or never fits.

    ``sides``: how wide the bands of this fleet are, by its past (``past_forecasts``). A job is in
    one ``cluster``: of several, in the one that is named, or else where it starts first.
    """
    known = [cluster] if cluster else supply.clusters(world)
    if not known or any(CLUSTER in dict(role.labels) for role in job.shape.roles):
        return _told(world, _fit(world, policy, job, sides))
    found = [_fit_in(world, policy, job, sides, cluster) for cluster in known]
    best = min(found, key=_start)
    if best.verdict == "never":
        return replace(best, words="\n".join(one.words for one in found), cluster="")
    return best


def _in_cluster(job: Job, cluster: str) -> Job:
    """A job that requires the nodes of a cluster."""
    roles = tuple(
        replace(role, labels=(*role.labels, (CLUSTER, cluster))) for role in job.shape.roles
    )
    return replace(job, shape=replace(job.shape, roles=roles))


def _fit_in(world: World, policy: Policy, job: Job, sides: Sides, cluster: str) -> Forecast:
    found = _told(world, _fit(world, policy, _in_cluster(job, cluster), sides))
    return replace(found, words=f"in cluster `{cluster}`: {found.words}", cluster=cluster)


_VERDICTS = ("now", "waits", "later", "unknown", "never")


def _start(found: Forecast) -> tuple[int, int]:
    """Which of two clusters starts a job first."""
    return _VERDICTS.index(found.verdict), (found.wait and found.wait.p50_ms) or 0


def eta(world: World, policy: Policy, job: int, sides: Sides = USUAL) -> Forecast:
    """When a job that is in the queue starts."""
    return _told(world, _eta(world, policy, job, sides))


def _told(world: World, found: Forecast) -> Forecast:
    """With whose decision it is, where that is another scheduler's."""
    if not world.is_looked_on or found.verdict in ("never", "started") or found.decided_by == OTHER:
        return found
    words = found.words.replace(f"job `{found.job}` runs now", f"job `{found.job}` would run now")
    answer, *more = words.split("\n")
    told = "\n".join([f"{answer} ({OTHER_SCHEDULER})", *more])
    return replace(found, words=told, decided_by=OTHER)


def _fit(world: World, policy: Policy, job: Job, sides: Sides) -> Forecast:
    if job.name in world.job_number:
        job = replace(job, name=f"{job.name} (asked at {world.seq})")
    _refuse_unknown_team(world, job)
    ways = () if job.shape.quota else site.entrances(world, job.shape.team)
    if not ways:
        admitted = replace(job, shape=as_admitted(world, job.shape))
        barred = _barred(world, admitted)
        return barred or _fit_here(world, policy, admitted, sides)
    found = [_fit_through(world, policy, job, sides, way) for way in ways]
    best = min(found, key=_start)
    if best.verdict == "never":
        return replace(best, words="\n".join(one.words for one in found))
    return best


def _fit_through(world: World, policy: Policy, job: Job, sides: Sides, way: Entrance) -> Forecast:
    """The same of a job that another scheduler's queue has to admit."""
    shape = as_admitted(world, replace(job.shape, quota=way.queue))
    found = _barred(world, replace(job, shape=shape), way.closed)
    if found is None:
        found = _fit_here(world, policy, replace(job, shape=shape), sides)
    rules = site.preempts(world, shape)
    if rules and found.cause == Cause.OVER_LIMIT.name.lower():
        more = f"; its queue may preempt others for it ({rules}), which is not played forward"
        found = replace(found, words=f"{found.words}{more}")
    return replace(found, words=f"through Kueue's queue `{way.name}`: {found.words}")


def _barred(world: World, job: Job, closed: str = "") -> Forecast | None:
    """What another scheduler's queue says against a job, whatever quota it has; None: nothing."""
    if closed := closed or site.closed(world, job.shape):
        text = f"when job `{job.name}` starts is unknown: its queue lets nothing in: it {closed}"
        return replace(_unknown(job.name, text, Cause.NOT_ELIGIBLE), decided_by=OTHER)
    if first := site.ahead_in_queue(world, job.shape):
        names = phrasing.ids([world.job_names[j] for j in first])
        text = (
            f"when job `{job.name}` starts is unknown: nobody passes in its queue (StrictFIFO), and"
            f" {names} {'goes' if len(first) == 1 else 'go'} first"
        )
        return replace(_unknown(job.name, text, Cause.BEHIND), decided_by=OTHER)
    return None


def _fit_here(world: World, policy: Policy, job: Job, sides: Sides) -> Forecast:
    if (never := _never(world, policy, job)) is not None:
        return never
    if (refused := site.refusal(world, job)) is not None:
        return _refused(job.name, refused)
    submitted = ev.JobSubmitted(world.now_ms, job)
    try:
        found = _forecast(world, policy, job.name, world.job_count, sides, submitted)
    except EventRefused as error:
        raise SpecError(error.message, hint=_way_out(world, job, error.hint)) from error
    lack = quota_use.refusal(world, job.shape)
    if not lack:
        return found
    is_free = found.cause == Cause.NONE.name.lower()
    more = "" if is_free else f"; if it were, {found.words}"
    text = f"job `{job.name}` is not let in whole now: {lack}{more}"
    said = _unknown(job.name, text, Cause.OVER_LIMIT)
    return replace(said, certificate=found.certificate, answer=found.answer, decided_by=OTHER)


def _way_out(world: World, job: Job, hint: str) -> str:
    """What to do about a job that no submission would take."""
    bonds = [*job.shape.bonds, *(bond for role in job.shape.roles for bond in role.bonds)]
    if not world.is_looked_on or all(world.topology.number(bond.tier) >= 0 for bond in bonds):
        return hint
    return (
        "in a cluster that is looked on no tiers are known (they are of a spec, or of the policy of"
        " Tidemill's own scheduler): leave --within out, or --near, and look at where nodes are"
        " (Kubernetes: kubectl get nodes"
        " -L topology.kubernetes.io/zone,topology.kubernetes.io/rack)"
    )


def _eta(world: World, policy: Policy, job: int, sides: Sides) -> Forecast:
    name = world.job_names[job]
    if world.jobs.state[job] != JobState.WAITING:
        answer = wait.why(world, policy, job)
        return _known(name, "started", Cause.NONE, answer.words)
    row = trials.row(world, job, world.shape_of(job))
    if (never := _never(world, policy, row, job)) is not None:
        return never
    if told.blocks(world, job):
        text = (
            f"when job `{name}` starts is unknown: its own scheduler keeps it out, whatever is free"
        )
        cause = Cause[wait.why(world, policy, job).cause.upper()]
        return replace(_known(name, "unknown", cause, text), decided_by=OTHER)
    return _forecast(world, policy, name, job, sides)


def _forecast(
    world: World, policy: Policy, name: str, j: int, sides: Sides, opening: ev.Seen | None = None
) -> Forecast:
    decides_not = world.is_looked_on or world.site.reservations
    if decides_not and (told := _by_others(world, policy, name, j, opening)) is not None:
        return told
    seen = futures.look(world, policy, [j], opening, sides)
    verdict, band, lengths = seen.verdict(j), seen.bands[j], seen.lengths
    if verdict == "now":
        seat = seen.seats[j]
        text = f"job `{name}` runs now on {phrasing.ids(seat.nodes)}{seat.hop}"
        return _known(name, "now", Cause.NONE, text, nodes=seat.nodes)
    if opening is not None:
        world = snapshot.copy(world)
        fold(world, opening)
    answer = wait.why(world, policy, j, is_submitted=opening is None)
    if verdict == "later" and (untold := _untold(name, answer)) is not None:
        return untold
    return Forecast(
        name, verdict, answer.cause, (), band, seen.reach_ms, lengths.samples,
        tuple(lengths.ratio_ppm(share) for share in futures.SHARES_PPM),
        Confidence.UNKNOWN if verdict == "unknown" else Confidence.MODELLED,
        seen.method, seen.assumptions, answer.certificate, answer,
        _words(world, name, verdict, seen, j, answer),
    )  # fmt: skip


def _untold(name: str, answer: Answer) -> Forecast | None:
    """Where nodes have as many pods as they take: when those leave, no future that is played has,
    for they are on no books.
    """
    full = Place.FULL.name.lower()
    held = "; ".join(fact.words for fact in answer.withheld if fact.place == full)
    text = f"when job `{name}` starts is unknown: nothing tells when work without GPUs ends: {held}"
    return _unknown(name, text, Cause[answer.cause.upper()]) if held else None


def _by_others(
    world: World, policy: Policy, name: str, j: int, opening: ev.Seen | None
) -> Forecast | None:
    """Where another scheduler decides: what needs no look ahead, or allows none."""
    if opening is not None:
        world = snapshot.copy(world)
        fold(world, opening)
    answer = wait.why(world, policy, j, is_submitted=opening is None)
    if answer.detail == Cause.NONE.name.lower():  # by the books, whatever that scheduler says
        return _fits_alone(world, policy, name, j, answer, is_new=opening is not None)
    return _unforeseen(world, name, j, answer) if world.is_looked_on else None


_MENDED = frozenset(
    place.name.lower() for place in (
        Place.UNHEALTHY, Place.REPAIRING, Place.FAILED, Place.UNADVERTISED, Place.CORDONED,
        Place.DRAINING,
    )
)  # fmt: skip
"""Where accelerators are that take work once somebody mends or opens their nodes."""


def _unforeseen(world: World, name: str, j: int, answer: Answer) -> Forecast | None:
    """What nothing on the books tells the time of; None: the rest is played forward."""
    cause = Cause[answer.cause.upper()]
    if answer.detail in _MENDED and answer.withheld:
        held = "; ".join(fact.words for fact in answer.withheld)
        why = "no node that it may use takes work"
        if cause is not Cause.NOTHING_READY:
            why = "not enough nodes that it may use take work"
        text = f"{why}, and nothing tells when more do: {held}"
    elif mixed_types.needs(world, world.shape_of(j)):
        text = (
            "it needs GPUs of several types at once, and what another scheduler makes of that is"
            f" not played forward: {answer.evidence[0].words}"
        )
    else:
        return None
    return _unknown(name, f"when job `{name}` starts is unknown: {text}", cause)


def _fits_alone(
    world: World, policy: Policy, name: str, j: int, answer: Answer, *, is_new: bool
) -> Forecast:
    """Whether what a job requests is free now, where it is by the books."""
    free, last = answer.evidence[0].words, answer.questions[-1]
    if last.answer == "unknown":
        return _unknown(name, f"job `{name}` may run now, or wait: {last.words}")
    if is_new and _needs_host(world, policy, j):
        text = f"job `{name}` may run now, or wait: {free}, but no CPU or no memory beside them"
        return _unknown(name, f"{text}: it fits only if it needs none (--cpus, --memory-gib)")
    text = f"job `{name}` runs now: {free}"
    if others := rerun.before(world, policy, j):
        names = phrasing.ids([world.job_names[other] for other in others])
        does = "waits for the same and may" if len(others) == 1 else "wait for the same and may"
        text += f"; {names} {does} be started first, and then it has to wait"
    return _known(name, "now", Cause.NONE, text)


def _needs_host(world: World, policy: Policy, j: int) -> bool:
    """Whether a job that requests no CPU, or no memory, would not fit if it needed the least."""
    shape = world.shape_of(j)
    roles = tuple(
        replace(role, cpu_milli=role.cpu_milli or 1, memory_mib=role.memory_mib or 1)
        for role in shape.roles
    )
    if roles == shape.roles:
        return False
    row = trials.row(world, j, replace(shape, roles=roles))
    return not trials.Trials(world, policy).places(row, without=j)


def _refused(name: str, found: site.Refusal) -> Forecast:
    if found.is_for_good:
        text = f"job `{name}` never fits: {found.words}\nhint: {found.hint}"
        return _known(name, "never", Cause.OVER_LIMIT_ALWAYS, text)
    text = f"when job `{name}` starts is unknown: {found.words}\nhint: {found.hint}"
    return _unknown(name, text, Cause.OVER_LIMIT)


def _unknown(name: str, text: str, cause: Cause = Cause.NONE) -> Forecast:
    return replace(_known(name, "unknown", cause, text), confidence=Confidence.UNKNOWN)


def _never(world: World, policy: Policy, job: Job, number: int = -1) -> Forecast | None:
    proof = certificates.certificate(world, job.shape)
    if proof is None:
        return None
    guilty = certificates.guilty_role(world, job.shape)
    wish = nearest.Wish(Snapshot(world, sweeps=True), job, guilty, number)
    tries = trials.Trials(world, policy)
    proof = certificates.with_nearest(proof, wish, tries)
    text = f"job `{job.name}` never fits: {proof.words}\nhint: {proof.nearest}"
    text += f"\n{tries.untried()}" if tries.untried() else ""
    cause = diagnose.ever_cause(world, job.shape)
    return _known(job.name, "never", cause, text, certificate=proof)


def _known(
    name: str, verdict: str, cause: Cause, text: str, *,
    nodes: tuple[str, ...] = (), certificate: Certificate | None = None,
) -> Forecast:  # fmt: skip
    """A forecast that needs no future."""
    return Forecast(
        name, verdict, cause.name.lower(), nodes, Band(0, 0, 0) if verdict == "now" else None,
        futures.HORIZON_MS, 0, (), Confidence.INFERRED,
        "asked of the contracts and of the scheduler, on a copy of the cluster state",
        (), certificate, None, text,
    )  # fmt: skip


def _words(world: World, name: str, verdict: str, seen: Futures, j: int, answer: Answer) -> str:
    cause = phrasing.cause(world, Cause[answer.cause.upper()])
    because = f"{cause}: {answer.evidence[0].words}"
    if verdict == "unknown":
        jobs = phrasing.many(seen.endless, "job")
        return (
            f"when job `{name}` starts is unknown: it waits for {jobs} without an estimate,"
            f" and none like them has ended; {because}"
        )
    reach = duration_text(seen.reach_ms)
    if verdict == "later":
        return f"job `{name}` does not start within {reach}: {because}"
    return f"job `{name}` waits {phrasing.band(seen.bands[j], seen.reach_ms)}, because {because}"


def _refuse_unknown_team(world: World, job: Job) -> None:
    if job.shape.team not in world.queue_number:
        known = phrasing.ids(phrasing.teams(world), most=8)
        raise SpecError(
            f"job `{job.name}` belongs to team `{job.shape.team}`; known teams: {known}",
            hint="name one of these teams",
        )
