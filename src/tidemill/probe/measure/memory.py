"""Bandwidths: device memory, and the link to the host both ways, pinned and pageable."""

from collections.abc import Callable

import torch

from tidemill.probe import tally
from tidemill.probe.card import Bandwidth, What
from tidemill.probe.measure import timing

DEVICE_BYTES = 4 << 30
LINK_BYTES = 1 << 30


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
    host = torch.empty(LINK_BYTES, dtype=torch.uint8, pin_memory=what.endswith("pinned"))
    host.fill_(7)  # pages exist before they are timed
    device = torch.empty(LINK_BYTES, device="cuda", dtype=torch.uint8)
    if what.startswith("h2d"):
        return _timed(what, LINK_BYTES, lambda: device.copy_(host, non_blocking=True), budget_s)
    return _timed(what, LINK_BYTES, lambda: host.copy_(device, non_blocking=True), budget_s)


def _timed(what: What, size: int, work: Callable[[], object], budget_s: float) -> Bandwidth:
    timed = timing.seconds(work, budget_s)
    return Bandwidth(what=what, gb_s=size / tally.median(timed) / 1e9, timed=len(timed))
