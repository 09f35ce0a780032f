"""Whether a model can be divided as stated, and if not, what would work.

Heads divide over tensor ranks, layers over pipeline stages, the batch over data-parallel ranks and
micro-batches, experts over expert groups, the sequence over context ranks. The embedding and the
output may each stand in for a layer: 126 layers on 16 stages are seven at both ends and eight
between, as Llama 3 was trained.
"""

from collections.abc import Iterable

from tidemill.model.errors import SpecError
from tidemill.model.topology import Parallelism
from tidemill.units.models import Model

SHOWN = 8


def check(model: Model, stated: Parallelism, micro_batch: int = 1, interleave: int = 1) -> None:
    """Nothing, or a refusal: what does not divide, and which numbers would."""
    _tensor(model, stated)
    _pipeline(model, stated, interleave)
    _batch(stated, micro_batch, interleave)
    _experts(model, stated)
    if stated.sequence % stated.context:
        raise SpecError(
            f"a sequence of {stated.sequence:,} tokens does not divide over {stated.context} "
            "context ranks",
            hint=f"{_some(divisors(stated.sequence), stated.context)} would",
        )


def tensor_sizes(model: Model) -> tuple[int, ...]:
    """Numbers of tensor ranks that every matrix of the model divides over."""
    return tuple(t for t in divisors(model.heads) if _tensor_fits(model, t))


def stage_counts(model: Model, interleave: int = 1) -> tuple[int, ...]:
    """Numbers of pipeline stages that the layers divide over."""
    return tuple(p for p in range(1, model.layers + 1) if stage_layers(model, p, interleave))


def stage_layers(model: Model, stages: int, interleave: int = 1) -> tuple[int, ...]:
    """Layers of each stage; nothing where they do not divide."""
    if interleave > 1 and stages == 1:
        return ()
    chunks = stages * interleave
    if model.layers % chunks == 0:
        return (model.layers // stages,) * stages
    if stages > 1 and (model.layers + 2) % chunks == 0:
        each = (model.layers + 2) // stages
        if each > 1:
            return (each - 1, *(each,) * (stages - 2), each - 1)
    return ()


def divisors(number: int) -> tuple[int, ...]:
    """All of them, smallest first."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


def _tensor_fits(model: Model, ranks: int) -> bool:
    """Key-value heads divide, or are repeated on several ranks."""
    widths = [model.width] if model.experts else []
    widths += [model.dense_ffn or model.width]
    shares_keys = model.kv % ranks == 0 or ranks % model.kv == 0
    return model.heads % ranks == 0 and shares_keys and all(w % ranks == 0 for w in widths)


def _tensor(model: Model, stated: Parallelism) -> None:
    if _tensor_fits(model, stated.tensor):
        return
    raise SpecError(
        f"`{model.key}` does not divide over {stated.tensor} tensor ranks: it has {model.heads} "
        f"heads, {model.kv} key-value heads and a feed-forward width of {model.width:,}",
        hint=f"--tp {_some(tensor_sizes(model), stated.tensor)} would",
    )


def _pipeline(model: Model, stated: Parallelism, interleave: int) -> None:
    if stage_layers(model, stated.pipeline, interleave):
        return
    chunks = f" in {interleave} chunks each" if interleave > 1 else ""
    work = [p for p in stage_counts(model, interleave) if p > 1 or interleave == 1]
    raise SpecError(
        f"the {model.layers} layers of `{model.key}` do not divide over {stated.pipeline} pipeline "
        f"stages{chunks}",
        hint=f"--pp {_some(work, stated.pipeline)} would"
        if work
        else "no number of stages does with so many chunks: take fewer",
    )


def _batch(stated: Parallelism, micro_batch: int, interleave: int) -> None:
    if not stated.batch:
        return
    together = stated.data * micro_batch
    if stated.batch % together:
        below = stated.batch // together * together
        near = " or ".join(f"{size:,}" for size in (below, below + together) if size)
        raise SpecError(
            f"a batch of {stated.batch:,} sequences does not divide over {stated.data} data ranks "
            f"× micro-batches of {micro_batch}",
            hint=f"a batch of {near} would; or --dp "
            f"{_some(divisors(max(1, stated.batch // micro_batch)), stated.data)}",
        )
    if interleave > 1 and stated.batch // together % stated.pipeline:
        raise SpecError(
            f"{stated.batch // together} micro-batches on {stated.pipeline} interleaved stages",
            hint="with interleaving, the number of micro-batches is a multiple of the stages",
        )


def _experts(model: Model, stated: Parallelism) -> None:
    if stated.expert == 1:
        return
    if not model.experts:
        raise SpecError(f"`{model.key}` has no experts to divide", hint="leave out --ep")
    ranks = stated.data * stated.context
    if model.experts % stated.expert:
        raise SpecError(
            f"the {model.experts} experts of `{model.key}` do not divide over {stated.expert} "
            "expert ranks",
            hint=f"--ep {_some(divisors(model.experts), stated.expert)} would",
        )
    if ranks % stated.expert:
        raise SpecError(
            f"expert groups of {stated.expert} are made of the {ranks} data × context ranks, which "
            "they do not divide",
            hint=f"--dp {stated.expert} would; or --ep "
            f"{_some([e for e in divisors(ranks) if model.experts % e == 0], stated.expert)}",
        )


def _some(numbers: Iterable[int], near: int) -> str:
    """The nearest of them, in order."""
    closest = sorted(numbers, key=lambda number: (abs(number - near), number))[:SHOWN]
    *first, last = [f"{number:,}" for number in sorted(closest)]
    return f"{', '.join(first)} or {last}" if first else last
