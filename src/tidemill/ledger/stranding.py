"""Stranding: what another layout of the same MIG instances would win back.

The mean number of instances of each profile over the window, laid out anew on the fewest devices
that hold them all (``units.mig.best``). What such a layout strands, too, no layout wins back.
"""

from collections import Counter
from typing import NamedTuple

from tidemill.ledger import reckoning
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.reckoning import Fix
from tidemill.ledger.statement import Statement
from tidemill.model.measures import WHOLE_MILLI
from tidemill.units.mig import best, layouts
from tidemill.units.mig import geometry as mig
from tidemill.units.mig.profiles import Geometry

TRIES_AT_MOST = 8
"""Numbers of devices, from the fewest that could hold the slices; then the part is left out."""


class _Best(NamedTuple):
    devices: int
    stranded_milli: int


def lay_out(statement: Statement, bucket: Bucket) -> Fix:
    """Lay the same instances out anew: what is stranded now, and what would be even so."""
    cost = reckoning.usd_micro(statement.total(), bucket)
    stranded = statement.total().milli_ms[bucket] // max(1, statement.length_ms)
    found = [_laid_out(part, mix) for part, mix in _mean_mixes(statement)]
    devices = sum(one.devices for one in found)
    least = sum(one.stranded_milli for one in found)
    won = cost * max(0, stranded - least) // max(1, stranded)
    many = f"{devices:,} device{'s'[: devices != 1]}"
    advice = (
        f"lay the same instances out on {many} (`tidemill unit mig`): that strands"
        f" {_slices(least)} instead of {_slices(stranded)}, on average"
        if least < stranded
        else "no layout of these instances strands less: ask for other profiles, such as one"
        " `1g` with double memory for the last two slices of a device"
    )
    return Fix(
        advice, "the mean number of instances of each profile, on the fewest devices", won, 0
    )


def _slices(milli: int) -> str:
    return f"{milli / WHOLE_MILLI:,.3g} of a device" if milli else "nothing"


def _mean_mixes(statement: Statement) -> list[tuple[Geometry, dict[str, int]]]:
    """For each part, how many instances of each profile there were on average, rounded up."""
    world, held = statement.world, statement.held_by_jobs()
    sums: Counter[tuple[str, str]] = Counter()
    parts: dict[str, Geometry] = {}
    for j, milli_ms in enumerate(held.tolist()):
        shape = world.shape_of(j)
        roles = [role for role in shape.roles if role.profile]
        total = shape.total_milli
        for role in roles if milli_ms else ():
            kind = next((k for k in role.kinds or world.kinds
                         if mig.offers(k, role.profile, role.milli)), None)  # fmt: skip
            part = mig.of_kind(kind) if kind else None
            if part is not None:
                parts[part.key] = part
                share = milli_ms * role.total_milli // total
                sums[part.key, role.profile] += share // role.milli
    length_ms = max(1, statement.length_ms)
    return [
        (parts[key], {p: -(-ms // length_ms) for (k, p), ms in sorted(sums.items()) if k == key})
        for key in sorted(parts)
    ]


def _laid_out(part: Geometry, mix: dict[str, int]) -> _Best:
    rows = [(mig.profile(part, name), count) for name, count in mix.items()]
    memory = sum(row.memory * count for row, count in rows)
    compute = sum(row.compute * count for row, count in rows)
    fewest = max(1, -(-memory // part.memory), -(-compute // part.compute))
    for devices in range(fewest, fewest + TRIES_AT_MOST):
        found = best.fleet(part, mix, devices)
        if not found.left_out:
            lost = sum(
                count * layouts.waste(part, layout).memory for layout, count in found.devices
            )
            return _Best(devices, lost * WHOLE_MILLI // part.memory)
    return _Best(fewest, 0)
