"""Track record: how wide a fleet's bands ought to be, by what came of earlier forecasts of it.

At moments of the past, in their order, some waiting jobs are forecast with what was known then, by
a sketch of the queue (``queue_drain``): only jobs that wait for devices or for quota, of which the
sketch says what the scheduler's own loop says. The error of each, in widths of the usual band on
its side, is known when the job starts; while it waits on, the error is at least what it is by then
(censored: Kaplan and Meier, JASA 53, 1958; those that are known early are the short ones). Each
side of the band is made as wide as nine in ten of these errors (conformal prediction: Vovk,
Gammerman and Shafer, 2005), recent forecasts counting more than old ones, together with some errors
as usual bands have them, which are all that a fleet without a past has.

Pure: whoever has a journal passes through its moments (``past_forecasts``).
"""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.explain import bands, queue_drain
from tidemill.explain.bands import BandReach, Sides
from tidemill.explain.draws import draws
from tidemill.explain.durations import Lengths
from tidemill.explain.play_forward import GRID_MS
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import Batch, EventColumn
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause
from tidemill.model.states import JobState
from tidemill.model.world import World

JOBS = 6  # forecast at one moment; those of one moment err alike, so that more tell little more
FUTURES = 3
FIRST_IN_QUEUE = 1_000  # of a longer queue only these are sketched, so that a look stays quick
SKETCHED_WELL = (Cause.BUSY, Cause.OVER_LIMIT)
_PLACED = [codes.KIND_CODE[kind] for kind in (ev.AskedPlace, ev.PlacementSeen)]
WITHIN = 0.9  # the share of starts before p90, and of starts after p10
# Chosen 2026-11 on the same part of the same stories as the constants of ``bands``, so that on each
# of the four the share of starts from p10 to p90 comes nearest to 80 %.
PRIOR = 10.0
"""How many forecasts a fleet is taken to have had besides, with usual errors."""
HALF_LIFE = 0.18
"""In what share of the past a forecast comes to count half."""
OF_SKETCH = 0.95
"""How far the scheduler's own loop is off, when a sketch is off by 1."""
_NORMAL = NormalDist(0, 1 / NormalDist().inv_cdf(WITHIN))
_USUAL = [_NORMAL.inv_cdf((i + 0.5) / 50) for i in range(50)]
F64 = NDArray[np.float64]


class _Kept(NamedTuple):
    """A forecast whose job still waits."""

    at_ms: int
    job: int
    reach: BandReach


class ForecastRecord:
    """Passes through the past of one fleet."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._open: list[_Kept] = []
        self._placed: dict[int, list[int]] = {}
        """When jobs were placed since it was last learnt of them."""
        self._errors: list[tuple[int, float]] = []
        """When each forecast was made, and how far it was off."""

    def read(self, batch: Batch) -> None:
        """Note who is placed in these events: the World keeps only when a job was last."""
        placed = batch.events[np.isin(batch.events[:, EventColumn.KIND], _PLACED)]
        for at_ms, j in placed[:, [EventColumn.AT, EventColumn.WHO]].tolist():
            self._placed.setdefault(j, []).append(at_ms)

    def learn(self, world: World) -> None:
        """What came of earlier forecasts by this moment."""
        still = list[_Kept]()
        for one in self._open:
            start_ms = min(
                (ms for ms in self._placed.get(one.job, ()) if ms > one.at_ms), default=0
            )
            if start_ms:
                self._errors.append((one.at_ms, _error(one.reach, start_ms - one.at_ms)))
            elif world.jobs.state[one.job] == JobState.WAITING:
                still.append(one)  # others were withdrawn
        self._open, self._placed = still, {}

    def look(self, world: World) -> None:
        """Forecast some of what waits at this moment."""
        if not (jobs := _asked(world)):
            return
        seen = queue_drain.starts(
            world, self._policy, Lengths(world), draws(FUTURES), most=FIRST_IN_QUEUE
        )
        for j in jobs:
            waits_ms = [ms for ms in seen.of(j) if ms is not None] if j in seen.row_of else []
            if len(waits_ms) == FUTURES:
                found = bands.reach([max(ms, GRID_MS) for ms in waits_ms])
                self._open.append(_Kept(world.now_ms, j, found))

    def sides(self, now_ms: int) -> Sides:
        """How wide the bands should be now."""
        waiting = [(one.at_ms, _error(one.reach, now_ms - one.at_ms)) for one in self._open]
        at_ms, errors = np.array([*self._errors, *waiting]).reshape(-1, 2).T
        is_open = np.arange(len(errors)) >= len(self._errors)
        outcomes = int((~is_open | (errors > 1)).sum())
        if not outcomes:
            return bands.USUAL
        ages_ms = now_ms - at_ms
        weights = 0.5 ** (ages_ms / max(1.0, HALF_LIFE * ages_ms.max()))
        low, high = _ends(
            np.append(errors, _USUAL), np.append(is_open, np.zeros(len(_USUAL), np.bool_)),
            np.append(weights, np.full(len(_USUAL), PRIOR / len(_USUAL))),
        )  # fmt: skip
        held = int((~is_open & (np.abs(errors) <= 1)).sum())
        return Sides(OF_SKETCH * max(0.0, -low), OF_SKETCH * max(0.0, high), outcomes, held)


def _error(reach: BandReach, wait_ms: int) -> float:
    """How far a wait is from the middle, in widths of its side; less than 0: it was shorter."""
    off = bands.logarithm(wait_ms) - reach.middle
    return off / (reach.early if off < 0 else reach.late)


def _ends(errors: F64, is_open: NDArray[np.bool_], weights: F64) -> tuple[float, float]:
    """What one in ten of the errors, and one in ten on the other side, lie beyond.

    An open one is at least what it is; its weight goes to those that are larger.
    """
    order = np.lexsort((is_open, errors))
    ordered = weights[order]
    at_risk = np.cumsum(ordered[::-1])[::-1]
    passed = 1.0 - np.cumprod(np.where(is_open[order], 1.0, 1.0 - ordered / at_risk))
    low, high = np.searchsorted(passed, (1.0 - WITHIN - 1e-12, WITHIN - 1e-12))
    return float(errors[order][low]), float(errors[order][min(high, len(order) - 1)])


def _asked(world: World) -> list[int]:
    """Some of the waiting jobs, spread over the order of their coming."""
    waiting = sorted(
        j for s in world.queued if Cause(world.shapes.cause.item(s)) in SKETCHED_WELL
        for j in world.waiting[s]
    )  # fmt: skip
    return sorted({waiting[k * len(waiting) // JOBS] for k in range(JOBS)}) if waiting else []
