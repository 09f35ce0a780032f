"""The best layouts for a mix of requests: exact on one device, near the best on a fleet.

Best serves the most memory slices, then the most compute slices, then the most requests, then
strands least. On one device all combinations that fit are compared (some 130). On a fleet the
relaxed division (``relaxed``), rounded down, fills all but a few devices; each of those takes the
best combination for what is left; then, until nothing gains, every pair of devices is divided anew
with what was left out, exactly. The relaxed value is a bound that no division can exceed, so the
distance to the best is known.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

from tidemill.units.mig import geometry as axis
from tidemill.units.mig import layouts
from tidemill.units.mig.layouts import Layout, Pattern
from tidemill.units.mig.profiles import Geometry
from tidemill.units.mig.relaxed import Relaxed, maximise

Value = tuple[int, int, int]
"""Memory slices, compute slices, requests."""
ROUNDS_AT_MOST = 20
"""Of pairwise improvement; random mixes settled within 4."""
MOST_DEVICES = 1_000_000


class Division(NamedTuple):
    """Layouts and how many devices have each; what was left out; what was served, and at most."""

    devices: tuple[tuple[Layout, int], ...]
    left_out: dict[str, int]
    served: Value
    at_most: int
    """Memory slices that no division of these devices can exceed."""


def one(geometry: Geometry, mix: Mapping[str, int]) -> tuple[Layout, dict[str, int]]:
    """The best layout of one device for a mix, and the requests that it leaves out."""
    wanted = demand(geometry, mix)
    chosen = _best(geometry, wanted)
    return layouts.patterns(geometry)[chosen], _named(geometry, _less(wanted, chosen))


def fleet(geometry: Geometry, mix: Mapping[str, int], devices: int) -> Division:
    """Layouts for several devices that together serve as much of a mix as was found."""
    wanted = demand(geometry, mix)
    relaxed = _relax(geometry, wanted, devices)
    left, chosen = wanted, Counter[Pattern]()
    for key, amount in zip(layouts.patterns(geometry), relaxed.amounts, strict=True):
        chosen[key] += int(amount)
        left = tuple(a - int(amount) * b for a, b in zip(left, key, strict=True))
    while (free := devices - chosen.total()) and any(left):
        best = _best(geometry, left)
        times = min(free, _times(best, left)) if any(best) else free
        chosen[best] += times
        left = tuple(a - times * b for a, b in zip(left, best, strict=True))
    left = _improve(geometry, chosen, left)
    chosen[(0,) * len(wanted)] += devices - chosen.total()
    made = layouts.patterns(geometry)
    rows = sorted(((made[key], count) for key, count in chosen.items() if count), reverse=True)
    served = _value(geometry, _less(wanted, left))
    return Division(tuple(rows), _named(geometry, left), served, int(relaxed.most))


def devices_for(geometry: Geometry, mix: Mapping[str, int], more_than: int) -> int | None:
    """So many devices that serve a whole mix, found by halving; None: a million do not.

    Each number was tried, so the answer serves all; where ``fleet`` is not exact, one or two fewer
    might do.
    """
    low, high = more_than, max(2 * more_than, 1)
    while fleet(geometry, mix, high).left_out:
        low, high = high, 2 * high
        if low > MOST_DEVICES:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fleet(geometry, mix, middle).left_out else (low, middle)
    return high


def demand(geometry: Geometry, mix: Mapping[str, int]) -> Pattern:
    """A mix as counts of the geometry's profiles; a profile that it lacks is refused."""
    asked = Counter[str]()
    for name, count in mix.items():
        asked[axis.profile(geometry, name).name] += count
    return tuple(asked[row.name] for row in geometry.profiles)


def _relax(geometry: Geometry, wanted: Pattern, devices: int) -> Relaxed:
    made = layouts.patterns(geometry)
    worth = [_value(geometry, key)[0] for key in made]
    return maximise([(1, *key) for key in made], worth, (devices, *wanted))


def _best(geometry: Geometry, wanted: Pattern) -> Pattern:
    """The combination within what is wanted that serves most."""
    made = layouts.patterns(geometry)
    able = [key for key in made if all(a <= b for a, b in zip(key, wanted, strict=True))]
    return max(able, key=lambda key: (_value(geometry, key), -_strands(geometry, made[key]), key))


def _improve(geometry: Geometry, chosen: Counter[Pattern], left: Pattern) -> Pattern:
    """Divide pairs of devices anew while that serves more; what is left out after all."""
    for _ in range(ROUNDS_AT_MOST):
        better = next(
            (found for pair in _pairs(chosen) if (found := _redivide(geometry, pair, left))), None
        )
        if better is None or not any(left):
            break
        before, after, left = better
        chosen.subtract(before)
        chosen.update(after)
    return left


def _pairs(chosen: Counter[Pattern]) -> list[tuple[Pattern, Pattern]]:
    """Devices to look at together: unlike ones, and two of the same where there are two."""
    keys = sorted(key for key, count in chosen.items() if count)
    return [*combinations(keys, 2), *((key, key) for key in keys if chosen[key] > 1)]


def _redivide(
    geometry: Geometry, pair: tuple[Pattern, Pattern], left: Pattern
) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...], Pattern] | None:
    """Two combinations that serve more than this pair of what it holds and what is left out."""
    pool = tuple(a + b + c for a, b, c in zip(*pair, left, strict=True))
    was = _value(geometry, _less(pool, left))
    able = [key for key in layouts.patterns(geometry)
            if all(a <= b for a, b in zip(key, pool, strict=True))]  # fmt: skip
    best = None
    for first in able:
        rest = _less(pool, first)
        second = _best(geometry, rest) if _could_beat(geometry, first, was) else None
        if second is None:
            continue
        value = _value(geometry, _less(pool, _less(rest, second)))
        if value > was:
            was, best = value, (pair, (first, second), _less(rest, second))
    return best


def _could_beat(geometry: Geometry, first: Pattern, was: Value) -> bool:
    """Whether a full second device would serve more beside this one."""
    return _value(geometry, first)[0] + geometry.memory >= was[0]


def _strands(geometry: Geometry, layout: Layout) -> int:
    return axis.tables(geometry).stranded[layouts.mask_of(geometry, layout)]


def _value(geometry: Geometry, key: Pattern) -> Value:
    rows = geometry.profiles
    return (
        sum(row.memory * count for row, count in zip(rows, key, strict=True)),
        sum(row.compute * count for row, count in zip(rows, key, strict=True)),
        sum(key),
    )


def _times(key: Pattern, left: Pattern) -> int:
    """How many devices can have this combination before something of it runs out."""
    return min(a // b for a, b in zip(left, key, strict=True) if b)


def _less(one: Pattern, other: Pattern) -> Pattern:
    return tuple(a - b for a, b in zip(one, other, strict=True))


def _named(geometry: Geometry, counts: Pattern) -> dict[str, int]:
    return {row.name: count for row, count in zip(geometry.profiles, counts, strict=True) if count}
