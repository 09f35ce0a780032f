"""``@kernel``: a function over the cluster state and what a look at the nodes goes by."""

from tidemill.core.kernel import beside
from tidemill.provisioning.columns import VECTORS, Overview

kernel = beside(__file__, {"u": Overview}, VECTORS, matrices=("event_pieces",))
"""Compile this, unless the process runs interpreted."""
