"""What jobs used of their hosts, CPU time and memory, as their clusters' accounting says.

Reads batches of events. CPU time adds up over attempts; of memory the most that any of them used.
"""

from typing import NamedTuple

import numpy as np

from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import Batch, EventColumn
from tidemill.model.measures import ONE_PPM
from tidemill.model.tables import I64, grown

_USE = codes.KIND_CODE[ev.HostUseSeen]
_USED, _HAD, _PEAK = range(3)


class HostUse(NamedTuple):
    """Shares in millionths; None: nobody says."""

    cpu_ppm: int | None
    """CPU time over that of all CPUs that it had, of the attempts of which it is told."""
    memory_ppm: int | None
    """The most memory that it used at once, of what it requested."""


NOTHING = HostUse(None, None)


class HostUses:
    """By job: CPU time used and had, in ms, and the largest share of memory, plus one; 0: untold.

    A row is kept for every job up to the last that is told of; journals that tell of none have
    nothing here.
    """

    def __init__(self) -> None:
        self._rows: I64 = np.zeros((0, 3), np.int64)

    def count(self, batch: Batch) -> None:
        """Take in the events of a batch."""
        rows = batch.events[batch.events[:, EventColumn.KIND] == _USE]
        if not len(rows):
            return
        job = rows[:, EventColumn.WHO]
        if (most := int(job.max()) + 1) > len(self._rows):
            self._rows = grown(self._rows, most)
        used, had = rows[:, EventColumn.VALUE], rows[:, EventColumn.TO]
        is_told = (used >= 0) & (had > 0)
        np.add.at(self._rows[:, _USED], job[is_told], used[is_told])
        np.add.at(self._rows[:, _HAD], job[is_told], had[is_told])
        np.maximum.at(self._rows[:, _PEAK], job, rows[:, EventColumn.WHY] + 1)

    def of(self, j: int) -> HostUse:
        """What one job used."""
        if not 0 <= j < len(self._rows):
            return NOTHING
        used, had, peak = self._rows[j].tolist()
        return HostUse(used * ONE_PPM // had if had else None, peak - 1 if peak else None)
