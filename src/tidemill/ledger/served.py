"""What services were asked for, loops trained and devices did, of some jobs: ready to be shown.

Quantiles are read from counts by bucket, of as many stretches and engines as are asked for. The
counts tell that a request took no longer than its bucket's bound, so a quantile is *at most* the
first bound below which enough of the requests lie; where engines have different bounds that still
holds. Figures of devices are means over the GPUs and the time that they were measured.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tidemill.ledger.account import rounded
from tidemill.ledger.measured import FIGURES, LATENCIES, MeasuredRows
from tidemill.model.figures import SHOWN, DeviceFigure
from tidemill.model.loads import LENGTHS, NO_BOUND_US, LatencyFigure, LoadFigure
from tidemill.model.tables import I64

GPU_SECOND_MILLI_MS = 1_000_000


def per_gpu_hour(amount: int | None, gpu_s: int) -> Fraction | None:
    """Over the GPU-hours that were held while it was counted; None: nobody did."""
    return None if amount is None or not gpu_s else Fraction(amount * 3600, gpu_s)


def seen_ppm(gpu_s: int, held_milli_ms: int) -> int:
    """Of what was held, the share in which something was counted."""
    if not held_milli_ms:
        return 0
    return min(1_000_000, rounded(gpu_s * GPU_SECOND_MILLI_MS * 1_000_000, held_milli_ms))


def usd_micro_per_million(
    amount: int | None, gpu_s: int, usd_micro: int | None, held_milli_ms: int
) -> int | None:
    """What a million of something cost, in micro-dollars; None: unknown, or there were none.

    ``usd_micro``: what all that was held cost. Of it counts the part in which they were counted
    (``gpu_s``), as if all of it had one price.
    """
    if not amount or usd_micro is None or not held_milli_ms:
        return None
    seen = min(gpu_s * GPU_SECOND_MILLI_MS, held_milli_ms)
    return rounded(usd_micro * seen * 1_000_000, held_milli_ms * amount)


class LatencyCounts(NamedTuple):
    """How many requests, or tokens, took no longer than each bound, and longer than the last."""

    bounds_us: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts)

    def at_most_us(self, share: Fraction) -> int | None:
        """What this share of them took at most; None: longer than the largest bound, or no one."""
        below, enough = 0, share * self.total
        for bound, count in zip(self.bounds_us, self.counts, strict=True):
            below += count
            if below and below >= enough:
                return None if bound >= NO_BOUND_US else bound
        return None


class ServedLoad(NamedTuple):
    """The load of one service or of several."""

    seen_ms: int
    """How long it was seen, of each job, added up."""
    gpu_s: int
    """GPU-seconds that were held in that time."""
    token_gpu_s: int
    """GPU-seconds that were held while tokens were counted."""
    requests: int
    tokens_in: int | None
    """None: nobody counts tokens."""
    tokens_out: int | None
    waiting_milli: int | None
    """Requests that waited, on the mean, in thousandths; None: not measured."""
    running_milli: int | None
    latencies: Mapping[LatencyFigure, LatencyCounts]

    @property
    def requests_per_gpu_hour(self) -> Fraction | None:
        """Over the GPU-hours that were held while they were counted; None: there are none."""
        return Fraction(self.requests * 3600, self.gpu_s) if self.gpu_s else None

    def tokens_per_gpu_hour(self, tokens: int | None) -> Fraction | None:
        """Over the GPU-hours that were held while they were counted; None: nobody did."""
        return per_gpu_hour(tokens, self.token_gpu_s)

    def seen_ppm(self, held_milli_ms: int) -> int:
        """Of what was held, the share in which the load was seen."""
        return seen_ppm(self.gpu_s, held_milli_ms)

    @property
    def tokens(self) -> int | None:
        """Of prompts and generated; None: one of them is not counted."""
        if self.tokens_in is None or self.tokens_out is None:
            return None
        return self.tokens_in + self.tokens_out

    def usd_micro_per_million(
        self, tokens: int | None, usd_micro: int | None, held_milli_ms: int
    ) -> int | None:
        """What a million tokens cost, in micro-dollars; None: unknown, or there were none."""
        return usd_micro_per_million(tokens, self.token_gpu_s, usd_micro, held_milli_ms)


class TrainedSteps(NamedTuple):
    """The steps of one training job or of several."""

    gpu_s: int
    """GPU-seconds that were held while steps were counted."""
    steps: int
    tokens: int | None
    """None: nobody counts them."""
    token_gpu_s: int
    """GPU-seconds that were held while tokens were counted."""
    samples: int | None
    sample_gpu_s: int


class MeasuredGroup(NamedTuple):
    """What was measured of a group of jobs; None and empty: nothing."""

    load: ServedLoad | None
    figures: Mapping[DeviceFigure, int]
    """Means, in the units of each."""
    figure_gpu_s: Mapping[DeviceFigure, int]
    """GPU-seconds for which each is known."""
    steps: TrainedSteps | None = None
    is_busy_seen: bool = False
    """Whether devices said of some of the time how busy they were."""


NOTHING = MeasuredGroup(None, {}, {})


def by_group(measured: MeasuredRows, whose: I64, count: int) -> Sequence[MeasuredGroup]:
    """What was measured of each of so many groups; ``whose``: the group of each row, or -1."""
    if not len(measured.job):
        return [NOTHING] * count
    order = np.argsort(whose, kind="stable")
    starts = np.searchsorted(whose[order], np.arange(count + 1))
    return [_group(measured, order[starts[i] : starts[i + 1]]) for i in range(count)]


def _group(measured: MeasuredRows, some_rows: I64) -> MeasuredGroup:
    if not len(some_rows):
        return NOTHING
    what, bound = measured.what[some_rows], measured.bound[some_rows]
    amount, weight = measured.amount[some_rows], measured.weight[some_rows]
    figures, times = dict[DeviceFigure, int](), dict[DeviceFigure, int]()
    for figure in SHOWN:
        some = what == FIGURES + figure
        if held := int(weight[some].sum()):
            figures[figure] = rounded(int(amount[some].sum()), held)
            times[figure] = held
    load, steps = _load(what, bound, amount, weight), _steps(what, amount, weight)
    is_busy_seen = bool((what == FIGURES + DeviceFigure.BUSY_SEEN).any())
    return MeasuredGroup(load, figures, times, steps, is_busy_seen)


def _steps(what: I64, amount: I64, weight: I64) -> TrainedSteps | None:
    """None: nobody counts steps."""
    held = {figure: int(weight[what == figure].sum()) for figure in LENGTHS}
    if not (what == LoadFigure.STEPPED_MS).any():
        return None
    steps, tokens, samples = (
        int(amount[what == figure].sum()) if (what == figure).any() else None
        for figure in (LoadFigure.STEPS, LoadFigure.TRAINED_TOKENS, LoadFigure.SAMPLES)
    )
    return TrainedSteps(
        held[LoadFigure.STEPPED_MS], steps or 0, tokens, held[LoadFigure.TRAINED_TOKENED_MS],
        samples, held[LoadFigure.SAMPLED_MS],
    )  # fmt: skip


def _load(what: I64, bound: I64, amount: I64, weight: I64) -> ServedLoad | None:
    is_seen = what == LoadFigure.SEEN_MS
    if not is_seen.any():
        return None
    sums = {figure: int(amount[what == figure].sum()) for figure in LoadFigure}
    requests, token_gpu_s = (
        sums[LoadFigure.REQUESTS],
        int(weight[what == LoadFigure.TOKENED_MS].sum()),
    )
    is_counted = not requests or token_gpu_s > 0  # who was asked for nothing made no token
    tokens_in, tokens_out = (
        sums[figure] if is_counted else None
        for figure in (LoadFigure.TOKENS_IN, LoadFigure.TOKENS_OUT)
    )
    gauged = sums[LoadFigure.GAUGED_MS]
    waiting, running = (
        rounded(1000 * sums[figure], gauged) if gauged else None
        for figure in (LoadFigure.WAITING_MS, LoadFigure.RUNNING_MS)
    )
    return ServedLoad(
        sums[LoadFigure.SEEN_MS], int(weight[is_seen].sum()), token_gpu_s, requests,
        tokens_in, tokens_out, waiting, running,
        {figure: counts for figure in LatencyFigure
         if (counts := _counts(what == LATENCIES + figure, bound, amount)).total},
    )  # fmt: skip


def _counts(mask: np.ndarray, bound: I64, amount: I64) -> LatencyCounts:
    bounds, place = np.unique(bound[mask], return_inverse=True)
    counts = np.zeros(len(bounds), np.int64)
    np.add.at(counts, place, amount[mask])
    return LatencyCounts(tuple(bounds.tolist()), tuple(counts.tolist()))
