"""Three utilisations on one axis, and goodput as a product: the same hardware, seen honestly."""

from fractions import Fraction
from typing import NamedTuple

from tidemill.ledger import ratios
from tidemill.ledger.account import Account
from tidemill.report import words


class Mark(NamedTuple):
    """One utilisation: its place on the axis from 0 to 100 %."""

    name: str
    meaning: str
    percent: str
    at: str
    is_misleading: bool


class Utilisations(NamedTuple):
    """The three, and which of them hides most here."""

    marks: tuple[Mark, ...]
    misleading: str
    because: str


class Factor(NamedTuple):
    """One factor of goodput, or their product."""

    name: str
    meaning: str
    percent: str
    sign: str


def utilisations(account: Account) -> Utilisations:
    """Allocation, occupancy and MFU of what was paid."""
    seen = ratios.utilisation(account)
    name, _, because = seen.misleading.partition(": ")
    rows = (
        ("allocation", "a job holds it", seen.allocation),
        ("occupancy", "it is busy", seen.occupancy),
        ("MFU", "it does useful work", seen.mfu),
    )
    marks = tuple(
        Mark(title, meaning, words.share(ratio), _at(ratio), title == name)
        for title, meaning, ratio in rows
    )
    return Utilisations(marks, name, because)


def goodput(account: Account) -> tuple[Factor, ...]:
    """Scheduling × runtime × program = overall; at least, where some efficiency is unknown."""
    found = ratios.goodput(account)
    bound = f"≥{words.NBSP}" if found.is_lower_bound else ""
    return (
        Factor("scheduling", "allocated of what was paid", words.share(found.scheduling), ""),
        Factor("runtime", "progress that lasted, of what was allocated",
               words.share(found.runtime), "×"),
        Factor("program", "model FLOPs of that progress",
               bound + words.share(found.program), "×"),
        Factor("overall", "useful of what was paid", bound + words.share(found.overall), "="),
    )  # fmt: skip


def _at(ratio: Fraction) -> str:
    return f"{float(ratio) * 100:.3f}%"
