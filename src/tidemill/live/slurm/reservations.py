"""Reservations of a cluster that is watched: Slurm forgets each when it is over or deleted.

One that is not shown any more ended when it said that it would, if that is past. Else it was
deleted, and ended when that was seen.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tidemill.live.slurm.rows import SlurmReservation
from tidemill.model.measures import count_text

_Key = tuple[str, int | None]
"""Name and start: one that repeats has the same name every day."""


def is_maintenance(row: SlurmReservation) -> bool:
    """Whether it closes its nodes to all, rather than keeping them for some."""
    return "MAINT" in (row.flags or "").upper().split(",")


def keeping(rows: Iterable[SlurmReservation], now_ms: int) -> dict[str, str]:
    """Reservations that keep nodes for some jobs at a moment: which nodes, by name."""
    return {
        row.name: row.node_list
        for row in rows
        if row.node_list and not is_maintenance(row) and (
            row.state == "ACTIVE"
            or ((row.start_ms or 0) <= now_ms and (row.end_ms is None or now_ms < row.end_ms))
        )
    }  # fmt: skip


def said(kept: dict[str, str]) -> list[str]:
    """That nobody reads who may use such nodes, in words."""
    if not kept:
        return []
    some = [f"{name}: {nodes}" for name, nodes in sorted(kept.items())]
    shown = "; ".join(some[:3]) + (" …" if len(some) > 3 else "")
    words = f"{count_text(len(kept), 'reservation')} that is not for maintenance ({shown}): who may"
    return [f"{words} use its nodes is not read, so what is free there may not be for other jobs"]


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
