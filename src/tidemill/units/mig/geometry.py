"""What is still possible on a device that carries instances: tables over all 512 states of it.

A state is a mask: bit ``i`` is memory slice ``i`` of the axis, bit 8 the media engines, of which
there is one set. The memory axis alone decides: no legal placement of instances exceeds the compute
slices (a test enumerates them). A part is known by its own name or by that of its catalogue row.
"""

import re
from difflib import get_close_matches
from functools import cache
from typing import NamedTuple

from tidemill.model.errors import SpecError
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.mig.profiles import GEOMETRIES, Geometry, Profile

MEDIA = 1 << 8
STATES = 1 << 9
_NAME = re.compile(r"(\d+)g\.(\d+)gb(\+me)?")


class Tables(NamedTuple):
    """What a geometry allows in each state of a device; profiles by their place in its list."""

    claims: tuple[tuple[int, ...], ...]
    """For each profile: the mask that it takes from each legal start."""
    best: tuple[tuple[int, ...], ...]
    """Profile by state: the mask to take, which leaves most placements after it; 0: none."""
    most: tuple[tuple[int, ...], ...]
    """Profile by state: how many instances of it alone still fit."""
    stranded: tuple[int, ...]
    """By state: free memory slices that no profile can use any more."""


@cache
def tables(geometry: Geometry) -> Tables:
    """The tables of a geometry; made once."""
    claims = tuple(
        tuple(claim(profile, start) for start in profile.starts) for profile in geometry.profiles
    )
    every = [mask for of_one in claims for mask in of_one]
    futures = [sum(not mask & state for mask in every) for state in range(STATES)]
    best = tuple(
        tuple(_best(of_one, state, futures) for state in range(STATES)) for of_one in claims
    )
    most = tuple(_most(of_one) for of_one in claims)
    return Tables(claims, best, most, tuple(_stranded(geometry, every, s) for s in range(STATES)))


def claim(profile: Profile, start: int) -> int:
    """The mask that an instance takes from a start."""
    return ((1 << profile.memory) - 1) << start | (MEDIA if profile.is_media else 0)


def slices(mask: int) -> int:
    """How many memory slices a mask takes."""
    return (mask & (MEDIA - 1)).bit_count()


@cache
def of_kind(kind: str) -> Geometry | None:
    """How accelerators of a kind divide (``H100``, ``NVIDIA-A100-SXM4-80GB``); None: not at all.

    A kind that says nothing of its memory is the smallest of its name.
    """
    part = Catalogue().find(kind)
    for geometry in GEOMETRIES:
        if part is not None and part.key in geometry.parts:
            return geometry
    words = set(re.split(r"[-_ ./]+", kind.lower().replace("gb", "")))
    found = [row for row in GEOMETRIES if set(row.key.split("-")) <= words]
    return found[0] if found else None


def known(name: str) -> Geometry:
    """The geometry of a part by any of its names; a refusal says which parts there are."""
    found = next((row for row in GEOMETRIES if row.key == name.lower()), None) or of_kind(name)
    if found is not None:
        return found
    part = Catalogue().part(name)
    keys = ", ".join(f"`{row.key}`" for row in GEOMETRIES)
    raise SpecError(
        f"`{part.key}` cannot be partitioned into MIG instances", hint=f"parts that can be: {keys}"
    )


def profile(geometry: Geometry, name: str) -> Profile:
    """A profile of a part; a refusal says which ones it has and which is nearest."""
    found = geometry.find(name.strip().lower())
    if found is not None:
        return found
    have = ", ".join(f"`{row.name}`" for row in geometry.profiles)
    near = nearest(geometry, name)
    raise SpecError(
        f"`{geometry.key}` has no MIG profile `{name[:100]}`; it has {have}",
        hint=f"the nearest that would do is `{near.name}`" if near else "ask for one of those",
    )


def nearest(geometry: Geometry, name: str) -> Profile | None:
    """The smallest profile with at least the compute and memory that a name speaks of."""
    read = _NAME.fullmatch(name.strip().lower())
    if read is None:
        names = [row.name for row in geometry.profiles]
        return next((geometry.find(n) for n in get_close_matches(name.lower(), names, 1)), None)
    wanted = (int(read[1]), int(read[2]), read[3] is not None)
    able = [row for row in geometry.profiles if _does(row, *wanted)]
    return min(able, key=lambda row: (row.memory, row.compute, row.is_media), default=None)


def gigabytes(row: Profile) -> int:
    """The memory in a profile's name."""
    read = _NAME.fullmatch(row.name)
    assert read is not None, f"{row.name} is not a profile's name"
    return int(read[2])


def _does(row: Profile, compute: int, gb: int, is_media: bool) -> bool:
    return row.compute >= compute and gigabytes(row) >= gb and (row.is_media or not is_media)


def _best(claims: tuple[int, ...], state: int, futures: list[int]) -> int:
    """Of the legal masks the one that leaves most placements; the first start among equals."""
    free = [mask for mask in claims if not mask & state]
    return max(free, key=lambda mask: (futures[state | mask], -mask), default=0)


def _most(claims: tuple[int, ...]) -> tuple[int, ...]:
    """How many instances of one profile fit in each state, from the fullest state down."""
    found = [0] * STATES
    for state in range(STATES - 1, -1, -1):
        found[state] = max((1 + found[state | m] for m in claims if not m & state), default=0)
    return tuple(found)


def _stranded(geometry: Geometry, every: list[int], state: int) -> int:
    usable = 0
    for mask in every:
        if not mask & state:
            usable |= mask
    return geometry.memory - slices((state | usable) & ((1 << geometry.memory) - 1))
