"""Tenants in MIG instances: the pair of profiles under which the worse off keeps most.

Instances have their own multiprocessors and memory, so neighbours do not slow each other; a tenant
loses only what its instance lacks. Modelled: setting up instances would change the card, so the
probe does not measure them.
"""

from itertools import product
from typing import NamedTuple

from tidemill.units.catalogue.rows import Part
from tidemill.units.mig import best
from tidemill.units.mig.profiles import GEOMETRIES, Geometry, Profile
from tidemill.units.sharing.tenants import Tenant


class InstancePair(NamedTuple):
    """A profile for each of two tenants, and what each keeps."""

    profiles: tuple[str, str]
    keeps: tuple[float, float]


def geometry_of(part: Part) -> Geometry | None:
    """How a part divides, or None where it does not."""
    return next((geometry for geometry in GEOMETRIES if part.key in geometry.parts), None)


def divide(pair: tuple[Tenant, Tenant], part: Part) -> InstancePair | None:
    """The best two instances for a pair, or None where no two hold them."""
    geometry = geometry_of(part)
    if geometry is None:
        return None
    chosen: InstancePair | None = None
    for first, second in product(geometry.profiles, repeat=2):
        if first.is_media or second.is_media or not _fit(geometry, first, second):
            continue
        a, b = (_keeps(t, p, geometry, part) for t, p in zip(pair, (first, second), strict=True))
        if a is None or b is None:
            continue
        found = InstancePair((first.name, second.name), (a, b))
        if chosen is None or _worth(found) > _worth(chosen):
            chosen = found
    return chosen


def _worth(found: InstancePair) -> tuple[float, float]:
    return min(found.keeps), sum(found.keeps)


def _fit(geometry: Geometry, first: Profile, second: Profile) -> bool:
    mix = {first.name: 1, second.name: 1} if first != second else {first.name: 2}
    return not any(best.one(geometry, mix)[1].values())


def _keeps(tenant: Tenant, profile: Profile, geometry: Geometry, part: Part) -> float | None:
    memory = profile.memory / geometry.memory
    if tenant.memory_gb > memory * part.memory_gb:
        return None
    compute = profile.compute / geometry.compute
    kept = 1.0
    if tenant.compute > compute:
        kept = min(kept, compute / tenant.compute)
    if tenant.bandwidth > memory:
        kept = min(kept, memory / tenant.bandwidth)
    return kept
