"""Language models: the figures of a transformer that physics needs, and the numbers it is made of.

Parameters are counted matrix by matrix, as the published figures of a model give them; nothing is
rounded to the size in its name. What the count leaves out (biases of some projections, norms of
queries and keys) is below one part in a thousand.
"""

from typing import Annotated

from msgspec import Meta, Struct

from tidemill.model.errors import SpecError

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
    dense_layers: _Natural = 0
    """Of a model with experts: how many of its layers have none."""
    dense_ffn: _Natural = 0
    """Width of the feed-forward layer there."""
    kv_rank: _Natural = 0
    """Latent attention (MLA): the cached vector that all heads share; 0: ordinary attention."""
    query_rank: _Natural = 0
    rope_size: _Natural = 0
    """Latent attention: rotary part of a query and of the one shared key, beside ``head_size``."""
    positions: _Natural = 0
    """Learned positions (a row each); 0: rotary or none."""
    has_biases: bool = False
    """Biases in projections and norms, as in GPT."""
    has_dropout: bool = False
    """Trained with dropout, whose masks are kept for the backward pass."""
    is_parallel: bool = False
    """Attention and feed-forward side by side, from one norm, as PaLM has them."""
    window: _Natural = 0
    """Tokens back that a layer with a sliding window attends to (and keeps in its cache)."""
    window_layers: _Natural = 0
    """How many layers have that window; the others attend to the whole sequence."""
    published_in: Annotated[str, Meta(max_length=20)] = ""
    """Precision of the published weights where it is not 16 bits: ``fp8``, ``fp4``."""
    source: Annotated[str, Meta(max_length=500)] = ""

    @property
    def kv(self) -> int:
        """Key-value heads."""
        return self.kv_heads or self.heads

    @property
    def head(self) -> int:
        """Size of a head."""
        return self.head_size or self.hidden // self.heads

    @property
    def width(self) -> int:
        """Width of the feed-forward layer, or of one expert."""
        return self.ffn or 4 * self.hidden

    @property
    def matrices(self) -> int:
        """Matrices in a feed-forward layer."""
        return 3 if self.is_gated else 2

    @property
    def expert_layers(self) -> int:
        """Layers that have experts."""
        return self.layers - self.dense_layers if self.experts else 0


def parameters(model: Model) -> int:
    """All numbers of the model."""
    return _around(model) + _layers(model, model.experts)


def active_parameters(model: Model) -> int:
    """Those that one token meets: all but the experts that it is not sent to."""
    return _around(model) + _layers(model, model.active_experts)


def layer_matrices(model: Model) -> int:
    """Active matrix elements of all layers together."""
    each = attention_matrices(model) * model.layers
    plain = model.layers - model.expert_layers
    experts = model.active_experts + model.shared_experts
    routed = experts * expert_matrices(model) + router_matrix(model)
    return each + plain * dense_matrices(model) + model.expert_layers * routed


def attended(model: Model, context: float) -> float:
    """Tokens that a layer attends to, on average over the layers, ``context`` tokens in."""
    if not model.window_layers or context <= model.window:
        return context
    whole = model.layers - model.window_layers
    return (whole * context + model.window_layers * model.window) / model.layers


def output_matrix(model: Model) -> int:
    """From the last layer to the vocabulary; also the size of the input embedding."""
    return model.vocabulary * model.hidden


def attention_matrices(model: Model) -> int:
    """Elements of the projections of one attention layer."""
    h, a, d = model.hidden, model.heads, model.head
    if not model.kv_rank:
        return h * d * (2 * a + 2 * model.kv)
    queries = a * (d + model.rope_size)
    down = h * (model.kv_rank + model.rope_size) + h * model.query_rank
    up = model.kv_rank * a * 2 * d + (model.query_rank or h) * queries
    return down + up + a * d * h


def dense_matrices(model: Model) -> int:
    """Elements of one feed-forward layer without experts."""
    return model.matrices * model.hidden * (model.dense_ffn or model.width)


def expert_matrices(model: Model) -> int:
    """Elements of one expert."""
    return model.matrices * model.hidden * model.width


def router_matrix(model: Model) -> int:
    """Elements of what sends a token to its experts."""
    return model.hidden * model.experts


def vectors(model: Model) -> int:
    """Numbers of one layer that are in no matrix: two norms and, where there are any, biases."""
    h = model.hidden
    if not model.has_biases:
        return 2 * h
    projections = model.head * (model.heads + 2 * model.kv) + h
    return 4 * h + projections + (model.matrices - 1) * model.width + h


def outer_embeddings(model: Model) -> int:
    """Elements of the embeddings and of learned positions."""
    copies = 1 if model.is_tied else 2
    return copies * output_matrix(model) + model.positions * model.hidden


def check(model: Model) -> Model:
    """The same model, or a refusal that says which figures contradict each other."""
    if model.hidden % model.heads and not model.head_size:
        raise SpecError(
            f"model `{model.key}`: hidden {model.hidden:,} is not a multiple of its"
            f" {model.heads} heads",
            hint="give the size of a head (`--head-size`), or another number of heads",
        )
    if model.heads % model.kv:
        raise SpecError(
            f"model `{model.key}`: {model.heads} heads do not divide over {model.kv} key-value"
            " heads",
            hint="the number of key-value heads divides the number of heads",
        )
    _check_layers(model)
    return model


def _check_layers(model: Model) -> None:
    if bool(model.experts) != bool(model.active_experts) or model.active_experts > model.experts:
        raise SpecError(
            f"model `{model.key}`: {model.active_experts} active of {model.experts} experts",
            hint="a model with experts has at least one active, and not more than there are",
        )
    if model.window_layers > model.layers or bool(model.window) != bool(model.window_layers):
        raise SpecError(
            f"model `{model.key}`: a window of {model.window:,} tokens in {model.window_layers} of"
            f" {model.layers} layers",
            hint="give both `window` and `window_layers`, or neither",
        )
    if model.dense_layers > model.layers:
        raise SpecError(
            f"model `{model.key}`: {model.dense_layers} dense layers of {model.layers}",
            hint="dense layers are some of the layers",
        )


def _around(model: Model) -> int:
    """Embeddings, positions and the last norm."""
    norm = model.hidden * (2 if model.has_biases else 1)
    return outer_embeddings(model) + norm


def _layers(model: Model, experts: int) -> int:
    """All layers, with so many experts in each that has some."""
    each = attention_matrices(model) + vectors(model)
    plain = (model.layers - model.expert_layers) * dense_matrices(model)
    routed = (experts + model.shared_experts) * expert_matrices(model) + router_matrix(model)
    return model.layers * each + plain + model.expert_layers * routed
