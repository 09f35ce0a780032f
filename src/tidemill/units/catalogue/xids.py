"""What errors that NVIDIA's driver numbers (XIDs) mean: ``xids.csv``, each with where that is said.

A number that is not in the table is shown as it is: nothing is guessed of it.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class XidMeaning(NamedTuple):
    """One number of the driver."""

    xid: int
    meaning: str
    look_at: str
    """What is at fault as a rule."""
    source: str


@cache
def table() -> dict[int, XidMeaning]:
    """All that are known, by number."""
    text = files(__package__).joinpath("xids.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    found = [
        XidMeaning(int(row["xid"]), row["meaning"], row["look_at"], row["source"]) for row in rows
    ]
    return {one.xid: one for one in found}


def words(xid: int) -> str:
    """A number with its meaning, as far as that is known."""
    known = table().get(xid)
    return f"XID {xid} ({known.meaning})" if known is not None else f"XID {xid}"
