"""Forecast: would it run now, when will it start, or can it never fit?

The present is copied and played forward three times by the engine's own loop (see ``ahead``), with
jobs as short, as usual and as long as those that finished here (see ``lengths``). All are short
together or long together, so the band is wider than if each were drawn by itself. Bounded in events
and in time; what does not start within the bounds is said to be later, not never.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.engine.loop import Loop
from tidemill.explain import ahead, certificates, wait, words
from tidemill.explain.ahead import Ahead
from tidemill.explain.answers import Answer, Band, Forecast
from tidemill.explain.lengths import FEWEST, Lengths
from tidemill.model import events as ev
from tidemill.model import snapshot
from tidemill.model.errors import EventRefused, SpecError
from tidemill.model.measures import DAY_MS, duration_text
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.rows import Job
from tidemill.model.states import Confidence, JobState
from tidemill.model.world import World

HORIZON_MS = 30 * DAY_MS
EVENTS_AT_MOST = 200_000
SHARES_PPM = (100_000, 500_000, 900_000)


class Future(NamedTuple):
    """What one play found: when it was placed and where (None: not within the bounds)."""

    start_ms: int | None
    nodes: tuple[str, ...]
    endless: int
    answer: Answer | None


class _Play:
    """One future of a copied World, watched for one job."""

    def __init__(self, data: bytes, policy: Policy, share_ppm: int, submitted: Job | None) -> None:
        self.world, self.policy = snapshot.load(data), policy
        now_ms = self.world.now_ms
        opening: list[ev.Seen] = [ev.Woke(now_ms)]
        if submitted is not None:
            opening = [ev.JobSubmitted(now_ms, submitted)]
        self.backend = Ahead(self.world, Lengths(self.world), share_ppm, opening)
        self.loop = Loop(self.world, policy, self.backend, _Nowhere())

    def run(self, j: int, explains: bool) -> Future:
        """Play until the job is placed, or the bounds are reached."""
        start_ms, first_seq = self.world.now_ms, self.world.seq
        answer = None
        while (at_ms := self.backend.next_ms()) is not None:
            if at_ms - start_ms > HORIZON_MS or self.world.seq - first_seq > EVENTS_AT_MOST:
                break
            self.loop.beat(at_ms)
            if self.world.jobs.state[j] != JobState.WAITING:
                return Future(at_ms - start_ms, _nodes(self.world, j), 0, answer)
            if explains and answer is None:
                answer = wait.why(self.world, self.policy, j)
        return Future(None, (), len(self.backend.endless), answer)


class _Nowhere:
    """Keeps nothing: a future that is only imagined."""

    def append(self, events: Sequence[ev.Event]) -> None:
        """Forget these events."""


def fit(world: World, policy: Policy, job: Job) -> Forecast:
    """Before submitting: runs now, waits about so long, or never fits."""
    if job.name in world.job_number:
        job = replace(job, name=f"{job.name} (asked at {world.seq})")
    _refuse_unknown_team(world, job)
    proof = certificates.certificate(world, job.shape)
    if proof is not None:
        text = f"job `{job.name}` never fits: {proof.words}; {proof.nearest}"
        cause = certificates.cause(world, job.shape)
        return _simple(job.name, "never", cause, text, certificate=proof)
    try:
        return _forecast(world, policy, job.name, world.job_count, job)
    except EventRefused as error:
        raise SpecError(error.message, hint=error.hint) from error


def eta(world: World, policy: Policy, job: int) -> Forecast:
    """When a job that is in the queue starts."""
    name, state = world.job_names[job], JobState(world.jobs.state[job])
    if state is not JobState.WAITING:
        text = wait.why(world, policy, job).words
        return _simple(name, "started", Cause.NONE, text)
    shape = world.shape_of(job)
    proof = certificates.certificate(world, shape)
    if proof is not None:
        text = f"job `{name}` never fits: {proof.words}; {proof.nearest}"
        cause = certificates.cause(world, shape)
        return _simple(name, "never", cause, text, certificate=proof)
    return _forecast(world, policy, name, job, None)
