"""Answers: what explain returns. Frozen, without behaviour, and the same in JSON as in Python.

Field names and the words used as keys (causes, places, verdicts) are stable: other programs read
them. ``words`` is the same answer as plain text, in lower case with ids in backticks.
"""

from msgspec import Struct

from tidemill.model.claim_sharers import ClaimSharer
from tidemill.model.rows import Queue, Shape
from tidemill.model.states import Confidence


class Command(Struct, frozen=True):
    """A read-only command that shows where a number comes from; ``on`` says what it speaks to."""

    on: str
    line: str


class Fact(Struct, frozen=True):
    """One number with its name and unit, in words, and how to see it oneself."""

    name: str
    value: int
    unit: str
    words: str
    shown_by: tuple[Command, ...] = ()


class Question(Struct, frozen=True):
    """One of the four questions, its answer and the numbers it rests on."""

    layer: int
    question: str
    answer: str
    words: str
    evidence: tuple[Fact, ...] = ()


class Withheld(Struct, frozen=True):
    """Accelerators that the job could use but that take no work, and where they are instead."""

    place: str
    accelerator_milli: int
    nodes: int
    usd_micro_per_hour: int | None
    words: str


class Alternative(Struct, frozen=True):
    """Something near what was asked that the scheduler would place now, and what is different.

    ``shape`` is what to submit instead. ``needs_cancel``: only after the original is cancelled.
    ``estimate_ms``: with this estimate of its run time; None: with the same as before.
    """

    change: str
    replicas: int
    accelerators: int
    milli: int
    kinds: tuple[str, ...]
    cpu_milli: int
    memory_mib: int
    words: str
    profile: str = ""
    shape: Shape | None = None
    needs_cancel: bool = False
    estimate_ms: int | None = None


class PricedFix(Struct, frozen=True):
    """Something that would help, and its price: dollars per hour, or work lost once.

    ``usd_micro_per_hour`` is what would be paid *more* than now; None where nobody can know it.
    ``instead``: what to submit instead of the job. ``sets``: the teams with their new quotas.
    """

    words: str
    usd_micro_per_hour: int | None = 0
    lost_milli_ms: int = 0
    lost_usd_micro: int | None = 0
    instead: Alternative | None = None
    sets: tuple[Queue, ...] = ()


class NodeVerdict(Struct, frozen=True):
    """What one node says to one role of a job."""

    node: str
    kind: str
    state: str
    free_milli: int
    hosts: int
    verdict: str
    words: str


class VerdictGroup(Struct, frozen=True):
    """All nodes that say the same."""

    verdict: str
    nodes: int
    free_milli: int
    hosts: int
    examples: tuple[str, ...]
    words: str


class Certificate(Struct, frozen=True):
    """Why something does not fit, now or ever: the one constraint, what it asks, the most there is.

    ``nearest`` is what to ask for instead. ``fits_now`` is what would run at this moment.
    """

    constraint: str
    asked: int
    most: int
    unit: str
    words: str
    nearest: str
    fits_now: tuple[Alternative, ...] = ()
    team: str = ""
    """Whose quota it is."""


class Answer(Struct, frozen=True):
    """Why one job waits; or, when it does not wait, where it is.

    ``cause`` is found now, ``said`` is what the scheduler said last; ``detail`` names the one thing
    behind a cause that has several (cordoned, booting, …), otherwise it repeats the cause.
    """

    job: str
    team: str
    state: str
    asks: str
    cause: str
    said: str
    detail: str
    layer: int
    owner: str
    since_ms: int
    waited_ms: int
    jobs_ahead: int
    milli_ahead: int
    questions: tuple[Question, ...]
    evidence: tuple[Fact, ...]
    withheld: tuple[Withheld, ...]
    nodes: tuple[VerdictGroup, ...]
    fix: PricedFix
    other_fixes: tuple[PricedFix, ...]
    do_not: str
    words: str
    certificate: Certificate | None = None
    """What does not fit, in numbers; None where something else keeps it waiting."""
    untried: str = ""
    """Where so much waits that not all was tried that might start now: that it was not."""
    reason: str = ""
    """What the cluster's own scheduler says, if it has one and said something."""


class Band(Struct, frozen=True):
    """When it starts, from now: 80% of such waits lie from p10 to p90. None: past the horizon."""

    p10_ms: int | None
    p50_ms: int | None
    p90_ms: int | None


class TeamWaits(Struct, frozen=True):
    """How much of one team waits."""

    team: str
    jobs: int
    asked_milli: int


class BoardRow(Struct, frozen=True):
    """Everything that waits for one cause, and what stands idle beneath it."""

    cause: str
    layer: int
    owner: str
    jobs: int
    asked_milli: int
    oldest_job: str
    oldest_waited_ms: int
    teams: tuple[TeamWaits, ...]
    idle_milli: int
    idle_usd_micro_per_hour: int | None
    first: tuple[str, ...]
    words: str
    eta: Band | None = None
    """When the oldest of them would start, from now; null where nobody asked."""
    cause_words: str = ""
    """The cause in words."""
    says: str = ""
    """The word of the cluster's own scheduler, for jobs that would fit and are not started."""
    idle_known_usd_micro_per_hour: int = 0
    """What is known of the dollars; all of them, but where nobody said a price of some."""


class PendingJob(Struct, frozen=True):
    """One waiting job: its place in the order of the scheduler, what it asks for, why, how long."""

    position: int
    job: str
    team: str
    user: str
    priority: int
    accelerator_milli: int
    asks: str
    cause: str
    waited_ms: int
    eta: Band | None = None
    """When it starts, from now; null where nobody asked, or where it can never start as it is."""
    verdict: str = ""
    """``now``, ``waits``, ``later``, ``unknown`` or ``never``, as in a forecast; empty where nobody
    asked."""
    alarm: str = ""
    """That it was preempted as often as the policy allows, in words."""
    reason: str = ""
    """What the cluster's own scheduler says, if it has one and said something."""
    least_milli: int = 0
    """With how much it starts: of an elastic job less than it requests."""
    says: str = ""
    """The word of the cluster's own scheduler, where it would fit and is not started."""
    owner: str = ""
    """The layer that owns the cause, as in the row of the cause."""


class PartialGang(Struct, frozen=True):
    """A job of which another scheduler has placed a part: it holds GPUs and waits for the rest."""

    job: str
    team: str
    placed: int
    """Replicas that are placed, of those that it works with."""
    replicas: int
    held_milli: int
    missing_milli: int
    usd_micro_per_hour: int | None
    """What it holds costs; null where nobody said a price."""
    since_ms: int
    """For how long it has been coming up."""
    nodes: tuple[str, ...]
    words: str
    reason: str = ""
    """Why the rest of it waits, by its own scheduler."""


class GangDeadlock(Struct, frozen=True):
    """Partial gangs that block each other, whatever else ends."""

    jobs: tuple[str, ...]
    held_milli: int
    usd_micro_per_hour: int | None
    words: str
    way_out: str


class LayerRow(Struct, frozen=True):
    """What waits for one layer."""

    layer: int
    owner: str
    jobs: int
    asked_milli: int


class Board(Struct, frozen=True):
    """Everything that waits.

    Idle parts, what partial gangs lack of what is free, and ``unclaimed`` are all that is free.
    """

    at_ms: int
    jobs: int
    asked_milli: int
    free_milli: int
    free_usd_micro_per_hour: int | None
    unclaimed_milli: int
    unclaimed_usd_micro_per_hour: int | None
    layers: tuple[LayerRow, ...]
    rows: tuple[BoardRow, ...]
    words: str
    waiting: tuple[PendingJob, ...] = ()
    """Every waiting job, in the order in which the scheduler looks at them."""
    partial_gangs: tuple[PartialGang, ...] = ()
    """Jobs of which only a part is placed, in clusters with a scheduler of their own."""
    deadlocks: tuple[GangDeadlock, ...] = ()
    held: int = 0
    """Jobs that wait for something else than GPUs (held, or after others): in no count above."""
    claim_sharers: tuple[ClaimSharer, ...] = ()
    """Pods that wait with the claims (DRA) of jobs, whose GPUs are requested once."""
    eta_method: str = ""
    """How the starts were found; empty where nobody asked."""
    eta_assumptions: tuple[str, ...] = ()
    eta_reach_ms: int = 0
    """How far it was looked ahead: a start that is null comes later."""
    free_known_usd_micro_per_hour: int = 0
    """What is known of the dollars of all that is free."""


class Forecast(Struct, frozen=True):
    """Whether and when a job starts. ``verdict``: now, waits, later, unknown, never or started."""

    job: str
    verdict: str
    cause: str
    nodes: tuple[str, ...]
    wait: Band | None
    horizon_ms: int
    samples: int
    ratios_ppm: tuple[int, ...]
    confidence: Confidence
    method: str
    assumptions: tuple[str, ...]
    certificate: Certificate | None
    answer: Answer | None
    words: str
    decided_by: str = "Tidemill"
    """Whose scheduler it is that decides; where it is another, this is what ours would do."""
    cluster: str = ""
    """The one of several clusters that it is about; "": there is one."""
