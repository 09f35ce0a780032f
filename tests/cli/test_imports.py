"""``tidemill import``: a stranger's table of jobs becomes books that add up, and honest answers."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.shell import tidemill

JOBS = """\
job_id,user,project,submit_time,start_time,end_time,num_gpus,node,state
1,ann,vision,2026-11-02 08:00:00,2026-11-02 08:00:10,2026-11-02 12:00:00,8,g1,COMPLETED
2,bob,nlp,2026-11-02 08:05:00,2026-11-02 12:00:05,2026-11-02 20:00:00,8,g1,FAILED
3,ann,vision,2026-11-02 09:00:00,2026-11-02 09:00:01,2026-11-02 09:30:00,16,g2 g3,CANCELLED by 1000
4,cat,nlp,2026-11-02 21:00:00,,,4,,PENDING
5,cat,nlp,2026-11-02 21:30:00,2026-11-02 21:30:01,,4,g2,RUNNING
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS)
    return path


def test_a_table_of_jobs_becomes_a_ledger(jobs: Path, tmp_path: Path):
    """Hours by hand: 8 GPUs for 3:59:50 and 7:59:55, 16 for 29:59, 4 just begun; 24 are paid."""
    journal = str(tmp_path / "j.sqlite")
    done = tidemill("import", "csv", str(jobs), "--usd-per-hour", "2.5", "-j", journal, "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["totals"]["milli_ms"] == 24_000 * (13 * 3600 + 1800 + 1) * 1000
    unknown = next(row for row in document["lines"] if row["key"] == "unknown")
    worked_s = 8 * (4 * 3600 - 10) + 8 * (8 * 3600 - 5) + 16 * 1799
    assert unknown["milli_ms"] == worked_s * 1_000_000
    assert {row["key"] for row in document["unknown"]} >= {"idle", "rework", "fragmented", "useful"}
    assert "gpus = `num_gpus`" in done.err
    assert "3 of 3 nodes were not listed" in done.err


def test_books_without_prices_say_so_and_show_no_dollars(jobs: Path, tmp_path: Path):
    """An import needs no price; then no table, report or answer shows an amount of dollars."""
    journal = str(tmp_path / "j.sqlite")
    done = tidemill("import", "csv", str(jobs), "-j", journal)
    assert done.code == 0, done.err
    assert "dollars: unknown, because nobody said a price" in done.out
    page = tmp_path / "page.html"
    asked = (
        ("report", journal, "--out", str(page)), ("ledger", journal, "--by", "team"),
        ("ledger", journal, "--tree"), ("ledger", journal, "--top", "3"), ("pending", journal),
        ("why", "4", "-j", journal), ("fleet", journal),
    )  # fmt: skip
    said = [tidemill(*words) for words in asked]
    assert [one.code for one in said] == [0] * len(said)
    shown = re.findall(r"\$[\d,.]+", "".join(one.out for one in (done, *said)))
    assert set(shown) <= {"$0.00"}  # what takes no work costs nothing where all takes work
    assert "unknown" in page.read_text()
    assert not re.search(r"\$\d", page.read_text())


def test_answers_claim_nothing_for_another_scheduler(jobs: Path, tmp_path: Path):
    """`why` of a job that would fit does not say that it starts: somebody else decides that."""
    journal = str(tmp_path / "j.sqlite")
    tidemill("import", "csv", str(jobs), "--usd-per-hour", "2.5", "-j", journal)
    said = tidemill("why", "4", "-j", journal)
    assert said.code == 0
    assert "has not started it; why is not recorded here" in said.out
    assert "next cycle" not in said.out
    assert "scheduler of its own" in said.err


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (("--map", "gpus=cards"), "`cards`, which is not there"),
        (("--map", "gpus"), "FIELD=COLUMN"),
        (("--zone", "Mars/Base"), "Mars/Base"),
        (("--usd-per-hour", "cheap"), "no price"),
        (("--from", "soon"), "no date"),
    ],
)
def test_what_cannot_be_used_is_refused_with_words(
    jobs: Path, tmp_path: Path, told: tuple[str, ...], words: str
):
    """What was asked, what was found, what to do; and no journal is left behind."""
    journal = tmp_path / "j.sqlite"
    price = () if "--usd-per-hour" in told else ("--usd-per-hour", "2.5")
    done = tidemill("import", "csv", str(jobs), "-j", str(journal), *price, *told)
    assert done.code == 2
    assert words in done.err
    assert "hint" in done.err
    assert not journal.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "no column that says `gpus`"),
        ("gpus,submit\n", "no rows"),
        ("gpus,submit\nmany,2026-01-01\n", "`many` in row 2, which is no number"),
        ("gpus,submit\n1,yesterday\n", "`yesterday`"),
        ("gpus,submit\n1,2026-01-01,9\n", "is no table"),
        ("gpus,submit,state\n1,2026-01-01,levitating\n", "`levitating`"),
        ("gpus,submit\n2,2026-01-01\n", "nothing to account"),
        ("gpus,submit\n0,2026-01-01\n", "no job with GPUs"),
        ("gpus,submit\n99999999999999999999,2026-01-01\n", "too large"),
        ("gpus,submit\n0.5,2026-01-01\n", "whole numbers"),
    ],
)
def test_tables_that_cannot_be_read_say_why(tmp_path: Path, text: str, words: str):
    """Whatever is wrong with a file is said with what was found there."""
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    done = tidemill("import", "csv", str(path), "--usd-per-hour", "1", "-j", str(tmp_path / "j"))
    assert done.code == 2
    assert words in done.err


def test_a_journal_is_never_written_over_what_it_is_made_of(jobs: Path):
    """Not even with --force."""
    done = tidemill("import", "csv", str(jobs), "--usd-per-hour", "1", "-j", str(jobs), "--force")
    assert done.code == 2
    assert "one of the files to read" in done.err
    assert jobs.read_text() == JOBS


def test_no_start_is_foretold_for_another_scheduler(jobs: Path, tmp_path: Path):
    """`pending` on such a journal has no column of starts."""
    journal = str(tmp_path / "j.sqlite")
    tidemill("import", "csv", str(jobs), "--usd-per-hour", "2.5", "-j", journal)
    assert "starts in" not in tidemill("pending", journal).out
