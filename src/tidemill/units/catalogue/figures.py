"""Figures of one part, whole or in a box, that are fair to set side by side.

All are per part: a box of eight is compared with a box of one. Money is per part too, in whole
micro-dollars an hour, on demand: $/PFLOP-hour is the price of one part over its dense BF16 peak
(or over the best that was measured of it), $/GB-hour over its memory. A part that is not named in
a box takes the cheapest box that has a price (per part; ties by key).
"""

from typing import NamedTuple

from tidemill.units.catalogue import rates
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.catalogue.rows import Box, Part


class Figures(NamedTuple):
    """What one part offers; None is unknown."""

    key: str
    part: Part
    priced_as: str
    """The box whose price stands in, or nothing."""
    rates: dict[str, float]
    """Dense, 10^12 operations a second, by precision."""
    reached_bf16_tflops: float | None
    """The best that a search over matrix sizes measured."""
    memory_gb: float
    memory_tb_s: float
    link_gb_s: float | None
    host_link_gb_s: float | None
    network_gb_s: float | None
    cores: float | None
    power_w: float | None
    ridge: float | None
    """Operations per byte of memory at the peak of BF16, or of FP16 where there is no BF16."""
    usd_micro_per_hour: int | None
    usd_micro_per_pflop_hour: int | None
    usd_micro_per_measured_pflop_hour: int | None
    usd_micro_per_gb_hour: int | None


def figures(book: Catalogue, row: Part | Box) -> Figures:
    """One part, or one part of a box."""
    box = row if isinstance(row, Box) else cheapest(book, row)
    part = row if isinstance(row, Part) else book.part_of(row)
    is_box = isinstance(row, Box)
    price = None if box is None else _each(box.usd_micro_per_hour, box.count)
    return Figures(
        key=row.key,
        part=part,
        priced_as=box.key if box is not None and price is not None else "",
        rates={name: rates.rate(part, name) for name in rates.precisions(part)},
        reached_bf16_tflops=part.reached_bf16_tflops,
        memory_gb=part.memory_gb,
        memory_tb_s=part.memory_tb_s,
        link_gb_s=part.link_gb_s,
        host_link_gb_s=book.host_link_gb_s(box) if is_box and box else part.host_link_gb_s,
        network_gb_s=_share(box.nic_gb_s, box.count) if is_box and box else None,
        cores=_share(box.cores, box.count) if is_box and box else None,
        power_w=part.power_w,
        ridge=None if part.bf16_tflops is None else part.bf16_tflops / part.memory_tb_s,
        usd_micro_per_hour=price,
        usd_micro_per_pflop_hour=_over(price, _peta(part.bf16_tflops)),
        usd_micro_per_measured_pflop_hour=_over(price, _peta(part.reached_bf16_tflops)),
        usd_micro_per_gb_hour=_over(price, part.memory_gb),
    )


def cheapest(book: Catalogue, part: Part) -> Box | None:
    """The box with this part whose price is lowest for one of them; None when none has a price."""
    priced = [
        (box.usd_per_hour / box.count, box.key)
        for box in book.boxes.values()
        if box.part == part.key and box.usd_per_hour is not None
    ]
    return book.boxes[min(priced)[1]] if priced else None


def _peta(tflops: float | None) -> float | None:
    return None if tflops is None else tflops / 1000


def _each(usd_micro: int | None, count: int) -> int | None:
    return None if usd_micro is None else round(usd_micro / count)


def _share(amount: float | None, count: int) -> float | None:
    return None if amount is None else amount / count


def _over(usd_micro: int | None, amount: float | None) -> int | None:
    return None if usd_micro is None or amount is None else round(usd_micro / amount)
