"""How a model is trained: the choices that memory depends on, beside its parallelism."""

from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from tidemill.model.errors import SpecError
from tidemill.units.flops import Recompute

_Size = Annotated[int, Meta(ge=1, le=1_000_000)]


class Optimiser(NamedTuple):
    """Bytes for each parameter: the copy that is computed with, its gradient, and what is kept."""

    weights: float
    gradients: float
    kept: float
    """Master copy and moments."""
    source: str


OPTIMISERS: dict[str, Optimiser] = {
    "adam": Optimiser(
        2, 2, 12, "mixed precision: 16-bit weights and gradients, 32-bit master copy and two "
        "moments, 16 bytes (Rajbhandari et al. 2019, arXiv 1910.02054)",
    ),
    "adam-fp32-gradients": Optimiser(
        2, 4, 12, "as adam, gradients summed up in 32 bits, as Megatron-LM does: 18 bytes",
    ),
    "adam-8bit": Optimiser(
        2, 2, 6, "moments in 8 bits, master copy in 32 (Dettmers et al. 2021, arXiv 2110.02861)",
    ),
    "adam-fp8": Optimiser(
        1, 1, 5, "8-bit weights and gradients, 16-bit master copy, moments in 8 and 16 bits "
        "(FP8-LM, Peng et al. 2023, arXiv 2310.18313)",
    ),
    "adam-bf16-moments": Optimiser(
        1, 4, 8, "8-bit weights, 32-bit gradients and master copy, moments in 16 bits "
        "(DeepSeek-V3, arXiv 2412.19437, section 3.3)",
    ),
    "sgd": Optimiser(2, 2, 8, "as adam, with one moment"),
}  # fmt: skip


def optimiser(name: str) -> Optimiser:
    """The optimiser of this name."""
    if name in OPTIMISERS:
        return OPTIMISERS[name]
    raise SpecError(
        f"no optimiser called `{name[:50]}`", hint=f"there are {', '.join(map(repr, OPTIMISERS))}"
    )


class Training(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Choices of a training run."""

    micro_batch: _Size = 1
    """Sequences that go through the layers together."""
    interleave: _Size = 1
    """Chunks of layers a pipeline stage has (virtual stages)."""
    recompute: Recompute = Recompute.SELECTIVE
    zero: Annotated[int, Meta(ge=0, le=3)] = 1
    """Divided over data-parallel ranks: 1 the optimiser, 2 also gradients, 3 also weights."""
    optimiser: str = "adam"
    is_sequence_parallel: bool = True
    """What tensor parallelism leaves whole is divided along the sequence."""
    is_fused: bool = True
    """Attention in one kernel that never stores its scores (Dao et al. 2022, arXiv 2205.14135)."""
