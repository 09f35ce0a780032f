"""The shape of the ledger's JSON document: a field is never renamed or redefined in a version.

New fields may be added. Amounts are whole numbers in the unit of their name; ratios are exact, with
a decimal beside them to read.
"""

from msgspec import UNSET, Struct, UnsetType

VERSION = 2


class Ratio(Struct, frozen=True):
    """An exact fraction, and the same rounded for reading."""

    numerator: int
    denominator: int
    decimal: str


class Period(Struct, frozen=True):
    """The window; ``bin_ms`` is null when it is one bin.

    ``start`` and ``end`` are the same moments as ISO dates, null where the journal does not say
    when it began.
    """

    start_ms: int
    end_ms: int
    bin_ms: int | None
    start: str | None = None
    end: str | None = None


class Totals(Struct, frozen=True):
    """What was paid, and what it came to; lines add up to the first three."""

    milli_ms: int
    usd_micro: int | None
    capability_h100_milli_ms: int | None
    useful_milli_ms: int | None
    """A lower bound when some efficiency is unknown; null when all of it is."""
    usd_micro_per_paid_hour: int | None
    usd_micro_per_useful_hour: int | None
    """An upper bound when some efficiency is unknown; null when nothing is known to be useful."""
    usd_micro_per_useful_h100_hour: int | None
    idle_point_usd_micro_per_year: int | None
    mean_accelerators: Ratio
    unpriced_milli_ms: int = 0
    """Of ``milli_ms``, what nobody said a price of: dollars are then of the rest, null if all."""


class BucketLine(Struct, frozen=True):
    """One bucket, from paid to useful."""

    key: str
    title: str
    group: str
    owner: str
    confidence: str
    milli_ms: int
    usd_micro: int | None
    share_ppm: int
    """Of the accelerator-hours that were paid for."""
    capability_h100_milli_ms: int | None
    usd_share_ppm: int | None
    """Of the dollars; null where nothing cost anything."""
    unpriced_milli_ms: int = 0
    """Of ``milli_ms``, what nobody said a price of: ``usd_micro`` is then of the rest."""


class Unknown(Struct, frozen=True):
    """A bucket that is empty because nobody can say, not because it is zero."""

    key: str
    title: str
    group: str
    owner: str
    reason: str


class GoodputPart(Struct, frozen=True):
    """Scheduling × runtime × program = overall = useful over paid; null: efficiency unknown.

    ``runtime`` and ``program`` are of what was observed.
    """

    scheduling: Ratio
    """The least, where some time was not observed."""
    runtime: Ratio | None
    """Null where no job was seen and some time was not observed."""
    program: Ratio | None
    overall: Ratio | None
    is_lower_bound: bool
    """Of ``overall``: whether some efficiency is unknown, or some time was not observed."""
    runtime_is_upper_bound: bool = False
    """Whether nobody said of some job what of its time was lost (starting, idle, rework, restarts,
    checkpoint stalls)."""
    is_assumed: bool = False
    """Whether ``program`` and ``overall`` rest, in part or all, on an efficiency that somebody
    assumed: what is a lower bound is one if that holds."""
    scheduling_most: Ratio | None = None
    """More than ``scheduling`` where some time was not observed: if jobs held all of it."""
    program_is_lower_bound: bool = False
    """Whether the efficiency of some work that was seen is unknown."""


class UtilisationPart(Struct, frozen=True):
    """Three utilisations on one axis, each over the accelerator-hours that were paid for.

    ``mfu`` is null when unknown, ``misleading`` when none of them misleads. Where some time was
    not observed, each is known by bounds alone: ``allocation`` and, where it is told, ``occupancy``
    are the least.
    """

    allocation: Ratio
    occupancy: Ratio
    mfu: Ratio | None
    misleading: str | None
    allocation_known: str = "unknown"
    occupancy_known: str = "unknown"
    occupancy_is_upper_bound: bool = False
    """Whether nobody said of some job when its accelerators were busy."""
    mfu_known: str = "unknown"
    mfu_is_lower_bound: bool = False
    allocation_is_lower_bound: bool = False
    """Whether some time was not observed, in which jobs may have held more."""
    occupancy_is_lower_bound: bool = False
    allocation_most: Ratio | None = None
    """If jobs held all that was not observed."""
    occupancy_most: Ratio | None = None
    """If all that was not observed was busy."""


class Cell(Struct, frozen=True):
    """One bucket of one row of a breakdown; cells of a row add up to it."""

    key: str
    milli_ms: int
    usd_micro: int | None


class BreakdownRow(Struct, frozen=True):
    """One row of a breakdown; rows add up to the totals."""

    key: str
    milli_ms: int
    usd_micro: int | None
    share_ppm: int
    """Of the accelerator-hours that were paid for."""
    useful_milli_ms: int | None
    """Null when it worked and nobody knows how well."""
    cells: tuple[Cell, ...]
    usd_share_ppm: int | None
    """Of the dollars."""
    unpriced_milli_ms: int = 0
    held_milli_ms: int = 0
    """Of ``milli_ms``, what jobs held."""


class Breakdown(Struct, frozen=True):
    """The ledger by one dimension."""

    by: str
    rows: tuple[BreakdownRow, ...]


class EditPart(Struct, frozen=True):
    """A line of a spec to change; ``text`` is the line as people type it."""

    table: str
    name: str
    field: str
    value: str | int | bool
    was: str | int | bool | None
    text: str


class FixPart(Struct, frozen=True):
    """What to do, by whom; ``price_usd_micro`` is null when unknown, 0 when counted in the win."""

    words: str
    rule: str
    at_most_usd_micro: int | None
    """What of the leak belongs to those whom it touches."""
    price_usd_micro: int | None
    who: tuple[str, ...]
    """The jobs, workloads, teams and contracts that it touches, the largest first: at most 10."""
    evidence: str
    edits: tuple[EditPart, ...]
    """The same for a spec; empty where only people can do it."""
    is_claimed: bool
    """Whether a win is predicted (not replayed); otherwise it is advice, or worth trying."""
    predicted_usd_micro: int | None
    """What it would win in a window like this one; null where nothing is predicted."""
    saves_milli_ms: int
    saves_usd_micro: int | None
    adds_useful_milli_ms: int
    costs: str
    measure: str
    """The command that measures what must be known first; empty where nothing must."""
    who_count: int = 0
    """How many it touches."""


class LeakPart(Struct, frozen=True):
    """A bucket that is not useful, with its evidence and its fixes; the dearest first."""

    key: str
    title: str
    owner: str
    confidence: str
    milli_ms: int
    usd_micro: int | None
    evidence: str
    command: str
    fix: FixPart
    """The first of ``fixes``."""
    fixes: tuple[FixPart, ...]


class FreeRow(Struct, frozen=True):
    """What was free of one kind in one pool; the three parts add up to it."""

    kind: str
    pool: str
    free_milli_ms: int
    usable_milli_ms: int
    """What jobs like those that had arrived could have used, on the mean."""
    unusable_milli_ms: int
    unasked_milli_ms: int
    """Free before anybody had asked for this kind."""
    unusable_usd_micro: int | None


class FreePart(Struct, frozen=True):
    """What the arrivals could have used of what was free. Explains the free lines; no line."""

    confidence: str
    free_milli_ms: int
    usable_milli_ms: int
    unusable_milli_ms: int
    unasked_milli_ms: int
    unusable_usd_micro: int | None
    rows: tuple[FreeRow, ...]


class Loan(Struct, frozen=True):
    """What one queue lent another of a kind; ``lender`` null: capacity that no floor owns."""

    kind: str
    lender: str | None
    borrower: str
    milli_ms: int
    usd_micro: int | None


class IdleFloor(Struct, frozen=True):
    """A floor that was free and neither used nor lent, by why: a lending limit, or not asked."""

    kind: str
    owner: str
    kept_milli_ms: int
    unasked_milli_ms: int
    kept_usd_micro: int | None
    unasked_usd_micro: int | None


class LendingPart(Struct, frozen=True):
    """Who lent what to whom; dollars at what the kind cost on average in the window."""

    loans: tuple[Loan, ...]
    idle: tuple[IdleFloor, ...]


class SpreadPart(Struct, frozen=True):
    """A figure over some jobs. ``open`` of them are counted with the time so far.

    ``at_least`` names what is a lower bound for that reason.
    """

    jobs: int
    open: int
    mean: int
    p50: int
    p90: int
    p99: int
    max: int
    at_least: tuple[str, ...]


class WaitRow(Struct, frozen=True):
    """What became of some jobs by the end of the window. Times in ms, slowdowns in thousandths.

    ``never_started``: still waiting, or ended before they started. A figure is null where there is
    no job to say it of.
    """

    key: str
    jobs: int
    done: int
    failed: int
    cancelled: int
    running: int
    waiting: int
    never_started: int
    wait_ms: SpreadPart | None
    total_wait_ms: SpreadPart | None
    completion_ms: SpreadPart | None
    slowdown_milli: SpreadPart | None
    held: int = 0
    """Held at the end, or waiting for something else than GPUs: in no figure of waits."""


class WaitsPart(Struct, frozen=True):
    """How long jobs waited that were submitted in the window; rows where ``by`` can be said."""

    rule: str
    total: WaitRow
    by: str | None
    rows: tuple[WaitRow, ...]


class TopJobPart(Struct, frozen=True):
    """A job whose accelerators cost much without becoming useful; ``leak`` is its largest."""

    job: str
    team: str
    user: str | None
    gpu_milli: int
    """What it requests; an elastic job may run on less."""
    paid_usd_micro: int | None
    wasted_usd_micro: int | None
    unknown_usd_micro: int | None
    leak: str
    leak_usd_micro: int | None
    paid_milli_ms: int
    """What it held, for how long."""
    wasted_milli_ms: int = 0
    """The time behind ``wasted_usd_micro``, which is null where some of it has no price."""
    known: str = "unknown"
    """How most of what it wasted is known."""


class AlarmPart(Struct, frozen=True):
    """A job that was preempted as often as the policy allows, and saved nothing in between."""

    job: str
    team: str
    words: str


class RolledUpPart(Struct, frozen=True):
    """What of the window is known from hourly books alone; single jobs are gone."""

    until_ms: int
    until: str | None
    not_told: tuple[str, ...]
    """Parts of the document that are empty or left out for that, and not because there is
    nothing."""


class LedgerDocument(Struct, frozen=True):
    """The whole ledger of a window."""

    version: int
    source: str
    """Who made the events: `twin`, `trace replay`, `live`, or `unknown`."""
    is_simulated: bool
    """Whether a twin made them: then nothing here was measured."""
    currency: str
    window: Period
    totals: Totals
    lines: tuple[BucketLine, ...]
    unknown: tuple[Unknown, ...]
    goodput: GoodputPart
    utilisation: UtilisationPart
    breakdown: Breakdown | None
    leaks: tuple[LeakPart, ...]
    free: FreePart | None = None
    """Null where the ledger was read without it."""
    lending: LendingPart | UnsetType = UNSET
    """Only when it was asked for."""
    waits: WaitsPart | UnsetType = UNSET
    top_jobs: tuple[TopJobPart, ...] = ()
    """By what was wasted, the worst first."""
    alarms: tuple[AlarmPart, ...] = ()
    """Jobs that were preempted as often as the policy allows without saving work, in the window."""
    rolled_up: RolledUpPart | UnsetType = UNSET
    """Only where the window begins in what was rolled up."""
