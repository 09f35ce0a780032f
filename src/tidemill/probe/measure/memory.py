"""Bandwidths: device memory, and the link to the host both ways, pinned and pageable.

A pageable copy is work of the host: the driver copies through a pinned buffer of its own, on the
thread that called. So the buffer is written once by that thread before anything is timed (its pages
exist, and lie on that thread's memory node), nothing is allocated while the clock runs, and the
clock is the host's, from a quiet device to a quiet device.
"""

from collections.abc import Callable

import torch

from tidemill.probe import quantiles
from tidemill.probe.card import Bandwidth, What
from tidemill.probe.measure import timing

DEVICE_BYTES = 4 << 30
LINK_BYTES = 1 << 30
PAGEABLE_BYTES = 256 << 20  # as large as a layer's weights or a big batch; a few ms at any rate
PAGEABLE_TIMED = 20  # copies that are timed at least: these vary, and the median needs some


def measure(what: What, budget_s: float) -> Bandwidth:
    """One bandwidth by its name."""
    match what:
        case "hbm-copy":
            return hbm_copy(budget_s)
        case "hbm-read":
            return hbm_read(budget_s)
        case _:
            return link(what, budget_s)


def hbm_copy(budget_s: float) -> Bandwidth:
    """A copy within device memory; bytes read and bytes written both count."""
    source = torch.randint(0, 255, (DEVICE_BYTES // 2,), device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    return _timed("hbm-copy", 2 * source.numel(), lambda: target.copy_(source), budget_s)


def hbm_read(budget_s: float) -> Bandwidth:
    """Reading alone: the sum of a long vector."""
    source = torch.randn(DEVICE_BYTES // 4, device="cuda")
    return _timed("hbm-read", DEVICE_BYTES, source.sum, budget_s)


def link(what: What, budget_s: float) -> Bandwidth:
    """Copies between host and device: ``h2d-pinned``, ``d2h-pageable`` …"""
    if what.endswith("pageable"):
        return pageable(what, budget_s)
    host = torch.empty(LINK_BYTES, dtype=torch.uint8, pin_memory=True)
    host.fill_(7)  # pages exist before they are timed
    device = torch.empty(LINK_BYTES, device="cuda", dtype=torch.uint8)
    if what.startswith("h2d"):
        return _timed(what, LINK_BYTES, lambda: device.copy_(host, non_blocking=True), budget_s)
    return _timed(what, LINK_BYTES, lambda: host.copy_(device, non_blocking=True), budget_s)


def pageable(what: What, budget_s: float, size: int = PAGEABLE_BYTES) -> Bandwidth:
    """Copies from or to ordinary memory of the host, as a tensor that nobody pinned has it."""
    host = torch.empty(size, dtype=torch.uint8)
    host.numpy().fill(7)  # by this thread alone: `fill_` would spread the pages over all cores
    device = torch.full((size,), 7, device="cuda", dtype=torch.uint8)
    source, target = (host, device) if what.startswith("h2d") else (device, host)
    timed = timing.on_the_clock(lambda: target.copy_(source), budget_s, PAGEABLE_TIMED)
    return Bandwidth(what=what, gb_s=size / quantiles.median(timed) / 1e9, timed=len(timed))


def _timed(what: What, size: int, work: Callable[[], object], budget_s: float) -> Bandwidth:
    timed = timing.seconds(work, budget_s)
    return Bandwidth(what=what, gb_s=size / quantiles.median(timed) / 1e9, timed=len(timed))
