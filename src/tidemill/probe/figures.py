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


class Figure(NamedTuple):
    """One measured figure."""

    key: str
    words: str
    value: float
    unit: str


def figures(card: Card) -> Iterator[Figure]:
    """Everything on a card that says how fast its unit is."""
    for rate in card.rates:
        unit = "TOP/s" if rate.precision == "int8" else "TFLOP/s"
        yield Figure(f"rate.{rate.precision}", f"{rate.precision} dense", rate.tflops, unit)
    for found in card.bandwidths:
        yield Figure(f"gb_s.{found.what}", WORDS[found.what], found.gb_s, "GB/s")
    if card.sustained is not None:
        words = f"{card.sustained.precision} sustained"
        yield Figure("sustained", words, card.sustained.tflops, "TFLOP/s")
    if card.step is not None:
        tflops = card.step.flops / (card.step.ms * 1e9)
        yield Figure("step", "a small training step", tflops, "TFLOP/s")
    for tenant in card.tenants:
        yield Figure(f"tenant.{tenant.kind}", f"{tenant.kind} alone", tenant.per_s, "/s")
