"""One layer on one rank: what it computes and says for one micro-batch, in seconds.

Tensor parallelism cuts every matrix over ``t`` ranks: two products in, two out, and an all-reduce
of the activations after each pair (Shoeybi et al. 2019); sequence parallelism turns each into a
reduce-scatter and an all-gather of the same bytes and divides what is between (Korthikanti et al.
2022). Context ranks hand each other keys and values; experts get their tokens by all-to-all.
"""

from typing import NamedTuple

from tidemill.model.topology import Parallelism
from tidemill.units import collectives, models
from tidemill.units.achieved_rates import WIDE, Silicon
from tidemill.units.flops import Recompute
from tidemill.units.machine import Machine
from tidemill.units.models import Model
from tidemill.units.overlap import CHUNKS, Behind, Hiding, shown_s
from tidemill.units.training import Training

BACKWARD_ATTENTION = 2.5
"""Products of fused attention backward for each forward: the scores are computed again."""


class Work(NamedTuple):
    """Seconds of one rank."""

    products: float = 0.0
    attention: float = 0.0
    passes: float = 0.0
    """Norms, activations, residuals: bound by memory."""
    tensor: float = 0.0
    context: float = 0.0
    expert: float = 0.0

    @property
    def total(self) -> float:
        """One after the other."""
        return sum(self)

    def __add__(self, other: tuple[float, ...]) -> "Work":  # type: ignore[override]
        """Part by part."""
        return Work(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, factor: float) -> "Work":
        """So many of them."""
        return Work(*(part * factor for part in self))


class LayerCase(NamedTuple):
    """Everything that the time of a layer depends on."""

    model: Model
    stated: Parallelism
    how: Training
    hiding: Hiding
    machine: Machine
    silicon: Silicon

    @property
    def tokens(self) -> float:
        """Of one micro-batch on one rank."""
        return self.how.micro_batch * self.stated.sequence / self.stated.context

    @property
    def activation(self) -> float:
        """Bytes that one layer hands to the next, undivided by tensor ranks."""
        return WIDE * self.tokens * self.model.hidden


class LayerPasses(NamedTuple):
    """The passes of a layer."""

    forward: Work
    backward: Work
    again: Work
    """What the backward pass computes again."""


def layer(case: LayerCase, *, routed: bool) -> LayerPasses:
    """One layer, with experts or without."""
    into, out = _products(case, routed=routed)
    products = into + out
    forward = Work(
        products,
        _attention(case, 1.0),
        _passes(case, 1.0),
        _tensor(case, products, is_backward=False),
        _context(case),
        _expert(case, products) if routed else 0.0,
    )
    backward = Work(
        2 * products,
        _attention(case, BACKWARD_ATTENTION if case.how.is_fused else 2.0),
        _passes(case, 1.4),
        _tensor(case, into, is_backward=True),
        2 * _context(case),
        _expert(case, 2 * products) if routed else 0.0,
    )
    return LayerPasses(forward, backward, _again(case, forward))


def _again(case: LayerCase, forward: Work) -> Work:
    """Selective recomputation of fused attention is in its backward pass already."""
    match case.how.recompute:
        case Recompute.FULL:
            return forward
        case Recompute.SELECTIVE if not case.how.is_fused:
            return Work(attention=forward.attention)
        case _:
            return Work()


def _products(case: LayerCase, *, routed: bool) -> tuple[float, float]:
    """Products whose output is cut over ranks, and those whose input is."""
    model, ranks, chip = case.model, case.stated.tensor, case.silicon
    h, tokens = model.hidden, case.tokens
    wide = model.heads * model.head
    keys = 2 * model.kv * model.head / min(ranks, model.kv)
    into = chip.product_s(tokens, wide / ranks + keys, h)
    out = chip.product_s(tokens, h, wide / ranks)
    up = model.matrices - 1
    if not routed:
        width = (model.dense_ffn or model.width) / ranks
        return (
            into + up * chip.product_s(tokens, width, h),
            out + chip.product_s(tokens, h, width),
        )
    experts = model.experts / case.stated.expert
    rows = tokens * model.active_experts / experts  # all experts equally liked
    width = model.width / ranks
    each = experts * chip.product_s(rows, width, h)
    back = experts * chip.product_s(rows, h, width)
    if model.shared_experts:
        each += chip.product_s(tokens, model.shared_experts * width, h)
        back += chip.product_s(tokens, h, model.shared_experts * width)
    return into + up * each, out + back


def _attention(case: LayerCase, passes: float) -> float:
    """Scores and their product with the values; unfused, with their way through memory."""
    model, chip = case.model, case.silicon
    heads, seen = model.heads / case.stated.tensor, float(case.stated.sequence)
    scores = heads * case.tokens * seen
    if case.how.is_fused:  # the half that the mask leaves, or what a window leaves of it
        kept = heads * case.tokens * models.attended(model, seen / 2)
        return passes * 4 * kept * model.head / chip.attention
    sequences = heads * case.how.micro_batch
    rows = seen / case.stated.context
    one = chip.product_s(rows, seen, model.head, sequences)
    one += chip.product_s(rows, model.head, seen, sequences)
    moved = 13 if passes == 1.0 else 17  # bytes a score: product, softmax, dropout and its mask
    return passes * one + chip.pass_s(scores * moved, 3)


def _passes(case: LayerCase, factor: float) -> float:
    """Norms and residuals, divided by sequence parallelism; activations and heads, by ranks."""
    model, ranks = case.model, case.stated.tensor
    row = case.tokens * model.hidden
    beside = ranks if case.how.is_sequence_parallel else 1
    norms = 1 if model.is_parallel else 2
    residual = 7 if model.has_dropout else 6
    width = (model.dense_ffn or model.width) / model.hidden
    heads = (model.heads + 2 * model.kv) * model.head / model.hidden
    size = norms * (4 + residual) / beside + (4 * (model.matrices - 1) * width + 4 * heads) / ranks
    return case.silicon.pass_s(factor * row * size, 2 * norms + 3)


def _tensor(case: LayerCase, behind_s: float, *, is_backward: bool) -> float:
    """Two exchanges of the activations a pass, or what is left of them behind products."""
    if case.stated.tensor == 1:
        return 0.0
    group = case.machine.group("tensor", case.stated.tensor)
    times = 1 if case.model.is_parallel else 2
    if case.how.is_sequence_parallel:
        once = 2 * collectives.all_gather(group, case.activation)
    else:
        once = collectives.all_reduce(group, case.activation)
    match case.hiding.tensor:
        case Behind.ALL:
            return shown_s(times * once, behind_s, times * once / CHUNKS)
        case Behind.BACKWARD if is_backward:
            return shown_s(times * once, behind_s, 0.0)
        case _:
            return times * once


def _context(case: LayerCase) -> float:
    """Keys and values of the whole sequence, gathered on every context rank."""
    stated, model = case.stated, case.model
    if stated.context == 1:
        return 0.0
    each = 2 * model.kv * model.head / min(stated.tensor, model.kv)
    size = WIDE * case.tokens * stated.context * each
    return collectives.all_gather(
        case.machine.group("context", stated.context, stated.tensor), size
    )


def _expert(case: LayerCase, behind_s: float) -> float:
    """Tokens to their experts and back, or what is left of it behind products."""
    stated = case.stated
    if stated.expert == 1:
        return 0.0
    size = case.activation * case.model.active_experts / stated.tensor
    group = case.machine.group("expert", stated.expert, stated.tensor)
    total = 2 * collectives.all_to_all(group, size)
    return shown_s(total, behind_s, 0.0) if case.hiding.expert else total
