"""Requests, steps and figures of devices as cells of tables, for terminal and report."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from tidemill.ledger import served
from tidemill.ledger.efficiency import HeldRow
from tidemill.ledger.served import LatencyCounts, ServedLoad
from tidemill.model.figures import DeviceFigure
from tidemill.model.loads import LatencyFigure
from tidemill.model.measures import dollars_text

UNKNOWN = "?"
MEDIAN, HIGH = Fraction(1, 2), Fraction(99, 100)
LOAD_TITLES = (
    "requests", "per GPU-hour", "tokens in", "tokens out", "out per GPU-hour", "$ per million out",
    "waiting", "running", "first token p50", "p99", "between tokens p99", "request p99",
    "idle", "seen",
)  # fmt: skip
LOAD_LEGEND = (
    "requests that ended and tokens, as the engines, or the services themselves, count them; per"
    " GPU-hour held while that was seen; waiting and running: requests, on the mean; p50, p99: at"
    " most so long, read from their histograms; idle: of the GPU-hours held, nothing was asked for"
    " (or devices stood still); seen: of the GPU-hours held, with requests counted"
)
STEP_TITLES = (
    "steps", "tokens", "tokens per GPU-hour", "$ per million tokens", "samples",
    "samples per GPU-hour", "seen",
)  # fmt: skip
STEP_LEGEND = (
    "steps, tokens and samples as the loops count them (`tidemill.track`), those that were done"
    " again after a failure too; per GPU-hour held since the loop of each launch came up, with"
    " all stalls in it; $ per million tokens: what was held meanwhile cost; seen: of the GPU-hours"
    " held, with steps counted"
)
DEVICE_TITLES = {
    DeviceFigure.SM_ACTIVE: "SM active",
    DeviceFigure.TENSOR_ACTIVE: "tensor active",
    DeviceFigure.DRAM_ACTIVE: "DRAM active",
    DeviceFigure.MEMORY_USED: "memory used",
    DeviceFigure.WATTS: "power",
    DeviceFigure.CLOCK_MHZ: "SM clock",
    DeviceFigure.CPU_BUSY: "node CPUs busy",
    DeviceFigure.IO_WAIT: "node I/O wait",
}
"""What a column of figures is called, in the order in which they are shown."""
DEVICE_LEGEND = (
    "means over the GPUs and the time that devices measured (DCGM), in steps of 2 %, 10 W and"
    " 15 MHz; memory: the most in five minutes; node CPUs and I/O wait: of all CPUs of the job's"
    " nodes, whoever used them (node-exporter)"
)
_UNITS = {DeviceFigure.WATTS: "{:,} W", DeviceFigure.CLOCK_MHZ: "{:,} MHz"}


def load_cells(row: HeldRow, idle: str) -> list[str]:
    """The cells of ``LOAD_TITLES`` of one row that has a load; ``idle``: its share, in words."""
    load = row.measured.load
    assert load is not None, "only services have a load"
    per_million = load.usd_micro_per_million(load.tokens_out, row.usd_micro, row.held_milli_ms)
    return [
        f"{load.requests:,}", _rate(load.requests_per_gpu_hour), _count(load.tokens_in),
        _count(load.tokens_out), _rate(load.tokens_per_gpu_hour(load.tokens_out)),
        UNKNOWN if per_million is None else dollars_text(per_million),
        _level(load.waiting_milli), _level(load.running_milli),
        latency_text(load, LatencyFigure.FIRST_TOKEN, MEDIAN),
        latency_text(load, LatencyFigure.FIRST_TOKEN, HIGH),
        latency_text(load, LatencyFigure.BETWEEN_TOKENS, HIGH),
        latency_text(load, LatencyFigure.WHOLE, HIGH),
        idle, f"{load.seen_ppm(row.held_milli_ms) / 10_000:.0f} %",
    ]  # fmt: skip


def step_cells(row: HeldRow) -> list[str]:
    """The cells of ``STEP_TITLES`` of one row whose loops count steps."""
    told = row.measured.steps
    assert told is not None, "only training loops have steps"
    per_million = served.usd_micro_per_million(
        told.tokens, told.token_gpu_s, row.usd_micro, row.held_milli_ms
    )
    return [
        f"{told.steps:,}", _count(told.tokens),
        _rate(served.per_gpu_hour(told.tokens, told.token_gpu_s)),
        UNKNOWN if per_million is None else _small(per_million), _count(told.samples),
        _rate(served.per_gpu_hour(told.samples, told.sample_gpu_s)),
        f"{served.seen_ppm(told.gpu_s, row.held_milli_ms) / 10_000:.0f} %",
    ]  # fmt: skip


def latency_text(load: ServedLoad, figure: LatencyFigure, share: Fraction) -> str:
    """A quantile in words: at most so long; or longer than the largest bound."""
    counts = load.latencies.get(figure)
    if counts is None:
        return UNKNOWN
    at_most = counts.at_most_us(share)
    return f"> {_seconds(_largest(counts))}" if at_most is None else f"≤ {_seconds(at_most)}"


def _largest(counts: LatencyCounts) -> int:
    """The largest bound that is one; 0: there is none."""
    return max((b for b in counts.bounds_us if b < max(counts.bounds_us)), default=0)


def figures_of(rows: Iterable[HeldRow]) -> list[DeviceFigure]:
    """The figures that are known of some of these, in the order in which they are shown."""
    known = {figure for row in rows for figure in row.measured.figures}
    return [figure for figure in DEVICE_TITLES if figure in known]


def figure_text(figures: Mapping[DeviceFigure, int], figure: DeviceFigure) -> str:
    """One figure; unknown where nobody measured it."""
    if figure not in figures:
        return UNKNOWN
    value = figures[figure]
    return _UNITS[figure].format(value) if figure in _UNITS else f"{value / 10_000:.0f} %"


def _rate(rate: Fraction | None) -> str:
    if rate is None:
        return UNKNOWN
    return f"{float(rate):,.0f}" if rate >= 100 else f"{float(rate):,.3g}"


def _small(usd_micro: int) -> str:
    """Dollars, with as many digits as small prices need."""
    return dollars_text(usd_micro) if usd_micro >= 10_000_000 else f"${usd_micro / 1e6:,.4f}"


def _count(amount: int | None) -> str:
    return UNKNOWN if amount is None else f"{amount:,}"


def _level(milli: int | None) -> str:
    return UNKNOWN if milli is None else f"{milli / 1000:,.3g}"


def _seconds(us: int) -> str:
    return f"{us / 1000:,.3g} ms" if us < 1_000_000 else f"{us / 1_000_000:,.3g} s"
