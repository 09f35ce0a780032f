"""The pending board on the page: what waits, for which cause, and what stands idle beneath it."""

from typing import TYPE_CHECKING, NamedTuple

from tidemill.model.measures import dollars_text, duration_text
from tidemill.model.reasons import Layer
from tidemill.report import words

if TYPE_CHECKING:
    from tidemill.explain.answers import Board, BoardRow

MOST_ROWS = 20  # there are fewer causes than that; a bound all the same


class Row(NamedTuple):
    """Everything that waits for one cause."""

    cause: str
    owner: str
    jobs: str
    asked: str
    oldest_job: str
    oldest_waited: str
    idle: str
    idle_usd: str
    words: str


class Pending(NamedTuple):
    """The board, ready to be written."""

    at: str
    jobs: str
    asked: str
    free: str
    free_usd: str
    unclaimed: str
    unclaimed_usd: str
    rows: tuple[Row, ...]


def pending(board: "Board") -> Pending:
    """A board in words."""
    return Pending(
        words.moment(board.at_ms),
        words.many(board.jobs, "job"),
        words.accelerators(board.asked_milli),
        words.accelerators(board.free_milli),
        _hourly(board.free_usd_micro_per_hour),
        words.accelerators(board.unclaimed_milli),
        _hourly(board.unclaimed_usd_micro_per_hour),
        tuple(_row(row) for row in board.rows[:MOST_ROWS]),
    )


def _row(row: "BoardRow") -> Row:
    return Row(
        row.cause.replace("_", " "),
        words.owner(Layer(row.layer)),
        f"{row.jobs:,}",
        words.accelerators(row.asked_milli),
        row.oldest_job,
        duration_text(row.oldest_waited_ms),
        words.accelerators(row.idle_milli),
        _hourly(row.idle_usd_micro_per_hour),
        row.words,
    )


def _hourly(usd_micro_per_hour: int) -> str:
    return f"{dollars_text(usd_micro_per_hour)}/h"
