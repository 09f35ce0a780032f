"""Slivers: what a tenant leaves of a device on three axes, and who fits into that."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidemill.units.catalogue.rows import Part
from tidemill.units.sharing.tenants import Tenant

FULL = 0.9
"""From here on an axis counts as full: nobody else should need it."""
SMALL = 0.5
"""A tenant below this on every axis holds a whole device for a sliver of work."""


class Axes(NamedTuple):
    """Shares of a device."""

    compute: float
    bandwidth: float
    memory: float


class Sliver(NamedTuple):
    """What is used and what is left."""

    used: Axes
    left: Axes

    @property
    def full(self) -> tuple[str, ...]:
        """Axes with nothing to give."""
        return tuple(name for name, share in self.used._asdict().items() if share >= FULL)

    @property
    def is_small(self) -> bool:
        """Whether the device is held for a sliver: no axis half used."""
        return max(self.used) < SMALL


def used(tenants: Sequence[Tenant], part: Part) -> Axes:
    """What tenants use together; more than 1 where they want more than there is."""
    return Axes(
        sum(tenant.compute for tenant in tenants),
        sum(tenant.bandwidth for tenant in tenants),
        sum(tenant.memory_gb for tenant in tenants) / part.memory_gb,
    )


def sliver(tenants: Sequence[Tenant], part: Part) -> Sliver:
    """What tenants use of a part, and what they leave."""
    taken = used(tenants, part)
    return Sliver(taken, Axes(*(max(0.0, 1 - share) for share in taken)))


def fitting(held: Sequence[Tenant], candidates: Iterable[Tenant], part: Part) -> list[Tenant]:
    """Candidates that find what they need on every axis beside those who are there."""
    left = sliver(held, part).left
    return [
        tenant
        for tenant in candidates
        if tenant.compute <= left.compute
        and tenant.bandwidth <= left.bandwidth
        and tenant.memory_gb / part.memory_gb <= left.memory
    ]
