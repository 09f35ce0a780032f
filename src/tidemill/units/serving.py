"""Memory of serving: weights, the key-value cache of the sequences in flight, and working space.

Of every token each layer keeps a key and a value for every key-value head; latent attention keeps
one vector for all heads (DeepSeek-AI 2024, arXiv 2405.04434). Tensor ranks divide the cache as far
as there are key-value heads; beyond that, and with latent attention, each has all of it. Context
ranks divide it along the sequence. A layer with a sliding window keeps no more than the window.
"""

from typing import Annotated, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from tidemill.model.topology import Parallelism
from tidemill.units import memory, models, precision
from tidemill.units.models import Model

_Size = Annotated[int, Meta(ge=1, le=100_000_000)]
CHUNK = 8192  # tokens of a prompt that are computed at once, as serving engines do by default
WIDE = 2  # bytes of an activation
LOGIT_BYTES = 4
MOST_SEQUENCES = 1 << 24


class Serving(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Choices of a service."""

    batch: _Size = 1
    """Sequences at once, over all data-parallel replicas."""
    context: _Size = 4096
    """Tokens of each, prompt and answer together."""
    weights: str = "bf16"
    cache: str = "bf16"


class Served(NamedTuple):
    """Bytes on one unit."""

    weights: float = 0
    cache: float = 0
    working: float = 0

    @property
    def total(self) -> float:
        """All parts together."""
        return sum(self)


def cache_per_sequence(model: Model, context: float, name: str = "bf16") -> float:
    """Bytes that a sequence keeps in all layers together, undivided; windows keep no more."""
    return cache_per_token(model, name) * models.attended(model, context)


def cache_per_token(model: Model, name: str = "bf16") -> float:
    """Bytes that one token keeps in all layers together, undivided, before any window is full."""
    return model.layers * _numbers(model) * precision.size(name)


def serving(model: Model, stated: Parallelism, how: Serving) -> Served:
    """The unit that holds most, whichever stage that is."""
    stages = range(stated.pipeline)
    return max((on_stage(model, stated, how, i) for i in stages), key=lambda s: s.total)


def on_stage(model: Model, stated: Parallelism, how: Serving, stage: int) -> Served:
    """One unit of a pipeline stage."""
    kinds = memory.layers_of(model, stated.pipeline, 1)[stage]
    shared, routed = memory.parameters(model, stated, kinds, stage)
    each = _numbers(model) / cache_ranks(model, stated.tensor) * precision.size(how.cache)
    kept = models.attended(model, how.context) / stated.context
    tokens = -(-how.batch // stated.data) * kept
    held = tokens * sum(kinds) * each
    return Served(
        (shared + routed) * precision.size(how.weights), held, _working(model, stated, how)
    )


def most_sequences(model: Model, stated: Parallelism, how: Serving, usable: float) -> int:
    """How many sequences of this length units with so many usable bytes hold; 0: none."""

    def fits(each: int) -> bool:
        return serving(model, stated, replace(how, batch=each * stated.data)).total <= usable

    low, high = 0, 1
    while high < MOST_SEQUENCES and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * stated.data


def cache_ranks(model: Model, tensor: int) -> int:
    """Over how many tensor ranks the cache divides."""
    return 1 if model.kv_rank else min(tensor, model.kv)


def _numbers(model: Model) -> int:
    """Numbers that one token keeps in one layer."""
    if model.kv_rank:
        return model.kv_rank + model.rope_size
    return 2 * model.kv * model.head


def _working(model: Model, stated: Parallelism, how: Serving) -> float:
    """The widest layer of a chunk of prompt, in and out, and the logits of every sequence."""
    wide = max(model.dense_ffn, model.width * max(1, model.active_experts + model.shared_experts))
    chunk = min(CHUNK, how.context * how.batch)
    inner = chunk * WIDE * (2 * model.hidden + (model.matrices - 1) * wide / stated.tensor)
    return inner + how.batch / stated.data * model.vocabulary * LOGIT_BYTES / stated.tensor
