"""Precisions: how many bytes a number has, and how fast a part multiplies such numbers.

Formats of less than a byte carry a scale for every block of numbers, which is counted: an 8-bit
one for 16 numbers (NVFP4), a 16-bit one for 128 (4-bit integers as AWQ and GPTQ store them).
"""

from tidemill.model.errors import SpecError
from tidemill.units.catalogue.rows import Part

BYTES: dict[str, float] = {
    "fp32": 4,
    "tf32": 4,
    "bf16": 2,
    "fp16": 2,
    "fp8": 1,
    "int8": 1,
    "fp4": 0.5 + 1 / 16,
    "int4": 0.5 + 2 / 128,
}


def size(name: str) -> float:
    """Bytes of one number."""
    if name in BYTES:
        return BYTES[name]
    raise SpecError(
        f"no precision called `{name[:50]}`", hint=f"there are {', '.join(map(repr, BYTES))}"
    )


def rates(part: Part) -> dict[str, float]:
    """Dense operations a second of a part, by precision; only what it has."""
    printed = {
        "fp32": part.fp32_tflops,
        "tf32": part.tf32_tflops,
        "bf16": part.bf16_tflops,
        "fp16": part.bf16_tflops,  # no part of the catalogue has two rates for these
        "fp8": part.fp8_tflops,
        "int8": part.int8_tops,
        "fp4": part.fp4_tflops,
    }
    return {name: rate * 1e12 for name, rate in printed.items() if rate is not None}


def rate(part: Part, name: str) -> float:
    """Dense operations a second at this precision, or a refusal that names those it has."""
    size(name)
    known = rates(part)
    if name in known:
        return known[name]
    if name == "int4":
        raise SpecError(
            "4-bit integers are stored, not multiplied: kernels widen them first",
            hint="use --weights int4 beside --precision bf16",
        )
    raise SpecError(
        f"`{part.key}` has no published rate at {name}", hint=f"it has {', '.join(known)}"
    )
