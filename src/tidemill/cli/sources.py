"""What the sources of an observed journal told, what none of them did, and what to install."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemill.cli import contradicted, device_evidence, screen
from tidemill.journal import asked_sources, contradictions
from tidemill.journal.asked_sources import AskedSource, SourcePart
from tidemill.journal.base import Journal
from tidemill.journal.moments import Calendar
from tidemill.ledger import missing, unknowns
from tidemill.ledger.buckets import ABOUT, Bucket
from tidemill.ledger.statement import Statement
from tidemill.live.history import journalled
from tidemill.live.observing.observer import WATCHES, late_of
from tidemill.model import codes, paging
from tidemill.model import events as ev
from tidemill.model.batch import EventColumn
from tidemill.model.measures import MILLI_MS_PER_UNIT_HOUR, WHOLE_MILLI
from tidemill.model.rows import UNLISTED
from tidemill.model.states import JobState
from tidemill.model.tables import I64
from tidemill.model.world import World
from tidemill.reservation.types import UNFILLED
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
COMMITMENTS = "a column `committed_gpus` in the price file, or a bill with its unused commitments"
_SUBMITS = "give an export with the times of submission"
_STATES = "give what the scheduler says of nodes too (scontrol show node, kubectl get nodes)"
_PAST_STATES = (
    "none is out in what was read; what was so before, a cluster does not tell, and observe sees"
)


SLOW_MS = 10_000
"""An answer that takes longer is said to be slow; most take less than one second."""
SLOW = "slow: the journal is told so much later, and beyond the timeout it is no answer"
TOLD_BY = {
    SourcePart.JOBS: (Bucket.NOT_OBSERVED,),
    SourcePart.LOOPS: (
        Bucket.STARTING, Bucket.REWORK, Bucket.CHECKPOINT, Bucket.HOST, Bucket.LINKS,
        Bucket.UNKNOWN, Bucket.UNSAVED,
    ),
    SourcePart.DEVICES: (Bucket.IDLE,),
}  # fmt: skip
"""The lines of the ledger that rest on a source."""
WITHOUT = {
    SourcePart.JOBS: "nothing is told after that; what stands free grows",
    SourcePart.LOOPS: "unknown of that time",
    SourcePart.DEVICES: "unknown of that time",
}


class SourceFinding(NamedTuple):
    """One source: whether it told all, what it told, what to do."""

    is_ok: bool
    what: str
    found: str
    so: str = ""


def look(journal: Journal, world: World, statement: Statement) -> Iterator[SourceFinding]:
    """What was told by which source, of a cluster with a scheduler of its own."""
    counts, over = _counted(journal)
    rolled = journal.rolled_up()
    if rolled is not None:
        since = Calendar.of(journal.facts()).text(rolled.at_ms)
        yield SourceFinding(
            True, "events that were rolled up", f"{rolled.seq:,}, up to {since}",
            "what is counted below is of the later ones",
        )  # fmt: skip
    if (watched := journal.facts().get(WATCHES)) is not None:
        yield SourceFinding(True, "schedulers that are watched", watched)
        yield from _asked(journal)
    yield _loops(statement)
    yield _ranks(statement)
    seen = sum(int(counts[codes.KIND_CODE[kind]]) for kind in (ev.ActivitySeen, ev.FigureSeen))
    yield SourceFinding(
        bool(seen), "devices (DCGM, or a loop that ended)",
        screen.count(seen, "change") + " of activity and other figures",
        "" if seen else f"idle is unknown: {DEVICES}",
    )  # fmt: skip
    yield from _services(statement)
    yield _errors(journal, int(counts[codes.KIND_CODE[ev.DeviceErrorSeen]]))
    moved = int(counts[codes.KIND_CODE[ev.NodeMoved]])
    moved -= 2 * world.node_count * (rolled is None)  # each is launched and Ready at the beginning
    is_listed = not statement.untold_states and not any(
        UNLISTED in row.labels for row in world.node_rows
    )
    so = f"nodes count as Ready all the time: {_PAST_STATES if is_listed else _STATES}"
    so = "" if moved > 0 else so
    yield SourceFinding(moved > 0, "states of nodes", screen.count(max(0, moved), "change"), so)
    is_told = statement.tells_submissions
    yield SourceFinding(
        is_told, "when jobs were submitted", "told" if is_told else "no source tells it",
        "" if is_told else f"waits, and whether free GPUs had demand, are unknown: {_SUBMITS}",
    )  # fmt: skip
    states = paging.column(world.jobs.state, world.job_count)
    waiting = np.flatnonzero(states == JobState.WAITING).tolist()
    unsaid = sum(world.reason_of(j) is None for j in waiting)
    yield SourceFinding(
        not unsaid, "jobs that wait without a reason", f"{unsaid:,} of {len(waiting):,}",
        REASONS if unsaid else "",
    )  # fmt: skip
    yield SourceFinding(
        not over, "attempts shown on GPUs that others held", f"{over:,}",
        "sources contradict each other, or share GPUs: that part is booked once" if over else "",
    )  # fmt: skip
    for one in contradicted.words(contradictions.of(journal.facts(), journal.where)):
        yield SourceFinding(False, *one)
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
    yield _commitments(world, account.milli_ms[Bucket.NOT_LAUNCHED])


def _commitments(world: World, milli_ms: int) -> SourceFinding:
    """What is paid for and not there, or that nobody says how much commitments are of."""
    count = sum(row.terms == UNFILLED for row in world.contract_rows)
    is_told = unknowns.is_commitment_told(world)
    so = "" if is_told else f"reserved, not launched is unknown of others: {COMMITMENTS}"
    hours = f"{milli_ms / MILLI_MS_PER_UNIT_HOUR:,.1f} accelerator-hours not launched"
    found = f"{screen.count(count, 'contract')}, {hours}" if count else "nobody says how many GPUs"
    return SourceFinding(is_told, "commitments that are paid, there or not", found, so)


def _asked(journal: Journal) -> Iterator[SourceFinding]:
    """How each source answered when it was last asked, and what came after its time."""
    for one in asked_sources.of(journal.facts(), journal.where):
        yield _answering(one)
    late = late_of(journal)
    said = late.words()
    yield SourceFinding(
        not said, "told after its time, or otherwise than before", "; ".join(said) or "nothing",
        "what was told stands: a longer --lateness takes in what comes late" if said else "",
    )  # fmt: skip


def _answering(one: AskedSource) -> SourceFinding:
    """One source: down, slow, contradictory, or as it should be."""
    what = f"{one.part}: {one.name}"
    last = f"answered {_moment(one.answered_ms)}" if one.answered_ms else "never answered"
    last += f" in {one.took_ms / 1000:,.1f} s" if one.answered_ms else ""
    lines = ", ".join(f"`{ABOUT[bucket].title}`" for bucket in TOLD_BY[one.part])
    if one.failed:
        return SourceFinding(
            False, what, f"{_shortened(one.failed)} ({_moment(one.asked_ms)}); it {last}",
            f"{WITHOUT[one.part]}: {lines}",
        )  # fmt: skip
    late = f"{screen.count(one.late, 'record')} came after their time was told: not used"
    notes = [*one.notes, *([late] if one.late else [])]
    is_slow = one.took_ms > SLOW_MS
    so = [SLOW] if is_slow else []
    if notes and one.part is SourcePart.JOBS:
        so.append("what it does not show is on no line, and what it told before goes on")
    elif notes:
        so.append(f"may be wrong or unknown: {lines}")
    return SourceFinding(not so, what, "; ".join([last, *map(_shortened, notes)]), "; ".join(so))


def _shortened(said: str) -> str:
    """A message without the end of long commands."""
    return _COMMAND.sub(r"`\1 …`", said)


_COMMAND = re.compile(r"`([^`]{40})[^`]+`")


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _loops(statement: Statement) -> SourceFinding:
    known, worked = missing.known_efficiency(statement)
    assumed = missing.assumed_efficiency(statement)
    share = f"{100 * (known - assumed) / worked:.0f} %" if worked else "none"
    found = f"efficiency of {share} of the hours at work"
    found += f", assumed of another {100 * assumed / worked:.0f} %" if assumed else ""
    told, holders = statement.told, statement.holders
    jobs = holders[holders >= 0]
    loops = jobs[told.is_tracked(jobs) & ~statement.are_services(jobs)]
    saves = int(told.knows(loops, Bucket.REWORK).sum())
    whose = "" if saves == len(loops) else f" by {saves:,} of {screen.count(len(loops), 'loop')}"
    found += f", and what of the work is saved{whose}" if saves else ""
    is_whole = known - assumed == worked and saves == len(loops)
    so = [] if known - assumed == worked else [missing.words(statement, beyond_assumed=True)]
    if saves < len(loops) and missing.SAVES not in "".join(so):
        so.append(missing.SAVES)
    return SourceFinding(is_whole, "training loops", found, "; ".join(so))


def _ranks(statement: Statement) -> SourceFinding:
    """Of which jobs on several GPUs it is known what waiting for a slow rank cost."""
    world, holders = statement.world, statement.holders
    jobs = holders[holders >= 0]
    large = jobs[world.shapes.total_milli[world.jobs.shape[jobs]] > WHOLE_MILLI]
    known = int(statement.told.knows(large, Bucket.STRAGGLER).sum())
    is_whole = known == len(large)
    return SourceFinding(
        is_whole, "ranks that were compared (slow ones)",
        f"of {known:,} of {screen.count(len(large), 'job')} on several GPUs"
        if len(large) else "no job is on several GPUs",
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
    words = "; ".join(
        f"{xids.words(xid)}: {len(some):,}{_where(some)}"
        for (xid,), some in sorted(found.partition_by("xid", as_dict=True).items())
    )
    return SourceFinding(False, "errors of GPU drivers (XID)", words, XIDS)


def _where(errors: pl.DataFrame) -> str:
    """The first nodes with errors of one number, and their devices."""
    nodes = sorted(errors.partition_by("node", as_dict=True).items())
    told = [
        f" on {node}"
        + device_evidence.which_devices(
            sorted({minor for minor in some["minor"] if minor >= 0}),
            sorted(some["uuid"].drop_nulls().unique()),
        )
        for (node,), some in nodes[:3]
    ]
    return ",".join(told) + (" …" if len(nodes) > 3 else "")


def _counted(journal: Journal) -> tuple[I64, int]:
    """Events by kind, and placements of which a part is held by others; of those that are left."""
    counts, over = np.zeros(len(codes.KINDS), np.int64), 0
    for batch in journal.batches(journal.first_kept()):
        kinds = batch.events[:, EventColumn.KIND]
        counts += np.bincount(kinds, minlength=len(codes.KINDS))
        is_seen = kinds == codes.KIND_CODE[ev.PlacementSeen]
        over += int((batch.events[is_seen, EventColumn.VALUE] > 0).sum())
    return counts, over
