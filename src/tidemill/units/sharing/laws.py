"""What each tenant keeps of its speed beside others, and its p99, under each mode of sharing.

**Time-slicing.** The device runs one context at a time. A tenant runs until its iteration is done
or its slice ends, then every other that has work gets its turn. So an iteration is stretched by
visits of each neighbour: ``period' = device + visits × (min(neighbour's device, slice) + two
switches)``, with as many visits as it has slices (one at least), but no more often than the
neighbour comes by itself.

**MPS.** Kernels run beside each other. A kernel that finds the device full waits for part of the
neighbour's kernel: all of it where both fill the same axis, ``OVERLAP`` of it where they do not;
behind a long kernel only until enough of its blocks have ended. ``period' = device + kernels ×
wait × the neighbour's busy share``. Short kernels beside long ones lose most.

Without a rhythm (long work on all sides) the laws become those of ``fluid``. **MIG** gives each its
own slices: a tenant loses only what its slice lacks. Clocks rise when a neighbour draws less power
than oneself; no law here knows that (up to a fifth on a power-limited H200).
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from tidemill.model.measures import ONE_PPM
from tidemill.model.rows import Demand
from tidemill.units.sharing import calibration as found
from tidemill.units.sharing import fluid
from tidemill.units.sharing.tenants import Rhythm, Tenant


class Mode(StrEnum):
    """How tenants share a device."""

    EXCLUSIVE = "exclusive"
    TIME_SLICE = "time-slice"
    MPS = "mps"
    MIG = "mig"


class Estimate(NamedTuple):
    """One tenant beside the others."""

    keeps: float
    """The share of its speed alone that it keeps."""
    p99_ms: float | None
    """None: its rhythm is not known."""


def estimate(tenants: Sequence[Tenant], mode: Mode) -> list[Estimate]:
    """Each tenant beside all the others, under time-slicing or MPS."""
    assert mode in (Mode.TIME_SLICE, Mode.MPS)
    return [
        _one(tenant, [*tenants[:i], *tenants[i + 1 :]], mode) for i, tenant in enumerate(tenants)
    ]


def _one(tenant: Tenant, others: Sequence[Tenant], mode: Mode) -> Estimate:
    rhythm = tenant.rhythm
    if not others:
        return Estimate(1.0, rhythm.p99_ms if rhythm is not None else None)
    if rhythm is None or any(other.rhythm is None for other in others):
        is_sliced = mode is Mode.TIME_SLICE
        slow = fluid.slow_ppm(demand(tenant), [demand(other) for other in others], is_sliced)
        return Estimate(ONE_PPM / (ONE_PPM + slow), None)
    law = _sliced if mode is Mode.TIME_SLICE else _beside
    period, p99 = law(tenant, rhythm, others)
    return Estimate(rhythm.period_ms / period, max(rhythm.p99_ms, p99))


def demand(tenant: Tenant) -> Demand:
    """What a job of the twin states of itself, from a tenant."""
    return Demand(
        compute_ppm=round(tenant.compute * ONE_PPM),
        bandwidth_ppm=round(tenant.bandwidth * ONE_PPM),
        memory_mb=round(tenant.memory_gb * 1000),
    )


def _sliced(_tenant: Tenant, mine: Rhythm, others: Sequence[Tenant]) -> tuple[float, float]:
    visits = max(1.0, mine.on_device_ms / found.SLICE_MS)
    full = max(1.0, mine.on_device_ms / found.LONGEST_SLICE_MS)
    period, p99, rare = mine.on_device_ms, mine.p50_ms, 0.0
    for other in others:
        theirs = _rhythm(other)
        cost = min(theirs.on_device_ms, found.SLICE_MS) + 2 * found.SWITCH_MS
        comes = max(1.0, theirs.on_device_ms / found.SLICE_MS) / theirs.period_ms
        if comes * max(mine.period_ms, mine.on_device_ms + visits * cost) < visits:
            rare += comes * cost  # it comes by itself less often than there would be turns for it
        else:
            period += visits * cost
        p99 += full * (min(theirs.on_device_ms, found.LONGEST_SLICE_MS) + 2 * found.SWITCH_MS)
    return max(mine.period_ms, period) / max(1 - rare, 1 / (1 + len(others))), p99


def _beside(tenant: Tenant, mine: Rhythm, others: Sequence[Tenant]) -> tuple[float, float]:
    waits = 0.0
    for other in others:
        theirs = _rhythm(other)
        behind = min(theirs.kernel_ms, found.BLOCK_MS + found.PER_KERNEL * mine.kernel_ms)
        waits += mine.kernels * _contention(tenant, other) * behind * theirs.busy
    period = max(mine.period_ms, mine.on_device_ms + waits)
    return period, mine.p50_ms + found.TAIL * waits


def _contention(one: Tenant, other: Tenant) -> float:
    """Which share of the neighbour's kernel is waited for: 1 where both fill the same axis."""
    compute = _while_busy(one, one.compute) * _while_busy(other, other.compute)
    bandwidth = _while_busy(one, one.bandwidth) * _while_busy(other, other.bandwidth)
    return found.OVERLAP + (1 - found.OVERLAP) * max(compute, bandwidth)


def _while_busy(tenant: Tenant, share: float) -> float:
    return min(1.0, share / tenant.busy) if tenant.busy else 0.0


def _rhythm(tenant: Tenant) -> Rhythm:
    assert tenant.rhythm is not None
    return tenant.rhythm
