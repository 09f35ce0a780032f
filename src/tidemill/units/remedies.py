"""What would make a model fit that does not: the same search, with one choice made otherwise."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.units import fitting
from tidemill.units.catalogue.rows import Part
from tidemill.units.fitting import FittingDivision, Stated
from tidemill.units.flops import Recompute
from tidemill.units.models import Model
from tidemill.units.serving import Serving
from tidemill.units.training import Training

CONTEXTS = (2, 4, 8, 16, 32, 64)
NARROWER = ("fp8", "fp4")


class FitRemedy(NamedTuple):
    """What to say otherwise, and what then fits."""

    change: str
    fit: FittingDivision


def to_train(
    model: Model, part: Part, stated: Stated, how: Training, reserve: float
) -> tuple[FitRemedy, ...]:
    """Changes of a training run after which it fits, the mildest first."""
    tries = _ways_to_train(stated, how)
    found = (
        (change, fitting.to_train(model, part, other, then, reserve))
        for change, other, then in tries
    )
    return _first_of_each(FitRemedy(change, fit) for change, fit in found if fit)


def to_serve(
    model: Model, part: Part, stated: Stated, how: Serving, reserve: float
) -> tuple[FitRemedy, ...]:
    """Changes of a service after which it fits, the mildest first."""
    tries = _ways_to_serve(stated, how)
    found = (
        (change, fitting.to_serve(model, part, other, then, reserve))
        for change, other, then in tries
    )
    return _first_of_each(FitRemedy(change, fit) for change, fit in found if fit)


def _first_of_each(offered: Iterable[FitRemedy]) -> tuple[FitRemedy, ...]:
    """Of changes to one option, the mildest that helps."""
    found: dict[str, FitRemedy] = {}
    for remedy in offered:
        is_single = remedy.change.count("--") == 1
        option = remedy.change.partition(" ")[0] if is_single else remedy.change
        found.setdefault(option, remedy)
    return tuple(found.values())


def free(stated: Stated) -> Stated:
    """The same workload, divided as may be."""
    return Stated(context=stated.context, sequence=stated.sequence, batch=stated.batch)


def _ways_to_train(stated: Stated, how: Training) -> Iterator[tuple[str, Stated, Training]]:
    anyhow = free(stated)
    full = replace(how, recompute=Recompute.FULL)
    if how.recompute != Recompute.FULL:
        yield "--recompute full", stated, full
    for zero in range(how.zero + 1, 4):
        yield f"--zero {zero}", stated, replace(how, zero=zero)
    if anyhow != stated:
        yield "another division", anyhow, how
    for context in CONTEXTS:
        if context > stated.context and stated.sequence % context == 0:
            yield f"--cp {context}", anyhow._replace(context=context), how
            break
    if how.micro_batch > 1:
        yield "--micro-batch 1", anyhow, replace(how, micro_batch=1)
    most = max((c for c in CONTEXTS if stated.sequence % c == 0), default=1)
    yield f"--cp {most} --recompute full --zero 3", anyhow._replace(context=most), replace(
        full, zero=3, micro_batch=1
    )  # fmt: skip
    if how.optimiser == "adam":
        yield "--optimiser adam-8bit", stated, replace(how, optimiser="adam-8bit")


def _ways_to_serve(stated: Stated, how: Serving) -> Iterator[tuple[str, Stated, Serving]]:
    anyhow = free(stated)
    if anyhow != stated:
        yield "another division", anyhow, how
    for name in NARROWER:
        yield f"--weights {name}", stated, replace(how, weights=name)
    yield "--cache fp8", stated, replace(how, cache="fp8")
    if how.batch > 1:
        yield f"--batch {how.batch // 2}", stated, replace(how, batch=how.batch // 2)
    yield "--batch 1", anyhow, replace(how, batch=1)
