"""Timing: warmed up, between events of the device or by the clock, until the time is used up."""

import time
from collections.abc import Callable

import torch

FEWEST, MOST = 3, 200
WARM_UPS = 3


def seconds(work: Callable[[], object], budget_s: float, most: int = MOST) -> list[float]:
    """How long ``work`` took, each time, for at most ``budget_s`` (but a few times at least)."""
    for _ in range(WARM_UPS):
        work()
    torch.cuda.synchronize()
    ends = time.monotonic() + budget_s
    timed: list[float] = []
    while len(timed) < FEWEST or (len(timed) < most and time.monotonic() < ends):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        timed.append(begin.elapsed_time(end) / 1000)
    return timed


def on_the_clock(work: Callable[[], object], budget_s: float, fewest: int) -> list[float]:
    """The same by the host's clock, with the device quiet before and after each time.

    For work that the host does itself, such as a copy of memory that is not pinned.
    """
    for _ in range(WARM_UPS):
        work()
    torch.cuda.synchronize()
    ends = time.monotonic() + budget_s
    timed: list[float] = []
    while len(timed) < fewest or (len(timed) < MOST and time.monotonic() < ends):
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize()
        timed.append(time.perf_counter() - begun)
    return timed
