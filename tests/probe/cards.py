"""Cards for tests: one builder, a keyword for each thing a test may want to say."""

from tidemill.probe.card import Bandwidth, Card, Precision, Rate, Unit


def card(
    *,
    name: str = "NVIDIA H200",
    power_limit_w: float = 700,
    hbm_gb_s: float | None = None,
    **rates: float,
) -> Card:
    """A card with these rates."""
    found: list[Rate] = []
    names: tuple[Precision, ...] = ("fp8", "int8", "bf16", "fp16", "tf32", "fp32")
    for precision in names:
        if precision in rates:
            tflops = rates[precision]
            found.append(Rate(precision=precision, size=8192, tflops=tflops, spread=0.01, timed=20))
    unit = Unit(name=name, memory_bytes=150_000_000_000, processors=132,
                power_limit_w=power_limit_w)  # fmt: skip
    bands = () if hbm_gb_s is None else (Bandwidth(what="hbm-copy", gb_s=hbm_gb_s, timed=20),)
    return Card(version=1, made="2026-11-15T00:00:00Z", unit=unit, took_s=1.0,
                rates=tuple(found), bandwidths=bands)  # fmt: skip
