"""What could not be read: where, what was found, what to do. The rest is kept.

The list is bounded: of a file that is wrong in every line the first refusals say enough, and all
are counted.
"""

from collections import Counter

from msgspec import Struct

MOST_KEPT = 1000


class SlurmRefusal(Struct, frozen=True):
    """One line or record that was left out."""

    unit: str
    """`line` of a text, `record` of JSON or of scontrol's blocks."""
    number: int
    """The first is 1; the header counts."""
    found: str
    hint: str = ""

    def words(self) -> str:
        """As a person reads it."""
        return f"{self.unit} {self.number}: {self.found}" + (
            f"; hint: {self.hint}" if self.hint else ""
        )


class Refusals:
    """All refusals of one reading: the first ``MOST_KEPT``, and how many of each sort."""

    def __init__(self) -> None:
        self.kept: list[SlurmRefusal] = []
        self.total = 0
        self.by_hint: Counter[str] = Counter()

    def add(self, unit: str, number: int, found: str, hint: str = "") -> None:
        """Note one more."""
        self.total += 1
        self.by_hint[hint] += 1
        if len(self.kept) < MOST_KEPT:
            self.kept.append(SlurmRefusal(unit, number, found, hint))
