"""Layouts: which instances a device carries, and where. All legal ones, and their patterns.

A layout is a tuple of (profile, start), by start.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from tidemill.units.mig import geometry as axis
from tidemill.units.mig.profiles import Geometry, Profile


class Instance(NamedTuple):
    """One instance of a layout."""

    profile: str
    start: int


Layout = tuple[Instance, ...]
Pattern = tuple[int, ...]
"""How many instances of each profile, by their place in the geometry's list."""


class Waste(NamedTuple):
    """What a layout leaves that nobody can have: slices of memory, and of compute."""

    memory: int
    compute: int
    free_memory: int
    """Slices that a further instance can still take."""


def legal(geometry: Geometry, names: Iterable[str] | None = None) -> Iterator[Layout]:
    """Every legal layout, the empty one too; of these profiles only, where they are named."""
    rows = _rows(geometry, names)
    yield from _extend((), 0, 0, rows)


def mask_of(geometry: Geometry, layout: Layout) -> int:
    """The slices that a layout takes."""
    mask = 0
    for name, start in layout:
        row = geometry.find(name)
        assert row is not None, f"{name} is no profile of {geometry.key}"
        mask |= axis.claim(row, start)
    return mask


def compute_of(geometry: Geometry, layout: Layout) -> int:
    """The compute slices that a layout takes."""
    return sum(row.compute for name, _ in layout if (row := geometry.find(name)))


def waste(geometry: Geometry, layout: Layout) -> Waste:
    """What of a device is lost under a layout, and what is still to be had.

    Compute is stranded when what is left of it exceeds what the free memory could still go with.
    """
    state = mask_of(geometry, layout)
    lost = axis.tables(geometry).stranded[state]
    free = geometry.memory - axis.slices(state) - lost
    left = geometry.compute - compute_of(geometry, layout)
    return Waste(lost, left - min(left, _most_compute(geometry, state)), free)


def pattern(geometry: Geometry, layout: Layout) -> Pattern:
    """How many instances of each profile a layout has."""
    names = [instance.profile for instance in layout]
    return tuple(names.count(row.name) for row in geometry.profiles)


@cache
def patterns(geometry: Geometry) -> dict[Pattern, Layout]:
    """Every combination of instances that fits on one device, with the layout that wastes least.

    Among equals the one that leaves most placements, then the first in order.
    """
    found: dict[Pattern, tuple[tuple[int, int, Layout], Layout]] = {}
    made = axis.tables(geometry)
    every = [mask for claims in made.claims for mask in claims]
    for layout in legal(geometry):
        state = mask_of(geometry, layout)
        futures = sum(not mask & state for mask in every)
        rank = (made.stranded[state], -futures, layout)
        key = pattern(geometry, layout)
        if key not in found or rank < found[key][0]:
            found[key] = (rank, layout)
    return {key: layout for key, (_, layout) in sorted(found.items())}


def _rows(geometry: Geometry, names: Iterable[str] | None) -> list[Profile]:
    if names is None:
        return list(geometry.profiles)
    return [axis.profile(geometry, name) for name in names]


def _extend(layout: Layout, state: int, start: int, rows: list[Profile]) -> Iterator[Layout]:
    """The layout, and every one that adds instances from ``start`` on."""
    yield layout
    ends = [(at, row) for row in rows for at in row.starts if at >= start]
    for at, row in sorted(ends, key=lambda end: end[0]):
        mask = axis.claim(row, at)
        if not mask & state:
            yield from _extend((*layout, Instance(row.name, at)), state | mask, at + 1, rows)


@cache
def _most_compute(geometry: Geometry, state: int) -> int:
    """The most compute slices that further instances could take in a state."""
    claims = axis.tables(geometry).claims
    return max(
        (
            row.compute + _most_compute(geometry, state | mask)
            for row, of_one in zip(geometry.profiles, claims, strict=True)
            for mask in of_one
            if not mask & state
        ),
        default=0,
    )
