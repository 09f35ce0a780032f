"""What a ledger had not settled at a moment, as bytes: work whose fate only later events tell.

A job that runs across the moment may still lose what it did before it; how long jobs have waited is
known per job. With this and the cluster state a ledger reads on as if it had read everything. All
columns are kept by their names: one that another version does not know is left out, one that it
knows and that is not there begins as it does in a new ledger.
"""

from collections import Counter
from enum import IntEnum
from typing import Any

import msgspec
import numpy as np

from tidemill.core.accounting.columns import EARLIER, HELD, HOLD, MARK
from tidemill.engine.fold.batch import columns_of
from tidemill.journal import columns
from tidemill.ledger import state
from tidemill.ledger.reader import Ledger, MovingHold
from tidemill.ledger.span_binning import Window
from tidemill.ledger.stops import LastSeat
from tidemill.model.columns import AT
from tidemill.model.events import Why
from tidemill.model.policy import Policy
from tidemill.model.tables import I64
from tidemill.model.world import World

_MARKS = (MARK.NOW_MS, MARK.STOPPED, MARK.FREE_HOLD, MARK.FREE_EARLIER)

_Table = dict[str, bytes]


def dump(ledger: Ledger) -> bytes:
    """What this ledger carries on; all that is settled must have been handed over."""
    world, b = ledger.world, ledger.columns
    counts, asked, seats = ledger.stops_so_far
    return columns.deflated(
        msgspec.msgpack.encode(
            {
                "jobs": world.job_count,
                "attempts": _table(b.attempts[: world.job_count], HELD),
                "holds": (len(b.holds), _table(b.holds, HOLD)),
                "earlier": (len(b.earlier), _table(b.earlier, EARLIER)),
                "marks": {mark.name: int(b.marks[mark]) for mark in _MARKS},
                "moving": [(j, *moving) for j, moving in ledger.moving.items()],
                "unseen": ledger.unseen,
                "stops": (dict(counts), {str(j): str(why) for j, why in asked.items()}),
                "seats": [(j, *seat) for j, seat in seats.items()],
            }
        )
    )


def resume(
    kept: bytes, world: World, policy: Policy, window: Window, *, weighs_mix: bool
) -> Ledger:
    """A ledger that reads on from there, for any window."""
    said: dict[str, Any] = msgspec.msgpack.decode(columns.inflated(kept))
    ledger = Ledger(policy, window, weighs_mix)
    b = state.with_attempts(ledger.columns, said["jobs"])
    _fill(b.attempts, said["attempts"], HELD)
    holds, earlier = (
        np.zeros((said[name][0], len(kind)), np.int64)
        for name, kind in (("holds", HOLD), ("earlier", EARLIER))
    )
    _fill(holds, said["holds"][1], HOLD)
    _fill(earlier, said["earlier"][1], EARLIER)
    for mark in _MARKS:
        b.marks[mark] = said["marks"][mark.name]
    counts, asked = said["stops"]
    seats = said.get("seats") or [(j, attempt, 0, 0, 0) for j, attempt in said.get("seen", ())]
    ledger.begin(
        world,
        b._replace(holds=holds, earlier=earlier),
        {
            j: MovingHold(tuple(map(tuple, held)), ms, keeps)
            for j, held, ms, keeps in said["moving"]
        },
        [(start, end) for start, end in said["unseen"]],
        (
            Counter(counts),
            {int(j): Why(why) for j, why in asked.items()},
            {j: LastSeat(*rest) for j, *rest in seats},
        ),
    )
    ledger.columns.marks[MARK.LOG_READ] = columns_of(world).at[AT.LOGGED]
    return ledger


def _table(matrix: I64, kind: type[IntEnum]) -> _Table:
    return {column.name: columns.pack(matrix[:, column].copy()) for column in kind}


def _fill(matrix: I64, table: _Table, kind: type[IntEnum]) -> None:
    for column in kind:
        if column.name in table:
            matrix[:, column] = columns.ColumnReader(table[column.name]).column(len(matrix))
