"""A tenant: which share of a device it uses on three axes, and in which rhythm.

Compute is the share of the matrix rate that the device reaches, bandwidth that of its memory
bandwidth, both averaged over time with the device to itself; memory is what the tenant holds.
The rhythm says how the work comes: laws that know it tell a long kernel from many short ones.
"""

from typing import Annotated

from msgspec import Meta, Struct

from tidemill.model.errors import SpecError
from tidemill.model.measures import decimal_number
from tidemill.units.catalogue.rows import Part

Share = Annotated[float, Meta(ge=0, le=1)]
_MOST_GB = 100_000.0


class Rhythm(Struct, frozen=True, kw_only=True):
    """How the work of a tenant comes, alone on the device: one iteration after another."""

    period_ms: float
    """From one iteration to the next."""
    device_ms: float
    """Of that, on the device."""
    kernels: int
    p50_ms: float
    p99_ms: float

    @property
    def busy(self) -> float:
        """The share of the time in which it has work on the device."""
        return min(1.0, self.device_ms / self.period_ms)

    @property
    def on_device_ms(self) -> float:
        """Device time of an iteration, no longer than its period."""
        return min(self.device_ms, self.period_ms)

    @property
    def kernel_ms(self) -> float:
        """How long one of its kernels holds the device."""
        return self.on_device_ms / self.kernels


class Tenant(Struct, frozen=True, kw_only=True):
    """One workload on one device."""

    name: str
    words: str = ""
    compute: Share
    bandwidth: Share
    memory_gb: float
    rhythm: Rhythm | None = None

    @property
    def busy(self) -> float:
        """The share of the device's time that it holds: by its rhythm, else by its fullest axis."""
        if self.rhythm is not None:
            return self.rhythm.busy
        return max(self.compute, self.bandwidth)


def decoding(name: str, weights_gb: float, tokens_per_s: float, part: Part) -> Tenant:
    """A model that decodes token by token: each token reads every weight, for 2 FLOPs a weight.

    Weights take two bytes each. Rates are the part's listed ones.
    """
    if part.bf16_tflops is None:
        raise SpecError(f"the catalogue lists no bf16 rate for `{part.key}`",
                        hint="choose another part with --on")  # fmt: skip
    used = used_by_decoding(weights_gb, tokens_per_s, part)
    if used[1] > 1:
        most = most_tokens_per_s(weights_gb, part)
        raise SpecError(
            f"`{name}` would read {weights_gb * tokens_per_s / 1000:.2f} TB/s; "
            f"{part.model} has {part.memory_tb_s:g}",
            hint=f"at most {most:.0f} tokens a second, one at a time",
        )
    return Tenant(name=name, words=f"{weights_gb:g} GB of weights, {tokens_per_s:g} tokens/s",
                  compute=used[0], bandwidth=used[1], memory_gb=weights_gb)  # fmt: skip


def used_by_decoding(
    weights_gb: float, tokens_per_s: float, part: Part
) -> tuple[float, float, float]:
    """Compute, bandwidth and memory as shares of the part; may exceed 1."""
    assert part.bf16_tflops is not None
    weights = weights_gb * 1e9 / 2
    return (
        2 * weights * tokens_per_s / (part.bf16_tflops * 1e12),
        weights_gb * tokens_per_s / (part.memory_tb_s * 1000),
        weights_gb / part.memory_gb,
    )


def most_tokens_per_s(weights_gb: float, part: Part) -> float:
    """How many tokens a second one reader of these weights gets, with all the bandwidth."""
    return part.memory_tb_s * 1000 / weights_gb


def parsed(text: str, part: Part) -> Tenant:
    """A tenant as people write it: ``compute=0.2,bandwidth=0.9,memory=26`` or ``26gb@128``.

    ``26gb@128`` decodes: 26 GB of weights, 128 tokens a second.
    """
    try:
        if "@" in text:
            weights, tokens = text.lower().split("@")
            gb, rate = decimal_number(weights.strip().removesuffix("gb")), decimal_number(tokens)
            if not (0 < gb < _MOST_GB and 0 < rate < 1e9):
                raise ValueError(text)
            return decoding(text, gb, rate, part)
        pairs = dict(piece.split("=") for piece in text.split(","))
        axes = {key.strip(): decimal_number(value) for key, value in pairs.items()}
        if set(axes) != {"compute", "bandwidth", "memory"}:
            raise ValueError(text)
    except ValueError as error:
        raise SpecError(
            f"`{text[:100]}` is no tenant",
            hint="name a known one, give shares (compute=0.2,bandwidth=0.9,memory=26), or a "
            "decoding model (26gb@128: GB of weights at tokens a second)",
        ) from error
    if not (0 <= axes["compute"] <= 1 and 0 <= axes["bandwidth"] <= 1
            and 0 < axes["memory"] <= _MOST_GB):  # fmt: skip
        raise SpecError(f"`{text[:100]}`: compute and bandwidth are shares from 0 to 1, memory is "
                        "in GB", hint="compute=0.2,bandwidth=0.9,memory=26")  # fmt: skip
    return Tenant(name=text, compute=axes["compute"], bandwidth=axes["bandwidth"],
                  memory_gb=axes["memory"])  # fmt: skip
