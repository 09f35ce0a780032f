"""What is printed adds up to what is printed, in every table of the ledger."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from tests.ledger import stories
from tidemill import api
from tidemill.cli import comparison_tables, efficiency_tables, ledger_tables, waits_tables
from tidemill.ledger import efficiency
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.printed import units
from tidemill.ledger.statement import DIMENSIONS, Statement, read
from tidemill.ledger.top import in_units, top_jobs
from tidemill.model.measures import HOUR_MS

SEEDS = (3, 8, 21)


def told(seed: int) -> Statement:
    """The statement of a random history, at prices that do not divide."""
    return read(stories.story(seed, 120), bin_ms=HOUR_MS)


def columns(made: RenderableType) -> list[list[int]]:
    """The first money of every row, and then its hours, as they are printed: in the last digit."""
    file = io.StringIO()
    Console(file=file, width=200).print(made)
    rows = []
    for line in file.getvalue().splitlines():
        money = re.search(r"[+-]?\$[\d,]+\.\d+", line)
        hours = re.findall(r"(?<=\s)[+-]?[\d,]+\.\d+(?=\s+[^%\s]|\s*$)", line)
        if money and hours:
            rows.append([int(re.sub(r"[$,.]", "", text)) for text in (money[0], *hours)])
    return rows


def add_up(rows: list[list[int]], total: list[int]) -> None:
    """Assert that the rows are the total, in every column."""
    assert [sum(row[column] for row in rows) for column in range(len(total))] == total


def printed(made: RenderableType) -> dict[str, str]:
    """The first dollars of every row, by the first word of the row."""
    file = io.StringIO()
    Console(file=file, width=200).print(made)
    rows = re.findall(r"^ (\S+) .*?(\$[\d,]+\.\d\d)", file.getvalue(), re.MULTILINE)
    return dict(rows)


def test_a_job_paid_the_same_in_every_table(tiny: Path):
    """`--top`, `--by job` and `efficiency`, cut short anywhere: the same cents for the same job."""
    statement = api.read_statement(str(tiny / "tiny.sqlite"))
    whole = printed(ledger_tables.breakdown("job", statement, None, 1_000))
    for most in (1, 5, 20):
        cut = printed(ledger_tables.breakdown("job", statement, None, most))
        assert all(whole[job] == usd for job, usd in cut.items() if job != "…")
    top = printed(waits_tables.top(top_jobs(statement, 1_000), in_units(statement, 10_000)))
    assert len(top) > 100
    assert top == {job: whole[job] for job in top}
    for rows in (3, 40, None):
        found = efficiency.efficiencies(statement, "job", rows)
        money = efficiency_tables.printed_money(statement, found)
        cost = printed(efficiency_tables.rows(found, money))
        assert {job: usd for job, usd in cost.items() if job in top}.items() <= top.items()
        wasted = {row.key: usd.wasted for row, usd in zip(found.rows, money, strict=False)}
        cents = in_units(statement, 10_000)
        assert all(cents[job].wasted == amount for job, amount in wasted.items())


@pytest.mark.parametrize("seed", SEEDS)
def test_every_printed_table_adds_up(seed: int):
    """Lines, breakdowns by anything (cut short or whole, of all or of one bucket) and differences:
    the printed rows are the printed total, to the cent and to the tenth of an hour.
    """
    statement = told(seed)
    paid, *lines = columns(ledger_tables.lines(statement))
    add_up(lines, paid)
    fullest = max(Bucket, key=lambda b: statement.total().money[b])
    for dimension in DIMENSIONS:
        for bucket in (None, fullest):
            for most in (2, 1_000):
                *rows, total = columns(ledger_tables.breakdown(dimension, statement, bucket, most))
                add_up(rows, total)
                if bucket is None:
                    held, hours = total[1:]
                    assert [total[0], hours] == paid[:2]
                    assert held <= hours
    other = told(seed + 1)
    sides = (statement.total(), other.total(), ("before", "after"))
    total, *rows = columns(comparison_tables.buckets(*sides))
    add_up(rows, total)
    if units(statement.total()).usd_places == 2:
        assert total[0] == paid[0]


@pytest.mark.parametrize("seed", [3, 21])
def test_bins_within_a_minute_are_rows_of_their_own(seed: int):
    """Several have the same label: each is there, and together they are what was paid for."""
    statement = read(stories.story(seed, 120), bin_ms=100)
    made = ledger_tables.breakdown("time", statement, None, 1_000)
    assert made.row_count - 1 == len(statement.by("time")) > 5
    if rows := columns(made):  # what nobody priced has no dollars
        add_up(rows[:-1], rows[-1])
        assert rows[-1][0] == columns(ledger_tables.lines(statement))[0][0]
