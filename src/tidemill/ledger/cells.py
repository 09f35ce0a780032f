"""Cells: what jobs did with their accelerators, and what of it is alike in all but the amount."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tidemill.model import paging
from tidemill.model.tables import I64


class Cells(NamedTuple):
    """Milli × ms per bin, contract, bucket, job, confidence and price period, each once.

    ``known``: how somebody who measured it knows, by its place in ``codes.CONFIDENCES``; 0: nobody
    measured it, and it is known as its bucket and its job are.
    """

    bin: I64
    contract: I64
    bucket: I64
    job: I64
    known: I64
    period: I64
    """As ``price_periods`` numbers them."""
    milli_ms: I64


class PackedCells(NamedTuple):
    """The same in 16 bytes a cell: the job, and after it the rest in as few bits as they take."""

    widths: tuple[int, ...]
    """Bits of the columns that ``_BELOW_JOB`` names."""
    keys: I64
    """Ascending, each once."""
    sums: I64


def packed(cells: Cells) -> PackedCells:
    """Cells in few bytes."""
    below = [getattr(cells, name) for name in _BELOW_JOB]
    widths = tuple(int(column.max(initial=0)).bit_length() for column in below)
    assert sum(widths) + int(cells.job.max(initial=0)).bit_length() < _BITS, "too many cells"
    return PackedCells(widths, *summed(_keys(cells, widths), cells.milli_ms))


def unpacked(cells: PackedCells) -> Cells:
    """Packed cells in columns; by job."""
    return Cells(milli_ms=cells.sums, **_columns(cells.keys, _FROM_JOB, (0, *cells.widths)))


def in_order(cells: PackedCells) -> Cells:
    """Packed cells in columns, by bin, contract, bucket, job and so on, without empty ones.

    Of a long ledger the columns are put away as they are made, some rows at a time: beside them
    the order of all of them is at hand, and the keys that it was made of.
    """
    is_empty = cells.sums == 0
    if is_empty.any():
        cells = PackedCells(cells.widths, cells.keys[~is_empty], cells.sums[~is_empty])
    del is_empty
    jobs = int(cells.keys.max(initial=0) >> sum(cells.widths)).bit_length()
    width = {"job": jobs} | dict(zip(_BELOW_JOB, cells.widths, strict=True))
    widths, keys = [width[name] for name in _IN_ORDER], np.zeros_like(cells.keys)
    for some in paging.stretches(len(keys)):
        for name, column in _columns(cells.keys[some], _FROM_JOB, (jobs, *cells.widths)).items():
            keys[some] |= column << sum(widths[_IN_ORDER.index(name) + 1 :])
    order = np.argsort(keys, kind="stable")
    found = {name: _blank(len(keys), width[name]) for name in _IN_ORDER}
    sums = paging.blank(len(keys), is_kept=True)
    for some in paging.stretches(len(keys)):
        sums[some] = cells.sums[order[some]]
        for name, column in _columns(keys[order[some]], _IN_ORDER, widths).items():
            if width[name]:
                found[name][some] = column
    return Cells(milli_ms=sums, **found)


def _blank(rows: int, width: int) -> I64:
    """Room for a column; of no bits: one value for all rows, as of three or four columns."""
    return paging.blank(rows, is_kept=True) if width else np.broadcast_to(np.int64(0), rows)


def _columns(keys: I64, names: Sequence[str], widths: Sequence[int]) -> dict[str, I64]:
    """The columns of keys in which they have so many bits; the first has all that are left."""
    found = dict[str, I64]()
    for name, width in zip(reversed(names[1:]), reversed(widths[1:]), strict=True):
        found[name] = keys & ((1 << width) - 1)
        keys = keys >> width
    found[names[0]] = keys
    return found


def added_packed(*parts: PackedCells) -> PackedCells:
    """Packed cells of the same made one: range by range of keys, so that few are at hand twice."""
    widths = tuple(max(column) for column in zip(*(part.widths for part in parts), strict=True))
    every = [_widened(part, widths) for part in parts]
    bounds = max(every, key=len)[_AT_ONCE::_AT_ONCE]
    cuts = [[0, *np.searchsorted(keys, bounds).tolist(), len(keys)] for keys in every]
    keys, sums, end = paging.blank(sum(map(len, every))), paging.blank(sum(map(len, every))), 0
    for ranges in zip(*map(pairwise, cuts), strict=True):
        some = [slice(*each) for each in ranges]
        found, amounts = summed(
            np.concatenate([part[at] for part, at in zip(every, some, strict=True)]),
            np.concatenate([part.sums[at] for part, at in zip(parts, some, strict=True)]),
        )
        first, end = end, end + len(found)
        keys[first:end], sums[first:end] = found, amounts
        paging.let_go()
    return PackedCells(widths, keys[:end], sums[:end])


def _widened(cells: PackedCells, widths: tuple[int, ...]) -> I64:
    """Keys with so many bits for each column; as a rule they have them."""
    if widths == cells.widths or not len(cells.keys):
        return cells.keys
    return _keys(unpacked(cells), widths)


def _keys(cells: Cells, widths: tuple[int, ...]) -> I64:
    keys = cells.job
    for name, width in zip(_BELOW_JOB, widths, strict=True):
        keys = keys << width | getattr(cells, name)
    return keys


_BELOW_JOB = ("bin", "contract", "bucket", "known", "period")
_FROM_JOB = ("job", *_BELOW_JOB)
_IN_ORDER = ("bin", "contract", "bucket", "job", "known", "period")
_BITS = 63  # of a key
_AT_ONCE = 1 << 17  # cells that are merged at once


def summed_by(keys: I64, amounts: I64, most: int) -> tuple[I64, I64]:
    """As ``summed``, of keys below ``most`` and amounts above 0: not sorted where these are few."""
    if most > len(keys):
        return summed(keys, amounts)
    sums = np.zeros(most, np.int64)
    np.add.at(sums, keys, amounts)
    found = np.flatnonzero(sums)
    return found, sums[found]


def summed(keys: I64, amounts: I64) -> tuple[I64, I64]:
    """The keys that occur, ascending, and the sum of the amounts of each."""
    if not len(keys):
        return keys, amounts
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], np.add.reduceat(amounts[order], starts)


NOTHING = PackedCells((0,) * len(_BELOW_JOB), np.zeros(0, np.int64), np.zeros(0, np.int64))
