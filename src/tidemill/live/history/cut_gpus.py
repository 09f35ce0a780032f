"""GPUs that somebody has cut: how many are behind their parts, and how much of one each part is.

All of a cut GPU is in its parts: nobody can have what they leave. So seven `1g.10gb` of an H100
are a seventh of it each, though each has an eighth of its memory. Parts of several sizes are
shares by memory of the GPUs that they are cut from together.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

from tidemill.model.measures import WHOLE_MILLI
from tidemill.units.mig import geometry as mig

Part = TypeVar("Part")


def instance_milli(gpu_type: str, profile: str) -> int:
    """The share of the memory of a device that a MIG instance has; 0: nobody knows."""
    geometry = mig.of_kind(gpu_type) if gpu_type else None
    row = geometry.find(profile) if geometry else None
    return geometry.milli(row) if geometry and row else 0


def fewest(gpu_type: str, numbers: Mapping[str, int]) -> int:
    """The fewest devices of a type that hold so many instances of each profile."""
    milli = sum(count * instance_milli(gpu_type, profile) for profile, count in numbers.items())
    each = [Fraction(milli, WHOLE_MILLI)]
    for profile, count in numbers.items():
        most = mig.most(gpu_type, profile, instance_milli(gpu_type, profile))
        each.append(Fraction(count, max(1, most)))
    return max(-(-one.numerator // one.denominator) for one in each)


def behind(sizes: Mapping[Part, Fraction], devices: Fraction) -> dict[Part, Fraction]:
    """How much of so many devices each sort of parts is, by what they are together in size."""
    total = sum(sizes.values())
    return {part: size * devices / total for part, size in sizes.items()} if total else {**sizes}


def type_of(gpu_type: str, profile: str) -> str:
    """What the books call a device, or an instance of one."""
    return f"{profile} of {gpu_type}" if profile else gpu_type
