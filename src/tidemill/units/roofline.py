"""Roofline: which ceiling binds, how long it takes, and what a higher ceiling would change.

A piece of work needs operations, bytes to and from memory, and bytes over the link; it takes as
long as the slowest of the three (Williams, Waterman and Patterson 2009). Pieces follow each other,
so their times add up: a model of several pieces is bound by the ceiling under which it spends most
of its time, and twice that ceiling gives less than twice the speed. Ceilings are peaks: a time is
the least possible, not a forecast.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from tidemill.units.catalogue.rows import Part
from tidemill.units.precision import rate


class Ceiling(StrEnum):
    """What a unit can run out of."""

    COMPUTE = "compute"
    MEMORY = "memory bandwidth"
    LINK = "link"


class Ceilings(NamedTuple):
    """Of one unit: operations, bytes of memory, bytes over the link (one way), a second."""

    flops_per_s: float
    bytes_per_s: float
    link_bytes_per_s: float | None = None
    """None: unknown; work that uses the link cannot be timed."""

    def raised(self, ceiling: Ceiling, factor: float) -> "Ceilings":
        """With one of them so many times as high."""
        match ceiling:
            case Ceiling.COMPUTE:
                return self._replace(flops_per_s=self.flops_per_s * factor)
            case Ceiling.MEMORY:
                return self._replace(bytes_per_s=self.bytes_per_s * factor)
            case Ceiling.LINK:
                link = self.link_bytes_per_s
                return self._replace(link_bytes_per_s=None if link is None else link * factor)


class WorkPiece(NamedTuple):
    """One part of the work on one unit."""

    name: str
    flops: float
    moved: float
    """Bytes to and from memory."""
    sent: float = 0.0
    """Bytes over the link."""

    @property
    def intensity(self) -> float | None:
        """Operations a byte of memory; None for what only uses the link."""
        return self.flops / self.moved if self.moved else None


class Timed(NamedTuple):
    """How long a piece needs under each ceiling."""

    piece: WorkPiece
    compute_s: float
    memory_s: float
    link_s: float

    @property
    def seconds(self) -> float:
        """The slowest of the three."""
        return max(self.compute_s, self.memory_s, self.link_s)

    @property
    def binds(self) -> Ceiling:
        """The ceiling that it meets; among equals the first."""
        found = (
            (self.compute_s, Ceiling.COMPUTE),
            (self.memory_s, Ceiling.MEMORY),
            (self.link_s, Ceiling.LINK),
        )
        return next(ceiling for needs, ceiling in found if needs == self.seconds)


class WhatIf(NamedTuple):
    """A change, and how many times the speed it gives."""

    change: str
    factor: float


Work = tuple[WorkPiece, ...]


def ceilings(
    part: Part, precision: str, compute_share: float = 1.0, memory_share: float = 1.0
) -> Ceilings:
    """Of a part: its dense peak and its bandwidths, or the shares of them that were measured."""
    link = part.link_gb_s
    return Ceilings(
        rate(part, precision) * compute_share,
        part.memory_tb_s * 1e12 * memory_share,
        None if link is None else link * 1e9,
    )


def timed(work: Iterable[WorkPiece], under: Ceilings) -> tuple[Timed, ...]:
    """Each piece, under these ceilings."""
    link = under.link_bytes_per_s
    return tuple(
        Timed(
            piece,
            piece.flops / under.flops_per_s,
            piece.moved / under.bytes_per_s,
            piece.sent / link if link else 0.0,
        )
        for piece in work
    )


def seconds(work: Iterable[WorkPiece], under: Ceilings) -> float:
    """The pieces one after the other."""
    return sum(one.seconds for one in timed(work, under))


def attainable(work: Iterable[WorkPiece], under: Ceilings) -> float:
    """The FLOP/s that memory bandwidth allows at each piece's intensity, over the peak.

    Links are left out: waiting for them is a loss of its own. 1: compute binds everywhere.
    """
    each = timed(work, under)
    at_roof_s = sum(max(one.compute_s, one.memory_s) for one in each)
    return sum(one.compute_s for one in each) / at_roof_s


def shares(work: Iterable[WorkPiece], under: Ceilings) -> dict[Ceiling, float]:
    """The share of the time that is spent under each ceiling."""
    found = dict.fromkeys(Ceiling, 0.0)
    for one in timed(work, under):
        found[one.binds] += one.seconds
    total = sum(found.values())
    return {ceiling: spent / total for ceiling, spent in found.items()}


def binds(work: Iterable[WorkPiece], under: Ceilings) -> Ceiling:
    """The ceiling under which most of the time is spent."""
    found = shares(work, under)
    return max(Ceiling, key=lambda ceiling: found[ceiling])


def ridge(under: Ceilings) -> float:
    """Operations a byte at which arithmetic and memory take equally long."""
    return under.flops_per_s / under.bytes_per_s


def ridge_tokens(under: Ceilings, weight_bytes: float) -> float:
    """Tokens at once at which reading the weights takes as long as multiplying with them."""
    return ridge(under) * weight_bytes / 2


def elasticities(work: Work, under: Ceilings) -> tuple[WhatIf, ...]:
    """What twice of each ceiling would give."""
    now = seconds(work, under)
    known = [c for c in Ceiling if c != Ceiling.LINK or any(piece.sent for piece in work)]
    return tuple(
        WhatIf(f"twice the {_RATES[c]}", now / seconds(work, under.raised(c, 2))) for c in known
    )


def ridge_batch(work_of: Callable[[int], Work], under: Ceilings, most: int = 1 << 20) -> int | None:
    """The smallest batch that spends more time under compute than under any other ceiling.

    None when no batch up to ``most`` does: what grows with the batch is itself bound by memory.
    """
    if binds(work_of(most), under) != Ceiling.COMPUTE:
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if binds(work_of(middle), under) == Ceiling.COMPUTE:
            high = middle
        else:
            low = middle + 1
    return low


_RATES = {
    Ceiling.COMPUTE: "FLOP/s",
    Ceiling.MEMORY: "memory bandwidth",
    Ceiling.LINK: "link bandwidth",
}
