"""What the sources of an observed journal told, what none of them did, and what to install."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tidemill.cli import screen
from tidemill.journal.base import Journal
from tidemill.ledger.buckets import OCCUPIED, Bucket
from tidemill.ledger.statement import Statement
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import EventColumn
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.world import World

LOOPS = "call tidemill.track in the loops, and import with --track"
DEVICES = "run dcgm-exporter and Prometheus, and import with --prometheus"
REASONS = "give what the scheduler says of waiting jobs too (squeue, kubectl get events)"
PRICES = "give --usd-per-hour, or a price file with --prices"
_STATES = "give what the scheduler says of nodes too (scontrol show node, kubectl get nodes)"


class SourceFinding(NamedTuple):
    """One source: whether it told all, what it told, what to do."""

    is_ok: bool
    what: str
    found: str
    so: str = ""


def look(journal: Journal, world: World, statement: Statement) -> Iterator[SourceFinding]:
    """What was told by which source, of a cluster with a scheduler of its own."""
    counts, over = _counted(journal)
    yield _loops(statement, counts)
    seen = int(counts[codes.KIND_CODE[ev.ActivitySeen]])
    yield SourceFinding(
        bool(seen), "devices (DCGM, or a loop that ended)",
        screen.count(seen, "change") + " of activity",
        "" if seen else f"idle is unknown: {DEVICES}",
    )  # fmt: skip
    moved = int(counts[codes.KIND_CODE[ev.NodeMoved]]) - 2 * world.node_count
    so = "" if moved > 0 else f"nodes count as Ready all the time: {_STATES}"
    yield SourceFinding(moved > 0, "states of nodes", screen.count(max(0, moved), "change"), so)
    waiting = np.flatnonzero(world.jobs.state[: world.job_count] == JobState.WAITING).tolist()
    unsaid = sum(world.reason_of(j) is None for j in waiting)
    yield SourceFinding(
        not unsaid, "jobs that wait without a reason", f"{unsaid:,} of {len(waiting):,}",
        REASONS if unsaid else "",
    )  # fmt: skip
    yield SourceFinding(
        not over, "attempts shown on GPUs that others held", f"{over:,}",
        "sources contradict each other, or share GPUs: that part is booked once" if over else "",
    )  # fmt: skip
    account = statement.total()
    hours = account.milli_ms[Bucket.NOT_OBSERVED] / MILLI_MS_PER_UNIT_HOUR
    yield SourceFinding(
        not hours, "time that nobody watched", f"{hours:,.1f} accelerator-hours",
        "keep `tidemill observe` running" if hours else "",
    )  # fmt: skip
    bare = account.unpriced_milli_ms / MILLI_MS_PER_UNIT_HOUR
    yield SourceFinding(
        not bare, "accelerator-hours without a price", f"{bare:,.1f}", PRICES if bare else ""
    )


def _loops(statement: Statement, counts: I64) -> SourceFinding:
    account = statement.total()
    worked = account.of(OCCUPIED)
    dark = account.milli_ms[Bucket.UNKNOWN]
    share = f"{100 * (worked - dark) / worked:.0f} %" if worked else "none"
    found = f"efficiency of {share} of the hours at work"
    saves = int(counts[codes.KIND_CODE[ev.CheckpointSeen]])
    found += f", {screen.count(saves, 'word')} of what is safe" if saves else ""
    return SourceFinding(not dark, "training loops", found, LOOPS if dark else "")


def _counted(journal: Journal) -> tuple[I64, int]:
    """Events by kind, and placements of which a part is held by others."""
    counts, over = np.zeros(len(codes.KINDS), np.int64), 0
    for batch in journal.batches():
        kinds = batch.events[:, EventColumn.KIND]
        counts += np.bincount(kinds, minlength=len(codes.KINDS))
        is_seen = kinds == codes.KIND_CODE[ev.PlacementSeen]
        over += int((batch.events[is_seen, EventColumn.VALUE] > 0).sum())
    return counts, over
