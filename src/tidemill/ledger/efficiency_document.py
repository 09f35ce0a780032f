"""What jobs made of what they held, as one JSON-able value with a stable schema.

A field is never renamed or redefined in a version; new ones may be added. Parts have the keys of
the ledger's buckets and add up to what was held. Null is unknown.
"""

from collections.abc import Sequence
from fractions import Fraction

from msgspec import UNSET, Struct, UnsetType

from tidemill.ledger import served
from tidemill.ledger.account import DENOMINATOR, rounded
from tidemill.ledger.attempts import HeldAttempt
from tidemill.ledger.buckets import ABOUT, ALLOCATED, OCCUPIED, Bucket
from tidemill.ledger.document import window_part
from tidemill.ledger.efficiency import Efficiencies, HeldFigure, HeldRow
from tidemill.ledger.schema import Period
from tidemill.ledger.served import LatencyCounts
from tidemill.ledger.statement import Statement
from tidemill.model.figures import DeviceFigure
from tidemill.model.loads import NO_BOUND_US, LatencyFigure
from tidemill.model.measures import ONE_PPM

VERSION = 1


class HeldPart(Struct, frozen=True):
    """One bucket of what was held; null amounts: nobody can say."""

    key: str
    title: str
    known: str
    milli_ms: int | None
    share_ppm: int | None
    """Of what was held."""
    usd_micro: int | None
    is_lower_bound: bool = False
    """Whether it may be more: it was not measured of all."""


class HeldUse(Struct, frozen=True):
    """Occupancy and MFU of what was held, in millionths; null: unknown."""

    occupancy_ppm: int | None
    occupancy_at_most_ppm: int
    """What was not seen to be idle, starting, saving or waiting for data."""
    occupancy_known: str
    mfu_ppm: int | None
    mfu_is_lower_bound: bool
    mfu_known: str
    misleading: str | None


class HeldJobPart(Struct, frozen=True):
    """What is known of one job beside its accelerators' time."""

    user: str | None
    team: str
    job_class: str
    gpu_milli: int
    cpu_milli: int | None
    cpu_used_ppm: int | None
    """CPU time of its attempts over that of the CPUs that they had; null: nobody says."""
    memory_mib: int | None
    memory_used_ppm: int | None
    """The most memory that an attempt used at once, of what it requested; null: nobody says."""
    attempts: int
    elapsed_ms: int | None
    asked_ms: int | None
    """The time limit, or the run time that its owner gave, of one attempt."""
    asked_used_ppm: int | None
    """How much of that its attempts used, on the mean."""
    mfu_source: str | None = None
    """Where the loop has its MFU from, in its own words; null: it did not say."""


class HeldLatency(Struct, frozen=True):
    """How long requests, or tokens, took: counts by bucket, and what is read from them."""

    what: str
    """`first_token`, `between_tokens` or `whole`."""
    p50_at_most_us: int | None
    """Half of them took no longer; null: longer than the largest bound."""
    p90_at_most_us: int | None
    p99_at_most_us: int | None
    count: int
    bounds_us: tuple[int | None, ...]
    """The upper bound of each bucket; null: it has none."""
    counts: tuple[int, ...]
    """How many lie in each bucket, and not in the one before."""


class HeldLoad(Struct, frozen=True):
    """What services were asked for, of the time in which that was seen; null: not measured."""

    seen_ppm: int
    """Of what was held, the share in which requests were counted."""
    seen_gpu_s: int
    """What was held meanwhile: requests are divided by it."""
    token_gpu_s: int
    """What was held while tokens were counted: tokens are divided by it."""
    requests: int
    tokens_in: int | None
    tokens_out: int | None
    requests_per_gpu_hour: float | None
    tokens_per_gpu_hour: float | None
    """Of prompts and generated."""
    tokens_out_per_gpu_hour: float | None
    usd_micro_per_million_tokens: int | None
    """Of prompts and generated."""
    usd_micro_per_million_tokens_out: int | None
    waiting_milli: int | None
    """Requests that waited, on the mean, in thousandths."""
    running_milli: int | None
    latencies: tuple[HeldLatency, ...]


class HeldSteps(Struct, frozen=True):
    """What training loops did, of the time in which that was seen; null: not measured."""

    seen_ppm: int
    """Of what was held, the share in which steps were counted."""
    seen_gpu_s: int
    """What was held meanwhile, since the loop of each launch came up."""
    steps: int
    tokens: int | None
    token_gpu_s: int
    """What was held while tokens were counted: tokens are divided by it."""
    tokens_per_gpu_hour: float | None
    usd_micro_per_million_tokens: int | None
    samples: int | None
    samples_per_gpu_hour: float | None


class HeldFigures(Struct, frozen=True):
    """What devices and nodes measured, as means; null: nobody did."""

    sm_active_ppm: int | None = None
    tensor_active_ppm: int | None = None
    dram_active_ppm: int | None = None
    memory_used_ppm: int | None = None
    watts: int | None = None
    clock_mhz: int | None = None
    io_wait_ppm: int | None = None
    """Of all CPUs of the nodes, whoever used them."""
    cpu_busy_ppm: int | None = None
    """Of all CPUs of the nodes, whoever used them."""
    gpu_s: dict[str, int] = {}
    """For how many GPU-seconds each is known."""


class HeldRowPart(Struct, frozen=True):
    """One job, user, team or class."""

    key: str
    jobs: int
    held_milli_ms: int
    usd_micro: int | None
    """Of what has a price; null: nobody said a price of any of it."""
    wasted_usd_micro: int | None
    """What is known not to be useful; null: unknown, or without a price."""
    wasted_milli_ms: int | None
    """Null where ``wasted_known`` is unknown."""
    unknown_usd_micro: int | None
    unpriced_milli_ms: int
    """Of what was held, the time that nobody said a price of."""
    parts: tuple[HeldPart, ...]
    use: HeldUse
    job: HeldJobPart | None
    wasted_known: str = "unknown"
    """How most of what was wasted is known; unknown: nobody knows whether anything was."""
    load: HeldLoad | None = None
    """Null: no requests were counted."""
    devices: HeldFigures | None = None
    """Null: nothing was measured."""
    wasted_is_lower_bound: bool = False
    """Whether more may be wasted: something was not measured of all, or has an unknown worth."""
    steps: HeldSteps | None = None
    """Null: no steps were counted."""


class HeldAttemptPart(Struct, frozen=True):
    """One attempt of a job; their parts add up to the job's."""

    number: int
    start_ms: int
    start: str | None
    up_ms: int | None
    """Null: it never came up, or nobody said when."""
    end_ms: int | None
    outcome: str
    why: str | None
    nodes: tuple[str, ...]
    milli_ms: dict[str, int]
    """By bucket, those that hold something."""
    usd_micro: int | None


class EfficiencyDocument(Struct, frozen=True):
    """The whole answer."""

    version: int
    source: str
    is_simulated: bool
    currency: str
    window: Period
    by: str
    paid_milli_ms: int
    paid_usd_micro: int | None
    total: HeldRowPart
    """All that jobs held: rows, and the rest where there is one, add up to it."""
    rows: tuple[HeldRowPart, ...]
    rest: HeldRowPart | None
    attempts: tuple[HeldAttemptPart, ...] | UnsetType = UNSET
    """Of the one job that was asked for."""


def efficiency_document(
    statement: Statement, found: Efficiencies, attempts: Sequence[HeldAttempt] | None = None
) -> EfficiencyDocument:
    """The document of what was found."""
    whole = statement.total()
    return EfficiencyDocument(
        version=VERSION,
        source=str(statement.source),
        is_simulated=statement.source.is_simulated,
        currency="USD",
        window=window_part(statement),
        by=found.by,
        paid_milli_ms=whole.paid_milli_ms,
        paid_usd_micro=whole.known_usd(whole.paid_usd_micro),
        total=_row(found.total),
        rows=tuple(_row(row) for row in found.rows),
        rest=None if found.rest is None else _row(found.rest),
        attempts=UNSET
        if attempts is None
        else tuple(_attempt(statement, a, found.total) for a in attempts),
    )


def _row(row: HeldRow) -> HeldRowPart:
    usd = row.account.usd_micro()
    parts = tuple(_part(row, bucket, usd[bucket]) for bucket in _shown(row))
    return HeldRowPart(
        row.key, row.jobs, row.held_milli_ms, row.usd_micro, row.wasted_usd_micro,
        row.wasted.milli_ms, row.unknown_usd_micro, row.account.unpriced_milli_ms,
        parts, _use(row), _job(row), row.wasted.confidence, _load(row), _devices(row),
        row.wasted.milli_ms is not None and row.may_waste_more,
        _steps(row),
    )  # fmt: skip


def _load(row: HeldRow) -> HeldLoad | None:
    load, usd, held = row.measured.load, row.usd_micro, row.held_milli_ms
    if load is None:
        return None
    return HeldLoad(
        load.seen_ppm(held), load.gpu_s, load.token_gpu_s, load.requests, load.tokens_in,
        load.tokens_out,
        _float(load.requests_per_gpu_hour), _float(load.tokens_per_gpu_hour(load.tokens)),
        _float(load.tokens_per_gpu_hour(load.tokens_out)),
        load.usd_micro_per_million(load.tokens, usd, held),
        load.usd_micro_per_million(load.tokens_out, usd, held),
        load.waiting_milli, load.running_milli,
        tuple(_latency(figure, counts) for figure, counts in load.latencies.items()),
    )  # fmt: skip


def _steps(row: HeldRow) -> HeldSteps | None:
    told, usd, held = row.measured.steps, row.usd_micro, row.held_milli_ms
    if told is None:
        return None
    return HeldSteps(
        served.seen_ppm(told.gpu_s, held), told.gpu_s, told.steps, told.tokens, told.token_gpu_s,
        _float(served.per_gpu_hour(told.tokens, told.token_gpu_s)),
        served.usd_micro_per_million(told.tokens, told.token_gpu_s, usd, held), told.samples,
        _float(served.per_gpu_hour(told.samples, told.sample_gpu_s)),
    )  # fmt: skip


def _latency(figure: LatencyFigure, counts: LatencyCounts) -> HeldLatency:
    half, most, nearly_all = (counts.at_most_us(Fraction(part, 100)) for part in (50, 90, 99))
    bounds = tuple(None if bound >= NO_BOUND_US else bound for bound in counts.bounds_us)
    return HeldLatency(
        figure.name.lower(), half, most, nearly_all, counts.total, bounds, counts.counts
    )


def _devices(row: HeldRow) -> HeldFigures | None:
    figures, times = row.measured.figures, row.measured.figure_gpu_s
    if not figures:
        return None
    names = {figure: _DEVICE_FIELDS[figure] for figure in figures}
    return HeldFigures(
        **{names[figure]: value for figure, value in figures.items()},
        gpu_s={names[figure]: times[figure] for figure in figures},
    )


_DEVICE_FIELDS = {
    DeviceFigure.SM_ACTIVE: "sm_active_ppm",
    DeviceFigure.TENSOR_ACTIVE: "tensor_active_ppm",
    DeviceFigure.DRAM_ACTIVE: "dram_active_ppm",
    DeviceFigure.MEMORY_USED: "memory_used_ppm",
    DeviceFigure.WATTS: "watts",
    DeviceFigure.CLOCK_MHZ: "clock_mhz",
    DeviceFigure.IO_WAIT: "io_wait_ppm",
    DeviceFigure.CPU_BUSY: "cpu_busy_ppm",
}


def _float(rate: Fraction | None) -> float | None:
    return None if rate is None else float(rate)


def _shown(row: HeldRow) -> list[int]:
    return [b for b in ABOUT if b in ALLOCATED or row.account.milli_ms[b]]


def _part(row: HeldRow, bucket: int, usd_micro: int) -> HeldPart:
    figure, about = row.figure([bucket]), ABOUT[bucket]
    is_unknown = figure.milli_ms is None
    return HeldPart(
        about.key, about.title, figure.confidence, figure.milli_ms, _ppm(row, figure),
        None if is_unknown else row.account.known_usd(usd_micro, bucket),
        bool(figure.milli_ms) and row.may_be_more([bucket]),
    )  # fmt: skip


def _ppm(row: HeldRow, figure: HeldFigure) -> int | None:
    if figure.milli_ms is None or not row.held_milli_ms:
        return None
    return rounded(figure.milli_ms * ONE_PPM, row.held_milli_ms)


def _use(row: HeldRow) -> HeldUse:
    most = HeldFigure(row.account.of({*OCCUPIED, Bucket.NOT_OBSERVED}), row.occupancy.confidence)
    misleading = row.misleading
    return HeldUse(
        _ppm(row, row.occupancy), _ppm(row, most) or 0, row.occupancy.confidence,
        _ppm(row, row.mfu), row.is_lower_bound, row.mfu.confidence,
        None if misleading is None else misleading.words,
    )  # fmt: skip


def _job(row: HeldRow) -> HeldJobPart | None:
    facts = row.facts
    if facts is None:
        return None
    return HeldJobPart(
        facts.user, facts.team, facts.job_class, facts.gpu_milli,
        facts.cpu_milli, facts.host.cpu_ppm, facts.memory_mib, facts.host.memory_ppm,
        facts.attempts, facts.elapsed_ms, facts.asked_ms, facts.asked_ppm,
        facts.mfu_source,
    )  # fmt: skip


def _attempt(statement: Statement, attempt: HeldAttempt, job: HeldRow) -> HeldAttemptPart:
    held = {ABOUT[b].key: attempt.milli_ms[b] for b in ABOUT if attempt.milli_ms[b]}
    return HeldAttemptPart(
        attempt.number, attempt.start_ms, statement.calendar.iso(attempt.start_ms),
        attempt.up_ms if job.is_up_told(attempt.start_ms, attempt.up_ms) else None,
        attempt.end_ms, attempt.outcome, attempt.why or None, attempt.nodes, held,
        job.account.known_usd(rounded(sum(attempt.money), DENOMINATOR)),
    )  # fmt: skip
