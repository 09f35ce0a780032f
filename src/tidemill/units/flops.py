"""Floating-point operations of a model, and what share of a peak they make: MFU and HFU.

Two operations for each active matrix element and token, and two for each element of the attention
scores and of their product with the values; the backward pass is twice the forward pass. Norms,
softmax and activation functions are left out, as everyone does. The mask is not taken off: every
token attends to the whole sequence (Narayanan et al. 2021; Chowdhery et al. 2022, appendix B), so
that shares compare with published ones; ``is_causal`` halves it where time is estimated.

*Model* FLOPs are those of the mathematics; *hardware* FLOPs add what is computed again because it
was not kept. Selective recomputation counts the attention twice, as in Korthikanti et al. 2022,
equation 9 and table 5; one more forward pass of it alone would be four thirds.
"""

from enum import StrEnum
from typing import NamedTuple

from tidemill.units import models
from tidemill.units.models import Model

PASSES = 3  # forward once, backward twice that


class Recompute(StrEnum):
    """What the backward pass computes again instead of keeping it."""

    NONE = "none"
    SELECTIVE = "selective"
    """The core of attention: scores, softmax and their product with the values."""
    FULL = "full"
    """Whole layers, from their inputs."""


class Flops(NamedTuple):
    """Operations by part of the model."""

    layers: float
    """Products with the matrices of the layers."""
    attention: float
    """Scores, and their product with the values."""
    output: float
    """From the last layer to the vocabulary."""

    @property
    def total(self) -> float:
        """All parts together."""
        return self.layers + self.attention + self.output

    def times(self, factor: float) -> "Flops":
        """So many times each part."""
        return Flops(self.layers * factor, self.attention * factor, self.output * factor)


def forward_per_token(model: Model, context: float) -> Flops:
    """One token forward, attending to ``context`` others, or to as many as a window lets it."""
    wide = model.heads * (2 * model.head + model.rope_size)
    context = models.attended(model, context)
    return Flops(
        2.0 * models.layer_matrices(model),
        2.0 * model.layers * wide * context,
        2.0 * models.output_matrix(model),
    )


def forward(model: Model, batch: int, sequence: int, *, is_causal: bool = False) -> Flops:
    """A batch of sequences forward."""
    seen = (sequence + 1) / 2 if is_causal else sequence
    return forward_per_token(model, seen).times(batch * sequence)


def training(model: Model, batch: int, sequence: int, *, is_causal: bool = False) -> Flops:
    """Model FLOPs of a training step: forward and backward, nothing twice."""
    return forward(model, batch, sequence, is_causal=is_causal).times(PASSES)


def executed(
    model: Model, batch: int, sequence: int, recompute: Recompute, *, is_causal: bool = False
) -> Flops:
    """Hardware FLOPs of a training step: with what is computed again."""
    once = training(model, batch, sequence, is_causal=is_causal)
    match recompute:
        case Recompute.NONE:
            return once
        case Recompute.SELECTIVE:
            return once._replace(attention=2 * once.attention)
        case Recompute.FULL:
            again = (PASSES + 1) / PASSES
            return Flops(once.layers * again, once.attention * again, once.output)


class FlopUtilisation(NamedTuple):
    """Shares of the peak: of the mathematics (MFU), and of all that was computed (HFU)."""

    mfu: float
    hfu: float
    mfu_without_attention: float
    model_flops_per_unit_s: float
    hardware_flops_per_unit_s: float


def utilisation(
    model: Model, sequence: int, recompute: Recompute, tokens_per_s: float, units: int, peak: float
) -> FlopUtilisation:
    """Of a run that makes so many tokens a second on so many units of this peak (FLOP/s)."""
    once = training(model, 1, sequence).times(1 / sequence)
    hard = executed(model, 1, sequence, recompute).times(1 / sequence)
    rate = tokens_per_s / units
    plain = once.layers + once.output
    return FlopUtilisation(
        once.total * rate / peak,
        hard.total * rate / peak,
        plain * rate / peak,
        once.total * rate,
        hard.total * rate,
    )


def tokens_per_s_at(
    model: Model, sequence: int, recompute: Recompute, units: int, hardware_flops_per_unit_s: float
) -> float:
    """Tokens a second of units that each execute so many operations a second."""
    per_token = executed(model, 1, sequence, recompute).total / sequence
    return units * hardware_flops_per_unit_s / per_token
