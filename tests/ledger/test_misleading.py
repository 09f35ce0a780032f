"""Which utilisation misleads: by what the numbers say, and none where all is well."""

import pytest

from tidemill.ledger import ratios
from tidemill.ledger.account import Account
from tidemill.ledger.buckets import Bucket


def of(**amounts: int) -> Account:
    """An account of these buckets, in percent of what was paid."""
    time = tuple(amounts.get(bucket.name.lower(), 0) for bucket in Bucket)
    assert sum(time) == 100
    return Account(time, time, None, (0,) * len(time))


FLEETS = (
    ("mostly free", of(no_demand=91, idle=1, below_peak=5, useful=3), "MFU"),
    (
        "busy on paper, idle in fact",
        of(no_demand=5, idle=60, below_peak=20, useful=15),
        "allocation",
    ),
    ("occupied, poor programs", of(no_demand=10, idle=5, below_roof=75, useful=10), "occupancy"),
    ("all healthy", of(no_demand=10, idle=5, below_roof=40, useful=45), None),
    ("on the roof of memory", of(no_demand=10, idle=5, memory_bound=80, useful=5), "MFU"),
    ("nothing allocated", of(no_demand=100), "MFU"),
    ("busy, nobody says how well", of(no_demand=10, idle=5, unknown=85), None),
)


@pytest.mark.parametrize(("account", "expected"), [row[1:] for row in FLEETS],
                         ids=[row[0] for row in FLEETS])  # fmt: skip
def test_the_step_furthest_below_a_healthy_one_decides(account: Account, expected: str | None):
    """Free accelerators, idle jobs and poor programs each mislead in their own way; a fleet that
    is 91 % free is not called badly occupied, and a healthy one is not accused.
    """
    found = ratios.misleading(account)
    assert (None if found is None else found.name) == expected


def test_a_free_fleet_says_what_its_programs_reached():
    """Of 100, 91 free and 3 useful: while jobs held accelerators, MFU was a third."""
    found = ratios.misleading(FLEETS[0][1])
    assert found is not None
    assert found.words == "MFU: 91.0% was not allocated; while jobs held accelerators, it was 33.3%"
