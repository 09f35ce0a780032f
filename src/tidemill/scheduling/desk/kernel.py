"""``@kernel``: a function over the cluster state and a room, which it tries, and the desk."""

from tidemill.core.kernel import beside
from tidemill.scheduling.desk.columns import Desk
from tidemill.scheduling.fitting import columns as fitting
from tidemill.scheduling.fitting.kernel import CALLS
from tidemill.scheduling.scores.tables import Tables

VECTORS = (
    "reg", "looks", "types", "fair", "kept", "free", "changed", "held", "claimed", "lends", "inner",
    "going", "sought", "evictable", "candidates", "gained",
)  # fmt: skip

kernel = beside(
    __file__,
    {"d": Desk, "g": fitting.Ground, "t": Tables},
    (*VECTORS, *fitting.VECTORS),
    fitting.OTHERS,
    calls=CALLS,
)
"""Compile this, unless the process runs interpreted."""
