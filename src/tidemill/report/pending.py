"""The pending board on the page: what waits, for which cause, and what stands idle beneath it."""

import shlex
from typing import TYPE_CHECKING, NamedTuple

from tidemill.journal.moments import Calendar
from tidemill.model.measures import count_text, dollars_text, duration_text, hourly_text
from tidemill.model.reasons import Layer
from tidemill.report import words

if TYPE_CHECKING:
    from tidemill.explain.answers import Board, BoardRow, TeamWaits

MOST_TEAMS = 5
MOST_PARTIAL = 20


class CauseRow(NamedTuple):
    """Everything that waits for one cause."""

    cause: str
    owner: str
    jobs: str
    asked: str
    oldest_job: str
    oldest_waited: str
    idle: str
    idle_usd: str
    teams: str
    command: str


class Pending(NamedTuple):
    """The board, ready to be written."""

    at: str
    jobs: str
    asked: str
    free: str
    free_usd: str
    unclaimed: str
    """Empty when those that wait claim all that is free."""
    unclaimed_usd: str
    rows: tuple[CauseRow, ...]
    partial: tuple[str, ...] = ()
    """Gangs of which only a part is placed, and those that block each other."""


def pending(board: "Board", calendar: Calendar) -> Pending:
    """A board in words."""
    return Pending(
        calendar.text(board.at_ms),
        count_text(board.jobs, "job"),
        words.accelerators(board.asked_milli),
        words.accelerators(board.free_milli),
        _hourly(board.free_usd_micro_per_hour),
        words.accelerators(board.unclaimed_milli) if board.unclaimed_milli else "",
        _hourly(board.unclaimed_usd_micro_per_hour),
        tuple(_row(row) for row in board.rows),
        (
            *(f"`{gang.job}`: {gang.words}" for gang in board.partial_gangs[:MOST_PARTIAL]),
            *(f"{one.words}; fix: {one.way_out}" for one in board.deadlocks),
        ),
    )


def _row(row: "BoardRow") -> CauseRow:
    return CauseRow(
        row.cause_words,
        words.owner(Layer(row.layer)),
        f"{row.jobs:,}",
        words.accelerators(row.asked_milli),
        row.oldest_job,
        duration_text(row.oldest_waited_ms),
        words.accelerators(row.idle_milli),
        _hourly(row.idle_usd_micro_per_hour),
        _teams(row.teams),
        f"tidemill why {shlex.quote(row.oldest_job)}",
    )


def _teams(teams: "tuple[TeamWaits, ...]") -> str:
    shown = [f"`{row.team}` {row.jobs:,}" for row in teams[:MOST_TEAMS]]
    rest = teams[MOST_TEAMS:]
    if rest:
        shown.append(f"{count_text(len(rest), 'other')} {sum(row.jobs for row in rest):,}")
    return ", ".join(shown)


def _hourly(usd_micro_per_hour: int | None) -> str:
    if usd_micro_per_hour is None:
        return hourly_text(None)
    return f"{dollars_text(usd_micro_per_hour)}/h"
