"""``@kernel``: a function over all that a beat of the twin takes: whole tuples, and integers."""

from tidemill.core.kernel import STATE, between, whole_of
from tidemill.engine.check import columns as check
from tidemill.engine.check import kernel as check_kernel
from tidemill.provisioning import columns as provisioning
from tidemill.provisioning import kernel as provisioning_kernel
from tidemill.scheduling.desk import kernel as desk_kernel
from tidemill.scheduling.fitting import kernel as fitting_kernel
from tidemill.scheduling.scores.tables import OTHERS
from tidemill.twin.driving.columns import Beat
from tidemill.twin.event_queue import kernel as queue_kernel
from tidemill.twin.event_queue.columns import Outside

_CHECK = {"v": check.View, "c": check.Sums, "f": check.Facts, "p": check.Rows, "y": check.Yard}
_FILES = (check_kernel, desk_kernel, fitting_kernel, provisioning_kernel, queue_kernel)

kernel = between(
    __file__,
    {
        "w": STATE,
        "o": whole_of(Outside, queue_kernel.VECTORS, queue_kernel.OTHERS),
        "b": whole_of(Beat, ("drive",)),
        "u": whole_of(provisioning.Overview, provisioning.VECTORS),
    }
    | {name: whole_of(table, check.VECTORS) for name, table in _CHECK.items()}
    | {
        name: whole_of(table, desk_kernel.VECTORS, OTHERS)
        for name, table in desk_kernel.TABLES.items()
    },
    calls=[*(str(file.__file__) for file in _FILES), *fitting_kernel.CALLS],
)
"""Compile this, unless the process runs interpreted."""
