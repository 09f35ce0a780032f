"""``@kernel``: a function over the cluster state and what the twin knows beside it."""

from tidemill.core.kernel import beside
from tidemill.twin.event_queue.columns import Outside

VECTORS = ("clock", "crashes", "levels", "luck", "races")
OTHERS = {"luck": "float64"}
kernel = beside(__file__, {"t": Outside}, VECTORS, OTHERS)
"""Compile this, unless the process runs interpreted."""
