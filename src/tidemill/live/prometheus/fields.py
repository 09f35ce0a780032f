"""Which quantity a metric is: DCGM's fields by number, under every name that exporters give them.

The table is ``fields.csv``: one row per name, with what a value is multiplied by to be a share of
one, bytes, watts, joules, MHz or °C, and where the name is documented. Where a GPU has several
names of one quantity the lowest rank wins.
"""

import csv
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Quantity(StrEnum):
    """What can be known of a GPU."""

    BUSY = "busy"
    SM = "sm"
    TENSOR = "tensor"
    DRAM = "dram"
    USED = "used"
    FREE = "free"
    RESERVED = "reserved"
    TOTAL = "total"
    WATTS = "watts"
    JOULES = "joules"
    CLOCK = "clock_mhz"
    CELSIUS = "celsius"
    XID = "xid"


MEANING = {
    Quantity.BUSY: "a kernel runs: share of time",
    Quantity.SM: "SMs with at least one warp: share of SMs and time",
    Quantity.TENSOR: "tensor pipes active: share of cycles",
    Quantity.DRAM: "memory interface active: share of cycles",
    Quantity.USED: "memory used",
    Quantity.FREE: "memory free",
    Quantity.RESERVED: "memory that the driver keeps",
    Quantity.TOTAL: "memory of the GPU",
    Quantity.WATTS: "power",
    Quantity.JOULES: "energy since the driver was loaded; power where nothing tells that",
    Quantity.CLOCK: "clock of the SMs",
    Quantity.CELSIUS: "temperature",
    Quantity.XID: "the last error that the driver reported",
}
SHARES = {Quantity.BUSY, Quantity.SM, Quantity.TENSOR, Quantity.DRAM}
MOST = {
    **dict.fromkeys(SHARES, 1.05),  # counters are read a little apart: a full device may show 1.01
    **dict.fromkeys((Quantity.USED, Quantity.FREE, Quantity.RESERVED, Quantity.TOTAL), 2.0**43),
    Quantity.WATTS: 20_000.0,
    Quantity.JOULES: 2.0**53,
    Quantity.CLOCK: 10_000.0,
    Quantity.CELSIUS: 200.0,
    Quantity.XID: 100_000.0,
}
"""What is above (or below zero) was not measured: DCGM has large numbers for a blank value."""


class MetricName(NamedTuple):
    """A name under which an exporter gives a quantity."""

    quantity: Quantity
    rank: int
    field: int
    """DCGM's number; 0: not of DCGM."""
    metric: str
    scale: float
    exporter: str
    source: str


@cache
def table() -> tuple[MetricName, ...]:
    """All names, best first within each quantity."""
    text = files(__package__).joinpath("fields.csv").read_text(encoding="utf-8")
    rows = [
        MetricName(
            Quantity(row["quantity"]), int(row["rank"]), int(row["field"]), row["metric"],
            float(row["scale"]), row["exporter"], row["source"],
        )
        for row in csv.DictReader(text.splitlines())
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (list(Quantity).index(row.quantity), row.rank)))
