"""The kernels that every replay calls, for ``compiled.ahead``: those that take longest first."""

from tidemill.core.accounting import reading as ledger
from tidemill.engine.check import reading, reservations
from tidemill.scheduling.desk import cycle, gathering, opening, reserving, stopping
from tidemill.scheduling.fitting import ladders, trees
from tidemill.twin.driving import beats
from tidemill.twin.event_queue import lives

KERNELS = (
    cycle.work_off, beats.drive, trees.seat, reserving.reserve, ladders.fill_tied,
    gathering.gather, opening.begin, ledger.pass_time, reservations.read_passing, ledger.read,
    reading.read, lives.happen, stopping.find_victims,
)  # fmt: skip
