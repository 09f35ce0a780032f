"""Memory of training: what one unit holds, part by part, on the stage that holds most.

State (weights, gradients, optimiser) is divided by tensor ranks and stages, and by ZeRO over the
data-parallel ranks (Rajbhandari et al. 2019, arXiv 1910.02054). Activations are those of
Korthikanti et al. 2022 (arXiv 2205.05198), ``sbh(10 + 24/t + 5as/ht)`` a layer for GPT, counted
term by term so that grouped heads, gated layers and experts have theirs; the first stage of a
pipeline holds as many micro-batches as there are stages, interleaved ``1 + (p−1)/pv`` as many.
"""

from typing import NamedTuple

from tidemill.model.topology import Parallelism
from tidemill.units import models, partition_check
from tidemill.units.flops import Recompute
from tidemill.units.models import Model
from tidemill.units.training import Training, optimiser

LOGIT_BYTES = 4  # the loss is computed in 32 bits
WIDE = 2  # bytes of an activation


class Memory(NamedTuple):
    """Bytes on one unit."""

    weights: float = 0
    gradients: float = 0
    optimiser: float = 0
    activations: float = 0
    """Kept for the backward pass by all layers and micro-batches in flight."""
    output: float = 0
    """Logits and the input of the output layer."""
    working: float = 0
    """For a moment: a layer that is recomputed, or gathered."""

    @property
    def total(self) -> float:
        """All parts together."""
        return sum(self)


def training(model: Model, stated: Parallelism, how: Training) -> Memory:
    """The unit that holds most, whichever stage that is."""
    stages = range(stated.pipeline)
    return max((on_stage(model, stated, how, i) for i in stages), key=lambda m: m.total)


def on_stage(model: Model, stated: Parallelism, how: Training, stage: int) -> Memory:
    """One unit of a pipeline stage."""
    kinds = layers_of(model, stated.pipeline, how.interleave)[stage]
    shared, routed = parameters(model, stated, kinds, stage)
    cost = optimiser(how.optimiser)
    return Memory(
        _divided(stated, how.zero >= 3, shared, routed) * cost.weights,
        _divided(stated, how.zero >= 2, shared, routed) * cost.gradients,
        _divided(stated, how.zero >= 1, shared, routed) * cost.kept,
        _activations(model, stated, how, kinds, stage),
        _output(model, stated, how) if stage == stated.pipeline - 1 else 0,
        _working(model, stated, how, kinds),
    )


class Kinds(NamedTuple):
    """Layers of a stage, with a plain feed-forward layer and with experts."""

    plain: int
    routed: int


def layers_of(model: Model, stages: int, interleave: int) -> tuple[Kinds, ...]:
    """Layers of each stage; those without experts come first."""
    found, before = [], 0
    plain = model.layers - model.expert_layers
    for layers in partition_check.stage_layers(model, stages, interleave):
        here = max(0, min(before + layers, plain) - before)
        found.append(Kinds(here, layers - here))
        before += layers
    return tuple(found)


def parameters(model: Model, stated: Parallelism, kinds: Kinds, stage: int) -> tuple[float, float]:
    """Parameters on one unit before ZeRO: those of every data rank, and those of its experts."""
    ranks = stated.tensor
    attention = (kinds.plain + kinds.routed) * _attention(model, ranks)
    plain = kinds.plain * models.dense_matrices(model) / ranks
    always = model.shared_experts * models.expert_matrices(model) / ranks
    always = kinds.routed * (always + models.router_matrix(model))
    vectors = (kinds.plain + kinds.routed) * models.vectors(model)
    experts = model.experts * models.expert_matrices(model) / (ranks * stated.expert)
    ends = _ends(model, stated, stage) / ranks
    return attention + plain + always + vectors + ends, kinds.routed * experts


def layer_activations(model: Model, stated: Parallelism, how: Training, *, routed: bool) -> float:
    """Bytes that one layer keeps of one micro-batch on one unit."""
    return _tokens(stated, how) * _kept_of_token(model, stated, how, is_routed=routed)


def in_flight(stated: Parallelism, how: Training, stage: int) -> float:
    """Micro-batches whose activations a stage keeps at once, in whole stages of layers.

    One forward, one backward: as many as there are stages from here on. Interleaved: the chunks
    that Megatron-LM has begun before its first backward pass. Never more than a step has.
    """
    stages, chunks = stated.pipeline, how.interleave
    begun = stages - stage
    if chunks > 1:
        begun = 2 * (stages - 1 - stage) + (chunks - 1) * stages + 1
    return min(begun, chunks * micro_batches(stated, how)) / chunks


def micro_batches(stated: Parallelism, how: Training) -> int:
    """Of one data-parallel rank in a step; where nobody said, enough to fill the pipeline."""
    if not stated.batch:
        return 2 * stated.pipeline
    return stated.batch // (stated.data * how.micro_batch)


def state_bytes(parameters: int, name: str = "adam") -> float:
    """Weights, gradients and optimiser of so many parameters, undivided."""
    cost = optimiser(name)
    return parameters * (cost.weights + cost.gradients + cost.kept)


def _attention(model: Model, ranks: int) -> float:
    """Elements of the projections on one rank; keys and values are repeated beyond their heads."""
    whole = models.attention_matrices(model)
    if model.kv_rank:
        shared = model.hidden * (model.kv_rank + model.rope_size + model.query_rank)
        return shared + (whole - shared) / ranks
    keys = 2 * model.hidden * model.head * model.kv
    return (whole - keys) / ranks + keys / min(ranks, model.kv)


def _ends(model: Model, stated: Parallelism, stage: int) -> int:
    """The embedding on the first stage and the output on the last; one matrix where they meet."""
    first, last = stage == 0, stage == stated.pipeline - 1
    if first and last:
        return models.outer_embeddings(model)
    positions = model.positions * model.hidden if first else 0
    return positions + (models.output_matrix(model) if first or last else 0)


def _divided(stated: Parallelism, is_divided: bool, shared: float, routed: float) -> float:
    """Parameters on one unit, divided over data-parallel ranks or whole on each."""
    if not is_divided:
        return shared + routed
    ranks = stated.data * stated.context
    return shared / ranks + routed / (ranks // stated.expert)


def _activations(
    model: Model, stated: Parallelism, how: Training, kinds: Kinds, stage: int
) -> float:
    each = sum(
        count * layer_activations(model, stated, how, routed=routed)
        for count, routed in ((kinds.plain, False), (kinds.routed, True))
        if count
    )
    return in_flight(stated, how, stage) * each


def _tokens(stated: Parallelism, how: Training) -> float:
    """Tokens of a micro-batch on one unit."""
    return how.micro_batch * stated.sequence / stated.context


def _kept_of_token(model: Model, stated: Parallelism, how: Training, *, is_routed: bool) -> float:
    """Bytes of one token in one layer."""
    whole = stated.tensor if how.is_sequence_parallel else 1
    if how.recompute == Recompute.FULL:
        return WIDE * model.hidden / whole
    kept = _whole_bytes(model, is_routed=is_routed) / whole
    kept += _split_bytes(model, is_routed=is_routed) / stated.tensor
    if how.is_fused or how.recompute == Recompute.SELECTIVE:
        return kept
    scores = 5 if model.has_dropout else 2  # softmax; and dropout's mask and result
    return kept + scores * model.heads * stated.sequence / stated.tensor


def _whole_bytes(model: Model, *, is_routed: bool) -> float:
    """What tensor parallelism alone does not divide: norms, inputs, masks, tokens on their way."""
    norms_and_inputs = 4 * WIDE * model.hidden
    masks = 2 * model.hidden if model.has_dropout else 0
    met = model.active_experts + model.shared_experts
    sent = 2 * WIDE * model.hidden * met if is_routed else 0  # there and back
    return norms_and_inputs + masks + sent


def _split_bytes(model: Model, *, is_routed: bool) -> float:
    """What tensor parallelism divides: queries, keys, values, their product, inner layers."""
    a, d = model.heads, model.head
    latent = model.kv_rank + model.query_rank + model.rope_size
    queries = 2 * a * d + a * model.rope_size  # and what goes into the last projection
    keys = (2 * a * d + a * model.rope_size) if model.kv_rank else 2 * model.kv * d
    met = model.active_experts + model.shared_experts
    inner = met * model.width if is_routed else model.dense_ffn or model.width
    return WIDE * (queries + keys + latent + model.matrices * inner)


def _output(model: Model, stated: Parallelism, how: Training) -> float:
    """The last norm and the output layer keep their inputs; logits are 32-bit."""
    each = 2 * WIDE * model.hidden + LOGIT_BYTES * model.vocabulary
    return _tokens(stated, how) * each / stated.tensor


def _working(model: Model, stated: Parallelism, how: Training, kinds: Kinds) -> float:
    """A layer that is computed again, whole; with ZeRO 3 the weights of two layers, gathered."""
    found = 0.0
    routed = kinds.routed > 0
    if how.recompute == Recompute.FULL:
        kept = _whole_bytes(model, is_routed=routed) + _split_bytes(model, is_routed=routed)
        found += _tokens(stated, how) * kept / stated.tensor
    if how.zero >= 3 and stated.data * stated.context > 1:
        layer = models.attention_matrices(model) / stated.tensor
        experts = model.experts // stated.expert if routed else 0
        layer += models.dense_matrices(model) / stated.tensor if not routed else 0
        layer += experts * models.expert_matrices(model) / stated.tensor
        found += 2 * layer * optimiser(how.optimiser).weights
    return found
