"""The ledger's columns as they begin, and larger ones when they are full (``core.accounting``)."""

from collections.abc import Sized

import numpy as np

from tidemill.core.accounting.columns import (
    CLAIMANT,
    COUNTED,
    DEMAND,
    EARLIER,
    FIRST,
    HELD,
    HOLD,
    LACK,
    LOT,
    MARK,
    NEVER,
    SPAN,
    TABLE,
    UNLINED,
    USE,
    LedgerState,
)
from tidemill.ledger import turns
from tidemill.ledger.buckets import CLAIMED_AS, OF_LEVEL, Bucket
from tidemill.ledger.span_binning import Window
from tidemill.ledger.usable import Usable
from tidemill.model import paging
from tidemill.model.columns import NONE
from tidemill.model.policy import Policy
from tidemill.model.states import Level
from tidemill.model.tables import I64, grown
from tidemill.scheduling.desk.layout import ranks

SPANS_AT_ONCE = 1 << 14  # written before they are taken out: 1.4 MB


def blank(window: Window, policy: Policy, usable: Usable | None) -> LedgerState:
    """The columns of a ledger that has read nothing."""
    marks = np.zeros(len(MARK), np.int64)
    marks[[MARK.START_MS, MARK.END_MS, MARK.BIN_MS]] = window
    marks[[MARK.BIN, MARK.FREE_HOLD, MARK.FREE_EARLIER]] = NONE
    marks[MARK.LINE] = UNLINED.UNKNOWN
    marks[MARK.EDGE_MS] = NEVER
    marks[MARK.ORDER] = turns.order_of(policy)
    marks[MARK.FAIRNESS] = turns.fairness_of(policy)
    marks[MARK.RANKS], marks[MARK.PATIENCE_MS] = ranks(policy), policy.patience_ms
    marks[MARK.WEIGHS_MIX] = usable is not None
    marks[MARK.SPENT_AT] = policy.evictions_at_most
    for bucket in ("STARTING", "RESTART", "REWORK", "UNSAVED", "CHECKPOINT", "NOT_LAUNCHED",
                   "NO_DEMAND", "NOT_OBSERVED", "UNKNOWN"):  # fmt: skip
        marks[MARK[bucket]] = Bucket[bucket]
    return LedgerState(
        marks, _rows(0, HELD), _rows(0, HOLD), _rows(0, EARLIER), _rows(SPANS_AT_ONCE, SPAN),
        np.zeros(0, np.int64), np.zeros((0, len(Bucket), 1), np.int64), _rows(len(USE), ()),
        _rows(0, DEMAND), _rows(0, ()), _rows(0, ()), _rows(0, ()), np.zeros(0, np.int64),
        _rows(0, CLAIMANT),
        _rows(0, LOT), _rows(0, ()), _rows(0, COUNTED), _rows(0, ()),
        *(usable or Usable()).weighing, _tables(), _rows(0, ()),
        np.zeros(0, np.int64), _rows(0, ()), _rows(0, ()), _rows(0, ()), _rows(0, FIRST),
        _rows(0, ()), np.array(policy.attained_steps_ms, np.int64), _rows(0, LACK),
    )  # fmt: skip


def with_attempts(b: LedgerState, rows: int) -> LedgerState:
    """The same with room for this many jobs; new rows are to be made blank before they are used."""
    attempts = paging.blank(rows, len(HELD))
    paging.copy_rows(b.attempts, attempts)
    return b._replace(attempts=attempts)


def make_blank(b: LedgerState, first: int, end: int) -> None:
    """Write the rows of jobs that nothing has happened to."""
    b.attempts[first:end, HELD.FIRST_MS : HELD.ENDED_MS + 1] = NEVER


def with_holds(b: LedgerState, rows: int) -> LedgerState:
    """The same with room for this many holds."""
    return b._replace(holds=_chained(b.holds, rows, b.marks, MARK.FREE_HOLD, HOLD.NEXT))


def with_earlier(b: LedgerState) -> LedgerState:
    """The same with room for more earlier stretches."""
    rows = max(64, 2 * len(b.earlier))
    return b._replace(earlier=_chained(b.earlier, rows, b.marks, MARK.FREE_EARLIER, EARLIER.NEXT))


def _chained(pool: I64, rows: int, marks: I64, free: MARK, after: int) -> I64:
    """A larger pool; its new rows are the first that nobody has."""
    bigger, before = grown(pool, rows), len(pool)
    bigger[before:, after] = [*range(before + 1, len(bigger)), int(marks[free])]
    marks[free] = before
    return bigger


def _rows(count: int, columns: Sized) -> I64:
    return np.zeros((count, len(columns)), np.int64)


def _tables() -> I64:
    tables = np.full((len(TABLE), max(len(CLAIMED_AS), len(Level))), NONE, np.int64)
    for level, bucket in OF_LEVEL.items():
        tables[TABLE.OF_LEVEL, level] = bucket
    tables[TABLE.OF_CAUSE, : len(CLAIMED_AS)] = CLAIMED_AS
    return tables
