"""How fast a part computes in a precision, and which precisions it has."""

from tidemill.model.errors import SpecError
from tidemill.units.catalogue.rows import Part

PRECISIONS = ("fp4", "fp8", "int8", "fp16", "bf16", "tf32", "fp32")


def rate(part: Part, precision: str, sparse: bool = False) -> float:
    """Peak rate in 10^12 operations a second; dense unless 2:4 sparse matrices are asked for."""
    dense = _dense(part, precision)
    if dense is None:
        raise SpecError(
            f"`{part.key}` has no {precision[:40]} rate in the catalogue",
            hint=f"it has {', '.join(precisions(part)) or 'none'}",
        )
    if not sparse:
        return dense
    found = _sparse(part, precision, dense)
    if found is None:
        raise SpecError(
            f"`{part.key}` has no {precision} rate for sparse matrices in the catalogue",
            hint=f"its dense {precision} rate is {dense:,g} TFLOP/s",
        )
    return found


def precisions(part: Part) -> tuple[str, ...]:
    """The precisions it has a rate for, the narrowest first."""
    return tuple(name for name in PRECISIONS if _dense(part, name) is not None)


def _dense(part: Part, precision: str) -> float | None:
    match precision:
        case "fp4":
            return part.fp4_tflops
        case "fp8":
            return part.fp8_tflops
        case "int8":
            return part.int8_tops
        case "fp16":
            return part.bf16_tflops if part.has_fp16 else None
        case "bf16":
            return part.bf16_tflops if part.has_bf16 else None
        case "tf32":
            return part.tf32_tflops
        case "fp32":
            return part.fp32_tflops
        case _:
            return None


def _sparse(part: Part, precision: str, dense: float) -> float | None:
    """Vector units do not skip zeros; FP4 gains less than twice on some parts, or nothing."""
    match precision:
        case "fp4":
            return part.fp4_sparse_tflops
        case "fp32":
            return None
        case _:
            return dense * part.sparse_factor if part.sparse_factor > 1 else None
