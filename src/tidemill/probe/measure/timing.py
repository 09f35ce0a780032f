"""Timing on the device: warmed up, between events of the device, until the time is used up."""

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
