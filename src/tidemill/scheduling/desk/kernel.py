"""``@kernel``: a function over the cluster state, which it only reads, and the desk."""

from tidemill.core.kernel import beside
from tidemill.scheduling.desk.columns import Desk

VECTORS = (
    "reg", "looks", "types", "fair", "kept", "free", "changed", "held", "claimed", "lends", "inner",
    "going", "sought", "evictable", "candidates", "gained",
)  # fmt: skip

kernel = beside(__file__, {"d": Desk}, VECTORS)
"""Compile this, unless the process runs interpreted."""
