"""``@kernel``: a function over the cluster state, the desk, rooms, and the roll of all jobs.

``g`` is the room in which seats are tried, ``a`` one that is as the fleet is, ``v`` one in which
nothing runs.
"""

from tidemill.core.kernel import beside
from tidemill.scheduling.desk import kernel as desk
from tidemill.scheduling.desk.columns import Desk
from tidemill.scheduling.fitting.columns import Ground
from tidemill.scheduling.fitting.kernel import CALLS
from tidemill.scheduling.preemptive_order.columns import RollCall
from tidemill.scheduling.scores.tables import OTHERS, Tables

kernel = beside(
    __file__,
    {"d": Desk, "g": Ground, "a": Ground, "v": Ground, "t": Tables, "r": RollCall},
    (*desk.VECTORS, "terms"),
    OTHERS,
    matrices=("seekers",),
    calls=(*CALLS, str(desk.__file__)),
)
"""Compile this, unless the process runs interpreted."""
