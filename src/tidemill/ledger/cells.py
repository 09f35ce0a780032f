"""Cells: what jobs did with their accelerators, and what of it is alike in all but the amount."""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
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

    They lie by job: each bin, contract and bucket has its cells in the order that they have. Of a
    long ledger the columns are put away as they are made, some rows at a time.
    """
    width, below = (1, *cells.widths), sum(cells.widths[_OF_JOBS:])

    def place(some: slice) -> I64:
        places = (cells.keys[some] >> below) & ((1 << sum(cells.widths[:_OF_JOBS])) - 1)
        return np.where(cells.sums[some] == 0, -1, places)

    order, _ = by_code(place, len(cells.keys))
    found = {name: _blank(len(order), bits) for name, bits in zip(_FROM_JOB, width, strict=True)}
    sums = paging.blank(len(order), is_kept=True)
    for some in paging.stretches(len(order)):
        sums[some] = cells.sums[order[some]]
        for name, column in _columns(cells.keys[order[some]], _FROM_JOB, width).items():
            if found[name].flags.writeable:
                found[name][some] = column
    return Cells(milli_ms=sums, **found)


def by_code(code: Callable[[slice], I64], rows: int) -> tuple[I64, dict[int, tuple[int, int]]]:
    """The numbers of rows in the order of their codes, and from where to where each code has them.

    Rows of a code below 0 are left out, those of the same code are in their order. Codes are asked
    for some rows at a time, and twice.
    """
    sizes = dict[int, int]()
    for some in paging.stretches(rows):
        found, counts = np.unique(code(some), return_counts=True)
        for each, count in zip(found.tolist(), counts.tolist(), strict=True):
            sizes[each] = sizes.get(each, 0) + count
    sizes.pop(-1, None)
    codes = sorted(sizes)
    ends = list(accumulate((sizes[each] for each in codes), initial=0))
    order = paging.blank(ends[-1], is_kept=True)
    known, at = np.array(codes, np.int64), np.array(ends[:-1], np.int64)
    is_short = bool(codes) and codes[-1] <= np.iinfo(np.int16).max  # these are not compared to sort
    for some in paging.stretches(rows):
        mine = code(some).astype(np.int16 if is_short else np.int64)
        inside = np.argsort(mine, kind="stable")
        mine = mine[inside]
        inside, mine = inside[np.searchsorted(mine, 0) :], mine[np.searchsorted(mine, 0) :]
        begins = np.flatnonzero(np.diff(mine, prepend=-1))
        lengths = np.diff(begins, append=len(mine))
        whose = np.searchsorted(known, mine[begins])
        order[np.repeat(at[whose] - begins, lengths) + np.arange(len(mine))] = some.start + inside
        at[whose] += lengths
    return order, dict(zip(codes, pairwise(ends), strict=True))


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
    bounds = _bounds(every)
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


def _bounds(every: list[I64]) -> I64:
    """Keys between which there are about ``_AT_ONCE`` of the longest part, and of all others."""
    longest = max(every, key=len)
    others = [keys[_SAMPLED::_SAMPLED] for keys in every if keys is not longest]
    seen = np.sort(np.concatenate([longest[:0], *others]))[:: _AT_ONCE // _SAMPLED]
    return np.unique(np.concatenate([longest[_AT_ONCE::_AT_ONCE], seen]))


def _widened(cells: PackedCells, widths: tuple[int, ...]) -> I64:
    """Keys with so many bits for each column; as a rule they have them."""
    if widths == cells.widths or not len(cells.keys):
        return cells.keys
    keys = paging.blank(len(cells.keys))
    for some in paging.stretches(len(keys)):
        part = PackedCells(cells.widths, cells.keys[some], cells.sums[some])
        keys[some] = _keys(unpacked(part), widths)
    return keys


def _keys(cells: Cells, widths: tuple[int, ...]) -> I64:
    keys = cells.job
    for name, width in zip(_BELOW_JOB, widths, strict=True):
        keys = keys << width | getattr(cells, name)
    return keys


_BELOW_JOB = ("bin", "contract", "bucket", "known", "period")
_FROM_JOB = ("job", *_BELOW_JOB)
_OF_JOBS = 3  # of those below the job, by which cells are in order before they are by job
_BITS = 63  # of a key
_AT_ONCE = 1 << 17  # cells that are merged at once
_SAMPLED = 1 << 10  # of so many cells in order one is looked at, to find where to cut


def summed(keys: I64, amounts: I64) -> tuple[I64, I64]:
    """The keys that occur, ascending, and the sum of the amounts of each."""
    if not len(keys):
        return keys, amounts
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], np.add.reduceat(amounts[order], starts)


NOTHING = PackedCells((0,) * len(_BELOW_JOB), np.zeros(0, np.int64), np.zeros(0, np.int64))
