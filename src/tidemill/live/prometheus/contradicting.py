"""GPUs against the scheduler: busy where a node is down or nobody holds anything, other counts.

A scheduler's word is booked. Devices that say otherwise make lines of the ledger doubtful, and
people must look: this finds those nodes. MIG instances are left out, since what a scheduler calls a
GPU of such a node is an instance; so are nodes whose size nobody told.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl
from msgspec.structs import replace

from tidemill.journal.contradictions import Contradiction, ContradictionSort
from tidemill.live.history.rows import SeenNode, is_instance
from tidemill.live.prometheus import labels
from tidemill.live.prometheus.minutes import MINUTE_MS
from tidemill.live.prometheus.reading import Hour
from tidemill.model.measures import FOREVER_MS, count_text
from tidemill.model.states import HOSTING, NodeState

LEAST_BUSY = 0.10
"""Of a minute; drivers and exporters themselves keep a GPU busy for one or two hundredths."""
LEAST_MINUTES = 3
"""In so many minutes of one reading a GPU must be busy, or GPUs be counted."""
_CLEAR_MS = 2 * MINUTE_MS
"""So long before and after a job its GPUs may still work: schedulers tell ends late."""


class _NodeMinutes(NamedTuple):
    """What devices of a node say in one sort of minutes."""

    minutes: int = 0
    first_ms: int = 0
    last_ms: int = 0
    gpus: int = 0
    busy: float = 0.0

    def plus(self, other: "_NodeMinutes") -> "_NodeMinutes":
        if not self.minutes:
            return other
        return _NodeMinutes(
            self.minutes + other.minutes, min(self.first_ms, other.first_ms),
            max(self.last_ms, other.last_ms), max(self.gpus, other.gpus),
            max(self.busy, other.busy),
        )  # fmt: skip


class DevicesAgainst:
    """Held against a scheduler's nodes and attempts, hour by hour.

    ``nodes``: by the names that devices have for them; ``ahead_ms``: as ``joining.join`` has it.
    """

    def __init__(
        self,
        source: str,
        nodes: Mapping[str, SeenNode],
        attempts: pl.DataFrame,
        ahead_ms: int = 0,
    ) -> None:
        self._source, self._ahead_ms = source, ahead_ms
        self._nodes = {
            name: node for name, node in nodes.items()
            if not (node.is_inferred or is_instance(node.gpu_type))
        }  # fmt: skip
        self._short = labels.by_host(self._nodes)
        ran = attempts.filter(pl.col("start_ms").is_not_null())
        has_nodes = pl.col("nodes").list.len().fill_null(0) > 0
        self._held = (
            ran.filter(has_nodes)
            .select("start_ms", pl.col("end_ms").fill_null(FOREVER_MS), node="nodes")
            .explode("node").unique()
        )  # fmt: skip
        self._is_placed = not len(ran.filter(~has_nodes))
        self._found: dict[tuple[ContradictionSort, str, str], _NodeMinutes] = {}
        self._counts: dict[str, _NodeMinutes] = {}

    def take(self, hour: Hour) -> None:
        """One more hour, or a part of it."""
        names = {name: self._name(name) for name in hour.gpus["node"].unique().to_list()}
        known = {name: found for name, found in names.items() if found is not None}
        rows = hour.gpus.filter(pl.col("node").is_in([*known])).with_columns(
            node=pl.col("node").replace(known), at_ms=pl.col("at_ms") - self._ahead_ms
        )
        rows = rows.filter((pl.col("mig") == "").all().over("node"))
        self._count(rows)
        self._work(rows.filter(pl.col("busy") >= LEAST_BUSY))

    def watched(self, hours: Iterable[Hour]) -> Iterator[Hour]:
        """The hours, each taken as somebody else reads it."""
        for hour in hours:
            self.take(hour)
            yield hour

    def found(self) -> Iterator[Contradiction]:
        """All that was found."""
        for (sort, name, said), told in sorted(self._found.items()):
            if told.minutes >= LEAST_MINUTES:
                gpus = count_text(told.gpus, "GPU")
                says = f"{said} by the scheduler; {gpus} busy, up to {100 * told.busy:.0f} %"
                yield self._made(sort, name, says, told)
        for name, told in sorted(self._counts.items()):
            listed = self._nodes[name].gpus
            if told.gpus != listed and told.minutes >= LEAST_MINUTES:
                says = f"{listed:,} GPUs by the scheduler; {told.gpus:,}"
                yield self._made(ContradictionSort.GPU_COUNT, name, says, told)

    def _made(
        self, sort: ContradictionSort, name: str, says: str, told: _NodeMinutes
    ) -> Contradiction:
        return Contradiction(
            sort=sort, name=self._nodes[name].name, source=self._source,
            says=f"{says} by {self._source}", first_ms=told.first_ms,
            last_ms=told.last_ms + MINUTE_MS,
        )  # fmt: skip

    def _name(self, told: str) -> str | None:
        """A node as the scheduler calls it: with a domain or without."""
        return told if told in self._nodes else self._short.get(labels.host_of(told))

    def _count(self, rows: pl.DataFrame) -> None:
        """The most GPUs that a node has at once."""
        device = pl.when(pl.col("uuid") != "").then("uuid").otherwise(pl.col("minor").cast(str))
        at_once = rows.group_by("node", "at_ms").agg(gpus=device.n_unique())
        for name, *told in at_once.group_by("node").agg(
            pl.len(), first=pl.col("at_ms").min(), last=pl.col("at_ms").max(),
            gpus=pl.col("gpus").max(),
        ).iter_rows():  # fmt: skip
            self._counts[name] = self._counts.get(name, _NodeMinutes()).plus(_NodeMinutes(*told))

    def _work(self, rows: pl.DataFrame) -> None:
        """Minutes of busy GPUs that the scheduler has another word for."""
        by_minute = rows.group_by("node", "at_ms").agg(
            gpus=pl.struct("uuid", "minor").n_unique(), busy=pl.col("busy").max()
        )
        near = by_minute.join(self._held, on="node").filter(
            (pl.col("start_ms") - _CLEAR_MS < pl.col("at_ms") + MINUTE_MS)
            & (pl.col("end_ms") + _CLEAR_MS > pl.col("at_ms"))
        )
        held = set(near.select("node", "at_ms").unique().iter_rows())
        for name, at_ms, gpus, busy in by_minute.sort("node", "at_ms").iter_rows():
            node = self._nodes[name]
            timed = _state(node, at_ms)
            state = node.now if timed is None else timed
            is_down = state is not None and state not in HOSTING
            is_held = not self._is_placed or (name, at_ms) in held
            if is_held and (timed is None or not is_down):
                continue  # a node that is down now, nobody says since when, may have worked before
            sort = ContradictionSort.DOWN_BUSY if is_down else ContradictionSort.FREE_BUSY
            said = "free" if state is None else state.name.lower()
            key, one = (sort, name, said), _NodeMinutes(1, at_ms, at_ms, gpus, busy)
            self._found[key] = self._found.get(key, _NodeMinutes()).plus(one)


def _state(node: SeenNode, at_ms: int) -> NodeState | None:
    """How a node took no new work through a minute, by who says since when; None: nobody does."""
    for start_ms, stop_ms, state in node.out:
        if start_ms <= at_ms and (stop_ms is None or stop_ms >= at_ms + MINUTE_MS):
            return state
    return None


def by_bare_name(nodes: Sequence[SeenNode], prefixes: Sequence[str] = ("",)) -> dict[str, SeenNode]:
    """Machines by their names without those of clusters; without names that two clusters have."""
    found, machines = dict[str, list[SeenNode]](), dict[str, SeenNode]()
    for node in nodes:
        whole = replace(node.machine or node, name=node.machine_name, out=node.out)
        machines.setdefault(whole.name, whole)
    for prefix in prefixes:
        for name, node in machines.items():
            if name.startswith(prefix):
                found.setdefault(name.removeprefix(prefix), []).append(node)
    return {bare: some[0] for bare, some in found.items() if len(some) == 1}
