"""The work of a model on one unit, in pieces for the roofline: a token, a prompt, a training step.

Every product reads its matrix and its input and writes its output once. Attention in one kernel
reads queries, keys and values; a token that is decoded reads the cache of its whole sequence.
Tensor ranks add up their results twice a layer (2(t−1)/t of them pass each link), expert groups
send every token to its experts and back. A pipeline does not change the work of all its stages
together; what it costs is in the step-time model, as is everything between nodes.
"""

from typing import NamedTuple

from tidemill.model.topology import Parallelism
from tidemill.units import flops, memory, models, precision, serving
from tidemill.units.flops import Flops, Recompute
from tidemill.units.models import Model
from tidemill.units.roofline import Work, WorkPiece
from tidemill.units.serving import Serving
from tidemill.units.training import Training, optimiser

WIDE = 2  # bytes of an activation
LOGIT_BYTES = 4
RESIDUALS = 10  # numbers read and written by two norms (2 each) and two additions (3 each)


class _Pass(NamedTuple):
    """A forward pass of one unit."""

    tokens: float
    outputs: float
    """Tokens that go on to the vocabulary."""
    flops: Flops
    cached: float
    """Bytes of keys and values that attention reads."""
    weight: float
    """Bytes of a weight."""


def decode(model: Model, stated: Parallelism, how: Serving) -> Work:
    """One token for each sequence of a batch, each with its whole context behind it."""
    tokens = how.batch / stated.data
    once = flops.forward_per_token(model, how.context)
    if model.kv_rank:  # keys are not expanded: queries are taken to the latent space instead
        wide = model.heads * (2 * model.kv_rank + model.rope_size)
        once = once._replace(attention=2.0 * model.layers * wide * how.context)
    kept = serving.cache_per_sequence(model, how.context, how.cache)
    weight = precision.size(how.weights)
    cached = tokens * kept / serving.cache_ranks(model, stated.tensor)
    return _forward(model, stated, _Pass(tokens, tokens, once.times(tokens), cached, weight))


def prefill(model: Model, stated: Parallelism, how: Serving) -> Work:
    """The prompts of a batch; only the last token of each goes on to the vocabulary."""
    sequences = how.batch / stated.data
    tokens = sequences * how.context
    once = flops.forward(model, 1, how.context, is_causal=True).times(sequences)
    once = once._replace(output=2.0 * models.output_matrix(model) * sequences)
    weight = precision.size(how.weights)
    each = serving.cache_per_token(model, how.cache) / serving.cache_ranks(model, stated.tensor)
    return _forward(model, stated, _Pass(tokens, sequences, once, tokens * each, weight))


def step(model: Model, stated: Parallelism, how: Training) -> Work:
    """A training step of one unit of an even pipeline, without bubbles and other nodes."""
    rounds = memory.micro_batches(stated, how)
    tokens = how.micro_batch * stated.sequence / stated.context
    once = flops.forward(model, how.micro_batch, stated.sequence, is_causal=True)
    cost = optimiser(how.optimiser)
    keys = WIDE * tokens * 2 * model.layers * model.kv * model.head / stated.tensor
    forward = _forward(
        model, stated, _Pass(tokens, tokens, once.times(1 / stated.context), keys, cost.weights)
    )
    passes = tuple(_all_passes(piece, how.recompute) for piece in forward)
    share = rounds / stated.pipeline
    return (*(_times(piece, share) for piece in passes), _update(model, stated, how))


def bare(parameters: int, tokens: float, weight_bytes: float) -> Work:
    """A model of which only the size is known: every token meets every weight."""
    return (WorkPiece("weights", 2.0 * parameters * tokens, parameters * weight_bytes),)


def _forward(model: Model, stated: Parallelism, one: _Pass) -> Work:
    pieces = [
        _projections(model, stated, one),
        _attention(model, stated, one),
        _feed_forward(model, stated, one),
        _output(model, stated, one),
        _residuals(model, stated, one),
    ]
    if stated.tensor > 1:
        pieces.append(_add_up(model, stated, one))
    if stated.expert > 1:
        pieces.append(_send_out(model, stated, one))
    return tuple(pieces)


def _projections(model: Model, stated: Parallelism, one: _Pass) -> WorkPiece:
    """Queries, keys, values and the way back."""
    each = models.attention_matrices(model)
    inner = model.head * (2 * model.heads + 2 * model.kv)
    numbers = 2 * model.hidden + inner / stated.tensor
    return WorkPiece(
        "attention projections",
        2.0 * one.tokens * model.layers * each / stated.tensor,
        model.layers * (each / stated.tensor * one.weight + WIDE * one.tokens * numbers),
    )


def _attention(model: Model, stated: Parallelism, one: _Pass) -> WorkPiece:
    queries = WIDE * one.tokens * model.layers * 2 * model.heads * model.head / stated.tensor
    return WorkPiece("attention", one.flops.attention / stated.tensor, one.cached + queries)


def _feed_forward(model: Model, stated: Parallelism, one: _Pass) -> WorkPiece:
    """Of experts, those are read that at least one token of the group is sent to."""
    plain = model.layers - model.expert_layers
    ranks = stated.tensor
    met = model.active_experts + model.shared_experts
    used = plain * models.dense_matrices(model)
    used += model.expert_layers * met * models.expert_matrices(model)
    read = float(plain * models.dense_matrices(model))
    read += model.expert_layers * _experts_read(model, stated, one) * models.expert_matrices(model)
    wide = plain * (model.dense_ffn or model.width) + model.expert_layers * met * model.width
    ins = plain + model.expert_layers * met
    numbers = 2 * model.hidden * ins + model.matrices * wide / ranks
    return WorkPiece(
        "feed-forward",
        2.0 * one.tokens * used / ranks,
        read / ranks * one.weight + WIDE * one.tokens * numbers,
    )


def _experts_read(model: Model, stated: Parallelism, one: _Pass) -> float:
    """Expected, if tokens choose evenly: E(1 − (1 − k/E)^n), divided over the expert group."""
    if not model.experts:
        return 0.0
    missed = float((1 - model.active_experts / model.experts) ** (one.tokens * stated.expert))
    return model.shared_experts + model.experts / stated.expert * (1 - missed)


def _output(model: Model, stated: Parallelism, one: _Pass) -> WorkPiece:
    each = models.output_matrix(model) / stated.tensor
    numbers = WIDE * model.hidden + LOGIT_BYTES * model.vocabulary / stated.tensor
    return WorkPiece("output", 2.0 * one.outputs * each, each * one.weight + one.outputs * numbers)


def _residuals(model: Model, stated: Parallelism, one: _Pass) -> WorkPiece:
    """Norms and additions, divided along the sequence over tensor ranks."""
    numbers = RESIDUALS * model.layers * model.hidden * one.tokens / stated.tensor
    return WorkPiece("norms and residuals", 0.0, WIDE * numbers)


def _add_up(model: Model, stated: Parallelism, one: _Pass) -> WorkPiece:
    share = 2 * (stated.tensor - 1) / stated.tensor
    size = WIDE * one.tokens * model.hidden
    return WorkPiece("tensor all-reduce", 0.0, 0.0, 2 * model.layers * share * size)


def _send_out(model: Model, stated: Parallelism, one: _Pass) -> WorkPiece:
    away = (stated.expert - 1) / stated.expert
    size = WIDE * one.tokens * model.hidden * model.active_experts / stated.tensor
    return WorkPiece("expert all-to-all", 0.0, 0.0, 2 * model.expert_layers * away * size)


def _all_passes(piece: WorkPiece, recompute: Recompute) -> WorkPiece:
    """Forward, twice that backward, and what is computed again; links are used there and back."""
    again = recompute == Recompute.FULL and piece.name != "output"
    again |= recompute == Recompute.SELECTIVE and piece.name == "attention"
    factor = flops.PASSES + again
    return WorkPiece(
        piece.name, piece.flops * factor, piece.moved * factor, piece.sent * (2 + again)
    )


def _update(model: Model, stated: Parallelism, how: Training) -> WorkPiece:
    """Gradients and what the optimiser keeps are read; what it keeps, and weights, are written."""
    cost = optimiser(how.optimiser)
    held = memory.training(model, stated, how)
    mine = held.optimiser / cost.kept
    moved = mine * (cost.gradients + 2 * cost.kept + cost.weights)
    return WorkPiece("optimiser", 12.0 * mine, moved)


def _times(piece: WorkPiece, factor: float) -> WorkPiece:
    return WorkPiece(piece.name, piece.flops * factor, piece.moved * factor, piece.sent * factor)
