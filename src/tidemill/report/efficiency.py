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
from tidemill.ledger.unknowns import is_work_seen
from tidemill.report import stages, words

_WHOLE = words.WHOLE_POINTS
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
    seen = ratios.utilisation(account)
    name, because = ratios.misleading(account) or ("", "none of the three misleads here")
    if seen.mfu is None and not name:
        because = "how well the busy accelerators worked is not known yet"
        if not is_work_seen(account):
            because = "nobody saw enough of what was done to say"
    unknown = account.of((*stages.members(Stage.UNKNOWN), Bucket.NOT_OBSERVED))
    is_seen, unseen = seen.not_observed < 1, _stretch(seen.not_observed)
    busy = (_bounds(account, OCCUPIED), _at(seen.occupancy) if is_seen else "", unseen)
    if not is_busy_told:
        most = _printed(account, {*OCCUPIED, Bucket.NOT_OBSERVED})
        busy = (f"≤ {words.percent(most)}", _at(seen.occupancy_most), "")
    marks = (
        Mark("allocation", "a job holds it", _bounds(account, ALLOCATED),
             _at(seen.allocation) if is_seen else "", unseen, name == "allocation"),
        Mark("occupancy", "it is busy", *busy, name == "occupancy"),
        Mark(
            "MFU", "it does useful work", words.useful(_printed(account, _USEFUL), account),
            _at(seen.mfu) if seen.mfu is not None else "",
            _stretch(Fraction(unknown, account.paid_milli_ms)), name == "MFU",
        ),
    )  # fmt: skip
    return Utilisations(marks, name, because)


def goodput(account: Account, *, is_loss_told: bool = True) -> tuple[Factor, ...]:
    """Scheduling × runtime × program = overall; at least, where some efficiency is unknown.

    ``is_loss_told``: whether it is known of all jobs what of their time was lost.
    """
    found = ratios.goodput(account)
    program = words.useful_part(found.program, found)
    seen = " seen to be" * (found.not_observed > 0)
    runtime = words.UNKNOWN
    if found.runtime is not None:
        runtime = words.at_most(words.points(found.runtime), not is_loss_told)
    overall = words.useful(_printed(account, _USEFUL), account)
    return (
        Factor("scheduling", "allocated of the hours paid for",
               _bounds(account, ALLOCATED), ""),
        Factor("runtime", f"progress that lasted, of what was{seen} allocated",
               runtime, "×"),
        Factor("program", "model FLOPs of that progress", program, "×"),
        Factor("overall", "useful of the hours paid for", overall, "="),
    )  # fmt: skip


def _printed(account: Account, buckets: Collection[int]) -> int:
    """The sum of these buckets' printed shares, in hundredths of a percent."""
    points = account.basis_points()
    return sum(points[bucket] for bucket in buckets)


def _bounds(account: Account, buckets: Collection[int]) -> str:
    """The share of these buckets: two bounds of it where some time was not observed."""
    least = _printed(account, buckets)
    most = least + account.basis_points()[Bucket.NOT_OBSERVED]
    return ratios.between(Fraction(least, _WHOLE), Fraction(most, _WHOLE), words.share)


def _stretch(ratio: Fraction) -> str:
    return _at(ratio) if ratio else ""


def _at(ratio: Fraction) -> str:
    return f"{float(ratio) * 100:.3f}%"
