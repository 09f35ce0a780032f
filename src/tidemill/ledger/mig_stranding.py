"""Stranding: what another layout of the same MIG instances would win back.

The mean number of instances of each profile over the window, laid out anew on the fewest devices
that hold them all (``units.mig.best``). What such a layout strands, too, no layout wins back.
"""

from collections import Counter
from typing import NamedTuple

from tidemill.ledger import touched
from tidemill.ledger.fix import Fix
from tidemill.ledger.statement import Statement
from tidemill.model.measures import WHOLE_MILLI, count_text
from tidemill.units.mig import best, layouts
from tidemill.units.mig import geometry as mig
from tidemill.units.mig.profiles import Geometry

TRIES_AT_MOST = 8
"""Numbers of devices, from the fewest that could hold the slices; then the part is left out."""


class _Best(NamedTuple):
    devices: int
    stranded_milli: int


def lay_out(statement: Statement, bucket: int) -> list[Fix]:
    """Lay the same instances out anew: what is stranded now, and what would be even so."""
    stranded = statement.total().milli_ms[bucket] // max(1, statement.length_ms)
    mixes = _mean_mixes(statement)
    found = [_laid_out(part, mix) for part, mix in mixes]
    devices = sum(one.devices for one in found)
    least = sum(one.stranded_milli for one in found)
    theirs = touched.by_contract_of_then(statement, bucket)
    usd = touched.known_usd(theirs)
    many = count_text(devices, "device")
    advice = (
        f"lay the same instances out on {many}: that strands {_slices(least)} instead of"
        f" {_slices(stranded)}, on average"
        if least < stranded
        else "ask for other profiles, such as one `1g` with double memory for the last two slices"
        " of a device: no layout of these instances strands less"
    )
    return [
        Fix(
            advice,
            "the mean number of instances of each profile, on the fewest devices",
            tuple(part.words for part in theirs),
            f"stranded: {touched.words(theirs)}",
            None if usd is None else usd * max(0, stranded - least) // max(1, stranded),
            costs="instances in use must end or move before their GPU is cut anew",
            measure=_command(mixes, found),
        )
    ]


def _command(mixes: list[tuple[Geometry, dict[str, int]]], found: list[_Best]) -> str:
    """The command that lays the first of them out."""
    if not mixes:
        return "tidemill unit mig --help"
    part, mix = mixes[0]
    asked = ",".join(f"{name}={count}" for name, count in mix.items())
    return f"tidemill unit mig {part.key} --mix {asked} --devices {found[0].devices}"


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
