"""Does it fit: the smallest number of units that hold a model, and how it is then divided.

Every division that the model allows is tried, within what is stated: tensor ranks up to the size
of the scale-up domain, stages up to the layers, expert groups, and as many data-parallel ranks as
ZeRO and the experts need. Of those that fit, the fewest units; among equals the shorter pipeline,
then fewer tensor ranks, then smaller expert groups. A part of every unit is set aside for what no
formula counts: the runtime, communication buffers, holes between blocks.
"""

from collections.abc import Callable, Iterator
from math import gcd
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.model.topology import Parallelism
from tidemill.units import memory, partition_check, serving
from tidemill.units.catalogue.rows import Part
from tidemill.units.memory import Memory
from tidemill.units.models import Model
from tidemill.units.parallelism import ranks
from tidemill.units.serving import Served, Serving
from tidemill.units.training import Training

RESERVE = 0.1  # serving engines take nine tenths by default; training runs see about as much lost
MOST_UNITS = 200_000
NEAR = 1.05  # what is called nearest may hold so much more than the least, on far fewer units

Holds = Callable[[Parallelism], float]


class Stated(NamedTuple):
    """What the user fixed; None is free."""

    tensor: int | None = None
    context: int = 1
    pipeline: int | None = None
    data: int | None = None
    expert: int | None = None
    sequence: int = 4096
    batch: int = 0
    units: int | None = None
    """Exactly so many."""


class FittingDivision(NamedTuple):
    """A division that fits: on so many units, each of which holds so much."""

    stated: Parallelism
    units: int
    held: Memory | Served


def usable(part: Part, reserve: float = RESERVE) -> float:
    """Bytes of a unit that a model may fill."""
    return part.memory_gb * 1e9 * (1 - reserve)


def by_size(size: float, part: Part, reserve: float = 0.0) -> int:
    """The fewest units whose memory together is so large: a bound that no division beats."""
    return max(1, -int(-size // usable(part, reserve)))


def to_train(
    model: Model, part: Part, stated: Stated, how: Training, reserve: float = RESERVE
) -> FittingDivision | None:
    """The smallest division that trains the model; None when none fits."""

    def held(division: Parallelism) -> Memory:
        return memory.training(model, division, how)

    found = _smallest(
        _divisions(model, part, stated, how), lambda d: held(d).total, usable(part, reserve)
    )
    return FittingDivision(found, ranks(found), held(found)) if found is not None else None


def to_serve(
    model: Model, part: Part, stated: Stated, how: Serving, reserve: float = RESERVE
) -> FittingDivision | None:
    """The smallest division that serves the model; None when none fits."""

    def held(division: Parallelism) -> Served:
        return serving.serving(model, division, how)

    ways = _divisions(model, part, stated, None)
    found = _smallest(ways, lambda d: held(d).total, usable(part, reserve))
    return FittingDivision(found, ranks(found), held(found)) if found is not None else None


def nearest_to_train(
    model: Model, part: Part, stated: Stated, how: Training
) -> FittingDivision | None:
    """The division that holds least on a unit, whether it fits or not; None when none divides."""
    ways = _divisions(model, part, stated, how)
    return _least(ways, lambda division: memory.training(model, division, how))


def nearest_to_serve(
    model: Model, part: Part, stated: Stated, how: Serving
) -> FittingDivision | None:
    """The same for a service."""
    ways = _divisions(model, part, stated, None)
    return _least(ways, lambda division: serving.serving(model, division, how))


class _Way(NamedTuple):
    """A division but for its data-parallel ranks, and which numbers of those are possible."""

    base: Parallelism
    data: tuple[int, ...]


def _smallest(ways: Iterator[_Way], held: Holds, room: float) -> Parallelism | None:
    """Fewest units first; a way is left as soon as it cannot beat the best."""
    best: tuple[int, int, int, int] | None = None
    found: Parallelism | None = None
    for way in ways:
        if held(replace(way.base, data=way.data[-1])) > room:
            continue  # more ranks never hold more each
        each = ranks(way.base)
        for data in way.data:
            rank = (each * data, way.base.pipeline, way.base.tensor, way.base.expert)
            if best is not None and rank >= best:
                break
            division = replace(way.base, data=data)
            if held(division) <= room:
                best, found = rank, division
                break
    return found


def _least(
    ways: Iterator[_Way], held: Callable[[Parallelism], Memory | Served]
) -> FittingDivision | None:
    """Least on a unit; of its data-parallel ranks only as many as make a difference."""
    found = [(held(replace(way.base, data=way.data[-1])).total, way) for way in ways]
    if not found:
        return None
    least, way = min(found, key=lambda one: (one[0], ranks(one[1].base), one[1].base.pipeline))
    for data in way.data:
        division = replace(way.base, data=data)
        fit = FittingDivision(division, ranks(division), held(division))
        if fit.held.total <= NEAR * least:
            break
    return fit


def _divisions(model: Model, part: Part, stated: Stated, how: Training | None) -> Iterator[_Way]:
    micro, interleave = (how.micro_batch, how.interleave) if how else (1, 1)
    more_helps = how is None or how.zero > 0
    for tensor in _tensors(model, part, stated):
        for pipeline in _pipelines(model, stated, interleave):
            for expert in _experts(model, stated):
                base = Parallelism(
                    tensor=tensor, context=stated.context, pipeline=pipeline, expert=expert,
                    sequence=stated.sequence, batch=stated.batch,
                )  # fmt: skip
                data = _data(base, stated, micro, more_helps=more_helps)
                if interleave > 1:
                    data = tuple(d for d in data if _whole_rounds(base, d, micro))
                if data:
                    yield _Way(base, data)


def _tensors(model: Model, part: Part, stated: Stated) -> tuple[int, ...]:
    if stated.tensor is not None:
        return (stated.tensor,)
    return tuple(t for t in partition_check.tensor_sizes(model) if t <= part.domain)


def _pipelines(model: Model, stated: Stated, interleave: int) -> tuple[int, ...]:
    if stated.pipeline is not None:
        return (stated.pipeline,)
    return partition_check.stage_counts(model, interleave)


def _experts(model: Model, stated: Stated) -> tuple[int, ...]:
    if stated.expert is not None:
        return (stated.expert,)
    return partition_check.divisors(model.experts) if model.experts else (1,)


def _data(base: Parallelism, stated: Stated, micro: int, *, more_helps: bool) -> tuple[int, ...]:
    """Numbers of data-parallel ranks to try, smallest first.

    More than the experts need help only where ZeRO, or the sequences of a service, divide over
    them.
    """
    step = base.expert // gcd(base.expert, base.context)
    if stated.data is not None:
        sizes = [stated.data]
    elif stated.units is not None:
        sizes = [stated.units // ranks(base)] if stated.units % ranks(base) == 0 else []
    elif stated.batch:
        sizes = (
            list(partition_check.divisors(stated.batch // micro)) if stated.batch >= micro else []
        )
    else:
        sizes = [step * count for count in _COUNTS]
    sizes = [d for d in sizes if d and d % step == 0 and _batch_divides(stated.batch, d, micro)]
    if not more_helps and stated.data is None and stated.units is None:
        sizes = sizes[:1]
    return tuple(d for d in sizes if d * ranks(base) <= MOST_UNITS)


_COUNTS = (*range(1, 65), *(2**n for n in range(7, 15)))


def _whole_rounds(base: Parallelism, data: int, micro: int) -> bool:
    """Interleaved stages take micro-batches in rounds of as many as there are stages."""
    return base.batch // (data * micro) % base.pipeline == 0


def _batch_divides(batch: int, data: int, micro: int) -> bool:
    return batch % (data * micro) == 0
