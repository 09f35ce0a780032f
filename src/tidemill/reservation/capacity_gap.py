"""The seam: what is paid for but takes no work, per contract, in accelerators and $/h.

Hot spares are paid for and take no work, as `tidemill why` says of them too.
"""

from typing import NamedTuple

from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.states import Level
from tidemill.model.world import World


class Seam(NamedTuple):
    """One contract in GPUs: paid, launched, able to work (ready, allocated); $/h of the gap."""

    contract: str
    paid_milli: int
    launched_milli: int
    schedulable_milli: int
    gap_usd_micro_per_hour: int | None
    """None where nobody said a price of what there is."""


def seams(world: World) -> list[Seam]:
    """The seam of every running contract."""
    return [_seam(world, c) for c in range(world.contract_count) if world.contracts.is_running[c]]


def _seam(world: World, c: int) -> Seam:
    row, now = world.contract_rows[c].at(world.now_ms), world.levels[c]
    paid = world.paid_milli(c)
    schedulable = int(now[[Level.ALLOCATED, Level.READY, Level.STRANDED]].sum())
    gap = (paid - schedulable) * row.rate_usd_micro // WHOLE_MILLI
    usd = gap if row.is_priced else None
    launched = row.in_gpus(int(world.contracts.launched_milli[c]))
    return Seam(row.name, row.in_gpus(paid), launched, row.in_gpus(schedulable), usd)
