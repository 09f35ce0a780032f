"""``@kernel``: a function over the cluster state, a room, and the tables of scores."""

from tidemill.core.kernel import beside
from tidemill.scheduling import scores
from tidemill.scheduling.fitting.columns import MATRICES, VECTORS, Ground
from tidemill.scheduling.scores.tables import OTHERS, Tables

CALLS = (__file__, str(scores.__file__))
"""Files of the folders that these kernels are in, and that they call."""
kernel = beside(__file__, {"g": Ground, "t": Tables}, VECTORS, OTHERS, MATRICES, CALLS)
"""Compile this, unless the process runs interpreted."""
