"""Demand: the tables that scores look ahead with, from what has arrived so far.

A *class* is what one replica asks for: CPU, accelerators, milli, kinds (and the most memory of its
members). The classes of the mix are the most frequent ones, up to 95 % of all replicas (as the
typical pods of FGD, ATC'23), and the largest demands for several accelerators on one node, because
losing their hosts costs most. Everything is a whole number and a function of its arguments: the
draws of rollouts come from a fixed hash, not from chance.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.model.measures import ONE_PPM, WHOLE_MILLI
from tidemill.model.rows import MAX_DEVICES, Role
from tidemill.model.tables import I64, U64
from tidemill.scheduling.scores.codes import CODES
from tidemill.scheduling.scores.tables import ACCELERATORS, PRICE, WEIGHT, Tables

TYPICAL_PERCENT = 95  # FGD's own bound; 35 classes in the trace that it was published with
TYPICAL_AT_MOST = 64
LARGE_AT_MOST = 16  # classes of several accelerators beyond the typical ones
HOST_ONLY_PERCENT = 30  # rollouts draw CPU-only classes less: they can go to other nodes too
DRAWS_AT_LEAST, DRAWS_AT_MOST = 48, 256
STATES_AT_LEAST, STATES_AT_MOST = 1 << 16, 1 << 20  # node states remembered, 16 bytes each
STATES_PER_NODE = 32  # few enough to stay near the processor
RANKS = 1 << 14  # ranks remembered: a quarter of a megabyte
FGD_SCORES = 100
WORD_BITS = 64
MULTIPLIER, SPREADER = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # splitmix64
STRIDE = np.uint64(0x9E3779B97F4A7C15)


class Asked(NamedTuple):
    """Replicas of a role that arrived, and how many nodes could host one when last counted."""

    role: Role
    replicas: int
    """In the mix, as it was last taken over."""
    noted: int
    """By the last look at the mix."""
    hosts: int


class Fleet(NamedTuple):
    """What the tables need to know of the supply."""

    kinds: tuple[str, ...]
    largest_cpu_milli: int
    largest_milli: int
    nodes: int
    free_milli: int
    turnover_ppm: int


class Knobs(NamedTuple):
    """The numbers of a policy that scores read; see ``Policy``."""

    rollouts: int
    grain_milli: int
    host_price_ppm: int
    fragment_ppm: int


class Class(NamedTuple):
    """Replicas that ask for the same, but for memory."""

    cpu_milli: int
    accelerators: int
    milli: int
    kinds: tuple[str, ...]


class _Tally(NamedTuple):
    replicas: int = 0
    noted: int = 0
    mixed_memory_mib: int = 0
    memory_mib: int = 0
    hosts: int = 0

    @property
    def most_memory_mib(self) -> int:
        """The most that a replica of the mix asks for; of all, where it is not in the mix."""
        return self.mixed_memory_mib if self.replicas else self.memory_mib


class Outline(NamedTuple):
    """All that tables are made of: most looks at the mix find that they need no new ones."""

    names: tuple[str, ...]
    limits: tuple[int, ...]
    """As in ``Tables``."""
    classes: tuple[tuple[int, ...], ...]
    """Rows of ``Tables.classes``, each with whom it admits after it."""
    rollouts: int
    length: int
    """Draws in a rollout."""

    def scores_as(self, other: "Outline") -> bool:
        """Whether both give every node the same score."""
        is_same = self.names == other.names and self.limits == other.limits
        return is_same and self.plays_as(other) and self._priced() == other._priced()

    def plays_as(self, other: "Outline") -> bool:
        """Whether both play the same futures, so that what was played out holds for both."""
        mine, theirs = ((one.limits[2:], one.rollouts, one.length) for one in (self, other))
        return mine == theirs and self.typical == other.typical

    @property
    def typical(self) -> list[tuple[int, ...]]:
        """What the typical classes ask for, how often, and whom they admit."""
        return [(*row[:PRICE], *row[PRICE + 1 :]) for row in self.classes[: self.limits[5]]]

    def _priced(self) -> list[tuple[int, ...]]:
        """The classes that have a price, and whom they admit."""
        return sorted((*row[:WEIGHT], *row[PRICE:]) for row in self.classes if row[PRICE])


def tables(names: tuple[str, ...], asked: Iterable[Asked], fleet: Fleet, knobs: Knobs) -> Tables:
    """The tables of some policies for this demand and supply."""
    return made(outline(names, asked, fleet, knobs), fleet.nodes)


def outline(names: tuple[str, ...], asked: Iterable[Asked], fleet: Fleet, knobs: Knobs) -> Outline:
    """What the tables of some policies are made of for this demand and supply."""
    tallies = _count(asked)
    typical = _typical(tallies)
    chosen = typical + _large(tallies, typical)
    weights = _weights_ppm([tallies[c].replicas for c in typical])
    weights += [0] * (len(chosen) - len(typical))
    mean_ppm = sum(w * c.accelerators * c.milli for w, c in zip(weights, chosen, strict=True))
    prices = _prices(tallies, chosen, fleet, knobs)
    limits = (
        max(1, fleet.largest_cpu_milli), max(1, fleet.largest_milli),
        min((c.cpu_milli for c in typical), default=0),
        min((c.milli for c in typical if c.accelerators), default=1), knobs.grain_milli,
        len(typical), knobs.fragment_ppm * fleet.turnover_ppm // (ONE_PPM * 1000),
    )  # fmt: skip
    rows = tuple(
        (
            c.cpu_milli, tallies[c].most_memory_mib, c.accelerators, c.milli, weight, price,
            *_admitted(c, fleet.kinds),
        )
        for c, weight, price in zip(chosen, weights, prices, strict=True)
    )  # fmt: skip
    return Outline(names, limits, rows, knobs.rollouts, _length(fleet, mean_ppm))


def made(plan: Outline, nodes: int, known: I64 | None = None) -> Tables:
    """Tables with room for what is ranked and played out; ``known``: what was played out before."""
    width = len(plan.classes[0]) if plan.classes else PRICE + 2
    rows: I64 = np.array(plan.classes, np.int64).reshape(-1, width)
    classes = np.ascontiguousarray(rows[:, : PRICE + 1])
    prices: list[int] = rows[:, PRICE].tolist()
    weights, accelerators = (
        tuple(rows[: plan.limits[5], c].tolist()) for c in (WEIGHT, ACCELERATORS)
    )
    draws, turns = _played(weights, accelerators, plan.rollouts, plan.length, plan.limits[5])
    return Tables(
        codes=_column([CODES[name] for name in plan.names]),
        limits=_column(plan.limits),
        classes=classes,
        dearest=_column(sorted((j for j, p in enumerate(prices) if p), key=lambda j: -prices[j])),
        admits=np.ascontiguousarray(rows[:, PRICE + 1 :]),
        draws=draws,
        turns=turns,
        still_open=np.zeros(turns.shape[1], np.uint64),
        steps=_steps(),
        known=np.zeros((_states(nodes), 2), np.int64) if known is None else known,
        ranked=np.zeros((RANKS, 2), np.int64),
        scratch=np.zeros((4, MAX_DEVICES), np.int64),
    )


def _count(asked: Iterable[Asked]) -> dict[Class, _Tally]:
    tallies: dict[Class, _Tally] = {}
    for role, replicas, noted, hosts in asked:
        kinds = tuple(sorted(set(role.kinds)))
        c = Class(role.cpu_milli, role.accelerators, role.milli, kinds)
        old = tallies.get(c, _Tally())
        tallies[c] = _Tally(
            old.replicas + replicas,
            old.noted + noted,
            max(old.mixed_memory_mib, role.memory_mib if replicas else 0),
            max(old.memory_mib, role.memory_mib),
            max(old.hosts, hosts),
        )
    return tallies


def _typical(tallies: dict[Class, _Tally]) -> list[Class]:
    """The most frequent classes of the mix."""
    ranked = sorted(tallies, key=lambda c: (-tallies[c].replicas, c))
    total, covered, found = sum(tally.replicas for tally in tallies.values()), 0, []
    for c in ranked[:TYPICAL_AT_MOST]:
        if 100 * covered >= TYPICAL_PERCENT * total:
            break
        covered += tallies[c].replicas
        found.append(c)
    return found


def _large(tallies: dict[Class, _Tally], typical: list[Class]) -> list[Class]:
    """The largest demands for several accelerators on one node that are not typical."""
    found = [c for c in tallies if c.accelerators > 1 and c not in typical]
    found.sort(key=lambda c: (-tallies[c].noted * c.accelerators, c))
    return found[:LARGE_AT_MOST]


def _weights_ppm(counts: list[int]) -> list[int]:
    whole = max(1, sum(counts))
    return [count * ONE_PPM // whole for count in counts]


def _prices(
    tallies: dict[Class, _Tally], chosen: list[Class], fleet: Fleet, knobs: Knobs
) -> list[int]:
    """The price of each class: how many are expected before the fleet is full, for each host."""
    asked_milli = sum(c.accelerators * c.milli * tally.noted for c, tally in tallies.items())
    prices = []
    for c in chosen:
        expected = tallies[c].noted * fleet.free_milli // max(1, asked_milli)
        prices.append(_price_grains(c, expected, tallies[c].hosts, knobs))
    return prices


def _price_grains(c: Class, expected: int, hosts: int, knobs: Knobs) -> int:
    """What one host less is worth: a share of the class, by the square of its scarcity.

    Scarcity is how many replicas are expected before the fleet is full, for each node that can host
    one now; at most one. Prices are rounded down to a power of two, so that they change rarely.
    """
    if c.accelerators < 2:
        return 0
    scarcity_ppm = min(ONE_PPM, ONE_PPM * expected // max(1, hosts))
    whole = knobs.host_price_ppm * c.accelerators * WHOLE_MILLI // ONE_PPM
    grains = whole * scarcity_ppm**2 // ONE_PPM**2 // knobs.grain_milli
    return 1 << grains.bit_length() - 1 if grains else 0


def _admitted(c: Class, kinds: tuple[str, ...]) -> list[int]:
    """Whether a class may use each GPU type."""
    return [int(not c.kinds or kind in c.kinds) for kind in kinds] or [0]


def _length(fleet: Fleet, mean_ppm: int) -> int:
    """Draws in a rollout: enough to fill the largest node twice over, two at a time; even."""
    fills = 4 * fleet.largest_milli * ONE_PPM // max(1, mean_ppm)
    return min(max(DRAWS_AT_LEAST, fills), DRAWS_AT_MOST) // 2 * 2


@lru_cache(maxsize=16)  # the mix is looked at far more often than it is another
def _played(
    weight: tuple[int, ...], accelerators: tuple[int, ...], rollouts: int, length: int, classes: int
) -> tuple[NDArray[np.int16], U64]:
    """What is drawn in each rollout, and when each class is; nobody writes to these."""
    draws = _draws(_column(weight), _column(accelerators), rollouts, length)
    return draws, _turns(draws, classes)


def _draws(weight: I64, accelerators: I64, rollouts: int, length: int) -> NDArray[np.int16]:
    """Each rollout draws every class as often as its share says, in an order of its own.

    So 8 rollouts tell as much as 32 of independent draws (measured).
    """
    shares = np.where(accelerators == 0, weight * HOST_ONLY_PERCENT // 100, weight)
    ends = np.cumsum(shares)
    if not len(ends) or ends[-1] <= 0:
        return np.zeros((0, length), np.int16)
    numbers = _numbers(2 * rollouts * length).reshape(2, rollouts, length)
    places = np.argsort(numbers[0], axis=1, kind="stable")
    within = (numbers[1] % np.uint64(ONE_PPM)).astype(np.int64)
    points = (places * ONE_PPM + within) * int(ends[-1]) // (length * ONE_PPM)
    classes: NDArray[np.int16] = np.searchsorted(ends, points, side="right").astype(np.int16)
    return classes


def _turns(draws: NDArray[np.int16], classes: int) -> U64:
    """When each class is drawn: bits of the words of one rollout after the other."""
    rollouts, length = draws.shape
    words = -(-length // WORD_BITS)
    is_drawn = np.zeros((classes, rollouts, words * WORD_BITS), np.int64)
    for j in range(classes):
        is_drawn[j, :, :length] = draws == j
    packed = np.packbits(is_drawn, axis=2, bitorder="little").view("<u8")
    return packed.reshape(classes, rollouts * words).astype(np.uint64)


def _numbers(count: int) -> NDArray[np.uint64]:
    """Numbers without a pattern, always the same ones (splitmix64)."""
    numbers = np.arange(1, count + 1, dtype=np.uint64) * STRIDE
    numbers = (numbers ^ (numbers >> np.uint64(30))) * MULTIPLIER
    numbers = (numbers ^ (numbers >> np.uint64(27))) * SPREADER
    return numbers ^ (numbers >> np.uint64(31))


def _states(nodes: int) -> int:
    wanted = 1 << (STATES_PER_NODE * nodes).bit_length()
    return min(max(wanted, STATES_AT_LEAST), STATES_AT_MOST)


@cache
def _steps() -> I64:
    """Where 100 sigmoid(gradient / 1000) passes each whole number; gradients in millionths."""
    scores = range(1, FGD_SCORES)
    return _column(
        [math.ceil(WHOLE_MILLI * ONE_PPM * math.log(s / (FGD_SCORES - s))) for s in scores]
    )


def _column(values: Sequence[int]) -> I64:
    return np.array(values, np.int64)
