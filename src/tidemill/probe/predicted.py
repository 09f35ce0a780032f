"""Predicted beside measured: the laws of sharing against the pairs of a card.

The tenants are taken from the card itself, alone on the unit; so what is compared is what the laws
add. Pairs that the constants were chosen on are marked; all others are held out.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidemill.probe.card import Card
from tidemill.units.sharing import calibration, known, laws
from tidemill.units.sharing.laws import Mode
from tidemill.units.sharing.tenants import Tenant


class ComparedTenant(NamedTuple):
    """One tenant of one pair."""

    mode: str
    tenant: str
    beside: str
    keeps: float
    predicted_keeps: float
    p99_ms: float | None
    predicted_p99_ms: float | None
    is_held_out: bool

    @property
    def error(self) -> float:
        """Of the share kept, relative to what was measured."""
        return self.predicted_keeps / self.keeps - 1

    @property
    def p99_error(self) -> float | None:
        """Of the p99, likewise."""
        if self.p99_ms is None or self.predicted_p99_ms is None:
            return None
        return self.predicted_p99_ms / self.p99_ms - 1


class Errors(NamedTuple):
    """How far off some predictions are, without their signs."""

    rows: int
    mean: float
    worst: float
    p99_mean: float
    p99_worst: float


def compared(card: Card) -> list[ComparedTenant]:
    """Each tenant of each pair of a card that did anything, with what the laws say of it."""
    tenants = tenants_of(card)
    alone = {tenant.kind: tenant.per_s for tenant in card.tenants}
    rows: list[ComparedTenant] = []
    for pair in card.pairs:
        kinds = (pair.a.kind, pair.b.kind)
        found = laws.estimate([tenants[kind] for kind in kinds], Mode(pair.mode))
        is_held_out = tuple(kinds) not in calibration.CALIBRATED_ON[pair.mode]
        for run, estimate, beside in zip((pair.a, pair.b), found, kinds[::-1], strict=True):
            if run.per_s:
                rows.append(ComparedTenant(pair.mode, run.kind, beside, run.per_s / alone[run.kind],
                                     estimate.keeps, run.p99_ms, estimate.p99_ms,
                                     is_held_out))  # fmt: skip
    return rows


def errors(rows: Sequence[ComparedTenant]) -> Errors:
    """The mean and the worst error of some rows."""
    speed = [abs(row.error) for row in rows]
    late = [abs(row.p99_error) for row in rows if row.p99_error is not None]
    return Errors(len(rows), sum(speed) / len(speed), max(speed), sum(late) / len(late), max(late))


def tenants_of(card: Card) -> dict[str, Tenant]:
    """The tenants of a card, with shares of what its unit reached."""
    rate, band = card.rate("bf16"), card.gb_s("hbm-copy")
    return {
        t.kind: known.tenant(
            t.kind, t.words, t.period_us, t.device_us, t.kernels, t.flops, t.bytes, t.memory_bytes,
            t.p50_ms, t.p99_ms, rate or known.REACHED_TFLOPS, band or known.REACHED_GB_S,
        )
        for t in card.tenants
    }  # fmt: skip
