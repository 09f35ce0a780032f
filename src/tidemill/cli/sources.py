"""What the sources of an observed journal told, what none of them did, and what to install."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemill.cli import screen
from tidemill.journal.base import Journal
from tidemill.ledger import missing
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.statement import Statement
from tidemill.live.history import journalled
from tidemill.live.observing.observer import WATCHES
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import EventColumn
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, WHOLE_MILLI
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.units.catalogue import xids

DEVICES = "run dcgm-exporter and Prometheus, and import or observe with --prometheus"
LOADS = (
    "let Prometheus scrape their engines (`tidemill prometheus fields` lists the metrics), or use"
    " track.service"
)
XIDS = "`tidemill fleet --nodes` has them by node; look at the node's kernel log"
RANKS = "tidemill.track in every rank, with run.communication(); import or observe with --track"
REASONS = "give what the scheduler says of waiting jobs too (squeue, kubectl get events)"
PRICES = "give --usd-per-hour, or a price file with --prices"
_SUBMITS = "give an export with the times of submission"
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
    if (watched := journal.facts().get(WATCHES)) is not None:
        yield SourceFinding(True, "schedulers that are watched", watched)
    yield _loops(statement, counts)
    yield _ranks(statement)
    seen = int(counts[codes.KIND_CODE[ev.ActivitySeen]])
    yield SourceFinding(
        bool(seen), "devices (DCGM, or a loop that ended)",
        screen.count(seen, "change") + " of activity",
        "" if seen else f"idle is unknown: {DEVICES}",
    )  # fmt: skip
    yield from _services(statement)
    yield _errors(journal, int(counts[codes.KIND_CODE[ev.DeviceErrorSeen]]))
    moved = int(counts[codes.KIND_CODE[ev.NodeMoved]]) - 2 * world.node_count
    so = "" if moved > 0 else f"nodes count as Ready all the time: {_STATES}"
    yield SourceFinding(moved > 0, "states of nodes", screen.count(max(0, moved), "change"), so)
    is_told = statement.tells_submissions
    yield SourceFinding(
        is_told, "when jobs were submitted", "told" if is_told else "no source tells it",
        "" if is_told else f"waits, and whether free GPUs had demand, are unknown: {_SUBMITS}",
    )  # fmt: skip
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
    known, worked = missing.known_efficiency(statement)
    share = f"{100 * known / worked:.0f} %" if worked else "none"
    found = f"efficiency of {share} of the hours at work"
    saves = int(counts[codes.KIND_CODE[ev.CheckpointSeen]])
    found += f", {screen.count(saves, 'word')} of what is safe" if saves else ""
    is_whole = known == worked
    so = "" if is_whole else missing.words(statement)
    return SourceFinding(is_whole, "training loops", found, so)


def _ranks(statement: Statement) -> SourceFinding:
    """Of which jobs on several GPUs it is known what waiting for a slow rank cost."""
    world, holders = statement.world, statement.holders
    jobs = holders[holders >= 0]
    large = jobs[world.shapes.total_milli[world.jobs.shape[jobs]] > WHOLE_MILLI]
    known = int(statement.told.knows(large, Bucket.STRAGGLER).sum())
    is_whole = known == len(large)
    return SourceFinding(
        is_whole, "ranks that were compared (slow ones)",
        f"of {known:,} of {screen.count(len(large), 'job')} on several GPUs",
        "" if is_whole else f"waits for a slow rank are within stalled: communication: {RANKS}",
    )  # fmt: skip


def _services(statement: Statement) -> Iterator[SourceFinding]:
    """Of which services it is known what they were asked for."""
    holders = statement.holders
    jobs = holders[holders >= 0]
    services = jobs[statement.are_services(jobs)]
    if not len(services):
        return
    known = int(statement.told.is_asked(services).sum())
    is_whole = known == len(services)
    yield SourceFinding(
        is_whole, "services whose requests are counted",
        f"{known:,} of {screen.count(len(services), 'service')}",
        "" if is_whole else f"whether the others were asked for anything is unknown: {LOADS}",
    )  # fmt: skip


def _errors(journal: Journal, count: int) -> SourceFinding:
    """Errors that GPU drivers reported (XID), by number and node."""
    if not count:
        return SourceFinding(True, "errors of GPU drivers (XID)", "none is known")
    found = journalled.errors_of(journal)
    told = found.group_by("xid").agg(pl.len().alias("count"), pl.col("node").unique()).sort("xid")
    words = "; ".join(
        f"{xids.words(xid)}: {times:,} on {', '.join(sorted(nodes)[:3])}"
        + (" …" if len(nodes) > 3 else "")
        for xid, times, nodes in told.iter_rows()
    )
    return SourceFinding(False, "errors of GPU drivers (XID)", words, XIDS)


def _counted(journal: Journal) -> tuple[I64, int]:
    """Events by kind, and placements of which a part is held by others."""
    counts, over = np.zeros(len(codes.KINDS), np.int64), 0
    for batch in journal.batches():
        kinds = batch.events[:, EventColumn.KIND]
        counts += np.bincount(kinds, minlength=len(codes.KINDS))
        is_seen = kinds == codes.KIND_CODE[ev.PlacementSeen]
        over += int((batch.events[is_seen, EventColumn.VALUE] > 0).sum())
    return counts, over
