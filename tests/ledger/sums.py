"""Reading statements in tests: rows as dictionaries that can be added and compared."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tidemill.ledger.buckets import CLAIMED_AS, DIVIDED, Bucket
from tidemill.ledger.statement import Statement

LASTED = DIVIDED | {Bucket.UNKNOWN, Bucket.INTERFERENCE, Bucket.STRAGGLER}
"""Where work that lasted goes."""

Place = tuple[int, ...]


def amounts(statement: Statement, *columns: str) -> Counter[Place]:
    """Milli·ms by these columns of the rows; by all but the time bin if none are named."""
    rows = statement.rows
    wanted = columns or ("contract", "bucket", "team", "job")
    found: Counter[Place] = Counter()
    keys = zip(*(getattr(rows, column).tolist() for column in wanted), strict=True)
    for key, amount in zip(keys, rows.milli_ms.tolist(), strict=True):
        found[key] += amount
    return found


def work_of_jobs(statement: Statement) -> dict[str, Counter[int]]:
    """By job: work that lasted, work that was lost, and work of which nobody knows yet."""
    found = {"lasted": Counter[int](), "lost": Counter[int](), "unsaved": Counter[int]()}
    for (bucket, j), amount in amounts(statement, "bucket", "job").items():
        if bucket in LASTED:
            found["lasted"][j] += amount
        elif bucket == Bucket.REWORK:
            found["lost"][j] += amount
        elif bucket == Bucket.UNSAVED:
            found["unsaved"][j] += amount
    return found


def other_than_work(statement: Statement) -> Counter[Place]:
    """Everything that does not depend on the fate of work."""
    fates = LASTED | {Bucket.REWORK, Bucket.UNSAVED}
    found = amounts(statement)
    return Counter({place: n for place, n in found.items() if Bucket(place[1]) not in fates})


def without_causes(sums: Mapping[tuple[Any, ...], int]) -> Counter[tuple[Any, ...]]:
    """Sums by bucket and more, with all that stood free beside who waited as one bucket.

    Why somebody waits is known from when it was looked at: who looks more often knows more of it.
    """
    found = Counter[tuple[Any, ...]]()
    for (bucket, *rest), amount in sums.items():
        found[Bucket.CAUSE_UNKNOWN if bucket in CLAIMED_AS else bucket, *rest] += amount
    return found
