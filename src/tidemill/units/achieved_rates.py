"""Silicon: how much of its printed rates a part reaches in training, by the size of a product.

A product of an (m × k) and a (k × n) matrix runs at

    printed rate × best × SUSTAINED × d / (d + NARROW),   d = min(m, n, k)

and takes OVERHEAD more: *best* is the share that a search over sizes measured on that part (in the
catalogue), *sustained* what is left of it in a training run, at the power limit and between other
kernels, *narrow* how quickly thin matrices lose. Narrow and overhead describe an H200 measured for
this (November 2026, torch 2.11: 0.69 to 0.70 of the printed bf16 rate above 4,096 wide when hot,
0.56 at 768, 0.50 at 512). Sustained is one number an architecture, set on the rows that
``bench/steps.py`` marks as calibration: five runs on A100, four on H100; the 54 others had no say.
"""

from typing import NamedTuple

from tidemill.model.errors import SpecError
from tidemill.units import precision
from tidemill.units.catalogue.rows import Part

BEST = 0.85
"""Of the printed rate, on parts that nobody measured: between those measured (0.75 to 0.87)."""
SUSTAINED = {"Ampere": 0.85, "Hopper": 0.74}
SUSTAINED_ELSEWHERE = 0.8
"""Between the two: parts of which no training run set it."""
NARROW = 128
WIDE = 2  # bytes of a number
OVERHEAD_S = 8e-6
"""Starting a kernel, filling and draining the part."""
MEMORY = 0.85
"""Of the printed bandwidth, reached by a plain pass over memory (H200: 0.83 to 0.89 measured)."""
ATTENTION = 0.55
"""Of the printed rate, reached by fused attention forward and backward: 0.54 on the H200 measured
here (heads of 128, 8,192 tokens), 0.55 to 0.61 published for A100 (Dao 2023, arXiv 2307.08691)."""


class Silicon(NamedTuple):
    """What one part reaches."""

    peak: float
    """Printed dense operations a second at the precision used."""
    products: float
    """Operations a second of large matrix products."""
    memory: float
    """Bytes a second."""
    attention: float
    """Operations a second of fused attention."""
    printed_memory: float
    """Bytes a second as printed: the bandwidth of the roofline."""

    def product_s(self, m: float, n: float, k: float, count: float = 1) -> float:
        """A matrix product, or a batch of so many in one kernel."""
        narrow = min(m, n, k)
        rate = self.products * narrow / (narrow + NARROW)
        moved = WIDE * (m * k + k * n + m * n) / self.memory
        return count * max(2 * m * n * k / rate, moved) + OVERHEAD_S

    def pass_s(self, size: float, kernels: int = 1) -> float:
        """Kernels that only read and write so many bytes."""
        return size / self.memory + kernels * OVERHEAD_S


def of(part: Part, name: str = "bf16") -> Silicon:
    """What a part reaches at a precision."""
    if not part.bf16_tflops:
        raise SpecError(
            f"`{part.key}` has no published bf16 rate",
            hint="give it one in a catalogue file of your own",
        )
    peak = precision.rate(part, name)
    lasting = SUSTAINED.get(part.arch, SUSTAINED_ELSEWHERE)
    best = (part.reached_bf16_tflops or BEST * part.bf16_tflops) / part.bf16_tflops
    return Silicon(
        peak,
        peak * best * lasting,
        part.memory_tb_s * 1e12 * MEMORY,
        part.bf16_tflops * 1e12 * ATTENTION * lasting,
        part.memory_tb_s * 1e12,
    )
