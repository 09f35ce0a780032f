"""Which device of a job runs below its peers, by what the devices measure of themselves?

A device that is too hot, short of power or broken lowers its clock; its peers in the same job keep
theirs. Reads columns of minutes × devices of one job, returns those whose clock stands out, with
power, temperature and activity beside it: evidence that no loop has to give.
"""

from typing import NamedTuple

import numpy as np

from tidemill.model.tables import I64
from tidemill.workload.slow import peers
from tidemill.workload.slow.peers import F64, RULE, PeerLook, SlowRule

FEWEST_MINUTES = 8
DEVICE_RULE = RULE._replace(spreads=4.0)  # no waits of others speak for it
BUSY = 0.5
"""A minute in which a device was less busy than this says nothing: idle devices lower clocks."""


class DeviceMinutes(NamedTuple):
    """What devices of one job did; minutes × devices, NaN: not measured."""

    at_ms: I64
    clock_mhz: F64
    busy: F64
    watts: F64
    celsius: F64
    sm: F64


class DeviceFigures(NamedTuple):
    """Medians over minutes; None: not measured."""

    clock_mhz: int
    watts: int | None
    celsius: int | None
    sm_ppm: int | None


class SlowDevice(NamedTuple):
    """A device that ran below its peers."""

    device: int
    """Its column."""
    first_ms: int
    last_ms: int
    minutes: int
    slow_ppm: int
    """The clock of its peers over its own, less one: so much longer takes what is compute-bound."""
    figures: DeviceFigures
    peers: DeviceFigures
    chance_log10: float


def find(told: DeviceMinutes, rule: SlowRule = DEVICE_RULE) -> tuple[SlowDevice, ...]:
    """The devices whose clock stands out, the slowest first."""
    if not is_judged(told):
        return ()
    clock, at = _at_work(told)
    logs = -np.log(clock[at])

    def looked(left: list[int]) -> PeerLook:
        over = np.full_like(logs, np.nan)
        over[:, left] = logs[:, left] - peers.of_others(logs[:, left])
        return peers.look(over, rule)

    made = []
    for device, one in peers.exceptions(looked, clock.shape[1], rule).items():
        inside = np.concatenate([np.arange(a, b) for a, b in one.stretches])
        others = np.delete(np.arange(clock.shape[1]), device)
        made.append(
            SlowDevice(
                device, int(told.at_ms[at[inside[0]]]), int(told.at_ms[at[inside[-1]]]),
                len(inside), peers.ppm_of(peers.excess(one.look, inside, device)),
                _figures(told, at[inside], np.array([device])), _figures(told, at[inside], others),
                round(one.chance[2], 1),
            )
        )  # fmt: skip
    return tuple(sorted(made, key=lambda one: (-one.slow_ppm, one.device)))


def is_judged(told: DeviceMinutes) -> bool:
    """Whether there are several devices, most of which were at work for long enough."""
    clock, at = _at_work(told)
    return clock.shape[1] > 1 and len(at) >= FEWEST_MINUTES


def _at_work(told: DeviceMinutes) -> tuple[F64, I64]:
    """Clocks of devices at work, and the minutes in which those of most devices are known."""
    clock: F64 = np.where((told.busy < BUSY) | (told.clock_mhz <= 0), np.nan, told.clock_mhz)
    is_known = np.isfinite(clock).mean(axis=1) > 0.5 if clock.size else np.zeros(len(clock), bool)
    return clock, np.flatnonzero(is_known)


def _figures(told: DeviceMinutes, minutes: I64, devices: I64) -> DeviceFigures:
    def typical(column: F64, scale: int = 1) -> int | None:
        values = column[np.ix_(minutes, devices)]
        known = values[np.isfinite(values)]
        return round(scale * float(np.median(known))) if len(known) else None

    return DeviceFigures(
        typical(told.clock_mhz) or 0, typical(told.watts), typical(told.celsius),
        typical(told.sm, 1_000_000),
    )  # fmt: skip
