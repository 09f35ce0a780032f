"""Dense matrix rates per precision, on random data (zeros run faster than anything real)."""

from collections.abc import Callable

import torch

from tidemill.probe import quantiles
from tidemill.probe.card import Precision, Rate
from tidemill.probe.measure import timing

SIZE = 8192
TIMED = 20
"""Products: enough for a median, too few to run into the power limit (see ``sustained``)."""


def rate(precision: Precision, budget_s: float, size: int = SIZE) -> Rate:
    """The rate of square products of one precision."""
    product = work(precision, size)
    try:
        timed = timing.seconds(product, budget_s, TIMED)
    finally:
        torch.set_float32_matmul_precision("highest")
    return Rate(
        precision=precision,
        size=size,
        tflops=2 * size**3 / quantiles.median(timed) / 1e12,
        spread=quantiles.spread(timed),
        timed=len(timed),
    )


def work(precision: Precision, size: int) -> Callable[[], object]:
    """One product. The second matrix lies transposed, as weights do and as fp8 and int8 need."""
    match precision:
        case "fp8":
            a, b = (_random(size).to(torch.float8_e4m3fn) for _ in range(2))
            one = torch.ones((), device="cuda")
            return lambda: torch._scaled_mm(  # the one door to fp8 products
                a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16
            )
        case "int8":
            c, d = (_bytes(size) for _ in range(2))
            return lambda: torch._int_mm(c, d.t())  # as above, for int8
        case "bf16" | "fp16":
            kind = torch.bfloat16 if precision == "bf16" else torch.float16
            return _product(kind, size)
        case "tf32" | "fp32":
            # `high` lets products of float32 use tf32; the rate's own `finally` sets it back.
            torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
            return _product(torch.float32, size)


def _product(kind: torch.dtype, size: int) -> Callable[[], object]:
    a, b = (_random(size).to(kind) for _ in range(2))
    out = torch.empty(size, size, device="cuda", dtype=kind)
    return lambda: torch.mm(a, b.t(), out=out)


def _random(size: int) -> torch.Tensor:
    return torch.randn(size, size, device="cuda", dtype=torch.float32) / size**0.25


def _bytes(size: int) -> torch.Tensor:
    return torch.randint(-100, 100, (size, size), device="cuda", dtype=torch.int8)
