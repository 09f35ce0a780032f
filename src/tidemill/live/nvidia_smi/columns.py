"""Which quantity a column of nvidia-smi is.

What is called utilization, or ``sm`` by ``dmon``, is the share of time in which some kernel ran, on
however few of the SMs (DCGM's field 203). Only ``dmon --gpm-metrics`` (Hopper and later) counts
SMs, tensor pipes and the memory interface; ``utilization.memory`` is time in which memory was read
or written at all, and nothing is made of it.
"""

from typing import NamedTuple

from tidemill.live.prometheus.fields import MetricName, Quantity

_MIB = 1048576.0


class SmiColumn(NamedTuple):
    """A quantity under one of the names that nvidia-smi has for it."""

    quantity: Quantity
    rank: int
    """Where a GPU has several columns of one quantity the lowest wins."""
    field: int
    """DCGM's number of the same counter."""
    scale: float

    def metric(self, name: str) -> MetricName:
        """As one metric of an exporter."""
        return MetricName(self.quantity, self.rank, self.field, name, self.scale, "nvidia-smi", "")


_BUSY = SmiColumn(Quantity.BUSY, 1, 203, 0.01)
_CLOCK = SmiColumn(Quantity.CLOCK, 0, 100, 1)
QUERIED = {
    "utilization.gpu": _BUSY,
    "memory.used": SmiColumn(Quantity.USED, 0, 252, _MIB),
    "memory.free": SmiColumn(Quantity.FREE, 0, 251, _MIB),
    "memory.reserved": SmiColumn(Quantity.RESERVED, 0, 253, _MIB),
    "memory.total": SmiColumn(Quantity.TOTAL, 0, 250, _MIB),
    "power.draw": SmiColumn(Quantity.WATTS, 0, 155, 1),
    "power.draw.average": SmiColumn(Quantity.WATTS, 1, 155, 1),
    "power.draw.instant": SmiColumn(Quantity.WATTS, 2, 155, 1),
    "clocks.current.sm": _CLOCK,
    "clocks.sm": _CLOCK,
    "temperature.gpu": SmiColumn(Quantity.CELSIUS, 0, 150, 1),
}
"""Of ``--query-gpu``, without the unit; ``nvidia-smi --help-query-gpu`` says what each is."""
MONITORED = {
    "gract": SmiColumn(Quantity.BUSY, 0, 1001, 0.01),
    "smutil": SmiColumn(Quantity.SM, 0, 1002, 0.01),
    "mmaact": SmiColumn(Quantity.TENSOR, 0, 1004, 0.01),
    "dram": SmiColumn(Quantity.DRAM, 0, 1005, 0.01),
    "sm": SmiColumn(Quantity.BUSY, 2, 203, 0.01),
    "fb": SmiColumn(Quantity.USED, 1, 252, _MIB),
    "pwr": SmiColumn(Quantity.WATTS, 3, 155, 1),
    "pclk": SmiColumn(Quantity.CLOCK, 1, 100, 1),
    "gtemp": SmiColumn(Quantity.CELSIUS, 1, 150, 1),
}
"""Of ``dmon``; the first four are GPM's metrics 1, 2, 5 and 10."""
