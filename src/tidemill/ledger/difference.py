"""The difference of two ledgers, attributed bucket by bucket.

Windows and fleets may differ in size, so beside the absolute change each line has the change in its
share of what was paid: the shares of the second minus those of the first add up to zero (unless
nothing was paid in one of them).
"""

from collections.abc import Collection
from typing import Any, NamedTuple

from tidemill.ledger import comparison
from tidemill.ledger.account import DENOMINATOR, Account, rounded, shown
from tidemill.ledger.buckets import ABOUT
from tidemill.ledger.statement import Statement
from tidemill.ledger.unknowns import unknowns_of


class BucketChange(NamedTuple):
    """One bucket, before and after."""

    bucket: int
    before_milli_ms: int
    after_milli_ms: int
    usd_micro: int | None
    """None where some of it has no price, before or after."""
    basis_points: int

    @property
    def milli_ms(self) -> int:
        """How much more went into the bucket."""
        return self.after_milli_ms - self.before_milli_ms


def difference(before: Account, after: Account) -> list[BucketChange]:
    """What changed, bucket by bucket; every column adds up to the change of the whole."""
    (first, second), shares = sides(before, after, 1), basis_points(before, after)
    return [
        BucketChange(
            b, before.milli_ms[b], after.milli_ms[b],
            second[b] - first[b] if is_comparable(before, after, b) else None, shares[b],
        )
        for b in ABOUT
    ]  # fmt: skip


def is_comparable(before: Account, after: Account, bucket: int | None = None) -> bool:
    """Whether the dollars of a bucket (of everything) are known in full on both sides."""
    sides = before.unpriced, after.unpriced
    return not any(sum(side) if bucket is None else side[bucket] for side in sides)


def sides(before: Account, after: Account, unit_micro: int) -> tuple[list[int], list[int]]:
    """Dollars per bucket on both sides, in units of so many micro-dollars; each side adds up.

    Each amount is rounded down or up so that its side adds up, the first side as its own ledger
    shows it. The second rounds what is equal on both sides as the first did, wherever its sum
    leaves the choice: a line that did not change shows no change.
    """
    unit, first = DENOMINATOR * unit_micro, before.in_units(unit_micro)
    parts = [amount // unit for amount in after.money]
    left = rounded(after.paid_money, unit) - sum(parts)

    def turn(i: int) -> tuple[int, int, int]:
        """Who is rounded up first: as before; changed lines; as not before; whole amounts."""
        amount, remainder = after.money[i], after.money[i] % unit
        if not remainder:
            return 3, 0, i
        if amount != before.money[i]:
            return 1, -remainder, i
        return 0 if first[i] > parts[i] else 2, -remainder, i

    for i in sorted(range(len(parts)), key=turn)[:left]:
        parts[i] += 1
    return first, parts


def basis_points(before: Account, after: Account) -> list[int]:
    """The change of each bucket's share of the hours paid for, in hundredths of a percent.

    The exact change is rounded, not the two shares: a share that did not change shows none.
    """
    old, new = (max(1, account.paid_milli_ms) for account in (before, after))
    exact = [
        (b * old - a * new) * 10_000 for a, b in zip(before.milli_ms, after.milli_ms, strict=True)
    ]
    return shown(exact, old * new)


def hours(before: Account, after: Account, unit: int) -> list[int]:
    """The change of each bucket in units of so many milli·ms, likewise."""
    exact = [b - a for a, b in zip(before.milli_ms, after.milli_ms, strict=True)]
    return shown(exact, unit)


def difference_document(
    before: Statement, after: Statement, names: tuple[str, str]
) -> dict[str, Any]:
    """The difference of two ledgers as one JSON-able value; null: nobody can say."""
    unknown = unknowns_of(before), unknowns_of(after)
    return {
        "before": names[0],
        "after": names[1],
        "warnings": comparison.warnings(before, after),
        "figures": [
            {
                "key": row.key, "title": row.title, "unit": row.unit,
                "before": row.before._asdict(), "after": row.after._asdict(),
                "change": row.change._asdict(),
            }
            for row in comparison.compare(before, after)
        ],
        "buckets": [
            change._asdict()
            | {"bucket": ABOUT[change.bucket].key, "milli_ms": change.milli_ms}
            | dict.fromkeys(_untold(change.bucket, unknown))
            for change in difference(before.total(), after.total())
        ],
    }  # fmt: skip


def _untold(bucket: int, unknown: tuple[Collection[int], Collection[int]]) -> list[str]:
    """What is not known of the change of a bucket that is empty because nobody can say."""
    sides = zip(("before_milli_ms", "after_milli_ms"), unknown, strict=True)
    found = [name for name, side in sides if bucket in side]
    return [*found, "milli_ms", "usd_micro", "basis_points"] if found else []
