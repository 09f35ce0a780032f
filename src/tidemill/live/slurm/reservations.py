"""Reservations of a cluster that is watched: Slurm forgets each when it is over or deleted.

One that is not shown any more ended when it said that it would, if that is past. Else it was
deleted, and ended when that was seen.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from tidemill.live.slurm import hostlists
from tidemill.live.slurm.rows import SlurmPartition, SlurmReservation
from tidemill.model.measures import count_text
from tidemill.model.site_rules import KeptNodes, PartitionLimit, SiteRules

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
    are, whose = ("is", "its") if len(kept) == 1 else ("are", "their")
    which = f"{count_text(len(kept), 'reservation')} that {are} not for maintenance ({shown})"
    may = f"who may use {whose} nodes is not read, so what is free there may not be for other jobs"
    return [f"{which}: {may}"]


def of_names(text: str | None) -> tuple[str, ...]:
    """The reservations that a job asks for (`--reservation`): it may use any of them."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def nodes_by_name(rows: Iterable[SlurmReservation]) -> dict[str, tuple[str, ...]]:
    """The nodes outside of which no job runs that asks for a reservation, where they are told.

    Of one that repeats, or has changed, those of the row that came last; with `FLEX` jobs may be
    elsewhere, too: no node.
    """
    found = dict[str, tuple[str, ...]]()
    for row in rows:
        if row.node_list:
            is_flexible = "FLEX" in (row.flags or "").upper().split(",")
            found[row.name] = () if is_flexible else _expanded(row.node_list)
    return found


def site_rules(
    rows: Iterable[SlurmReservation],
    asked: Mapping[str, Collection[str]],
    partitions: Iterable[SlurmPartition],
) -> SiteRules:
    """What the cluster rules beside what nodes have; ``asked``: waiting jobs by reservation."""
    kept = [
        KeptNodes(
            row.name, _expanded(row.node_list), row.node_list, row.start_ms or 0, row.end_ms,
            tuple(sorted(asked.get(row.name, ()))),
        )
        for row in rows if row.node_list and not is_maintenance(row)
    ]  # fmt: skip
    limits = [
        PartitionLimit(row.name, row.max_nodes, row.max_time_ms, _shut(row.state))
        for row in partitions
    ]
    return SiteRules(tuple(kept), tuple(one for one in limits if one[1:4] != (None, None, "")))


def _shut(state: str | None) -> str:
    """In which state a partition starts nothing, or takes nothing new; "": in none."""
    return state if state in ("DOWN", "DRAIN", "INACTIVE") else ""


def _expanded(text: str) -> tuple[str, ...]:
    try:
        return hostlists.expand(text)
    except ValueError:
        return ()


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
