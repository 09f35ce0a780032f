"""Attempts of one job: when each held its place, where, how it ended, and what came of its time.

The ledger reads the journal in pieces that end where the job or a node changes: what the job's rows
hold more after a piece than before it belongs to the attempt that was there. So the attempts of a
job add up to the job, exactly, and no rule of the ledger is written twice.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tidemill.ledger.account import zero
from tidemill.ledger.reader import Ledger
from tidemill.ledger.rows import LedgerRows, accounts, in_gpus, rows_of
from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import Batch, EventColumn, cut
from tidemill.model.events import Why
from tidemill.model.states import JobState

_OF_JOB = [
    codes.KIND_CODE[kind]
    for kind in (
        ev.PlacementSeen, ev.JobStarted, ev.JobFinished, ev.JobFailed, ev.JobEvicted, ev.JobMoved,
        ev.JobCancelled, ev.AskedPlace, ev.AskedEvict, ev.AskedMove, ev.AskedCancel,
    )
]  # fmt: skip
_OF_NODES = [
    codes.KIND_CODE[kind] for kind in (ev.NodeMoved, ev.DeviceFailed, ev.ContractEnded)
]  # gangs go down with these, without an event of their own
_SAYS_WHY = [codes.KIND_CODE[kind] for kind in (ev.JobFailed, ev.AskedEvict, ev.AskedMove)]


class HeldAttempt(NamedTuple):
    """One attempt of a job."""

    number: int
    start_ms: int
    """Since when it held its place."""
    up_ms: int | None
    """Since when it worked; None: it never came up."""
    end_ms: int | None
    """None: it still holds its place."""
    outcome: str
    """done, failed, cancelled, stopped, or running."""
    why: str
    """Why it was stopped; empty where nobody said."""
    nodes: tuple[str, ...]
    milli_ms: tuple[int, ...]
    """By bucket."""
    money: tuple[int, ...]


class _Open:
    """The attempt that holds a place now."""

    def __init__(self, number: int, start_ms: int, nodes: tuple[str, ...]) -> None:
        self.number, self.start_ms, self.nodes = number, start_ms, nodes
        self.up_ms: int | None = None


def attempts_of(ledger: Ledger, batches: Iterable[Batch], job: str) -> list[HeldAttempt]:
    """Read batches with a new ledger; the attempts of a job, in order."""
    found: list[HeldAttempt] = []
    now: _Open | None = None
    why = Why.UNSAID
    before = zero().milli_ms, zero().money
    for piece in _pieces(ledger, batches, job):
        ledger.read_batch(piece)
        j = ledger.world.job_number.get(job, -1)
        if j < 0:
            continue
        why = _why(piece, j) or why
        state, number = JobState(int(ledger.world.jobs.state[j])), ledger.world.jobs.attempt.item(j)
        is_held = state in (JobState.STARTING, JobState.RUNNING)
        if now is not None and (not is_held or number != now.number):
            after = _sums(ledger, j)
            said = _why_of_node(piece) or why
            found.append(_closed(now, ledger.world.now_ms, _outcome(state), said, before, after))
            before, now, why = after, None, Why.UNSAID
        if is_held and now is None:
            now = _Open(number, ledger.world.now_ms, _nodes(ledger, j))
        if now is not None and state is JobState.RUNNING and now.up_ms is None:
            now.up_ms = ledger.world.now_ms
    if now is not None:
        after = _sums(ledger, ledger.world.job_number[job])
        found.append(_closed(now, None, "running", Why.UNSAID, before, after))
    return found


def _pieces(ledger: Ledger, batches: Iterable[Batch], job: str) -> Iterator[Batch]:
    """Batches cut behind every event that may change the job's place."""
    for batch in batches:
        rest = batch
        j = ledger.world.job_number.get(job, -1)
        if j < 0 and job in batch.job_names:
            at = _submission(batch, job)
            yield cut(batch, 0, at)
            rest = cut(batch, at, len(batch.events))
            j = ledger.world.job_number[job]
        kind, who = (rest.events[:, c] for c in (EventColumn.KIND, EventColumn.WHO))
        is_change = (np.isin(kind, _OF_JOB) & (who == j)) | np.isin(kind, _OF_NODES)
        edges = [0, *(np.flatnonzero(is_change & (j >= 0)) + 1).tolist(), len(rest.events)]
        for first, last in pairwise(edges):
            if last > first:
                yield cut(rest, first, last)


def _submission(batch: Batch, job: str) -> int:
    """How many events of a batch there are up to the submission of a job."""
    is_submitted = batch.events[:, EventColumn.KIND] == codes.KIND_CODE[ev.JobSubmitted]
    return int(np.flatnonzero(is_submitted)[batch.job_names.index(job)]) + 1


def _sums(ledger: Ledger, j: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    contracts = ledger.world.contract_rows
    rows = in_gpus(rows_of(ledger), contracts)
    mine = LedgerRows(*(column[rows.job == j] for column in rows))
    if not len(mine.job):
        return zero().milli_ms, zero().money
    (account,) = accounts(mine, np.zeros(len(mine.job), np.int64), 1, contracts)
    return account.milli_ms, account.money


def _closed(
    now: _Open,
    end_ms: int | None,
    outcome: str,
    why: Why,
    before: tuple[tuple[int, ...], tuple[int, ...]],
    after: tuple[tuple[int, ...], tuple[int, ...]],
) -> HeldAttempt:
    milli_ms, money = (
        tuple(b - a for a, b in zip(old, new, strict=True))
        for old, new in zip(before, after, strict=True)
    )
    return HeldAttempt(
        now.number, now.start_ms, now.up_ms, end_ms, outcome, str(why), now.nodes, milli_ms, money
    )


def _outcome(state: JobState) -> str:
    ended = (JobState.DONE, JobState.FAILED, JobState.CANCELLED)
    return state.name.lower() if state in ended else "stopped"


def _why(piece: Batch, j: int) -> Why:
    """Why a piece's last event says that the job is to stop."""
    last = piece.events[-1]
    if last[EventColumn.KIND] in _SAYS_WHY and last[EventColumn.WHO] == j:
        return codes.WHYS[int(last[EventColumn.WHY])]
    return Why.UNSAID


def _why_of_node(piece: Batch) -> Why:
    """Why a piece's last event says that a node went: of attempts that end with it alone."""
    last = piece.events[-1]
    is_node = last[EventColumn.KIND] == codes.KIND_CODE[ev.NodeMoved]
    return codes.WHYS[int(last[EventColumn.WHY])] if is_node else Why.UNSAID


def _nodes(ledger: Ledger, j: int) -> tuple[str, ...]:
    world = ledger.world
    return tuple(dict.fromkeys(world.node_rows[p.node].name for p in world.placements[j]))
