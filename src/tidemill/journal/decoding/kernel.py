"""``@kernel``: a function over packed bytes and the matrices that they are read into."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidemill.core.kernel import between, whole_of

_VECTORS = ("body", "order", "seats", "table")
_MATRICES = ("counts", "events", "high", "low", "read")


class Packed(NamedTuple):
    """Bytes that are read, and what readers write beside them."""

    body: NDArray[np.uint8]
    table: NDArray[np.int64]
    """Room for the numbers of a column that has few distinct ones, and how many have each."""


def dimensions(name: str) -> int:
    """How many dimensions an argument of this name has."""
    return 1 if name in _VECTORS else 2 * (name in _MATRICES)


kernel = between(__file__, {"p": whole_of(Packed, _VECTORS, {"body": "uint8"})}, dimensions)
"""Compile this, unless the process runs interpreted."""
