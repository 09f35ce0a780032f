"""Room on the page: how many jobs of each size would fit, and what the mix could have used."""

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from tidemill.ledger import printed
from tidemill.ledger.account import DENOMINATOR, rounded
from tidemill.ledger.free import free, total
from tidemill.ledger.statement import Statement
from tidemill.model.measures import count_text, dollars_text
from tidemill.report import words

if TYPE_CHECKING:
    from tidemill.scheduling.schedulability import Fits, FreeLot

MOST_LOTS, MOST_SIZES = 6, 10


class Over(NamedTuple):
    """The whole window: free hours, and the parts that arrivals could and could not have used."""

    hours: str
    usable: str
    unusable: str
    unusable_usd: str


class RoomSize(NamedTuple):
    """One size; the widths are of what is free."""

    name: str
    arrivals: str
    now: str
    together: str
    now_width: str
    more_width: str
    """What would be won if it lay together."""


class Shown(NamedTuple):
    """One kind, in one pool or in all."""

    key: str
    kind: str
    pool: str
    free: str
    nodes: str
    usable: str
    together: str
    sizes: tuple[RoomSize, ...]


class RoomSection(NamedTuple):
    """The section."""

    over: Over | None
    lots: tuple[Shown, ...]
    more: int
    """Lots that are not shown."""


def room(statement: Statement, lots: "tuple[FreeLot, ...]") -> RoomSection:
    """What was free in the window, and what would fit at its end."""
    shown = [lot for lot in lots if lot.free_milli]
    return RoomSection(
        _over(statement), tuple(_lot(i, lot) for i, lot in enumerate(shown[:MOST_LOTS])),
        max(0, len(shown) - MOST_LOTS),
    )  # fmt: skip


def _over(statement: Statement) -> Over | None:
    rows = free(statement)
    if rows is None or not (whole := total(rows)).free_milli_ms:
        return None
    return Over(
        printed.hours_text(whole.free_milli_ms),
        words.share(Fraction(whole.usable_milli_ms, whole.free_milli_ms)),
        words.share(Fraction(whole.unusable_milli_ms, whole.free_milli_ms)),
        dollars_text(rounded(whole.unusable_money, DENOMINATOR))
        if whole.is_priced
        else "price unknown",
    )


def _lot(i: int, lot: "FreeLot") -> Shown:
    asked = [fits for fits in lot.sizes if fits.arrivals or fits.replicas == 1][:MOST_SIZES]
    return Shown(
        f"room-{i}", lot.kind, lot.pool, words.accelerators(lot.free_milli),
        count_text(lot.nodes, "node"), _share(lot.usable_milli, lot.free_milli),
        _share(lot.consolidated_milli, lot.free_milli),
        tuple(_size(fits, lot.free_milli) for fits in asked),
    )  # fmt: skip


def _size(fits: "Fits", free_milli: int) -> RoomSize:
    milli = fits.accelerators * fits.milli
    name = words.accelerators(milli)
    now, more = fits.now, fits.consolidated - fits.now
    job_milli = milli * fits.replicas
    return RoomSize(
        name if fits.replicas == 1 else f"{fits.replicas:,}×{name}", f"{fits.arrivals:,}",
        f"{now:,}", f"{fits.consolidated:,}", _width(now * job_milli, free_milli),
        _width(more * job_milli, free_milli),
    )  # fmt: skip


def _share(milli: int | None, free_milli: int) -> str:
    """A part of what is free; empty where nobody has asked for the kind."""
    return "" if milli is None else words.share(Fraction(milli, free_milli))


def _width(milli: int, free_milli: int) -> str:
    return f"{100 * milli / free_milli:.4f}%"
