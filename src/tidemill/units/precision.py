"""Precisions: how many bytes a number has, and how fast a part multiplies such numbers.

Formats of less than a byte carry a scale for every block of numbers, which is counted: an 8-bit
one for 16 numbers (NVFP4), a 16-bit one for 128 (4-bit integers as AWQ and GPTQ store them).
"""

from tidemill.model.errors import SpecError
from tidemill.units.catalogue import rates
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


def rate(part: Part, name: str) -> float:
    """Dense operations a second of a part at this precision; what it lacks is refused."""
    size(name)
    return rates.rate(part, name) * 1e12
