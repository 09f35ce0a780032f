"""What is still possible on a device that carries instances: tables over all 512 states of it.

A state is a mask: bit ``i`` is memory slice ``i`` of the axis, bit 8 the media engines, of which
there is one set. The memory axis alone decides: no legal placement of instances exceeds the compute
slices (a test enumerates them). A part is known by its own name or by that of its catalogue row.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from typing import NamedTuple

from tidemill.model.errors import SpecError
from tidemill.model.measures import WHOLE_MILLI
from tidemill.units.catalogue.book import Catalogue
from tidemill.units.mig.profiles import GEOMETRIES, Geometry, Profile

MEDIA = 1 << 8
STATES = 1 << 9
_NAME = re.compile(r"(\d+)g\.(\d+)gb(\+me)?")


class GeometryTables(NamedTuple):
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
def tables(geometry: Geometry) -> GeometryTables:
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
    return GeometryTables(
        claims, best, most, tuple(_stranded(geometry, every, s) for s in range(STATES))
    )


def claim(profile: Profile, start: int) -> int:
    """The mask that an instance takes from a start."""
    return ((1 << profile.memory) - 1) << start | (MEDIA if profile.is_media else 0)


def slices(mask: int) -> int:
    """How many memory slices a mask takes."""
    return (mask & (MEDIA - 1)).bit_count()


class Left(NamedTuple):
    """What instances leave of a device, in milli: what a further one can have, and what none."""

    free: int
    stranded: int


@cache
def left_milli(geometry: Geometry, state: int) -> Left:
    """What is left of a device in a state; of an empty one all, by the milli or by the slice."""
    if not state:
        return Left(WHOLE_MILLI, 0)
    each, stranded = WHOLE_MILLI // geometry.memory, tables(geometry).stranded[state]
    return Left((geometry.memory - slices(state) - stranded) * each, stranded * each)


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


@cache
def shares(name: str) -> dict[int, tuple[str, ...]]:
    """What share of a device, in milli, a profile of this name is on which parts."""
    found: dict[int, tuple[str, ...]] = {}
    for geometry in GEOMETRIES:
        row = geometry.find(name)
        if row is not None:
            milli = geometry.milli(row)
            found[milli] = (*found.get(milli, ()), geometry.key)
    return found


def offers(kind: str, name: str, milli: int) -> bool:
    """Whether accelerators of a kind have a profile of this name and share."""
    geometry = of_kind(kind)
    row = geometry.find(name) if geometry else None
    return geometry is not None and row is not None and geometry.milli(row) == milli


def most(kind: str, name: str, milli: int) -> int:
    """How many instances of a profile an empty device of a kind hosts; 0: it has no such."""
    geometry = of_kind(kind)
    row = geometry.find(name) if geometry else None
    is_offered = geometry is not None and row is not None and geometry.milli(row) == milli
    return row.most if row is not None and is_offered else 0


def share_of(name: str, kinds: Iterable[str]) -> int:
    """The share of a device, in milli, that a profile is on these kinds; it must be one."""
    kinds = list(kinds)
    found: dict[int, str] = {}
    for kind in kinds:
        geometry = of_kind(kind)
        row = geometry.find(name) if geometry else None
        if geometry is not None and row is not None:
            found.setdefault(geometry.milli(row), kind)
    if not found:
        parts = [(kind, part) for kind in kinds if (part := of_kind(kind))]
        have = [f"`{kind}` has {', '.join(r.name for r in part.profiles)}" for kind, part in parts]
        near = [(kind, row) for kind, part in parts if (row := nearest(part, name))]
        raise SpecError(
            f"no accelerator here has a MIG profile `{name[:100]}`; "
            + ("; ".join(have) or "none of them can be partitioned"),
            hint=" or ".join(f"`{row.name}` of `{kind}` would do" for kind, row in near)
            or "ask for a fraction of an accelerator instead",
        )
    if len(found) > 1:
        shown = ", ".join(f"{milli} milli of `{kind}`" for milli, kind in found.items())
        raise SpecError(
            f"MIG profile `{name[:100]}` is {shown}", hint="say on which GPU type it is meant"
        )
    return next(iter(found))


def known(name: str) -> Geometry:
    """The geometry of a part by any of its names; a refusal says which parts there are."""
    found = next((row for row in GEOMETRIES if row.key == name.lower()), None) or of_kind(name)
    if found is not None:
        return found
    part = Catalogue().part(name)
    keys = ", ".join(f"`{row.key}`" for row in GEOMETRIES)
    raise SpecError(
        f"`{part.key}` cannot be partitioned into MIG instances",
        hint=f"GPU models that can be: {keys}",
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
