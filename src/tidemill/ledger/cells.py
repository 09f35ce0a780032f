"""Cells: what jobs did with their accelerators, and what of it is alike in all but the amount."""

from typing import NamedTuple

import numpy as np

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


def added(*parts: Cells) -> Cells:
    """Cells of the same made one; empty cells dropped."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    keep = columns[-1] != 0
    if not keep.any():
        return EMPTY
    *where, milli_ms = (column[keep] for column in columns)
    sizes = [int(column.max()) + 1 for column in where]
    keys, sums = summed(np.ravel_multi_index(where, sizes), milli_ms)
    bins, contract, bucket, job, known, period = np.unravel_index(keys, sizes)
    return Cells(bins, contract, bucket, job, known, period, sums)


def summed(keys: I64, amounts: I64) -> tuple[I64, I64]:
    """The keys that occur, ascending, and the sum of the amounts of each."""
    if not len(keys):
        return keys, amounts
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], np.add.reduceat(amounts[order], starts)


EMPTY = Cells(*(np.zeros(0, np.int64) for _ in Cells._fields))
