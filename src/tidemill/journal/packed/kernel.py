"""``@kernel``: a function over packed bytes and the matrices that they are read into."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.core.kernel import between, whole_of

MOST_FEW = 256  # numbers that a column may have for each to be told by a byte
_VECTORS = ("body", "order")
_MATRICES = ("counts", "events", "high", "low", "read", "table")


class PackedBytes(NamedTuple):
    """Bytes that are read or written, and a table beside them."""

    body: NDArray[np.uint8]
    table: NDArray[np.int64]
    """A column with room for ``MOST_FEW`` numbers."""


def packed(body: NDArray[np.uint8]) -> PackedBytes:
    """These bytes, and an empty table."""
    return PackedBytes(body, np.empty((MOST_FEW, 1), np.int64))


def dimensions(name: str) -> int:
    """How many dimensions an argument of this name has."""
    return 1 if name in _VECTORS else 2 * (name in _MATRICES)


kernel = between(__file__, {"p": whole_of(PackedBytes, _VECTORS, {"body": "uint8"})}, dimensions)
"""Compile this, unless the process runs interpreted."""
