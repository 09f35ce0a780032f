"""Free: what the work that arrived could have used of what was free, by kind and pool.

A companion to the free buckets, not one of them: *usable* + *unusable* + *unasked* is all that was
free, and what was free is the sum of its buckets. Inferred, by the rule of ``ledger.usable``.
"""

from typing import NamedTuple

from tidemill.ledger.statement import Statement


class Free(NamedTuple):
    """One kind in one pool: free accelerator-time, and how much of it arrivals could have used."""

    kind: str
    pool: str
    free_milli_ms: int
    usable_milli_ms: int
    unasked_milli_ms: int
    """Free before anybody had asked for this kind."""
    unusable_money: int
    """What the unusable part cost, in micro-dollars × ``account.DENOMINATOR``."""
    is_priced: bool = True
    """Whether somebody said a price of all of it."""

    @property
    def unusable_milli_ms(self) -> int:
        """Free, and of no use to jobs like those that arrived, on the mean."""
        return self.free_milli_ms - self.usable_milli_ms - self.unasked_milli_ms


def free(statement: Statement) -> tuple[Free, ...] | None:
    """What was free, by kind and pool in the order of names; None where nobody weighed it."""
    use = statement.free_use
    if use is None:
        return None
    found: dict[tuple[str, str], Free] = {}
    for c, row in enumerate(statement.world.contract_rows):
        all_ms, usable, unasked = (int(part[:, c].sum()) for part in use)
        money = (all_ms - usable - unasked) * statement.mean_rate(c)
        before = found.get((row.kind, row.pool), Free(row.kind, row.pool, 0, 0, 0, 0))
        found[row.kind, row.pool] = Free(
            row.kind, row.pool, before.free_milli_ms + all_ms, before.usable_milli_ms + usable,
            before.unasked_milli_ms + unasked, before.unusable_money + money,
            before.is_priced and row.is_priced,
        )  # fmt: skip
    return tuple(found[key] for key in sorted(found))


def total(rows: tuple[Free, ...]) -> Free:
    """All kinds and pools together."""
    return Free(
        "", "",
        sum(row.free_milli_ms for row in rows), sum(row.usable_milli_ms for row in rows),
        sum(row.unasked_milli_ms for row in rows), sum(row.unusable_money for row in rows),
        all(row.is_priced for row in rows),
    )  # fmt: skip
