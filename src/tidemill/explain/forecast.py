"""Forecast: would it run now, when will it start, or can it never fit?

The present is copied and played forward three times by the engine's own loop (see ``ahead``), with
jobs as short, as usual and as long as those that finished here (see ``lengths``). All are short
together or long together, so the band is wider than if each were drawn by itself. Bounded in events
and in time; what does not start within the bounds is said to be later, not never.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from tidemill.engine.cycle import Memo, cycle
from tidemill.engine.fold import fold, fold_all
from tidemill.engine.loop import Loop
from tidemill.explain import ahead, certificates, nearest, sketch, trials, wait, words
from tidemill.explain.ahead import Ahead
from tidemill.explain.answers import Answer, Band, Certificate, Forecast
from tidemill.explain.lengths import FEWEST, Lengths
from tidemill.model import events as ev
from tidemill.model import snapshot
from tidemill.model.errors import EventRefused, SpecError
from tidemill.model.measures import DAY_MS, FOREVER_MS, ONE_PPM, duration_text
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Job
from tidemill.model.states import Confidence, JobState, NodeState
from tidemill.model.world import World
from tidemill.scheduling import diagnose, plain
from tidemill.scheduling.room import Room

HORIZON_MS = 30 * DAY_MS
EVENTS_AT_MOST = 200_000
LARGE = 50_000  # waiting shapes × active jobs; a play looks at all shapes at most of the ends: 3 s
SHARES_PPM = (100_000, 500_000, 900_000)


class Future(NamedTuple):
    """What one play found: when the job was placed and where (None: not within the bounds)."""

    wait_ms: int | None
    nodes: tuple[str, ...]
    endless: int
    hop: str = ""
    """How far apart it would sit, in words; nothing where nobody knows."""


class Ask(NamedTuple):
    """A question about one job: in the queue by its number, or not yet submitted."""

    data: bytes
    policy: Policy
    lengths: Lengths
    job: int
    opening: ev.Seen


class _Nowhere:
    """Keeps nothing: a future is only imagined."""

    def append(self, events: Sequence[ev.Event]) -> None:
        """Forget these events."""


def fit(world: World, policy: Policy, job: Job) -> Forecast:
    """Before submitting: runs now, waits about so long, or never fits."""
    if job.name in world.job_number:
        job = replace(job, name=f"{job.name} (asked at {world.seq})")
    _refuse_unknown_team(world, job)
    if (never := _never(world, policy, job)) is not None:
        return never
    submitted = ev.JobSubmitted(world.now_ms, job)
    try:
        return _forecast(world, policy, job.name, world.job_count, submitted)
    except EventRefused as error:
        raise SpecError(error.message, hint=error.hint) from error


def eta(world: World, policy: Policy, job: int) -> Forecast:
    """When a job that is in the queue starts."""
    name = world.job_names[job]
    if world.jobs.state[job] != JobState.WAITING:
        answer = wait.why(world, policy, job)
        return _known(name, "started", Cause.NONE, answer.words)
    row = trials.row(world, job, world.shape_of(job))
    if (never := _never(world, policy, replace(row, name=name), job)) is not None:
        return never
    return _forecast(world, policy, name, job, ev.Woke(world.now_ms))


def _forecast(world: World, policy: Policy, name: str, j: int, opening: ev.Seen) -> Forecast:
    if len(world.queued) * len(world.placements) > LARGE:
        return _sketched(world, policy, name, j, opening)
    ask = Ask(snapshot.dump(world), policy, Lengths(world), j, opening)
    middling = _play(ask, SHARES_PPM[1])
    if middling.wait_ms == 0:
        text = f"job `{name}` runs now on {words.ids(middling.nodes)}{middling.hop}"
        return _known(name, "now", Cause.NONE, text, nodes=middling.nodes)
    good, bad = (_play(ask, SHARES_PPM[i]) for i in (0, 2))
    waits = sorted(
        (future.wait_ms for future in (good, middling, bad)),
        key=lambda ms: FOREVER_MS if ms is None else ms,
    )
    band = Band(*waits)
    answer = wait.why(fold_all(snapshot.load(ask.data), [opening]), policy, j)
    verdict = "waits" if band.p50_ms is not None else "unknown" if middling.endless else "later"
    return Forecast(
        name, verdict, answer.cause, (), band, HORIZON_MS, ask.lengths.samples,
        tuple(ask.lengths.ratio_ppm(share) for share in SHARES_PPM),
        Confidence.UNKNOWN if verdict == "unknown" else Confidence.MODELLED,
        _method(ask.lengths), _assumptions(world, ask.lengths, middling),
        answer.certificate, answer, _words(name, verdict, band, answer, middling.endless),
    )  # fmt: skip


def _sketched(world: World, policy: Policy, name: str, j: int, opening: ev.Seen) -> Forecast:
    """The same for a fleet and a queue too large to be played: a sketch of the queue."""
    lengths = Lengths(world)
    if isinstance(opening, ev.JobSubmitted):
        world = snapshot.copy(world)
        fold(world, opening)
    answer = wait.why(world, policy, j)
    seen = sketch.starts(world, policy, lengths, only=j)
    band = Band(*seen.wait_ms(j)) if j in seen.row_of else Band(None, None, None)
    if answer.cause == Cause.NONE.name.lower() or band.p50_ms == 0:
        nodes = _placed_now(world, policy, j)
        if nodes:
            text = f"job `{name}` runs now on {words.ids(nodes)}"
            return _known(name, "now", Cause.NONE, text, nodes=nodes)
    verdict = "waits" if band.p50_ms is not None else "later"
    return Forecast(
        name, verdict, answer.cause, (), band, sketch.HORIZON_MS, lengths.samples,
        tuple(lengths.ratio_ppm(share) for share in SHARES_PPM), Confidence.MODELLED, _SKETCHED,
        _SIMPLER, answer.certificate, answer, _words(name, verdict, band, answer, 0),
    )  # fmt: skip


def _placed_now(world: World, policy: Policy, j: int) -> tuple[str, ...]:
    """Where the next cycle places a waiting job; nowhere: it does not."""
    plan = cycle(world, policy, Memo())
    pieces = [a.pieces for a in plan.actions if isinstance(a, ev.AskedPlace) and a.job == j]
    return tuple(sorted({world.node_rows[piece.node].name for piece in (pieces or [()])[0]}))


_SKETCHED = (
    "the queue drained in today's order three times, with jobs that take 10%, 50%, 90% of what"
    " finished jobs suggest; too large to be simulated with the scheduler itself"
)
_SIMPLER = (
    "no job is preempted, resized or moved",
    "teams keep their present rank",
    "topology constraints are not checked",
    "no new jobs arrive and nothing new breaks",
)


def _play(ask: Ask, share_ppm: int) -> Future:
    """Play one future until the job is placed, or the bounds are reached."""
    world, j = snapshot.load(ask.data), ask.job
    backend = Ahead(world, ask.lengths, share_ppm, [ask.opening])
    loop = Loop(world, ask.policy, backend, _Nowhere())
    now_ms, seq = world.now_ms, world.seq
    while (at_ms := backend.next_ms()) is not None:
        if at_ms - now_ms > HORIZON_MS or world.seq - seq > EVENTS_AT_MOST:
            break
        loop.beat(at_ms)
        if world.jobs.state[j] != JobState.WAITING:
            hop = words.hop(world.topology, int(world.jobs.hop[j]), int(world.jobs.slow_ppm[j]))
            return Future(at_ms - now_ms, _nodes(world, j), 0, hop)
    return Future(None, (), len(backend.endless))


def _never(world: World, policy: Policy, job: Job, number: int = -1) -> Forecast | None:
    proof = certificates.certificate(world, job.shape)
    if proof is None:
        return None
    guilty = certificates.guilty_role(world, job.shape)
    wish = nearest.Wish(Room(world, plain), job, guilty, number)
    proof = certificates.with_nearest(proof, wish, trials.Trials(world, policy))
    text = f"job `{job.name}` never fits: {proof.words}\nhint: {proof.nearest}"
    cause = diagnose.ever_cause(world, job.shape)
    return _known(job.name, "never", cause, text, certificate=proof)


def _known(
    name: str, verdict: str, cause: Cause, text: str, *,
    nodes: tuple[str, ...] = (), certificate: Certificate | None = None,
) -> Forecast:  # fmt: skip
    """A forecast that needs no future."""
    return Forecast(
        name, verdict, cause.name.lower(), nodes, Band(0, 0, 0) if verdict == "now" else None,
        HORIZON_MS, 0, (), Confidence.INFERRED,
        "asked of the contracts and of the scheduler, on a copy of the cluster state",
        (), certificate, None, text,
    )  # fmt: skip


def _words(name: str, verdict: str, band: Band, answer: Answer, endless: int) -> str:
    because = f"{words.cause(Cause[answer.cause.upper()])}: {answer.evidence[0].words}"
    if verdict == "unknown":
        jobs = words.many(endless, "job")
        return (
            f"when job `{name}` starts is unknown: it waits for {jobs} without an estimate,"
            f" and none like them has finished; {because}"
        )
    horizon = duration_text(HORIZON_MS)
    if verdict == "later":
        return f"job `{name}` does not start within {horizon}: {because}"
    late = f"more than {horizon}" if band.p90_ms is None else duration_text(band.p90_ms)
    about, early = duration_text(band.p50_ms or 0), duration_text(band.p10_ms or 0)
    return f"job `{name}` waits about {about} (between {early} and {late}), because {because}"


def _method(lengths: Lengths) -> str:
    ratios = ", ".join(f"{lengths.ratio_ppm(share) / ONE_PPM:.2f}" for share in SHARES_PPM)
    source = f"of {lengths.samples:,} finished jobs" if lengths.is_measured else "assumed"
    return (
        "the current cluster state simulated forward three times with the same scheduler; jobs"
        " take 10%, 50%, 90%"
        f" of the way through the ratios of run time to estimate ({ratios}; {source})"
    )


def _assumptions(world: World, lengths: Lengths, future: Future) -> tuple[str, ...]:
    found = ["no new jobs arrive and nothing new breaks"]
    if not lengths.is_measured:
        found.append(
            f"only {words.many(lengths.samples, 'finished job')} had an estimate, {FEWEST} are"
            " needed: run time over estimate is taken as even between 0 and 1"
        )
    active = np.fromiter(world.placements, np.int64, len(world.placements))
    blind = int((world.jobs.estimate_ms[active] == 0).sum())
    if blind:
        found.append(
            f"{words.many(blind, 'active job')} without an estimate: finished jobs of their class"
            " and size are used instead"
        )
    if future.endless:
        never = words.many(future.endless, "job")
        found.append(f"{never} unlike any that finished: assumed never to end")
    rows = world.node_count
    coming = int(np.isin(world.nodes.state[:rows], _COMING).sum())
    if coming:
        found.append(
            f"{words.many(coming, 'node')} to come: booting takes {duration_text(ahead.BOOT_MS)},"
            " repairs as long as those of the InfiniteHBD trace"
        )
    return tuple(found)


def _refuse_unknown_team(world: World, job: Job) -> None:
    if job.shape.team not in world.queue_number:
        known = words.ids(sorted(world.queue_number), most=8)
        raise SpecError(
            f"job `{job.name}` belongs to team `{job.shape.team}`; known teams: {known}",
            hint="name one of these teams",
        )


def _nodes(world: World, j: int) -> tuple[str, ...]:
    return tuple(sorted({world.node_rows[piece.node].name for piece in world.placements[j]}))


_COMING = (NodeState.ASKED, NodeState.BOOTING, NodeState.UNHEALTHY, NodeState.REPAIRING)
