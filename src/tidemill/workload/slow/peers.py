"""What stands out among its peers, for how long, and could it be chance?

Columns are members of a group (ranks of a job, devices), rows are windows of time; a number is how
much more a member has than expected, as a logarithm. A member stands out if it passes four gates:
it is over ``gate_ppm`` in a smoothed series; it lasts ``least_windows``; as often as it was among
the highest would come by chance, over all members and all stretches that were looked at, in fewer
than ``chance`` of groups: a binomial tail, which asks nothing of how noise is distributed; and it
is ``spreads`` times what the others wander in stretches as long as that, anywhere in the run: on
machines that others use too, everybody is now and then slow for ten seconds.

Members that wait for each other say more: while one is slow, even the one of the others that waits
least waits longer than otherwise. Where they do not, nobody is held up, and ``spreads_unheld`` is
asked for.
"""

from collections.abc import Callable, Iterator
from math import lgamma, log, log1p
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tidemill.model.measures import ONE_PPM
from tidemill.model.tables import I64

F64 = NDArray[np.float64]


class SlowRule(NamedTuple):
    """When a member stands out. Fitted on generated and recorded runs (``bench/stragglers.py``)."""

    gate_ppm: int = 100_000
    spreads: float = 2.0
    spreads_unheld: float = 8.0
    """Where the others wait no longer meanwhile."""
    least_windows: int = 4
    smoothed: int = 7
    """Windows of a running median: odd."""
    chance: float = 0.05
    chance_beside: float = 0.001
    """Of a member beside one that stands out already."""


RULE = SlowRule()
LEAST_SPREAD = 0.01  # members of one kind differ by about a percent (silicon, placement)
FEW = 16  # members: of more, one makes no difference to the median
MOST_OF_A_RUN = 0.75  # what is slow longer than that leaves too little to compare waits with
_SHARES = (0.02, 0.125, 0.25)  # of the members: "among the highest" means one of these, the best


class PeerLook(NamedTuple):
    """How much more members have than expected, as logarithms: windows × members."""

    over: F64
    smooth: F64
    summed: F64
    """Of ``over`` up to each window, of members of which something is known."""
    waits: F64 | None
    """For the others, in usual own times; infinite: it does not tell. None: nobody measures it."""


class Exceptional(NamedTuple):
    """A member that passes all gates by one look: its stretches, and hits, of how many, chance."""

    look: PeerLook
    stretches: list[tuple[int, int]]
    chance: tuple[int, int, float]


def look(over: F64, rule: SlowRule, waits: F64 | None = None) -> PeerLook:
    """A series, what it is smoothed, and the waits beside it (NaN: not told)."""
    known = np.where(np.isfinite(over), over, 0.0)
    summed = np.concatenate([np.zeros_like(known[:1]), np.cumsum(known, axis=0)])
    summed[:, ~np.isfinite(over).any(axis=0)] = np.nan
    told = None if waits is None else np.where(np.isfinite(waits), waits, np.inf)
    return PeerLook(over, smooth(over, rule.smoothed), summed, told)


def exceptions(
    looked: Callable[[list[int]], PeerLook], members: int, rule: SlowRule
) -> dict[int, Exceptional]:
    """Members that pass all gates; none where most do: then none is an exception.

    ``looked``: at these members against each other. Who passes is no peer of the others, and they
    are looked at again without it: of two slow members the second is never the highest, and both
    are what the others are measured by where there are few. How much each is over is in the end
    told against those alone who do not stand out.
    """
    found, left = dict[int, Exceptional](), [*range(members)]
    while len(left) > 1 and (passed := dict(_passing(looked, rule, left))):
        if (len(found) + len(passed)) * 2 > members:
            break
        found |= passed
        left = [member for member in left if member not in passed]
    if len(found) < 2 or members > FEW:
        return found
    return {one: found[one]._replace(look=looked(sorted([*left, one]))) for one in found}


def chance_of(
    places: I64, ranks: int, windows: int, stretches: int
) -> tuple[int, int, float]:  # fmt: skip
    """Of so many windows how often among how many slowest, and how likely by chance, as log10.

    Corrected for every member and for every stretch of windows that might have been looked at.
    """
    looked = log(ranks) + stretches * log(windows * (windows + 1) / 2) + log(len(_SHARES))
    best = (0, 1, 0.0)
    for share in _SHARES:
        slowest = max(1, int(share * ranks))
        hits = int((places < slowest).sum())
        tail = min(0.0, _log_tail(len(places), hits, slowest / ranks) + looked) / log(10)
        if tail < best[2] or best == (0, 1, 0.0):
            best = (hits, slowest, tail)
    return best


def of_others(logs: F64) -> F64:
    """The median of the other members; of many, one more or less makes no difference."""
    count = logs.shape[1]
    if count > FEW:
        return np.repeat(middle(logs)[:, None], count, axis=1)
    return np.stack([middle(np.delete(logs, r, axis=1)) for r in range(count)], axis=1)


def middle(values: F64) -> F64:
    """The median of each row of those that are known; 0 where none is."""
    if np.isfinite(values).all():
        return np.median(values, axis=1)
    is_any = np.isfinite(values).any(axis=1)
    found = np.zeros(len(values))
    found[is_any] = np.nanmedian(values[is_any], axis=1)
    return found


def smooth(over: F64, width: int) -> F64:
    """A running median by column; what is not known counts as nothing unusual."""
    half = width // 2
    known = np.where(np.isfinite(over), over, 0.0)
    padded = np.concatenate([known[:1]] * half + [known] + [known[-1:]] * half)
    made: F64 = np.median(sliding_window_view(padded, width, axis=0), axis=-1)
    return made


def _passing(
    looked: Callable[[list[int]], PeerLook], rule: SlowRule, left: list[int]
) -> Iterator[tuple[int, Exceptional]]:
    """Of the members that are left, those that pass all gates."""
    look = looked(left)
    gate, (windows, members) = log1p(rule.gate_ppm / ONE_PPM), look.over.shape
    most_chance = rule.chance if len(left) == members else rule.chance_beside
    reached = (look.smooth[:, left] > gate).sum(axis=0) >= rule.least_windows
    over_left = look.over[:, left]
    order = np.argsort(np.argsort(-np.where(np.isfinite(over_left), over_left, -np.inf), axis=1))
    for place in np.flatnonzero(reached).tolist():
        rank = left[place]
        stretches = [
            (a, b) for a, b in _stretches(look.smooth[:, rank], gate) if b - a >= rule.least_windows
        ]
        if not stretches:
            continue
        inside = np.concatenate([np.arange(a, b) for a, b in stretches])
        over = excess(look, inside, rank)
        chance = chance_of(order[inside, place], len(left), windows, len(stretches))
        if over < gate or chance[2] > log(most_chance) / log(10):
            continue
        is_unheld = longer_waits(look, inside, rank, rule) < rule.gate_ppm / ONE_PPM
        spreads = rule.spreads_unheld if is_unheld else rule.spreads
        others = [one for one in left if one != rank]
        alone = looked(others) if 1 < len(others) < FEW else look
        if over >= spreads * _spread(alone, len(inside), others):
            yield rank, Exceptional(look, stretches, chance)


def _stretches(smooth: F64, gate: float) -> list[tuple[int, int]]:
    """Where a series is above the gate, until it falls below half of it."""
    found: list[tuple[int, int]] = []
    begun = -1
    for w, value in enumerate(smooth.tolist()):
        if begun < 0 and value > gate:
            begun = w
        elif begun >= 0 and value < gate / 2:
            found.append((begun, w))
            begun = -1
    return found if begun < 0 else [*found, (begun, len(smooth))]


def excess(look: PeerLook, inside: I64, rank: int) -> float:
    return float(np.nanmedian(look.over[inside, rank]))


def longer_waits(look: PeerLook, inside: I64, rank: int, rule: SlowRule) -> float:
    """How much longer the one of the others that waits least waits in these windows than otherwise.

    In usual own times. NaN: nothing to compare with. Another slow member in the same windows waits
    least of the others, then and otherwise: who is beside it by chance does not inherit its waits.
    One that is over the gate too, and less so, hides nothing: it waits for this one as others do.
    """
    is_outside = np.ones(len(look.over), bool)
    is_outside[inside] = False
    if (
        look.waits is None
        or is_outside.sum() < rule.least_windows
        or len(inside) > MOST_OF_A_RUN * len(is_outside)
    ):
        return np.nan
    gate = log1p(rule.gate_ppm / ONE_PPM)
    is_left_out = (look.smooth > gate) & (look.smooth <= look.smooth[:, rank, None])
    is_left_out[:, rank] = True
    least = np.where(is_left_out, np.inf, look.waits).min(axis=1)
    if not np.isfinite(least).all():
        return np.nan
    return float(np.median(least[inside]) - np.median(least[is_outside]))


def _spread(look: PeerLook, windows: int, others: list[int]) -> float:
    """What other members wander, robustly: their means over stretches of so many windows.

    Anywhere in the run, since what members do in the same few windows is too little to tell.
    """
    length = max(1, min(windows, len(look.over) // 2))
    at = np.arange(0, len(look.summed) - length, max(1, length // 4))
    wandered = (look.summed[at + length] - look.summed[at])[:, others] / length
    means = wandered[np.isfinite(wandered)]
    if not len(means):
        return LEAST_SPREAD
    return max(LEAST_SPREAD, 1.4826 * float(np.median(np.abs(means - np.median(means)))))


def _log_tail(count: int, hits: int, share: float) -> float:
    """The logarithm of the chance of at least so many hits: a binomial tail, summed."""
    if hits == 0:
        return 0.0
    ways = [
        lgamma(count + 1) - lgamma(k + 1) - lgamma(count - k + 1)
        + k * log(share) + (count - k) * log1p(-share)
        for k in range(hits, count + 1)
    ]  # fmt: skip
    most = max(ways)
    return min(0.0, most + log(sum(np.exp(np.array(ways) - most).tolist())))


def ppm_of(excess: float) -> int:
    return round(float(np.expm1(excess)) * ONE_PPM)


def typical(values: F64) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else 0.0
