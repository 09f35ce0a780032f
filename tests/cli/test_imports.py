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


SACCT = """\
JobID|User|Account|Submit|Start|End|State|AllocTRES|ReqTRES|NodeList|Eligible
1|a|t|2026-11-02T08:00:00|2026-11-02T08:00:00|2026-11-02T09:00:00|REQUEUED|gres/gpu=8|gres/gpu=8|n1|2026-11-02T08:00:00
1|a|t|2026-11-02T09:00:00|2026-11-02T09:10:00|2026-11-02T10:00:00|COMPLETED|gres/gpu=8|gres/gpu=8|n1|2026-11-02T09:00:00
2|a|t|2026-11-02T09:30:00|Unknown|Unknown|PENDING||gres/gpu=8||Unknown
3|b|t|2026-11-02T09:30:00|2026-11-02T10:00:00|Unknown|RUNNING|gres/gpu=4|gres/gpu=4|n1|2026-11-02T09:30:00
"""


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The journal of a small Slurm history: a requeued job, a held one, a running one."""
    folder = tmp_path_factory.mktemp("observed")
    (folder / "sacct.txt").write_text(SACCT)
    journal = str(folder / "fleet.sqlite")
    done = tidemill("import", "slurm", str(folder / "sacct.txt"), "--zone", "UTC", "-j", journal)
    assert done.code == 0, done.err
    assert "1 requeued, nobody says why" in done.out  # not "retried after a crash"
    return journal


def test_a_held_job_is_listed_and_waits_for_no_gpu(observed: str):
    """It is in no count of what waits, and its time is in no figure of waits."""
    board = json.loads(tidemill("pending", observed, "--json").out)
    assert (board["jobs"], board["asked_milli"], board["held"]) == (0, 0, 1)
    assert [(row["job"], row["cause"]) for row in board["waiting"]] == [("2", "not_eligible")]
    assert "nothing waits" in board["words"]
    assert "1 job held" in board["words"]
    waits = json.loads(tidemill("ledger", observed, "--json").out)["waits"]["total"]
    assert (waits["jobs"], waits["waiting"], waits["held"], waits["never_started"]) == (3, 0, 1, 0)
    assert (waits["wait_ms"]["jobs"], waits["wait_ms"]["max"]) == (2, 1_800_000)
    said = tidemill("why", "2", "-j", observed).out
    assert "its own scheduler says: held, or waiting for something other than GPUs" in said


def test_what_our_scheduler_would_do_is_said_in_the_answer_itself(observed: str):
    """`fit` and `why --eta` say so on stdout and in JSON, not in a note alone."""
    asked = ("fit", observed, "--team", "t", "--gpus", "4")
    assert "this cluster has another, which decides: job" in tidemill(*asked).out
    found = json.loads(tidemill(*asked, "--json").out)
    assert found["decided_by"] == "another scheduler"
    assert "runs now" not in found["words"]
    assert "would run now" in found["words"]
    eta = json.loads(tidemill("why", "2", "-j", observed, "--eta", "--json").out)
    assert eta["forecast"]["decided_by"] == "another scheduler"


def test_advice_on_an_observed_cluster_edits_no_spec(observed: str, tmp_path: Path):
    """Its owner has no spec: nothing is to be typed into one, renewed, or replayed."""
    document = json.loads(tidemill("ledger", observed, "--json").out)
    fixes = [fix for leak in document["leaks"] for fix in leak["fixes"]]
    assert fixes
    assert all(not fix["edits"] and "`policy." not in fix["words"] for fix in fixes)
    page = tmp_path / "page.html"
    tidemill("report", observed, "--out", str(page))
    assert "tidemill advise" not in page.read_text()


def test_a_journal_given_for_a_spec_is_called_what_it_is(observed: str):
    """`tidemill advise JOURNAL` says what a journal is, and what to do."""
    said = tidemill("advise", observed)
    assert said.code == 2
    assert "is a journal, the record of what a fleet did" in said.err
    assert f"tidemill ledger {observed}" in said.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("dates", "words"),
    [
        (("03/04/2026 06:00:00", "05/06/2026 06:00:00"), "no row tells whether the month or"),
        (("03/14/2026 06:00:00", "05/06/2026 06:00:00"), "dates with the month first"),
        (("14/03/2026 06:00:00", "05/06/2026 06:00:00"), "dates with the day first"),
        (("14.03.2026 06:00", "05.06.2026 06:00"), "dates with the day first"),
    ],
)
def test_dates_that_may_be_read_in_two_ways_are_refused(
    tmp_path: Path, dates: tuple[str, str], words: str
):
    """One row that can only be meant in one way decides; without one nobody guesses."""
    path = tmp_path / "jobs.csv"
    path.write_text("gpus,start\n" + "".join(f"1,{date}\n" for date in dates))
    done = tidemill("import", "csv", str(path), "-j", str(tmp_path / "j.sqlite"))
    assert done.code == (2 if "no row" in words else 0)
    assert words in done.err.replace("\n", " ")


def test_hours_of_a_team_say_what_they_are(observed: str):
    """The table says that time beside a team's waiting jobs is in its hours."""
    assert "what stood free beside its waiting jobs" in tidemill(
        "ledger", observed, "--by", "team"
    ).err.replace("\n", " ")
