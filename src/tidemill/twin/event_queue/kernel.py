"""``@kernel``: a function over the cluster state and what the twin knows beside it."""

from tidemill.core.kernel import beside
from tidemill.twin.event_queue.columns import Outside

kernel = beside(
    __file__, {"t": Outside}, ("clock", "crashes", "levels", "luck"), {"luck": "float64"}
)
"""Compile this, unless the process runs interpreted."""
