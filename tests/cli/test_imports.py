"""``tidemill import``: a stranger's table of jobs becomes books that add up, and honest answers."""

import json
import re
from pathlib import Path

import pytest

from tests.builders import contract, job, opening, team
from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tidemill.journal import open_journal
from tidemill.journal.source import Source
from tidemill.model import events as ev
from tidemill.model.rows import Piece

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
    assert "3 of 3 nodes were not listed with GPUs" in done.err


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
        ("a,b\n1,2\n", "no column that says `gpus` nor `start`"),
        ("gpus,kickoff,over\n1,2,3\n", "--map start=COLUMN"),
        ("gpus,submit\n", "no rows"),
        ("gpus,submit\nmany,2026-01-01\n", "`many` in row 2, which is no number"),
        ("gpus,submit\n1,yesterday\n", "`yesterday`"),
        ("gpus,submit\n1,2026-01-01,9\n", "is no table"),
        ("gpus,submit,state\n1,2026-01-01,levitating\n", "`levitating`"),
        ("gpus,submit\n2,2026-01-01\n", "nothing to account"),
        ("gpus,submit\n0,2026-01-01\n", "requested no GPU"),
        ("gpus,submit\n99999999999999999999,2026-01-01\n", "too large"),
        ("gpus,submit\n1.5,2026-01-01\n", "whole numbers"),
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


def test_a_journal_that_is_there_is_said_before_anything_is_read(jobs: Path, tmp_path: Path):
    """And nothing else: no columns of a table that is not booked."""
    tidemill("import", "csv", str(jobs), "-j", str(tmp_path / "j.sqlite"))
    again = tidemill("import", "csv", str(jobs), "-j", str(tmp_path / "j.sqlite"))
    assert again.code == 2
    assert "exists already" in again.err
    assert "columns" not in again.err


def test_columns_called_began_and_finished_are_known(tmp_path: Path):
    """As start and end."""
    (tmp_path / "jobs.csv").write_text(
        "Name,GPUs,Began,Finished\na,2,2026-01-01 00:00,2026-01-01 03:00\n"
    )
    done = tidemill("import", "csv", "jobs.csv", "-j", "j.sqlite", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "start = `Began`, end = `Finished`" in " ".join(done.err.split())


def test_no_start_is_foretold_for_another_scheduler(jobs: Path, tmp_path: Path):
    """`pending` on such a journal has no column of starts."""
    journal = str(tmp_path / "j.sqlite")
    tidemill("import", "csv", str(jobs), "--usd-per-hour", "2.5", "-j", journal)
    assert "starts in" not in tidemill("pending", journal).out


SACCT = """\
JobID|User|Account|Submit|Start|End|State|AllocTRES|ReqTRES|NodeList|Eligible
1|a|t|2026-11-02T08:00:00|2026-11-02T08:00:00|2026-11-02T09:00:00|REQUEUED|gres/gpu=8|gres/gpu=8|n1|2026-11-02T08:00:00
1|a|t|2026-11-02T09:00:00|2026-11-02T09:10:00|2026-11-02T10:00:00|COMPLETED|gres/gpu=8|gres/gpu=8|n1|2026-11-02T09:02:00
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


def test_what_nobody_measured_of_an_attempt_is_unknown(observed: str):
    """Neither when it came up nor what it wasted; never zero."""
    found = json.loads(tidemill("efficiency", observed, "--job", "1", "--json").out)
    assert [one["up_ms"] for one in found["attempts"]] == [None, None]
    assert found["total"]["wasted_milli_ms"] is None
    said = tidemill("efficiency", observed, "--job", "1").out
    rows = [line.split() for line in said.splitlines() if line.split()[-1:] == ["n1"]]
    assert [row.count("?") for row in rows] == [3, 3]  # came up after, wasted, useful


def test_time_between_attempts_is_not_elapsed(observed: str):
    """Job 1 held its GPUs from 8:00 to 9:00 and from 9:10 to 10:00, and was held until 9:02."""
    found = json.loads(tidemill("efficiency", observed, "--job", "1", "--json").out)
    assert found["total"]["job"]["elapsed_ms"] == 110 * 60_000


def test_what_our_scheduler_would_do_is_said_in_the_answer_itself(observed: str):
    """`fit` and `why --eta` say so on stdout and in JSON, not in a note alone."""
    asked = ("fit", observed, "--team", "t", "--gpus", "4")
    said = tidemill(*asked).out.partition("\n")[0]
    assert said.startswith("job `(not submitted)` would run now: ")
    assert said.endswith("; this cluster has another, which decides)")
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


def test_nothing_speaks_of_contracts_where_nobody_told_of_any(tmp_path: Path):
    """A Slurm cluster has nodes, drained ones among them: no contract, no reserved terms."""
    history, journal = Path("examples/history"), str(tmp_path / "slurm.sqlite")
    files = [str(history / "sacct.txt"), str(history / "nodes.txt")]
    asked = (
        ("import", "slurm", *files, "--zone", "Europe/Berlin", "--to", "2026-11-02T20:00",
         "--usd-per-hour", "2.5", "-j", journal),
        ("ledger", journal), ("fleet", journal), ("fleet", journal, "--nodes"),
        ("pending", journal), ("why", "106", "-j", journal),
        ("report", journal, "--out", str(tmp_path / "page.html")),
    )  # fmt: skip
    said = [tidemill(*words) for words in asked]
    assert [one.code for one in said] == [0] * len(said)
    printed = "".join(one.out for one in said)
    assert not re.findall(r".*(?:\bcontract|reserved|cancel the drain|no win predicted).*", printed)
    assert "node group" in printed
    assert "put `g2` back into service, once what it was drained for is done" in printed
    assert not re.findall(r".*team `\w+` \$0\b.*", printed)


def test_where_nothing_worked_no_program_is_blamed(tmp_path: Path):
    """Two partial gangs hold everything and never come up."""
    journal = str(tmp_path / "k.sqlite")
    done = tidemill("import", "kubernetes", "examples/history/kubernetes.json", "-j", journal)
    assert done.code == 0, done.err
    assert "runtime 0.0% × program: nothing worked" in done.out
    assert "occupancy 0.0% (measured)" in done.out
    assert "partial gangs" in done.out


def test_one_partial_gang_holds_and_waits(tmp_path: Path):
    """In the singular, with the one GPU that it holds."""
    where = str(tmp_path / "one.sqlite")
    with open_journal(where, create=True) as journal:
        journal.append([
            *opening(contract(gpus=1, per_node=1), teams=[team("a")]),
            ev.JobSubmitted(0, job("x", gpus=2, per_node=1)),
            ev.PlacementSeen(0, 0, 1, (Piece(0, 0, 1, 1),)),
        ])  # fmt: skip
    done = tidemill("pending", where, "--no-eta")
    assert "1 partial gang, which holds 1 GPU; the rest is not placed:" in done.out
    assert "nothing waits but the rest of partial gangs;" in done.out


def test_nodes_of_unknown_size_keep_nobody_out(tmp_path: Path):
    """Accounting alone: nobody listed nodes, so nobody knows their cores and memory."""
    told = tmp_path / "sacct.txt"
    told.write_text(
        "JobID|User|Account|State|Submit|Start|End|NodeList|AllocTRES|ReqTRES\n"
        "1|ann|vision|RUNNING|2026-03-02T08:00:00|2026-03-02T08:00:10|Unknown|g1"
        "|cpu=64,gres/gpu=4,mem=64G|cpu=64,gres/gpu=4,mem=64G\n"
        "2|bob|nlp|PENDING|2026-03-02T09:00:00|Unknown|Unknown|None assigned"
        "||cpu=32,gres/gpu=2,mem=64G\n"
    )
    journal = str(tmp_path / "j.sqlite")
    done = tidemill(
        "import", "slurm", str(told), "--zone", "UTC", "--to", "2026-03-02T12:00", "-j", journal
    )
    assert done.code == 0, done.err
    answer = tidemill("why", "2", "-j", journal).out
    assert "cause: not enough is free" in answer
    assert "cores" not in answer
    assert " ?  " in tidemill("fleet", journal, "--nodes").out


HELD_BACK = """\
JobID|User|Account|State|Submit|Eligible|Start|End|NodeList|AllocTRES|ReqTRES|Reason
1_[5-9%1]|ann|vision|PENDING|2026-03-02T08:00:00|2026-03-02T08:00:00|Unknown|Unknown\
|None assigned||cpu=8,gres/gpu=1|JobArrayTaskLimit
2|bob|nlp|PENDING|2026-03-02T09:00:00|Unknown|Unknown|Unknown|None assigned||cpu=8,gres/gpu=4\
|Dependency
3|bob|nlp|RUNNING|2026-03-02T08:00:00|2026-03-02T08:00:00|2026-03-02T08:00:10|Unknown|g1\
|cpu=8,gres/gpu=2|cpu=8,gres/gpu=2|None
"""


def test_what_another_scheduler_holds_back_takes_nothing_from_others(tmp_path: Path):
    """Eight GPUs are free; five tasks of an array that limits itself wait before the others."""
    told, nodes = tmp_path / "sacct.txt", tmp_path / "nodes.txt"
    told.write_text(HELD_BACK)
    nodes.write_text("".join(
        f"NodeName={name} CPUTot=64 RealMemory=512000 State=IDLE Gres=gpu:h100:4\n\n"
        for name in ("g1", "g2", "g3")
    ))  # fmt: skip
    journal = str(tmp_path / "j.sqlite")
    done = tidemill(
        "import", "slurm", str(told), str(nodes), "--zone", "UTC", "--to", "2026-03-02T12:00",
        "-j", journal,
    )  # fmt: skip
    assert done.code == 0, done.err
    held = tidemill("why", "2", "-j", journal).out
    assert "cause: held, or waiting for something other than GPUs (owner: workload)" in held
    assert "10 accelerators free on 3 nodes" in held
    fits = tidemill("fit", "-j", journal, "--team", "nlp", "--gpus", "4").out
    assert "would run now" in fits
    board = tidemill("pending", journal).out
    assert re.search(r"JobArrayTaskLimit +workload +5 ", board)
    assert "not recorded" not in board
    page = tmp_path / "page.html"
    assert tidemill("report", journal, "--out", str(page)).code == 0
    assert "its own scheduler says JobArrayTaskLimit" in page.read_text()


def test_a_job_submitted_before_the_books_has_waited_since_then(jobs: Path, tmp_path: Path):
    """Job 4 waits since 21:00; books from 21:30 to 23:00 say two hours, in every answer."""
    journal = str(tmp_path / "j.sqlite")
    window = ("--from", "2026-11-02T21:30", "--to", "2026-11-02T23:00")
    done = tidemill("import", "csv", str(jobs), *window, "-j", journal)
    assert done.code == 0, done.err
    assert "has waited 2h" in tidemill("why", "4", "-j", journal).out
    (row,) = json.loads(tidemill("pending", journal, "--json").out)["waiting"]
    assert row["waited_ms"] == 2 * 3_600_000
    assert "1 attempt submitted before the window: in no wait of the ledger" in done.err
    waits = json.loads(tidemill("ledger", journal, "--waits", "--json").out)["waits"]
    assert waits["total"]["jobs"] == 1  # job 5, submitted at 21:30


def test_a_table_without_submissions_says_so_in_its_journal(tmp_path: Path):
    """Whoever reads the journal later can tell that no wait in it is known."""
    path, journal = tmp_path / "jobs.csv", tmp_path / "j.sqlite"
    path.write_text("job,gpus,start,end\n1,2,2026-11-02 08:00,2026-11-02 09:00\n")
    assert tidemill("import", "csv", str(path), "-j", str(journal)).code == 0
    with open_journal(str(journal)) as opened:
        assert not Source.tells_submissions(opened.facts())


def test_what_stands_free_by_design_is_told_apart(tmp_path: Path):
    """Three nodes of 8 for twelve hours; two of them are kept free, one of which works for six."""
    jobs, nodes = tmp_path / "jobs.csv", tmp_path / "nodes.csv"
    jobs.write_text(
        "job_id,submit_time,start_time,end_time,num_gpus,node,state\n"
        "1,2026-11-02 00:00:00,2026-11-02 00:00:00,2026-11-02 12:00:00,8,g1,COMPLETED\n"
        "2,2026-11-02 06:00:00,2026-11-02 06:00:00,2026-11-02 12:00:00,8,warm-a,COMPLETED\n"
    )
    nodes.write_text("node,gpus\ng1,8\ng02,8\nwarm-a,8\n")
    journal = str(tmp_path / "j.sqlite")
    typed = ("import", "csv", str(jobs), "--nodes", str(nodes), "--zone", "UTC", "-j", journal)
    done = tidemill(*typed, "--spares", "g[02-03],warm-*", "--json")
    assert done.code == 0, done.err
    assert "--spares and --maintenance: no node that is listed is called g03" in done.err
    found = {row["key"]: row["milli_ms"] for row in json.loads(done.out)["lines"]}
    hour = 3_600_000 * 1000
    assert found["by_design"] == 8 * 12 * hour + 8 * 6 * hour
    assert found.get("no_demand", 0) == 0
    assert "kept as a hot spare" not in tidemill("fleet", journal, "--nodes").out
    wrong = tidemill(*typed, "--spares", "g[2", "--force")
    assert (wrong.code, "--spares" in wrong.err) == (2, True), wrong.err


def test_nodes_that_nobody_lists_are_no_full_fleet(tmp_path: Path):
    """Two GPUs are held on a node of unknown size: what is free is unknown, and nothing is proved.

    So it is with a Kubernetes cluster whose nodes may not be read, and with a table of jobs alone.
    """
    path, journal = tmp_path / "jobs.csv", str(tmp_path / "j.sqlite")
    path.write_text(
        "job,gpus,submit,start,end,node,state\n"
        "a,2,2026-11-02 08:00,2026-11-02 08:00,,g1,RUNNING\n"
        "b,8,2026-11-02 08:10,,,,PENDING\n"
    )
    typed = ("import", "csv", str(path), "--zone", "UTC", "--to", "2026-11-02T10:00Z")
    assert tidemill(*typed, "-j", journal).code == 0
    told = "listed by no source: 1 of 1 node"
    (node,) = json.loads(tidemill("fleet", "--nodes", "--json", "-j", journal).out)["nodes"]
    assert (node["accelerators"], node["free_milli"]) == (2, None)
    assert "≥ 2" in tidemill("fleet", "--nodes", "-j", journal).out
    assert "how many GPUs are free is unknown" in tidemill("pending", "-j", journal).out
    answer = json.loads(tidemill("why", "b", "--json", "-j", journal).out)["answer"]
    assert answer["cause"] == "busy", "not `never`: nobody knows how large the node is"
    assert answer["evidence"][0]["words"].startswith(told)
    for command in ("fleet", "pending", "ledger"):
        assert told in tidemill(command, "-j", journal).err, command


def test_why_a_node_is_drained_is_kept(tmp_path: Path):
    """In Slurm's words: by `fleet`, node by node, and in `why`; not of the time before it."""
    history, journal = ROOT / "examples" / "history", str(tmp_path / "j.sqlite")
    typed = ("import", "slurm", str(history / "sacct.txt"), str(history / "nodes.txt"))
    done = tidemill(*typed, "--zone", "Europe/Berlin", "--to", "2026-11-02T20:00", "-j", journal)
    assert done.code == 0, done.err
    assert "  g2: ecc errors" in tidemill("fleet", "-j", journal).out
    rows = json.loads(tidemill("fleet", "--nodes", "--json", "-j", journal).out)["nodes"]
    assert {row["node"]: row["reason"] for row in rows} == {"g1": "", "g2": "ecc errors", "g3": ""}
    assert "`g2`: ecc errors" in tidemill("why", "106", "-j", journal).out
    assert "draining: ecc errors" in tidemill("why", "106", "--nodes", "-j", journal).out
    before = tidemill("fleet", "--nodes", "--at", "2026-11-02T16:00", "-j", journal).out
    assert "ecc errors" not in before


def test_prices_of_a_type_that_no_node_has_are_said(tmp_path: Path):
    """A word that is probably misspelt: which type it is, and which the nodes have."""
    line = ("import", "slurm", f"{ROOT}/examples/history/sacct.txt",
            f"{ROOT}/examples/history/nodes.txt", "--zone", "Europe/Berlin")  # fmt: skip
    done = tidemill(*line, "--usd-per-hour", "H100=2.5,B200=9", "-j", str(tmp_path / "j"))
    assert "--usd-per-hour prices `B200`, which no node has; nodes have `H100`" in done.err
    done = tidemill(*line, "--usd-per-hour", "H100=2.5", "-j", str(tmp_path / "k"))
    assert "which no node has" not in done.err


def test_a_decision_of_another_scheduler_tells_the_wait_that_was(tmp_path: Path):
    """Job 102 was preempted at 09:40 and seen placed at 12:00; 101 waited for ten seconds, once."""
    journal = str(tmp_path / "j")
    told = [f"{ROOT}/examples/history/{name}.txt" for name in ("sacct", "nodes")]
    tidemill("import", "slurm", *told, "--zone", "Europe/Berlin", "-j", journal)
    again, once = (tidemill("decision", job, "-j", journal).out for job in ("102", "101"))
    assert "waiting again since Mon 2026-11-02 09:40 +01:00; seen placed" in again
    assert "after a wait of 2h 20m" in again
    assert "seen placed after a wait of 10s" in once
    assert "waiting again" not in once
    found = json.loads(tidemill("decision", "101", "-j", journal, "--json").out)
    assert found["watch"]["waited_ms"] == 10_000


TYPED = """\
job,gpus,gpu_type,submit,start,end,node,state
a,8,H100,2026-11-02 08:00,2026-11-02 08:00,2026-11-02 10:00,m1,done
b,8,H100,2026-11-02 08:00,2026-11-02 11:00,2026-11-02 12:00,m1,done
"""


@pytest.mark.parametrize(
    ("listed", "unknown", "no_demand"), [("m1,8,512\n", 8, 0), ("m1,8,512\nm2,8,1024\n", 24, 16)]
)
def test_nodes_without_a_gpu_type_hold_jobs_of_one(
    tmp_path: Path, listed: str, unknown: int, no_demand: int
):
    """m1 is what its jobs say it is, m2 may be any: while `b` waits, what is free is no lack of
    demand. A size that nobody says is in no name.
    """
    (tmp_path / "jobs.csv").write_text(TYPED)
    (tmp_path / "nodes.csv").write_text("node,gpus,memory_gb\n" + listed)
    journal = str(tmp_path / "j.sqlite")
    done = tidemill("import", "csv", str(tmp_path / "jobs.csv"), "--nodes",
                    str(tmp_path / "nodes.csv"), "-j", journal)  # fmt: skip
    assert "1 node (m1) listed without a GPU type: of the one that jobs there say" in done.err
    parts = json.loads(tidemill("ledger", journal, "--json").out)["lines"]
    hours = {part["key"]: part["milli_ms"] / 3.6e9 for part in parts}
    assert (hours["cause_unknown"], hours["no_demand"]) == (unknown, no_demand)
    assert "CPUs" not in tidemill("fleet", journal).out


RESERVED = (
    "ReservationName=resv1 StartTime=2026-11-02T08:00:00 EndTime=2026-11-03T08:00:00 Nodes=n2"
    " Flags=SPEC_NODES Accounts=hep State=ACTIVE\n"
)
QUEUED = """\
JobID|User|Account|Submit|Start|End|State|AllocTRES|ReqTRES|NodeList|Eligible
1|a|t|2026-11-02T08:00:00|2026-11-02T08:00:00|Unknown|RUNNING|gres/gpu=8|gres/gpu=8|n1|2026-11-02T08:00:00
2|a|t|2026-11-02T09:00:00|Unknown|Unknown|PENDING||gres/gpu=8|None assigned|2026-11-02T09:00:00
"""


@pytest.mark.parametrize(("reserved", "fits"), [("", "yes"), (RESERVED, "unknown")])
def test_nodes_that_a_reservation_keeps_may_not_be_for_others(
    tmp_path: Path, reserved: str, fits: str
):
    """Whether job 2 may use n2, which is free, nobody reads; that is said, and no fix is."""
    texts = {
        "sacct": QUEUED,
        "nodes": "".join(f"NodeName=n{n} Gres=gpu:h100:8 State=IDLE\n" for n in (1, 2)),
        "reserved": reserved,
    }
    for name, text in texts.items():
        if text:
            (tmp_path / f"{name}.txt").write_text(text)
    files = [str(tmp_path / f"{name}.txt") for name, text in texts.items() if text]
    journal = str(tmp_path / "j.sqlite")
    done = tidemill("import", "slurm", *files, "--zone", "UTC", "--to", "2026-11-02T10:00", "-j",
                    journal)  # fmt: skip
    assert ("1 reservation that is not for maintenance (resv1: n2)" in done.err) == bool(reserved)
    told = tidemill("why", "2", "-j", journal, "--json").out
    assert json.loads(told)["answer"]["questions"][-1]["answer"] == fits
    assert ("reservation resv1 keeps n2 for others" in told) == bool(reserved)
