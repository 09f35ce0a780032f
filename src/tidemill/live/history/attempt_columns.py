"""Attempts as the walk through their moments needs them: columns, and requests for the rare ones.

A plain attempt holds whole devices, in replicas that are all alike, from its start to its end: a
kernel seats it. One that the journal has already, that is told by a shape, or that changes what it
holds is seated by ``Seating``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidemill.live.history.attempts import Sorted, SortedParts
from tidemill.live.history.rows import AttemptEnd
from tidemill.live.history.seating import NO_SEAT, SeatRequest
from tidemill.live.history.walking.columns import ATTEMPT, PLACE
from tidemill.model import codes, paging
from tidemill.model import events as ev
from tidemill.model.events import Why
from tidemill.model.rows import Shape
from tidemill.model.tables import I64

Flags = NDArray[np.bool_]

_WHY: dict[AttemptEnd, Why] = {
    AttemptEnd.FAILED: Why.CRASHED,
    AttemptEnd.TIMED_OUT: Why.TIMED_OUT,
    AttemptEnd.OUT_OF_MEMORY: Why.OUT_OF_MEMORY,
    AttemptEnd.NODE_LOST: Why.NODE_LOST,
    AttemptEnd.PREEMPTED: Why.PREEMPTED,
    AttemptEnd.EVICTED: Why.EVICTED,
    AttemptEnd.REJECTED: Why.LOST_RACE,
}
"""Why an attempt stopped; nothing else says."""
_FINISHED, _FAILED, _CANCELLED = (
    codes.KIND_CODE[kind] for kind in (ev.JobFinished, ev.JobFailed, ev.JobCancelled)
)
_PLACE = ("nodes", "devices")
_ASKED = ("replicas", "each", "nodes", "devices", "start_ms", "end_ms", "shape", "roles", "kind")

_USED = {
    "cpu_used_ms": ATTEMPT.CPU_USED_MS, "cpu_had_ms": ATTEMPT.CPU_HAD_MS,
    "memory_used_ppm": ATTEMPT.PEAK_PPM,
}  # fmt: skip
COLUMNS = (*_ASKED, "attempt", "outcome", "is_last", "is_told", *_USED)
"""What is asked of attempts, beside their ``number``."""


class AttemptColumns:
    """Attempts in columns, as ``ordered`` has them: they are given to ``add`` part by part.

    ``numbers``: of nodes, by their names. ``standing``: the nodes that are there, with their GPU
    type, for attempts of which nobody says where they were. ``shapes``: what jobs request, where
    they say it by number.
    """

    def __init__(
        self,
        ordered: Sorted | SortedParts,
        numbers: Mapping[str, int],
        standing: Sequence[tuple[int, str]],
        shapes: Sequence[Shape],
    ) -> None:
        self._numbers, self._shapes, self._standing = numbers, shapes, standing
        self._kinds, self.places = dict[str, int](), 0
        for part in ordered.parts("kind", "nodes"):
            for kind in part["kind"].unique(maintain_order=True).to_list():
                self._kinds.setdefault(kind, len(self._kinds))
            self.places += int(part["nodes"].list.len().sum() or 0)
        anywhere = [n for kind in self._kinds for n in self._anywhere(kind)]
        self.rows = paging.blank(ordered.counts[0], len(ATTEMPT))
        self.where = paging.blank(len(anywhere) + self.places, len(PLACE))
        self.where[: len(anywhere), PLACE.NODE] = anywhere
        self.count, self._next = 0, len(anywhere)
        """How many attempts, and rows of ``where``, there are so far."""
        self.most_nodes = 0
        """Of any of them."""
        self._changes: Flags = np.zeros(ordered.counts[0], bool)
        self._rare = dict[int, tuple[Any, ...]]()

    def add(self, rows: pl.DataFrame) -> None:
        """The next of them."""
        first, end = self.count, self.count + len(rows)
        self.count, mine = end, self.rows[first:end]
        mine[:, ATTEMPT.JOB] = rows["number"].to_numpy()
        number: I64 = np.where(is_begun(rows), rows["attempt"].to_numpy(), 0)
        mine[:, ATTEMPT.NUMBER] = number
        changes = (rows["outcome"] == AttemptEnd.CHANGED).to_numpy()
        self._changes[first:end] = changes
        _write_ends(mine, rows, number)
        for name, column in _USED.items():
            mine[:, column] = rows[name].fill_null(-1).to_numpy()
        is_plain = (rows["shape"].is_null() & ~rows["is_told"]).to_numpy() & ~changes
        is_plain[1:] &= ~changes[:-1]
        mine[:, ATTEMPT.IS_PLAIN] = is_plain
        self._write_places(mine, rows, is_plain)
        rare = rows.select(_ASKED).filter(pl.Series(~is_plain)).iter_rows()
        at = (first + np.flatnonzero(~is_plain)).tolist()
        self._rare.update(zip(at, rare, strict=True))
        paging.let_go()

    def _write_places(self, mine: I64, rows: pl.DataFrame, is_plain: Flags) -> None:
        """How plain attempts are to be seated, and the rows of ``where``.

        One in which no time passes takes no seat from others: clocks of a second show what ran one
        after the other as if it had run at once.
        """
        each = rows["kind"].replace_strict(self._kinds, return_dtype=pl.Int64).to_numpy()
        sits = is_plain & (rows["start_ms"].is_not_null() & ~_is_moment(rows)).to_numpy()
        mine[:, ATTEMPT.REPLICAS] = np.where(sits, rows["replicas"].fill_null(0).to_numpy(), 0)
        mine[:, ATTEMPT.EACH] = rows["each"].fill_null(1).to_numpy()
        counts = rows["nodes"].list.len().fill_null(0).cast(pl.Int64).to_numpy() * sits
        is_anywhere = sits & (counts == 0)
        mine[:, ATTEMPT.IS_ANYWHERE] = is_anywhere
        nodes_of: I64 = np.where(is_anywhere, len(self._standing), counts)
        self.most_nodes = max(self.most_nodes, int(nodes_of.max(initial=0)))
        mine[:, ATTEMPT.NODES] = nodes_of
        firsts = self._next + counts.cumsum() - counts
        mine[:, ATTEMPT.FIRST] = np.where(is_anywhere, each * len(self._standing), firsts)
        told = rows.select(_PLACE).filter(pl.Series(counts > 0))
        nodes = told["nodes"].explode().replace_strict(self._numbers, return_dtype=pl.Int64)
        where = self.where[self._next : self._next + len(nodes)]
        self._next += len(nodes)
        where[:, PLACE.NODE] = nodes.to_numpy()
        if told["devices"].null_count() < len(told):
            where[:, PLACE.TOLD] = _masks(told)

    def _anywhere(self, kind: str) -> list[int]:
        """All nodes that are there, those with GPUs of a type first."""
        return [n for n, _ in sorted(self._standing, key=lambda one: one[1] != kind)]

    def asked(self, a: int) -> SeatRequest:
        """How an attempt that is not plain is to be seated."""
        replicas, each, nodes, masks, start_ms, end_ms, s, roles, kind = self._rare[a]
        if start_ms is None or end_ms == start_ms:
            return NO_SEAT
        where = [self._numbers[name] for name in nodes] if nodes else self._anywhere(kind)
        if s is None:
            return SeatRequest(replicas, each, where, masks, is_anywhere=not nodes)
        shape = self._shapes[s].roles
        return SeatRequest(0, 1, where if nodes else [], masks, False, roles, shape)

    def after(self, a: int) -> int | None:
        """The attempt as which one goes on, and holds something else."""
        return a + 1 if self._changes[a] else None


def _write_ends(mine: I64, rows: pl.DataFrame, number: I64) -> None:
    """The events that end attempts: with the last one its job, unless that waits again."""
    outcome, is_last = rows["outcome"], rows["is_last"].fill_null(value=False).to_numpy()

    def ended(how: AttemptEnd) -> Flags:
        found: Flags = (outcome == how).fill_null(value=False).to_numpy()
        return found

    is_cancelled = (ended(AttemptEnd.CANCELLED) & is_last) | (number == 0)
    is_finished = ended(AttemptEnd.DONE) & is_last & ~is_cancelled
    is_failed = ~is_cancelled & ~is_finished
    whys = {str(end): codes.WHY_CODE[_WHY.get(end, Why.UNSAID)] for end in AttemptEnd}
    why = outcome.replace_strict(whys, return_dtype=pl.Int64).to_numpy()
    kind = np.where(is_finished, _FINISHED, _FAILED)
    mine[:, ATTEMPT.END_KIND] = np.where(is_cancelled, _CANCELLED, kind)
    mine[:, ATTEMPT.END_NUMBER] = np.where(is_cancelled, 0, number)
    mine[:, ATTEMPT.END_WHY] = np.where(is_failed, why, 0)
    mine[:, ATTEMPT.END_VALUE] = is_failed & is_last & ~ended(AttemptEnd.REQUEUED)


def is_begun(rows: pl.DataFrame) -> Flags:
    """Attempts that hold what they were given: now, or since before."""
    found: Flags = (rows["start_ms"].is_not_null() | rows["is_told"]).to_numpy()
    return found


def _is_moment(rows: pl.DataFrame) -> pl.Series:
    """Whether no time passes in an attempt."""
    return (rows["start_ms"] == rows["end_ms"]).fill_null(value=False)


def _masks(told: pl.DataFrame) -> I64:
    """The devices of each node of each of these attempts; 0 where nobody said which."""
    nobody = pl.lit(0, pl.Int64).repeat_by(pl.col("nodes").list.len())
    masks = told.select(devices=pl.coalesce("devices", nobody))["devices"].explode()
    return masks.fill_null(0).to_numpy()
