"""A question to the roofline, and the same question with one thing otherwise.

Decoding, reading prompts or training; on one kind of part, at one precision. Every change is asked
anew in full, so that what it gives is a ratio of two answers and no rule of thumb.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from tidemill.model.topology import Parallelism
from tidemill.units import kernel_work, memory, precision, roofline
from tidemill.units.catalogue import rates
from tidemill.units.catalogue.rows import Part
from tidemill.units.models import Model
from tidemill.units.roofline import Ceilings, WhatIf, Work
from tidemill.units.serving import Serving
from tidemill.units.training import Training

NARROWER = ("fp8", "fp4")


class Phase(StrEnum):
    """What the model does."""

    DECODE = "decode"
    PREFILL = "prefill"
    TRAIN = "train"


class PhaseQuestion(NamedTuple):
    """A phase of a model, divided so, on units of a part."""

    model: Model | int
    """Or its parameters, where only those are known."""
    part: Part
    phase: Phase
    stated: Parallelism
    serving: Serving = Serving()
    training: Training = Training()
    precision: str = "bf16"
    compute_share: float = 1.0
    """Of the peak that is reached at best."""
    memory_share: float = 1.0


def ceilings(asked: PhaseQuestion) -> Ceilings:
    """Of its part, at its precision."""
    return roofline.ceilings(asked.part, asked.precision, asked.compute_share, asked.memory_share)


def pieces(asked: PhaseQuestion) -> Work:
    """The work of one unit: a token, a prompt or a step of all its sequences."""
    if isinstance(asked.model, int):
        each = precision.size(asked.serving.weights)
        return kernel_work.bare(asked.model, tokens(asked), each)
    match asked.phase:
        case Phase.DECODE:
            return kernel_work.decode(asked.model, asked.stated, asked.serving)
        case Phase.PREFILL:
            return kernel_work.prefill(asked.model, asked.stated, asked.serving)
        case Phase.TRAIN:
            return kernel_work.step(asked.model, asked.stated, asked.training)


def tokens(asked: PhaseQuestion) -> float:
    """Tokens that all units together are done with when one unit is done with its work."""
    match asked.phase:
        case Phase.DECODE:
            return asked.serving.batch
        case Phase.PREFILL:
            return asked.serving.batch * asked.serving.context
        case Phase.TRAIN:
            each = asked.training.micro_batch * asked.stated.data
            return memory.micro_batches(asked.stated, asked.training) * each * asked.stated.sequence


def seconds(asked: PhaseQuestion) -> float:
    """The least time it takes."""
    return roofline.seconds(pieces(asked), ceilings(asked))


def tokens_per_s(asked: PhaseQuestion) -> float:
    """Of all units together."""
    return tokens(asked) / seconds(asked)


def changes(asked: PhaseQuestion, others: Iterable[Part] = ()) -> tuple[WhatIf, ...]:
    """Twice each ceiling, twice the batch, narrower numbers, another part: times the tokens/s."""
    now = tokens_per_s(asked)
    found = list(roofline.elasticities(pieces(asked), ceilings(asked)))
    tried = [("twice the batch", _batch(asked)), *_narrower(asked), *_elsewhere(asked, others)]
    found += [WhatIf(change, tokens_per_s(other) / now) for change, other in tried]
    return tuple(found)


def used(asked: PhaseQuestion) -> dict[str, float]:
    """Shares of the peak arithmetic and bandwidth that are used while it runs."""
    under = roofline.ceilings(asked.part, asked.precision)
    done, took = pieces(asked), seconds(asked)
    return {
        "compute": sum(piece.flops for piece in done) / (took * under.flops_per_s),
        "memory bandwidth": sum(piece.moved for piece in done) / (took * under.bytes_per_s),
    }


def ridge_batch(asked: PhaseQuestion) -> int | None:
    """Sequences a data rank from which on arithmetic binds; None when no batch does that."""

    def work_of(batch: int) -> Work:
        each = batch * asked.stated.data
        return pieces(asked._replace(serving=replace(asked.serving, batch=each)))

    return roofline.ridge_batch(work_of, ceilings(asked))


def _batch(asked: PhaseQuestion) -> PhaseQuestion:
    if asked.phase == Phase.TRAIN:
        more = replace(asked.training, micro_batch=2 * asked.training.micro_batch)
        batch = 2 * asked.stated.batch
        return asked._replace(training=more, stated=replace(asked.stated, batch=batch))
    return asked._replace(serving=replace(asked.serving, batch=2 * asked.serving.batch))


def _narrower(asked: PhaseQuestion) -> Iterable[tuple[str, PhaseQuestion]]:
    """Weights alone, and arithmetic with them where the part has it."""
    size = precision.size(asked.serving.weights)
    for name in NARROWER:
        if precision.size(name) >= size or asked.phase == Phase.TRAIN:
            continue
        stored = asked._replace(serving=replace(asked.serving, weights=name))
        yield f"{name} weights", stored
        if name in rates.precisions(asked.part):
            yield f"{name} weights and arithmetic", stored._replace(precision=name)
    if asked.phase == Phase.TRAIN and "fp8" in rates.precisions(asked.part):
        yield "fp8 arithmetic", asked._replace(precision="fp8")


def _elsewhere(asked: PhaseQuestion, others: Iterable[Part]) -> Iterable[tuple[str, PhaseQuestion]]:
    for part in others:
        yield f"on {part.key}", asked._replace(part=part)
