"""Three utilisations on one axis, and goodput as a product: the same hardware, seen honestly.

What is a share of all that was paid is printed as the sum of the ledger's printed lines, so that
one number is not two on one page.
"""

from collections.abc import Collection
from fractions import Fraction
from typing import NamedTuple

from tidemill.ledger import ratios
from tidemill.ledger.account import Account
from tidemill.ledger.buckets import ALLOCATED, OCCUPIED, Bucket, Stage
from tidemill.report import stages, words

_USEFUL = frozenset({Bucket.USEFUL})


class Mark(NamedTuple):
    """One utilisation: its place on the axis from 0 to 100 %."""

    name: str
    meaning: str
    percent: str
    at: str
    """Empty when nothing is known."""
    may_be: str
    """How wide the stretch after it is that is not yet known; empty when there is none."""
    is_misleading: bool


class Utilisations(NamedTuple):
    """The three, and which of them hides most here (none, when nothing is known)."""

    marks: tuple[Mark, ...]
    misleading: str
    because: str


class Factor(NamedTuple):
    """One factor of goodput, or their product."""

    name: str
    meaning: str
    percent: str
    sign: str


def utilisations(account: Account, *, is_busy_told: bool = True) -> Utilisations:
    """Allocation, occupancy and MFU of the accelerator-hours that were paid for."""
    most = "" if is_busy_told else "≤ "
    seen = ratios.utilisation(account)
    name, because = ratios.misleading(account) or ("", "none of the three misleads here")
    if seen.mfu is None and not name:
        because = "how well the busy accelerators worked is not known yet"
    unknown = account.of(stages.members(Stage.UNKNOWN))
    marks = (
        Mark("allocation", "a job holds it", words.percent(_printed(account, ALLOCATED)),
             _at(seen.allocation), "", name == "allocation"),
        Mark("occupancy", "it is busy", most + words.percent(_printed(account, OCCUPIED)),
             _at(seen.occupancy), "", name == "occupancy"),
        Mark(
            "MFU", "it does useful work", words.useful(_printed(account, _USEFUL), account),
            _at(seen.mfu) if seen.mfu is not None else "",
            _at(Fraction(unknown, account.paid_milli_ms)) if unknown else "", name == "MFU",
        ),
    )  # fmt: skip
    return Utilisations(marks, name, because)


def goodput(account: Account, *, is_loss_told: bool = True) -> tuple[Factor, ...]:
    """Scheduling × runtime × program = overall; at least, where some efficiency is unknown.

    ``is_loss_told``: whether it is known of all jobs what of their time was lost.
    """
    found = ratios.goodput(account)
    program = words.useful(words.points(found.program or Fraction(0)), account)
    overall = words.useful(_printed(account, _USEFUL), account)
    return (
        Factor("scheduling", "allocated of the hours paid for",
               words.percent(_printed(account, ALLOCATED)), ""),
        Factor("runtime", "progress that lasted, of what was allocated",
               words.at_most(words.points(found.runtime), not is_loss_told), "×"),
        Factor("program", "model FLOPs of that progress", program, "×"),
        Factor("overall", "useful of the hours paid for", overall, "="),
    )  # fmt: skip


def _printed(account: Account, buckets: Collection[int]) -> int:
    """The sum of these buckets' printed shares, in hundredths of a percent."""
    points = account.basis_points()
    return sum(points[bucket] for bucket in buckets)


def _at(ratio: Fraction) -> str:
    return f"{float(ratio) * 100:.3f}%"
