"""Reservations of a cluster that is watched: Slurm forgets each when it is over or deleted.

One that is not shown any more ended when it said that it would, if that is past. Else it was
deleted, and ended when that was seen.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tidemill.live.slurm.rows import SlurmReservation

_Key = tuple[str, int | None]
"""Name and start: one that repeats has the same name every day."""


class SeenReservations:
    """The reservations that were shown, as long as what is told has not passed their ends."""

    def __init__(self) -> None:
        self._shown = dict[_Key, SlurmReservation]()
        self._over = dict[_Key, SlurmReservation]()

    def over(
        self, shown: Sequence[SlurmReservation], now_ms: int, since_ms: int
    ) -> Iterable[SlurmReservation]:
        """Those that are not shown any more, with their ends, if those are later than a moment."""
        now = {(row.name, row.start_ms): row for row in shown}
        for key, row in self._shown.items():
            if key not in now:
                end_ms = now_ms if row.end_ms is None else min(row.end_ms, now_ms)
                self._over[key] = replace(row, end_ms=end_ms)
        self._shown = now
        self._over = {
            key: row for key, row in self._over.items()
            if key not in now and max(since_ms, row.start_ms or 0) < (row.end_ms or 0)
        }  # fmt: skip
        return [*self._over.values()]
