"""Figures of a card that can be set beside those of other units: higher is always better."""

from collections.abc import Iterator
from typing import NamedTuple

from tidemill.probe.card import Card

WORDS = {
    "hbm-copy": "HBM copy (read + written)",
    "hbm-read": "HBM read",
    "h2d-pinned": "host to device, pinned",
    "d2h-pinned": "device to host, pinned",
    "h2d-pageable": "host to device, pageable",
    "d2h-pageable": "device to host, pageable",
}


HOST_NOISE = 0.2
"""Figures that the host has a hand in: pageable copies differed by 26 %, a tenant that waits on its
host by a third, between two sittings on one H200."""
MEMORY_NOISE = 0.02
"""Bandwidths and tenants on the device: up to 4 %."""


class Figure(NamedTuple):
    """One measured figure."""

    key: str
    words: str
    value: float
    unit: str
    noise: float = 0.01
    """How much two sittings on one unit may differ: under 1 % for the device (one H200, twice)."""


def figures(card: Card) -> Iterator[Figure]:
    """Everything on a card that says how fast its unit is."""
    for rate in card.rates:
        unit = "TOP/s" if rate.precision == "int8" else "TFLOP/s"
        yield Figure(f"rate.{rate.precision}", f"{rate.precision} dense", rate.tflops, unit)
    for found in card.bandwidths:
        noise = HOST_NOISE if found.what.endswith("pageable") else MEMORY_NOISE
        yield Figure(f"gb_s.{found.what}", WORDS[found.what], found.gb_s, "GB/s", noise)
    if card.sustained is not None:
        words = f"{card.sustained.precision} sustained"
        yield Figure("sustained", words, card.sustained.tflops, "TFLOP/s")
    if card.step is not None:
        tflops = card.step.flops / (card.step.ms * 1e9)
        yield Figure("step", "a small training step", tflops, "TFLOP/s")
    for tenant in card.tenants:
        waits_on_host = tenant.device_us < 0.9 * tenant.period_us
        noise = HOST_NOISE if waits_on_host else MEMORY_NOISE
        yield Figure(f"tenant.{tenant.kind}", f"{tenant.kind} alone", tenant.per_s, "/s", noise)
