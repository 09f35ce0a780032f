"""``@kernel``: a function over the cluster state, an emptied room, and the roll of all jobs."""

from tidemill.core.kernel import beside
from tidemill.scheduling.desk import __file__ as desk
from tidemill.scheduling.fitting.columns import OTHERS, VECTORS, Ground
from tidemill.scheduling.fitting.kernel import CALLS

kernel = beside(
    __file__,
    {"g": Ground},
    (*VECTORS, "terms", "steps"),
    OTHERS,
    matrices=("learnt", "roll", "seats", "wants"),
    calls=(*CALLS, str(desk)),
)
"""Compile this, unless the process runs interpreted."""
