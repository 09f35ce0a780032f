"""A sitting: measure one unit section by section within a time, and write what was found.

A section that fails, or that the time does not reach, is left out with its reason; the others
stand. Nothing changes a setting of the card.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar, get_args

from tidemill.model.errors import BackendError
from tidemill.probe import requirements, workloads
from tidemill.probe.card import (
    VERSION,
    Bandwidth,
    Card,
    MeasuredTenant,
    Mode,
    Pair,
    Precision,
    Rate,
    What,
)

MODES: tuple[Mode, ...] = ("time-slice", "mps")
_Found = TypeVar("_Found")


class ProbePlan(NamedTuple):
    """What to measure, and for how long."""

    gpu: int = 0
    seconds: float = 120.0
    is_quick: bool = False
    with_tenants: bool = False
    folder: Path = Path()
    """Where the checkpoint is written and removed again."""
    conditions: str = ""

    @property
    def each_s(self) -> float:
        """How long one figure is timed."""
        return 0.3 if self.is_quick else max(0.5, self.seconds / 100)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Which tenants meet."""
        return workloads.QUICK_PAIRS if self.is_quick else workloads.PAIRS

    @property
    def pair_s(self) -> float:
        """How long each pair is watched."""
        return 1.0 if self.is_quick else max(1.5, self.seconds / 80)


class ProbeRun:
    """Runs sections until the time is over."""

    def __init__(self, plan: ProbePlan, tell: Callable[[int, int], None]) -> None:
        self.plan = plan
        self.unknown: dict[str, str] = {}
        self._tell = tell
        self._begun = time.monotonic()
        self._done = 0
        kinds = {kind for pair in plan.pairs for kind in pair}
        self._total = len(get_args(Precision)) + len(get_args(What)) + 3
        self._total += 2 * len(plan.pairs) + len(kinds) if plan.with_tenants else 0

    @property
    def took_s(self) -> float:
        """Since it began."""
        return time.monotonic() - self._begun

    def one(self, what: str, work: Callable[[], _Found]) -> _Found | None:
        """One section, or None and the reason."""
        try:
            if self.took_s > self.plan.seconds:
                self.unknown[what] = f"not reached within {self.plan.seconds:g} s"
                return None
            return work()
        except (RuntimeError, OSError, BackendError, AttributeError) as error:
            # torch tells nearly everything by RuntimeError; a precision it lacks by AttributeError
            self.unknown[what] = (str(error).strip().splitlines() or ["it said nothing"])[0][:300]
            return None
        finally:
            self.step()

    def step(self) -> None:
        """One more is done."""
        self._done += 1
        self._tell(min(self._done, self._total), self._total)

    def may_begin(self) -> bool:
        """Whether there is time for one more within a section."""
        self.step()
        return self.took_s <= self.plan.seconds


def sit(plan: ProbePlan, tell: Callable[[int, int], None]) -> Card:
    """Measure, and give the card. Refuses where torch or the GPU is missing."""
    requirements.torch_and_gpu(plan.gpu)
    from tidemill.probe.measure import checkpoint, device, sustained, training  # noqa: PLC0415

    sitting = ProbeRun(plan, tell)
    made = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    unit = device.unit(plan.gpu)
    rates, bandwidths = _rates(sitting), _bandwidths(sitting)
    long_s = 2.0 if plan.is_quick else max(5.0, plan.seconds / 12)
    kept = sitting.one("sustained", lambda: sustained.sustained(plan.gpu, long_s))
    device.free(plan.gpu)
    step = sitting.one("step", lambda: training.step(4 * plan.each_s))
    device.free(plan.gpu)
    size = checkpoint.QUICK_BYTES if plan.is_quick else checkpoint.BYTES
    saved = sitting.one("checkpoint", lambda: checkpoint.checkpoint(plan.folder, size))
    device.free(plan.gpu)
    tenants, pairs = _tenants(sitting) if plan.with_tenants else ((), ())
    return Card(
        version=VERSION,
        made=made,
        unit=unit,
        conditions=plan.conditions,
        took_s=sitting.took_s,
        rates=rates,
        bandwidths=bandwidths,
        sustained=kept,
        step=step,
        checkpoint=saved,
        tenants=tenants,
        pairs=pairs,
        unknown=sitting.unknown,
    )


def _rates(sitting: ProbeRun) -> tuple[Rate, ...]:
    from tidemill.probe.measure import device, rates  # noqa: PLC0415 - imports torch

    found: list[Rate] = []
    for precision in get_args(Precision):
        work = partial(rates.rate, precision, sitting.plan.each_s)
        rate = sitting.one(f"rate.{precision}", work)
        found += [rate] if rate is not None else []
        device.free(sitting.plan.gpu)
    return tuple(found)


def _bandwidths(sitting: ProbeRun) -> tuple[Bandwidth, ...]:
    from tidemill.probe.measure import device, memory  # noqa: PLC0415 - imports torch

    found: list[Bandwidth] = []
    for what in get_args(What):
        work = partial(memory.measure, what, sitting.plan.each_s)
        measured = sitting.one(f"gb_s.{what}", work)
        found += [measured] if measured is not None else []
        device.free(sitting.plan.gpu)
    return tuple(found)


def _tenants(sitting: ProbeRun) -> tuple[tuple[MeasuredTenant, ...], tuple[Pair, ...]]:
    from tidemill.probe.measure import tenants  # noqa: PLC0415 - starts processes with torch

    single: list[MeasuredTenant] = []
    double: list[Pair] = []
    plan = sitting.plan
    for mode in MODES:
        work = partial(
            tenants.measure, mode, plan.gpu, plan.pairs, plan.pair_s, sitting.may_begin, not single
        )
        found = sitting.one(f"pairs.{mode}", work)
        if found is not None:
            single += found[0]
            double += found[1]
            if len(found[1]) < len(plan.pairs):
                sitting.unknown[f"pairs.{mode}"] = (
                    f"{len(found[1])} of {len(plan.pairs)} within {plan.seconds:g} s"
                )
    return tuple(single), tuple(double)
