"""Rows: every non-empty cell of a ledger, from both routes, as columns; and accounts of them.

Jobs' cells come from ``cut``, the others from ``supply``. An account adds rows up with the price
and the capability of their contracts, in Python's integers: money and capability outgrow 64 bits.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.ledger import price_periods
from tidemill.ledger.account import Account
from tidemill.ledger.books import NOBODY as NO_HOLDER
from tidemill.ledger.buckets import ABOUT, ADDED, Bucket
from tidemill.ledger.cells import Cells, summed
from tidemill.ledger.measured import MeasuredRows, past_rows
from tidemill.ledger.reader import Ledger, Settled
from tidemill.ledger.supply import SupplySums
from tidemill.model import paging
from tidemill.model.errors import SpecError
from tidemill.model.rows import Contract, whole_type
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.units import capability

NO_JOB = -1
FIRST_HOLDER = -2


class LedgerRows(NamedTuple):
    """Amounts by bin, contract, bucket, team, job, confidence and price period.

    Team is -1 where nobody claims it, job is -1 where no job holds it; ``known`` as in ``Cells``.
    Of what was rolled up the job is gone: it is ``FIRST_HOLDER`` less the number of the holder
    (``books.Holder``), so that a table of jobs with the holders behind it, the last one first, and
    then nobody, can be asked by it as it is.
    """

    bin: I64
    contract: I64
    bucket: I64
    team: I64
    job: I64
    known: I64
    period: I64
    milli_ms: I64


def rows_of(ledger: Ledger) -> LedgerRows:
    """Everything a ledger has counted so far, and what was rolled up before it began."""
    rows = _rows(ledger.world, ledger.cells(), ledger.supply)
    past = ledger.past
    if past is None:
        return rows
    lines = past.lines
    job = np.where(lines.holder == NO_HOLDER, NO_JOB, FIRST_HOLDER - lines.holder)
    more = (lines.bin, lines.contract, lines.bucket, lines.team, job, lines.known, lines.period,
            lines.milli_ms)  # fmt: skip
    return _joined([rows, LedgerRows(*more)])


def in_gpus(rows: LedgerRows, contracts: Sequence[Contract]) -> LedgerRows:
    """The same in whole GPUs, where accelerators are parts of some; sums are exact to a milli·ms.

    What is rounded off a row of a contract is carried to its next.
    """
    amounts = rows.milli_ms
    for c, row in enumerate(contracts):
        if row.unit:
            gpus, units = row.unit
            mine = rows.contract == c
            so_far = np.cumsum(rows.milli_ms[mine])
            scaled = so_far // units * gpus + so_far % units * gpus // units  # within 64 bits
            amounts = np.array(amounts)
            amounts[mine] = np.diff(scaled, prepend=0)
    if amounts is rows.milli_ms:
        return rows
    return LedgerRows(*(column[amounts > 0] for column in rows._replace(milli_ms=amounts)))


def measured_of(ledger: Ledger) -> MeasuredRows:
    """What was measured beside the buckets, and what was rolled up of it before."""
    rows, past = ledger.measured, ledger.past
    if past is None:
        return rows
    earlier = past_rows(past.measured, FIRST_HOLDER)
    return MeasuredRows(*(np.concatenate(pair) for pair in zip(rows, earlier, strict=True)))


def settled_rows(world: World, settled: Settled) -> LedgerRows:
    """The same of what a ledger has handed over."""
    return _rows(world, settled.cells, settled.supply)


def _rows(world: World, cells: Cells, supply: SupplySums) -> LedgerRows:
    team = paging.blank(len(cells.job), is_kept=True)
    shapes = paging.column(world.jobs.shape, world.job_count)
    for some in paging.stretches(len(team)):
        team[some] = world.shapes.queue[shapes[cells.job[some]]]
    held = (cells.bin, cells.contract, cells.bucket, team, cells.job, cells.known, cells.period,
            cells.milli_ms)  # fmt: skip
    parts = [LedgerRows(*held)]
    del cells, held, team, shapes  # each column is made anew, and the old one dropped
    for (number, period), unheld in supply.unheld.items():
        contract, bucket, claimant = np.nonzero(unheld)
        amount = unheld[contract, bucket, claimant]
        same, nobody = np.full_like(amount, number), np.full_like(amount, NO_JOB)
        known, when = np.zeros_like(amount), np.full_like(amount, period)
        parts.append(LedgerRows(same, contract, bucket, claimant - 1, nobody, known, when, amount))
    return _divided(world, _joined(parts))


def _joined(parts: list[LedgerRows]) -> LedgerRows:
    """The rows of all parts, which are taken from the list."""
    columns, joined = [[*column] for column in zip(*parts, strict=True)], list[I64]()
    parts.clear()
    while columns:
        joined.append(_kept([part for part in columns.pop(0) if len(part)]))
    return LedgerRows(*joined)


def _kept(parts: list[I64]) -> I64:
    """A column: one value where all rows say the same, as three or four do; a long one on disk."""
    rows, end = sum(map(len, parts)), 0
    if rows > 1 and all(_is_all(part, parts[0].item(0)) for part in parts):
        return np.broadcast_to(parts[0][:1].copy(), rows)
    made = paging.blank(rows, is_kept=True)
    for part in parts:
        first, end = end, end + len(part)
        paging.copy_rows(part, made[first:end])
    return made


def _is_all(column: I64, value: int) -> bool:
    """Whether all rows have this value."""
    if column.item(-1) != value:
        return False
    return all(bool((column[some] == value).all()) for some in paging.stretches(len(column)))


def _divided(world: World, rows: LedgerRows) -> LedgerRows:
    """The rows with what plug-ins divide off them (``buckets.add``)."""
    for added in ADDED:
        is_of = rows.bucket == added.part_of
        some = LedgerRows(*(column[is_of] for column in rows))
        part = np.asarray(added.part(world, some), np.int64)
        if part.shape != some.milli_ms.shape or ((part < 0) | (part > some.milli_ms)).any():
            raise SpecError(
                f"bucket `{ABOUT[added.bucket].key}` takes more of"
                f" `{ABOUT[added.part_of].key}` than there is, or less than nothing",
                hint="its plug-in must give one amount per row, from 0 up to the row's milli_ms",
            )
        taken = some._replace(bucket=np.full_like(part, added.bucket), milli_ms=part)
        parts = (
            LedgerRows(*(column[~is_of] for column in rows)),
            some._replace(milli_ms=some.milli_ms - part),
            taken,
        )
        whole = LedgerRows(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        rows = LedgerRows(*(column[whole.milli_ms != 0] for column in whole))
    return rows


def accounts(
    rows: LedgerRows,
    groups: I64,
    count: int,
    contracts: Sequence[Contract],
    is_assumed: NDArray[np.bool_] | None = None,
) -> list[Account]:
    """One account a group, in one pass; ``groups`` says to which of ``count`` each row belongs.

    ``is_assumed``: of each row, whether it rests on an assumption.
    """
    prices = price_periods.prices(contracts)
    shape = (count, len(prices.rates), max(1, len(contracts)), len(ABOUT))
    keys, sums = _summed(rows, groups, shape)
    group, period, contract, bucket = np.unravel_index(keys, shape)
    amounts = sums.astype(object)
    powers = [capability.gflops(whole_type(row.kind)) for row in contracts]
    is_known = np.ones(count, bool)
    is_known[group[np.array([power is None for power in powers], bool)[contract]]] = False
    known_powers = np.array([power or 0 for power in powers], object)
    columns = (
        _matrix(count, group, bucket, amounts),
        _matrix(count, group, bucket, amounts * prices.rates[period, contract]),
        _matrix(count, group, bucket, amounts * known_powers[contract]),
        _matrix(count, group, bucket, amounts * prices.is_unpriced[period, contract]),
    )
    assumed = np.zeros(count, np.int64)
    if is_assumed is not None:
        for some in paging.near(np.flatnonzero(is_assumed)):
            useful = some[rows.bucket[some] == Bucket.USEFUL]
            np.add.at(assumed, groups[useful], rows.milli_ms[useful])
    return [
        Account(milli_ms, money, power if known else None, without, by_assumption)
        for milli_ms, money, power, without, known, by_assumption in zip(
            *columns, is_known.tolist(), assumed.tolist(), strict=True
        )
    ]


def _summed(rows: LedgerRows, groups: I64, shape: tuple[int, ...]) -> tuple[I64, I64]:
    """The keys of what rows have in common for an account, ascending, and the sum of each.

    Rows are sorted only where they have more keys than there are rows.
    """
    columns = (groups, rows.period, rows.contract, rows.bucket)
    if prod(shape) > len(groups):
        return summed(np.ravel_multi_index(columns, shape), rows.milli_ms)
    sums = np.zeros(prod(shape), np.int64)
    for some in paging.stretches(len(groups)):
        keys = np.ravel_multi_index(tuple(column[some] for column in columns), shape)
        np.add.at(sums, keys, rows.milli_ms[some])
    found = np.flatnonzero(sums)
    return found, sums[found]


def _matrix(count: int, group: I64, bucket: I64, amounts: np.ndarray) -> list[tuple[int, ...]]:
    matrix = np.zeros((count, len(ABOUT)), object)
    np.add.at(matrix, (group, bucket), amounts)
    return [tuple(row) for row in matrix.tolist()]
