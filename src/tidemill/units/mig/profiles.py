"""The profiles of each part that can be partitioned, with a source a row.

An instance takes neighbouring memory slices of the part's axis, from one of a few legal starts, and
some compute slices. ``1g.10gb`` is one compute slice with 10 GB; ``+me`` adds the media engines, of
which a part has one set. Names count GB as vendors do, so the same name may be another share of
another part (``1g.10gb`` is a quarter of an A100 40GB and an eighth of an 80GB one).
"""

from collections.abc import Sequence

from msgspec import Struct

from tidemill.model.measures import WHOLE_MILLI

GUIDE = "NVIDIA MIG User Guide, supported profiles (2026)"
LISTED = "nvidia-smi mig -lgipp"
SEEN_ON_H200 = f"{LISTED} and -lgip on an H200 SXM, driver 580.159.04, 2026-11-15"
ASSUMED = "inferred"
SURE = "listed"


class Profile(Struct, frozen=True):
    """One kind of instance: how much it takes, and where it may begin."""

    name: str
    compute: int
    memory: int
    """Slices of the memory axis."""
    starts: tuple[int, ...]
    most: int
    """Instances on an empty device."""
    sms: int | None = None
    """Streaming multiprocessors, where a driver's listing was seen."""
    is_media: bool = False
    source: str = GUIDE
    placement: str = SURE
    """Whether the starts were listed by a driver, or taken over from parts of the same axis."""


class Geometry(Struct, frozen=True):
    """How one part divides. ``parts`` are its keys in the catalogue."""

    key: str
    title: str
    memory: int
    """Slices of the memory axis: 8, or 4 on small parts."""
    compute: int
    profiles: tuple[Profile, ...]
    parts: tuple[str, ...] = ()

    def milli(self, profile: Profile) -> int:
        """The share of a device that an instance takes, by its memory."""
        return profile.memory * WHOLE_MILLI // self.memory

    def find(self, name: str) -> Profile | None:
        """The profile of this name, or None."""
        return next((row for row in self.profiles if row.name == name), None)


_ANY = tuple(range(7))
_EIGHT = (
    ("1g", 1, 1, _ANY, 7),
    ("1g+me", 1, 1, _ANY, 1),
    ("1g", 1, 2, (0, 2, 4, 6), 4),
    ("2g", 2, 2, (0, 2, 4), 3),
    ("3g", 3, 4, (0, 4), 2),
    ("4g", 4, 4, (0,), 1),
    ("7g", 7, 8, (0,), 1),
)
"""Compute, memory, legal starts and most instances on the eight-wide axis (A100 and later)."""


def _eight(
    gb: Sequence[int], sms: Sequence[int | None], source: str, placement: str = SURE
) -> tuple[Profile, ...]:
    """The seven profiles of an eight-wide part; ``gb`` of 1g, double 1g, 2g, 3g, 4g and 7g."""
    sizes = (gb[0], *gb)
    return tuple(
        Profile(f"{word.removesuffix('+me')}.{size}gb{'+me' * ('+me' in word)}", compute, memory,
                starts, most, count, "+me" in word, source, placement)
        for (word, compute, memory, starts, most), size, count in zip(
            _EIGHT, sizes, sms, strict=True)
    )  # fmt: skip


_A100 = (14, 14, 14, 28, 42, 56, 98)
_HOPPER = (16, 16, 26, 32, 60, 64, 132)
_UNLISTED = (None,) * 7
_FOUR = f"{GUIDE}; starts follow from 4 slices in halves and quarters"

GEOMETRIES: tuple[Geometry, ...] = (
    Geometry("a100-40", "A100 40GB", 8, 7,
             _eight((5, 10, 10, 20, 20, 40), _A100, f"{GUIDE}; {LISTED}"),
             ("a100-sxm-40", "a100-pcie-40")),
    Geometry("a100-80", "A100 80GB", 8, 7,
             _eight((10, 20, 20, 40, 40, 80), _A100, f"{GUIDE}; {LISTED}"),
             ("a100-sxm-80", "a100-pcie-80", "a800-sxm-80")),
    Geometry("a30", "A30 24GB", 4, 4, (
        Profile("1g.6gb", 1, 1, (0, 1, 2, 3), 4, 14, source=_FOUR, placement=ASSUMED),
        Profile("1g.6gb+me", 1, 1, (0, 1, 2, 3), 1, 14, True, _FOUR, ASSUMED),
        Profile("2g.12gb", 2, 2, (0, 2), 2, 28, source=_FOUR, placement=ASSUMED),
        Profile("2g.12gb+me", 2, 2, (0, 2), 1, 28, True, _FOUR, ASSUMED),
        Profile("4g.24gb", 4, 4, (0,), 1, 56, source=_FOUR, placement=ASSUMED)),
        ("a30-24",)),
    Geometry("h100-80", "H100 80GB", 8, 7,
             _eight((10, 20, 20, 40, 40, 80), _HOPPER, f"{GUIDE}; {LISTED}; SMs of the SXM part"),
             ("h100-sxm-80", "h100-pcie-80", "h800-sxm-80")),
    Geometry("h100-94", "H100 NVL 94GB", 8, 7,
             _eight((12, 24, 24, 47, 47, 94), _UNLISTED, f"{GUIDE}; {LISTED}"),
             ("h100-nvl-94",)),
    Geometry("h100-96", "H100 / GH200 / H20 96GB", 8, 7,
             _eight((12, 24, 24, 48, 48, 96), _UNLISTED, f"{GUIDE}; {LISTED}"),
             ("gh200-96", "h20-sxm-96", "h100-sxm-96")),
    Geometry("h200-141", "H200 141GB", 8, 7,
             _eight((18, 35, 35, 71, 71, 141), _HOPPER, SEEN_ON_H200),
             ("h200-sxm-141", "h200-nvl-141")),
    Geometry("b200-180", "B200 180GB", 8, 7,
             _eight((23, 45, 45, 90, 90, 180), (18, 18, *_UNLISTED[2:]), GUIDE, ASSUMED),
             ("b200-sxm-180",)),
    Geometry("gb200-186", "GB200 186GB", 8, 7,
             _eight((23, 47, 47, 93, 93, 186), _UNLISTED, GUIDE, ASSUMED),
             ("gb200-nvl72",)),
    Geometry("b300-270", "B300 270GB", 8, 7,
             _eight((34, 67, 67, 135, 135, 269), _UNLISTED, GUIDE, ASSUMED),
             ("b300-sxm-288",)),
    Geometry("gb300", "GB300", 8, 7,
             _eight((35, 70, 70, 139, 139, 278), _UNLISTED, GUIDE, ASSUMED),
             ("gb300-nvl72",)),
)  # fmt: skip
"""Every part that can be partitioned, older first."""
