"""``@kernel``: a function over a node, as free milli of its devices, and the tables of scores."""

from tidemill.core.kernel import between, whole_of
from tidemill.scheduling.scores.tables import OTHERS, VECTORS, Tables

_DIMENSIONS = dict.fromkeys(("free", "after", "ordered", "shared", *VECTORS), 1) | {"wasted": 2}
kernel = between(
    __file__,
    {"tables": whole_of(Tables, VECTORS, OTHERS)},
    lambda name: _DIMENSIONS.get(name, 0),
)
"""Compile this, unless the process runs interpreted."""
