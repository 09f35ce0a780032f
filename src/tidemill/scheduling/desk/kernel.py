"""``@kernel``: a function over the cluster state and a room, which it tries, and the desk."""

from tidemill.core.kernel import beside
from tidemill.scheduling.backfill import columns as backfill
from tidemill.scheduling.desk.columns import Desk, Search
from tidemill.scheduling.fitting import columns as fitting
from tidemill.scheduling.fitting.kernel import CALLS
from tidemill.scheduling.scores.tables import OTHERS, Tables

VECTORS = (
    "reg", "looks", "types", "fair", "kept", "free", "changed", "held", "claimed", "lends", "inner",
    "going", "sought", "closed", "evictable", "candidates", "aboard", "offered", "here",
    "sequence", "freed", "chosen", "notes", "steps", "under", *backfill.VECTORS, *fitting.VECTORS,
)  # fmt: skip

TABLES = {"d": Desk, "h": Search, "e": backfill.Ends, "g": fitting.Ground, "t": Tables}
"""What these kernels take, by what it is called."""

kernel = beside(
    __file__,
    TABLES,
    VECTORS,
    OTHERS,
    calls=(*CALLS, str(backfill.__file__)),
)
"""Compile this, unless the process runs interpreted."""
