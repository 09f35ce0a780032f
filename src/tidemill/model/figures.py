"""Figures of a running job that devices and nodes measure, and that no bucket is made of.

Each is told in steps, so that noise makes no events: shares by two percent, power by 10 W, clocks
by 15 MHz (the steps of NVIDIA's clocks). All latest figures of a job are one packed number: a field
of some bits for each, in steps and one more; 0: not measured.
"""

from enum import IntEnum
from typing import Final, TypeVar

from tidemill.model.tables import I64

Some = TypeVar("Some", int, I64)


class DeviceFigure(IntEnum):
    """What was measured; shares are millionths, of all GPUs of the job on average."""

    SM_ACTIVE = 0
    """SMs with at least one warp."""
    TENSOR_ACTIVE = 1
    """Tensor pipes."""
    DRAM_ACTIVE = 2
    """The memory interface."""
    MEMORY_USED = 3
    """Of the memory of the devices, at most."""
    WATTS = 4
    """Of one device."""
    CLOCK_MHZ = 5
    """Of the SMs."""
    IO_WAIT = 6
    """Of the CPUs of the job's nodes, whoever uses them: idle, with input or output under way."""
    CPU_BUSY = 7
    """Of the CPUs of the job's nodes, whoever uses them: neither idle nor in ``IO_WAIT``."""
    BUSY_SEEN = 8
    """That how busy the devices were is measured (0), or not (-1); ``ActivitySeen`` has the share,
    and is not told where they are busy all the time, as they are taken to be without it."""


class FigureSource(IntEnum):
    """Who measured it."""

    DCGM = 0
    """Devices, by DCGM or what other exporters call the same from a Prometheus, or nvidia-smi."""
    NODES = 1
    """Nodes, by node-exporter, from a Prometheus."""


SHOWN: Final = tuple(figure for figure in DeviceFigure if figure is not DeviceFigure.BUSY_SEEN)
"""Those that are an amount of something."""

STEPS: Final = (20_000, 20_000, 20_000, 20_000, 10, 15, 20_000, 20_000, 1)
"""Of each figure, in its own unit."""
SHIFTS: Final = (0, 6, 12, 18, 24, 36, 48, 54, 60)
MASKS: Final = (63, 63, 63, 63, 4095, 4095, 63, 63, 1)


def with_figure(packed: Some, figure: int, value: Some) -> Some:
    """The figures of a job with another value of one; -1: it is not measured any more."""
    field = min((value + STEPS[figure]) // STEPS[figure], MASKS[figure])
    return packed & ~(MASKS[figure] << SHIFTS[figure]) | field << SHIFTS[figure]


def figure_of(packed: Some, figure: int) -> Some:
    """One figure of a job; -1 or less: not measured."""
    return ((packed >> SHIFTS[figure] & MASKS[figure]) - 1) * STEPS[figure]
