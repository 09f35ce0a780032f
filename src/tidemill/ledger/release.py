"""Release: how many accelerators of a reserved contract could have been left unbought.

What a contract needs in an hour is everything of it that was not *free: no demand*. Two answers:

- **unnoticed**: keep what all but one hour in a hundred needed;
- **noticed**: keep so many that the mean need fills ``FULL_PERCENT`` of them. Work then waits for
  the quieter hours; how long, only a replay tells.

Both in whole nodes, never less than the guaranteed quotas of the GPU type, nor than twice its
largest gang: a gang of half a fleet waits for the other half.
"""

from typing import NamedTuple

import numpy as np

from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import Statement
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, WHOLE_MILLI
from tidemill.model.tables import I64
from tidemill.reservation.types import UNFILLED

KEPT_PERCENT = 99  # of the hours
FULL_PERCENT = 92  # beyond this, replayed queues of the tuning examples did not drain in the window
BINS_AT_LEAST = 24  # a day by the hour; with fewer, means hide the peaks


class SmallerContract(NamedTuple):
    """A contract that could be smaller."""

    c: int
    devices: int
    """How many accelerators fewer, in whole nodes."""
    usd_micro: int
    """What they cost in the window."""
    is_noticed: bool
    """Whether some hours needed them, so that jobs wait longer without them."""


def cuts(statement: Statement) -> list[SmallerContract]:
    """Every reserved contract that could be smaller, the dearest cut first."""
    if len(statement.bins) < BINS_AT_LEAST:
        return []
    free = statement.by_bin_and_contract(statement.rows_in(Bucket.NO_DEMAND))
    found = []
    for c in reserved(statement):
        is_paid = statement.paid[:, c] > 0
        needed = (statement.paid[is_paid, c] - free[is_paid, c]) // _lengths_ms(statement)[is_paid]
        peak = int(np.sort(needed)[-(-len(needed) * KEPT_PERCENT // 100) - 1])
        unnoticed = cut(statement, c, _spare(statement, c, peak), is_noticed=False)
        mean = int(needed.mean()) * 100 // FULL_PERCENT
        noticed = cut(statement, c, _spare(statement, c, mean), is_noticed=True)
        found.append(unnoticed if unnoticed.devices else noticed)
    return sorted((f for f in found if f.devices), key=lambda f: (-f.usd_micro, f.c))


def cut(statement: Statement, c: int, devices: int, *, is_noticed: bool) -> SmallerContract:
    """A contract with so many accelerators fewer, and what they cost."""
    row = statement.world.contract_rows[c]
    milli_ms = int(statement.paid[:, c].sum()) * devices // row.count
    return SmallerContract(
        c, devices, milli_ms * statement.mean_rate(c) // MILLI_MS_PER_UNIT_HOUR, is_noticed
    )


def reserved(statement: Statement) -> list[int]:
    """Contracts that are paid whether they are used or not, and were, at a price that is known."""
    is_elastic = statement.world.contracts.is_elastic
    return [
        c
        for c, row in enumerate(statement.world.contract_rows)
        if row.is_priced
        and not row.unit
        and not is_elastic[c]
        and statement.paid[:, c].any()
        and row.terms != UNFILLED
    ]


def whole_nodes(statement: Statement, c: int, freed: I64) -> int:
    """Accelerators in whole nodes that could go if so much more (by bin) were free all the time.

    Of the hours in which nothing of the contract was free, nine in ten must have them.
    """
    row = statement.world.contract_rows[c]
    free = statement.by_bin_and_contract(statement.rows_in(Bucket.NO_DEMAND))[:, c]
    lengths_ms = _lengths_ms(statement)
    is_busy = (statement.paid[:, c] > 0) & (free < lengths_ms * WHOLE_MILLI * row.node.devices)
    if len(statement.bins) < BINS_AT_LEAST or not is_busy.any():
        return 0
    milli = int(np.percentile(freed[is_busy] // lengths_ms[is_busy], 10))
    each = row.node.devices
    return max(0, min(milli // WHOLE_MILLI, room(statement, c)) // each * each)


def room(statement: Statement, c: int) -> int:
    """Accelerators beyond what guaranteed quotas, spares and the largest gangs need."""
    row = statement.world.contract_rows[c]
    least = row.node.devices * (row.spares + 1)
    return max(0, row.count - max(_sure(statement, c), _for_gangs(statement, c), least))


def _spare(statement: Statement, c: int, needed_milli: int) -> int:
    """Whole nodes, in accelerators, beyond what is needed."""
    row = statement.world.contract_rows[c]
    each, needed = row.node.devices, -(-needed_milli // WHOLE_MILLI)
    return max(0, min(room(statement, c), row.count - needed) // each * each)


def _lengths_ms(statement: Statement) -> I64:
    return np.array([statement.bin_length_ms(n) for n in statement.bins.tolist()], np.int64)


def _sure(statement: Statement, c: int) -> int:
    """What must stay so that reserved contracts cover the guaranteed quotas of the GPU type."""
    world, kind = statement.world, statement.world.contract_rows[c].kind
    top = [queue for queue in world.queue_rows if not queue.parent]
    sure = sum(_floor(statement, queue.name, kind) for queue in top)
    row = world.contract_rows[c]
    return sure - _others(statement, c) + row.spares * row.node.devices


def _floor(statement: Statement, name: str, kind: str) -> int:
    """The guaranteed quota of a team: its own, or that of the teams below it if that is more."""
    queues = statement.world.queue_rows
    own = next(q for q in queues if q.name == name)
    mine = sum(s.floor_milli for s in own.shares if s.kind == kind) // WHOLE_MILLI
    below = sum(_floor(statement, q.name, kind) for q in queues if q.parent == name)
    return max(mine, below)


def _for_gangs(statement: Statement, c: int) -> int:
    """Twice the largest gang that ran on this GPU type, less what other contracts have of it.

    Hot spares come on top: they take no work while they are spares.
    """
    world, rows = statement.world, statement.rows
    kind = world.contract_rows[c].kind
    alike = [n for n, row in enumerate(world.contract_rows) if row.kind == kind]
    jobs = rows.job[(rows.job >= 0) & np.isin(rows.contract, alike)]
    largest = int(world.shapes.total_milli[world.jobs.shape[jobs]].max(initial=0))
    row = world.contract_rows[c]
    return 2 * -(-largest // WHOLE_MILLI) - _others(statement, c) + row.spares * row.node.devices


def _others(statement: Statement, c: int) -> int:
    """Accelerators of the same GPU type under other reserved contracts."""
    rows, is_elastic = statement.world.contract_rows, statement.world.contracts.is_elastic
    return sum(
        row.count
        for n, row in enumerate(rows)
        if n != c and row.kind == rows[c].kind and not is_elastic[n]
    )
