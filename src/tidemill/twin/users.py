"""Who submits the jobs of a workload: users within its team, drawn by weight from their own stream.

A spec gives names (all equally active), names with weights, or only how many there are. Then they
are called ``<team>-user-01`` and so on, and the one of rank r submits 1/r as much as the first
(Zipf: on shared clusters a few users submit most of the jobs).
"""

import numpy as np

from tidemill.twin.mix import I64
from tidemill.twin.spec.tables import WorkloadTable


def names(row: WorkloadTable) -> tuple[str, ...]:
    """The users of a workload; none where the spec does not say."""
    if isinstance(row.users, int):
        digits = max(2, len(str(row.users)))
        return tuple(f"{row.team}-user-{i:0{digits}d}" for i in range(1, row.users + 1))
    return tuple(row.users)


def draw(row: WorkloadTable, count: int, luck: np.random.Generator) -> I64:
    """The user of each job, as a place among ``names``; -1 where there are none."""
    weights = _weights(row)
    if not len(weights):
        return np.full(count, -1, np.int64)
    edges = np.cumsum(weights)
    return np.searchsorted(edges, luck.random(count) * edges[-1], side="right").astype(np.int64)


def _weights(row: WorkloadTable) -> np.ndarray:
    if isinstance(row.users, int):
        return 1.0 / np.arange(1, row.users + 1)
    if isinstance(row.users, dict):
        return np.array(list(row.users.values()), np.float64)
    return np.ones(len(row.users))
