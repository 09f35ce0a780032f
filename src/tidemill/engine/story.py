"""A story: many events as columns, as a compiled stretch of beats writes them.

It holds the few kinds of event of which nearly all of a long history is made; whatever else
happens is told event by event. ``events`` gives the same events as messages, in order; ``batch``
in the columns that journals have.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tidemill.model import codes
from tidemill.model import events as ev
from tidemill.model.batch import Batch, Dictionary, EventColumn, PieceColumn, place
from tidemill.model.batch.convert import of_jobs
from tidemill.model.reasons import Cause
from tidemill.model.rows import Job, Piece
from tidemill.model.tables import I64, U64

SUBMITTED, PLACED, STARTED, FINISHED, SAID_WHY, FAILED, CANCELLED, SAID_MIX, PASSED = range(9)


_KINDS = (
    ev.JobSubmitted, ev.AskedPlace, ev.JobStarted, ev.JobFinished, ev.SaidWhy, ev.JobFailed,
    ev.JobCancelled, ev.SaidMix, ev.JobPassed,
)  # fmt: skip
_CODES = np.array([codes.KIND_CODE[kind] for kind in _KINDS], np.int64)


class Lines(NamedTuple):
    """One row an event: which, when, about which job or shape (of SAID_MIX: neither)."""

    kind: I64
    at_ms: I64
    subject: I64
    number: I64
    """The attempt; of SAID_WHY the cause; of SUBMITTED nothing."""
    first: I64
    """The first of its pieces, of PLACED."""
    pieces: I64
    """How many pieces, of PLACED; of FAILED whether it is final."""


class Pieces(NamedTuple):
    """One row a piece: replicas of the only role of a job on one node, and their devices."""

    node: I64
    replicas: I64
    devices: U64


class Story(NamedTuple):
    """Events as columns; ``jobs`` are those submitted in it, in order."""

    lines: Lines
    pieces: Pieces
    first_job: int
    jobs: Sequence[Job]

    def __len__(self) -> int:
        """How many events it holds."""
        return len(self.lines.kind)


def events(story: Story) -> Iterator[ev.Event]:
    """The events of a story as messages."""
    first_new = story.first_job
    columns = (column.tolist() for column in story.lines)
    nodes, replicas, devices = (column.tolist() for column in story.pieces)
    for kind, at_ms, subject, number, first, count in zip(*columns, strict=True):
        if kind == SUBMITTED:
            yield ev.JobSubmitted(at_ms, story.jobs[subject - first_new])
        elif kind == STARTED:
            yield ev.JobStarted(at_ms, subject, number)
        elif kind == FINISHED:
            yield ev.JobFinished(at_ms, subject, number)
        elif kind == FAILED:
            yield ev.JobFailed(at_ms, subject, number, is_final=count == 1)
        elif kind == CANCELLED:
            yield ev.JobCancelled(at_ms, subject)
        elif kind == SAID_WHY:
            yield ev.SaidWhy(at_ms, subject, Cause(number))
        elif kind == PASSED:
            yield ev.JobPassed(at_ms, subject)
        elif kind == SAID_MIX:
            yield ev.SaidMix(at_ms)
        else:
            mine = range(first, first + count)
            placed = tuple(Piece(0, nodes[i], replicas[i], devices[i]) for i in mine)
            yield ev.AskedPlace(at_ms, subject, number, placed)


def batch(story: Story, dictionary: Dictionary) -> Batch:
    """The events of a story in columns; shapes that the dictionary lacks are added to it."""
    lines, kind = story.lines, story.lines.kind
    rows = np.zeros((len(story), len(EventColumn)), np.int64)
    rows[:, EventColumn.AT] = lines.at_ms
    rows[:, EventColumn.KIND] = _CODES[kind]
    names_one = (kind != SUBMITTED) & (kind != SAID_MIX)
    rows[:, EventColumn.WHO] = np.where(names_one, lines.subject, 0)
    has_attempt = np.isin(kind, (PLACED, STARTED, FINISHED, FAILED))
    rows[:, EventColumn.ATTEMPT] = np.where(has_attempt, lines.number, 0)
    rows[:, EventColumn.WHY] = np.where(kind == SAID_WHY, lines.number, 0)
    rows[kind == FAILED, EventColumn.WHY] = codes.WHY_CODE[ev.Why.CRASHED]
    rows[:, EventColumn.VALUE] = np.where(kind == FAILED, lines.pieces == 1, 0)
    placed = np.flatnonzero(kind == PLACED)
    first, count = lines.first[placed], lines.pieces[placed]
    rows[placed, EventColumn.COUNT] = count
    place(rows)
    mine = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(count.sum())
    pieces = np.zeros((len(mine), len(PieceColumn)), np.int64)
    pieces[:, PieceColumn.NODE] = story.pieces.node[mine]
    pieces[:, PieceColumn.REPLICAS] = story.pieces.replicas[mine]
    pieces[:, PieceColumn.DEVICES] = story.pieces.devices[mine].view(np.int64)
    submitted = lines.subject[kind == SUBMITTED] - story.first_job
    jobs, names = of_jobs([story.jobs[i] for i in submitted.tolist()], dictionary)
    return Batch(rows, pieces, jobs, names, [], dictionary)
