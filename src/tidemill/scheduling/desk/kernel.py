"""``@kernel``: a function over the cluster state and a room, which it tries, and the desk."""

from tidemill.core.kernel import beside
from tidemill.scheduling.desk.columns import Desk, Search
from tidemill.scheduling.fitting import columns as fitting
from tidemill.scheduling.fitting.kernel import CALLS
from tidemill.scheduling.scores.tables import Tables

VECTORS = (
    "reg", "looks", "types", "fair", "kept", "free", "changed", "held", "claimed", "lends", "inner",
    "going", "sought", "closed", "evictable", "candidates", "gained", "aboard", "offered", "here",
    "sequence", "freed", "chosen", "notes",
)  # fmt: skip

kernel = beside(
    __file__,
    {"d": Desk, "h": Search, "g": fitting.Ground, "t": Tables},
    (*VECTORS, *fitting.VECTORS),
    fitting.OTHERS,
    calls=CALLS,
)
"""Compile this, unless the process runs interpreted."""
