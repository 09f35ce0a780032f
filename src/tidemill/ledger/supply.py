"""The supply side of the ledger: accelerators that no job holds, integrated over time.

Between two moments nothing changes, so each level counts ``milli × ms``. Levels of a contract that
are a bucket as they are go straight there; READY ones are divided among what waits.
"""

from typing import Any

import numpy as np

from tidemill.ledger import kernels
from tidemill.ledger.buckets import CLAIMED_AS, OF_LEVEL, Bucket
from tidemill.model.tables import I64
from tidemill.model.world import Level, World
from tidemill.scheduling.diagnose import could_match

_CLAIMED_AS = np.array(CLAIMED_AS, np.int64)


class Supply:
    """Sums per time bin of what is paid, and of what is paid but in no job's hands."""

    def __init__(self, orders_by_priority: bool) -> None:
        self.paid: dict[int, I64] = {}
        """Paid milli × ms per contract."""
        self.unheld: dict[int, I64] = {}
        """Milli × ms per contract, bucket, team + 1 (0: nobody)."""
        self._by_priority = orders_by_priority
        self._may_use: Any = np.zeros((0, 0), np.bool_)
        self._may_use_at = (-1, -1, -1)

    def integrate(self, world: World, bin_number: int, dt_ms: int) -> None:
        """Count the World as it is for this long."""
        count, teams = world.contract_count, len(world.queue_rows)
        paid = _row(self.paid, bin_number, (count,))
        unheld = _row(self.unheld, bin_number, (count, len(Bucket), teams + 1))
        levels = world.levels[:count]
        paid_now = _paid_now(world)
        paid += paid_now * dt_ms
        unheld[:, Bucket.NOT_LAUNCHED, 0] += (paid_now - levels.sum(axis=1)) * dt_ms
        for level, bucket in OF_LEVEL.items():
            unheld[:, bucket, 0] += levels[:, level] * dt_ms
        self._claim(world, levels[:, Level.READY].copy(), dt_ms, unheld)

    def _claim(self, world: World, free: I64, dt_ms: int, out: I64) -> None:
        shapes, count = world.shapes, len(world.shape_rows)
        is_promised = np.zeros(count, np.bool_)
        for s in world.promised:
            is_promised[s] = True
        kernels.claim(
            shapes.waiting, shapes.total_milli, shapes.priority, shapes.queue, shapes.head,
            shapes.cause, is_promised, count, self._usable(world), _CLAIMED_AS,
            self._by_priority, world.contracts.kind, world.used >= world.floor,
            int(Bucket.NO_DEMAND), dt_ms, free, np.zeros(count, np.bool_), out,
        )  # fmt: skip

    def _usable(self, world: World) -> Any:
        """Which shapes may use which contracts; asked again only when there are new ones."""
        stamp = (len(world.shape_rows), world.contract_count, len(world.groups))
        if stamp != self._may_use_at:
            self._may_use_at = stamp
            self._may_use = np.zeros(stamp[:2], np.bool_)
            for s, shape in enumerate(world.shape_rows):
                roles = [role for role in shape.roles if role.accelerators]
                for c, row in enumerate(world.contract_rows):
                    self._may_use[s, c] = any(
                        (not role.kinds or row.kind in role.kinds) and could_match(world, row, role)
                        for role in roles
                    )
        return self._may_use


def _paid_now(world: World) -> I64:
    contracts, count = world.contracts, world.contract_count
    reserved = contracts.is_reserved[:count] == 1
    paid = np.where(reserved, contracts.count_milli[:count], contracts.launched_milli[:count])
    return paid * contracts.is_running[:count]


def _row(bins: dict[int, I64], bin_number: int, shape: tuple[int, ...]) -> I64:
    """The array of a bin, enlarged when contracts or teams were added."""
    array = bins.get(bin_number)
    if array is None:
        array = bins[bin_number] = np.zeros(shape, np.int64)
    elif array.shape != shape:
        bigger = np.zeros(shape, np.int64)
        bigger[tuple(slice(0, n) for n in array.shape)] = array
        array = bins[bin_number] = bigger
    return array
