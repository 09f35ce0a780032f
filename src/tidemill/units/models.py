"""Language models: the figures of a transformer that physics needs, and what follows from them."""

from typing import Annotated

from msgspec import Meta, Struct

_Size = Annotated[int, Meta(ge=1, le=100_000_000)]
_Natural = Annotated[int, Meta(ge=0, le=100_000_000)]


class Model(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A decoder-only transformer. Zero key-value heads: as many as heads. Zero experts: dense."""

    key: Annotated[str, Meta(min_length=1, max_length=100)]
    layers: _Size
    hidden: _Size
    heads: _Size
    kv_heads: _Natural = 0
    head_size: _Natural = 0
    """0: hidden / heads."""
    ffn: _Natural = 0
    """Width of the feed-forward layer (of one expert); 0: four times hidden."""
    is_gated: bool = False
    """Three matrices in the feed-forward layer (SwiGLU) instead of two."""
    vocabulary: _Size = 51_200
    is_tied: bool = True
    """Input and output embedding are one matrix."""
    experts: _Natural = 0
    active_experts: _Natural = 0
    shared_experts: _Natural = 0
    source: Annotated[str, Meta(max_length=500)] = ""
