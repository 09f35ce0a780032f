"""The balance card: how much of each thing in a box a mix of work uses, what binds, what to add.

Each kind of work runs for its share of the time, as fast as the first axis that is full lets it
(Williams, Waterman, Patterson 2009, with more ceilings): pace = min over axes of what the box has
over what a unit takes. Use of an axis is pace × take / has; room (memory, RAM, disk) is held, not
used up, and more than all of it means that the work does not fit.

Where the next dollar goes: 10 % more of what can be bought apart, the gain in pace over the mix,
and what it adds to the price. One per cent of price for another whole box buys one per cent of
pace: what gives more than 1 is better than another box, what gives 0 is already in surplus.
Cores, memory, disks and network cards are priced as in one bill of materials, turned into dollars
an hour as AWS turns that box into its price; the accelerators are what is left of the box's own
price. Modelled: it tells surplus from shortage, not a quotation.
"""

from math import isclose
from typing import NamedTuple

from tidemill.model.measures import ONE_PPM
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.catalogue.figures import cheapest
from tidemill.units.catalogue.rows import Box
from tidemill.units.demands import ROOM, BoxResource, WorkDemand

MORE = 0.1
GIB = 2**30

BILL_USD = 227_010
BILL_SOURCE = (
    "bill of materials of a DGX H100 without markup: SemiAnalysis, May 2023, as used in "
    "epoch-research/training-cost-trends"
)
USD_PER_HOUR = 55.04 / BILL_USD
"""By the hour for a dollar of parts: what AWS asks for a p5.48xlarge over such a box's bill."""

UNIT_USD: dict[BoxResource, float] = {
    BoxResource.CORES: 5_200 / 112,
    BoxResource.RAM: 7_860 / (2048 * GIB),
    BoxResource.DISK: 3_456 / 30.72e12,
    BoxResource.NETWORK: 10_908 / 400e9,
}
"""From the same bill: two CPUs of 56 cores, 2 TiB, eight disks of 3.84 TB, eight cards of 400 Gb/s;
eight accelerators with their switches were 195,000."""

BOUGHT: dict[str, tuple[BoxResource, ...]] = {
    "accelerators": (
        BoxResource.FLOPS,
        BoxResource.MEMORY,
        BoxResource.BANDWIDTH,
        BoxResource.LINK,
        BoxResource.HOST_LINK,
    ),
    "network": (BoxResource.NETWORK,),
    "cores": (BoxResource.CORES,),
    "RAM": (BoxResource.RAM,),
    "disk": (BoxResource.DISK,),
}


class Use(NamedTuple):
    """One kind of work on one box, at its pace."""

    demand: WorkDemand
    share: float
    """Of the box's time."""
    pace: float
    """Units of work a second."""
    binds: BoxResource
    used: dict[BoxResource, float]
    """Of what the box has; above 1 only for room. Axes that the box does not know are left out."""

    @property
    def fits(self) -> bool:
        """Its room is there."""
        return all(self.used.get(axis, 0) <= 1 for axis in ROOM)


class Addition(NamedTuple):
    """A tenth more of one thing."""

    name: str
    gain: float
    """Of the mix's pace: 0.1 is 10 % more."""
    usd_micro_per_hour: int | None
    """What it would add to the price by the hour; None where the box has no price."""
    worth: float | None
    """Per cent of pace for one per cent of price; another whole box is 1."""


class BoxBalance(NamedTuple):
    """A box against a mix of work."""

    box: Box
    has: dict[BoxResource, float]
    uses: tuple[Use, ...]
    additions: tuple[Addition, ...]
    """The most worth first; ties by name."""

    def used(self, axis: BoxResource) -> float | None:
        """Over the mix, by time; None where the box does not say what it has."""
        if axis not in self.has:
            return None
        return sum(use.share * use.used.get(axis, 0.0) for use in self.uses)

    def used_ppm(self, axis: BoxResource) -> int | None:
        """The same as a whole number."""
        used = self.used(axis)
        return None if used is None else round(ONE_PPM * used)


def card(book: Catalogue, box: Box, mix: tuple[tuple[WorkDemand, float], ...]) -> BoxBalance:
    """Weigh a box against work; shares of the time are made to sum to 1."""
    total = sum(share for _, share in mix)
    shares = tuple((demand, share / total) for demand, share in mix)
    has = capacity(book, box)
    uses = tuple(_use(demand, share, has) for demand, share in shares)
    return BoxBalance(box, has, uses, _additions(price_usd_micro(book, box), has, uses))


def price_usd_micro(book: Catalogue, box: Box) -> int | None:
    """By the hour; a box without a price takes that of the cheapest one, by part, with its part."""
    if box.usd_micro_per_hour is not None:
        return box.usd_micro_per_hour
    other = cheapest(book, book.part_of(box))
    if other is None or other.usd_micro_per_hour is None:
        return None
    return round(other.usd_micro_per_hour * box.count / other.count)


def capacity(book: Catalogue, box: Box) -> dict[BoxResource, float]:
    """What a box has of each axis: FLOP/s, bytes/s, cores, bytes. Unknown axes are left out."""
    part, n = book.part_of(box), box.count
    link = book.host_link_gb_s(box)
    known = {
        BoxResource.FLOPS: _times(part.bf16_tflops, n * 1e12),
        BoxResource.MEMORY: n * part.memory_gb * 1e9,
        BoxResource.BANDWIDTH: n * part.memory_tb_s * 1e12,
        BoxResource.LINK: _times(part.link_gb_s or link, n * 1e9),
        BoxResource.NETWORK: _times(box.nic_gb_s, 1e9),
        BoxResource.HOST_LINK: _times(link, n * 1e9),
        BoxResource.CORES: _times(box.cores, 1),
        BoxResource.RAM: _times(box.ram_gib, GIB),
        BoxResource.DISK: _times(box.nvme_tb, 1e12),
    }
    return {axis: amount for axis, amount in known.items() if amount is not None}


def pace(demand: WorkDemand, has: dict[BoxResource, float]) -> tuple[float, BoxResource]:
    """Units of work a second, and the axis that is full; of equals the first in order."""
    limits = [
        ((has[axis] - _held(demand, axis)) / take, i)
        for i, axis in enumerate(BoxResource)
        if (take := demand.takes.get(axis, 0.0)) > 0 and axis in has
    ]
    fastest, i = min(limits)
    return max(fastest, 0.0), tuple(BoxResource)[i]


def _use(demand: WorkDemand, share: float, has: dict[BoxResource, float]) -> Use:
    fast, binds = pace(demand, has)
    used = {
        axis: (fast * demand.takes.get(axis, 0.0) + demand.holds.get(axis, 0.0)) / has[axis]
        for axis in has
    }
    return Use(demand, share, fast, binds, used)


def _held(demand: WorkDemand, axis: BoxResource) -> float:
    """Cores that launch work are not there to decode."""
    return demand.holds.get(axis, 0.0) if axis not in ROOM else 0.0


def _additions(
    price: int | None, has: dict[BoxResource, float], uses: tuple[Use, ...]
) -> tuple[Addition, ...]:
    found = [_addition(price, name, has, uses) for name in BOUGHT]
    return tuple(sorted(found, key=lambda one: (-(one.worth or 0), -one.gain, one.name)))


def _addition(
    price: int | None, name: str, has: dict[BoxResource, float], uses: tuple[Use, ...]
) -> Addition:
    grown = {
        axis: amount * (1 + MORE if axis in BOUGHT[name] else 1) for axis, amount in has.items()
    }
    gain = sum(
        use.share * _grown(pace(use.demand, grown)[0], use.pace) for use in uses if use.pace > 0
    )
    if price is None:
        return Addition(name, gain, None, None)
    cost = MORE * _worth_usd_micro(price, name, has)
    return Addition(name, gain, round(cost), gain / (cost / price) if cost else None)


def _grown(after: float, before: float) -> float:
    """How much faster; what only differs in the last digits is not."""
    return 0.0 if isclose(after, before, rel_tol=1e-9) else after / before - 1


def _worth_usd_micro(price: int, name: str, has: dict[BoxResource, float]) -> float:
    """What all of it costs by the hour; the accelerators are what the host leaves of the price."""
    host = {axis: has.get(axis, 0.0) * usd * USD_PER_HOUR * 1e6 for axis, usd in UNIT_USD.items()}
    if name == "accelerators":
        return max(price - sum(host.values()), 0.0)
    return host[BOUGHT[name][0]]


def _times(amount: float | None, factor: float) -> float | None:
    return None if amount is None else amount * factor
