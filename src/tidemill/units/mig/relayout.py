"""What a change of layout costs: whom it drains, how long, and the work that is lost.

Instances that keep their profile and start stay and go on; all others must be empty before they can
be destroyed. Of the layouts with the wanted instances the one is taken that drains least.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tidemill.units.mig import layouts
from tidemill.units.mig.layouts import Instance, Layout
from tidemill.units.mig.profiles import Geometry

SECONDS_EACH = 1.0
"""To destroy or to create one instance with its compute instance. Assumed: administrators report a
second or so; nobody published a table. Time to drain and to start jobs again is not in it."""


class InstanceTenant(NamedTuple):
    """What leaving costs whoever is in an instance."""

    unsaved_ms: int
    restart_ms: int


class Relayout(NamedTuple):
    """A change of layout: the new one, whom it drains, and what that costs."""

    layout: Layout
    kept: Layout
    drained: Layout
    made: Layout
    seconds: float
    """Of destroying and creating, one after the other."""
    lost_ms: int
    """Work done again and time to come back, in all drained tenants, each on its instance."""
    lost_milli_ms: int
    """The same weighted by the share of the device that each tenant had."""


def cheapest(
    geometry: Geometry,
    now: Layout,
    wanted: layouts.Pattern,
    tenants: Mapping[Instance, InstanceTenant] | None = None,
    seconds_each: float = SECONDS_EACH,
) -> Relayout | None:
    """The change to these instances that loses least; None: they do not fit on one device."""
    able = [at for at in layouts.legal(geometry) if layouts.pattern(geometry, at) == wanted]
    changes = [_change(geometry, now, at, tenants or {}, seconds_each) for at in able]
    return min(
        changes, key=lambda c: (c.lost_milli_ms, c.seconds, len(c.drained), c.layout), default=None
    )


def _change(
    geometry: Geometry,
    now: Layout,
    then: Layout,
    tenants: Mapping[Instance, InstanceTenant],
    seconds_each: float,
) -> Relayout:
    kept = tuple(instance for instance in now if instance in then)
    drained = tuple(instance for instance in now if instance not in then)
    made = tuple(instance for instance in then if instance not in now)
    lost_ms = lost_milli_ms = 0
    for instance in drained:
        tenant, row = tenants.get(instance), geometry.find(instance.profile)
        if tenant is not None and row is not None:
            cost_ms = tenant.unsaved_ms + tenant.restart_ms
            lost_ms += cost_ms
            lost_milli_ms += cost_ms * geometry.milli(row)
    seconds = seconds_each * (len(drained) + len(made))
    return Relayout(then, kept, drained, made, seconds, lost_ms, lost_milli_ms)
