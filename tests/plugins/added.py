"""Rows that plug-ins add, taken away again."""

import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidemill.ledger import buckets
from tidemill.model.orders import ORDERS
from tidemill.model.placements import PLACEMENTS
from tidemill.reservation.types import TYPES

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
_TABLES: tuple[dict[Any, Any], ...] = (ORDERS, PLACEMENTS, TYPES, buckets.ABOUT, buckets.BY_KEY)
_SETS = (
    buckets.FREE_OF_JOBS, buckets.ALLOCATED, buckets.RAN, buckets.OCCUPIED, buckets.BELOW,
    buckets.DIVIDED, buckets.PRODUCTIVE,
)  # fmt: skip


@contextmanager
def as_before() -> Iterator[None]:
    """What is added inside is gone afterwards."""
    tables, sets, added = [{**t} for t in _TABLES], [{*s} for s in _SETS], [*buckets.ADDED]
    try:
        yield
    finally:
        buckets.ADDED[:] = added
        for table, rows in zip(_TABLES, tables, strict=True):
            table.clear()
            table.update(rows)
        for some, members in zip(_SETS, sets, strict=True):
            some.clear()
            some.update(members)


@contextmanager
def added() -> Iterator[None]:
    """All example plug-ins, each as its file adds it."""
    with as_before():
        for path in sorted(EXAMPLES.glob("*.py")):
            runpy.run_path(str(path))
        yield
