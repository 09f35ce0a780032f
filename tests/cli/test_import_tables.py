"""Tables that people keep: what cannot be used is named by its row, or left out and counted."""

import json
import time
from pathlib import Path

import pytest

from tests.cli.shell import tidemill

HEADER = "job,gpus,start,end,node,state\n"
GOOD = "1,2,2026-04-01 08:00,2026-04-01 09:00,n1,done\n"
BOTH = GOOD + "9,2,2026-04-01 09:00,,n1,running\n"


def imported(tmp_path: Path, text: str, *more: str) -> tuple[int, str]:
    """How an import of a table ended, and all that it said beside its books."""
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    done = tidemill("import", "csv", str(path), *more, "-j", str(tmp_path / "j.sqlite"), "--json")
    return done.code, done.err


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("2,x,2026-04-01 08:00,,n1,running", "`x` in row 4, which is no number"),
        ("2,1.5,2026-04-01 08:00,,n1,running", "`1.5` in row 4, where whole numbers are read"),
        ("2,1,2026-04-01 08:00,,n1,odd", "`odd` in row 4, which is no known outcome"),
        ("2,-4,2026-04-01 08:00,,n1,running", "`-4` in row 4, where 0 to 1,000,000 GPUs can be"),
        ("2,1,2026-04-01 08:00,2026-04-01 07:00,n1,done", "07:00` in row 4, before its start"),
        ("2,1,yesterday,,n1,running", "`yesterday` in row 4, which is no date"),
        ("2,1,2096-04-01 08:00,,n1,running", "in row 4, which is more than 20 years from most"),
    ],
)
def test_a_broken_row_is_refused_or_left_out(tmp_path: Path, row: str, words: str):
    """The refusal names the row and the option; with the option it is counted and named."""
    text = HEADER + BOTH + row + "\n"
    code, said = imported(tmp_path, text)
    assert code == 2
    assert words in said
    assert "--skip-broken" in said
    code, said = imported(tmp_path, text, "--skip-broken")
    assert code == 0, said
    assert "1 row left out as broken" in said
    assert words in said


def test_five_broken_rows_are_named_and_all_are_counted(tmp_path: Path):
    """Seven rows without a number of GPUs, and one good one."""
    rows = "".join(f"{i},x,2026-04-01 08:00,,n1,running\n" for i in range(2, 9))
    code, said = imported(tmp_path, HEADER + GOOD + rows, "--skip-broken")
    assert code == 0
    assert "7 rows left out as broken" in said
    assert said.count("which is no number") == 5
    code, said = imported(tmp_path, HEADER + rows, "--skip-broken", "--force")
    assert code == 2
    assert "every row of" in said


@pytest.mark.parametrize("time", ["2026-04-01T08:00Z", "2026-04-01 10:00+02:00"])
def test_times_without_seconds_may_have_an_offset(tmp_path: Path, time: str):
    """Also beside times without one: those are in the zone of the import."""
    end = "2026-04-01 11:00"  # 09:00 in UTC
    code, said = imported(
        tmp_path, f"{HEADER}1,2,{time},{end},n1,done\n2,1,{end},,n1,running\n",
        "--zone", "Europe/Berlin",
    )  # fmt: skip
    assert code == 0, said
    assert "`start` read as 1 date with an offset, the others in the zone Europe/Ber" in said


def test_seconds_among_milliseconds_are_found(tmp_path: Path):
    """One row of three is in seconds: named, for else the fleet is 56 years old."""
    ms = "1775030000000,1775033600000,n1,done\n"
    rows = f"1,2,{ms}2,2,{ms}3,2,1775030000,1775033600,n1,done\n"
    code, said = imported(tmp_path, HEADER + rows)
    assert code == 2
    assert "`1775030000` in row 4" in said
    assert "in one unit" in said


def test_a_table_of_nodes_is_shown_as_it_was_understood(tmp_path: Path):
    """Which column says what, what is not read, and a price under another name."""
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("Host,GPU count,Cost per hour,Serial\nn1,8,2.5,x\nn1,8,2.5,x\n")
    path, journal = tmp_path / "jobs.csv", str(tmp_path / "j.sqlite")
    path.write_text(HEADER + GOOD)
    told = ("import", "csv", str(path), "--nodes", str(nodes), "-j", journal, "--json")
    done = tidemill(*told)
    assert done.code == 0, done.err
    assert "node = `Host`, gpus = `GPU count`" in done.err
    assert "usd_per_hour = `Cost per hour` (dollars per GPU and hour)" in done.err
    assert "`nodes.csv`: not read: `Serial`" in done.err
    assert json.loads(done.out)["totals"]["usd_micro"] == 8 * 2_500_000
    nodes.write_text("node,gpus\nn1,8\nn1,4\n")
    done = tidemill(*told, "--force")
    assert done.code == 2
    assert "lists node `n1` twice, in rows 2 and 3" in done.err
    nodes.write_text("node,gpus\nn1,eight\n")
    done = tidemill(*told, "--force")
    assert "--map" not in done.err


def test_a_window_without_time_is_refused(tmp_path: Path):
    """The last thing that is known happened in 2026; a job goes on, for how long nobody says."""
    code, said = imported(tmp_path, HEADER + BOTH, "--from", "2030-01-01")
    assert code == 2
    assert "there is no time in them" in said


def test_hints_of_imports_name_what_imports_have(tmp_path: Path):
    """No --resume, no field of a spec file, no file where it may be a database."""
    assert imported(tmp_path, HEADER + GOOD)[0] == 0
    _, said = imported(tmp_path, HEADER + GOOD)
    assert "an import begins a journal of its own" in said
    assert "--resume" not in said
    assert "file" not in said.partition("hint:")[2]
    _, said = imported(tmp_path, HEADER + GOOD, "--zone", "+02:00", "--force")
    assert "Etc/GMT-2" in said
    assert "begins =" not in said
    prices = tmp_path / "prices.csv"
    prices.write_text("type,rate\nH100,cheap\n")
    _, said = imported(tmp_path, HEADER + GOOD, "--prices", str(prices), "--force")
    assert "`cheap` in row 2" in said
    assert "--map" not in said
    (tmp_path / "empty.csv").write_text("")
    done = tidemill("import", "csv", str(tmp_path / "empty.csv"), "-j", str(tmp_path / "k.sqlite"))
    assert "empty.csv` is empty" in done.err


def test_a_prometheus_that_does_not_answer_is_told_of_and_given_up(tmp_path: Path):
    """Within the patience that was asked for, with a word as soon as it fails."""
    begun = time.monotonic()
    told = ("--prometheus", "http://127.0.0.1:9", "--patience", "1s")
    code, said = imported(tmp_path, HEADER + GOOD, *told)
    assert code != 0
    assert "trying again for 1 s" in said
    assert time.monotonic() - begun < 60


def test_clusters_with_equal_job_numbers_and_nodes_are_told_apart(tmp_path: Path):
    """Two clusters, each with a job 1 on a node n1 at the same time: all twelve GPU-hours count."""
    head, times = "cluster,job_id,gpus,start,end,node\n", "2026-04-01 08:00,2026-04-01 09:00"
    text = f"{head}east,1,8,{times},n1\nwest,1,4,{times},n1\n"
    code, said = imported(tmp_path, text)
    assert code == 0, said
    assert "jobs of several clusters (east, west) are called `CLUSTER/JOB`" in said
    assert "overlap" not in said
    books = tidemill("ledger", str(tmp_path / "j.sqlite"), "--by", "job", "--json")
    rows = json.loads(books.out)["breakdown"]["rows"]
    held = {row["key"]: row["held_milli_ms"] // 3_600_000_000 for row in rows}
    assert held == {"east/1": 8, "west/1": 4}


def test_rows_of_one_job_that_overlap_are_named(tmp_path: Path):
    """Nobody says that they are jobs of their own: the first is cut, and both rows are said."""
    rows = "1,2,2026-04-01 08:00,2026-04-01 10:00,n1,done\n"
    rows += "1,2,2026-04-01 09:00,2026-04-01 11:00,n2,done\n"
    code, said = imported(tmp_path, HEADER + rows)
    assert code == 0, said
    assert "rows of one job that overlap: 2 and 3 (`1`): the first is cut" in said


def test_a_time_that_no_clock_showed_is_told_from_a_text_that_is_no_date(tmp_path: Path):
    """In the hour in which clocks are put forward; in whichever form dates are written."""
    for start in ("2026-03-29 02:30", "2026-03-29T02:30:00"):
        text = f"job,gpus,start,end\n1,2,{start},2026-03-29 06:00\n2,1,2026-03-29 01:00,\n"
        code, said = imported(tmp_path, text, "--zone", "Europe/Berlin")
        assert code == 2
        assert f"`{start}` in row 2, a time that no clock of Europe/Berlin showed" in said
        assert "no date" not in said
        assert "with its offset" in said
    code, said = imported(tmp_path, text.replace("2026-03-29T02:30:00", "soon"))
    assert code == 2
    assert "`soon` in row 2, which is no date in a known form" in said
    assert "clock" not in said


def test_a_start_that_is_missing_is_said_so(tmp_path: Path):
    """Where no column says when jobs were submitted; a submission, where one does."""
    text = "job,gpus,start,end\n1,2,2026-03-02 01:00,2026-03-02 02:00\n2,1,,2026-03-02 02:00\n"
    code, said = imported(tmp_path, text)
    assert code == 0
    assert "1 attempt left out: nothing says when it started" in said
    assert "submitted: how long they waited is unknown" in said


def test_a_row_that_started_counts_whoever_says_when_it_was_submitted(tmp_path: Path):
    """Its hours are booked, and it is said that its wait is not known."""
    rows = "1,2,,2026-03-02 01:00,2026-03-02 02:00\n2,1,2026-03-02 01:00,2026-03-02 01:30,\n"
    code, said = imported(tmp_path, "job,gpus,submit,start,end\n" + rows)
    assert code == 0
    assert "`submit` says nothing in 1 of 2 rows: taken as submitted when they started" in said
    assert "left out" not in said
    done = tidemill("ledger", str(tmp_path / "j.sqlite"), "--by", "job")
    assert "\n1 " in done.out.replace("│", " ").replace("\n ", "\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER + GOOD + "2,1,2026-04-01 08:00\n",
         "row 3 has fewer cells than the header: nothing is said in the last columns there"),
        (HEADER + GOOD + "2,1\n3,1\n", "rows 3, 4 have fewer cells than the header"),
        ("sep=,\n" + HEADER + GOOD + "2,1,2026-04-01 08:00\n", "row 3 has fewer cells"),
        ((HEADER + GOOD).replace("\n", "\r"), "`start` read as dates"),
    ],
)  # fmt: skip
def test_what_lines_lack_is_said(tmp_path: Path, text: str, said: str):
    """A file that was cut off, cells that were lost; and lines that end as they once did."""
    code, found = imported(tmp_path, text)
    assert code == 0, found
    assert said in found


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        (HEADER + GOOD + "2,1,2,3,4,5,6\n", "row 3 has 7 cells, the header 6", "as many cells"),
        (HEADER + GOOD + '"2,1,2,3,4,5\n', "quotes that are opened in one cell", 'a lone "'),
        ("# jobs\n" + HEADER + GOOD, "row 2 has 6 cells, the header 1", "has to be the header"),
        (HEADER.replace(",", " ") + GOOD.replace(",", " "), "no column", "where now blanks are"),
        ("", "is empty", "a header and rows"),
        ("\n\n", "is empty", "a header and rows"),
        (HEADER, "has a header and no rows", "at least one row"),
    ],
)
def test_what_is_no_table_is_said_in_its_own_words(tmp_path: Path, text: str, said: str, hint: str):
    """Which row, and what to do; nothing of the reader's own words."""
    code, found = imported(tmp_path, text)
    assert code == 2
    assert said in found
    assert hint in found
    assert "Schema" not in found


def test_nodes_without_a_number_of_gpus_are_refused(tmp_path: Path):
    """`N/A` is not 0."""
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("node,gpus\nn1,N/A\n")
    code, said = imported(tmp_path, HEADER + GOOD, "--nodes", str(nodes))
    assert code == 2
    assert "row 2 gives node `n1` no number of GPUs" in said


@pytest.mark.parametrize(
    ("rows", "said", "counts"),
    [
        (["1,2,08:00,08:00,,running", "1,2,08:00,08:00,12:00,completed"],
         "1 attempt left out: another that started in the same moment ended later", (1, 0)),
        (["1,2,08:00,08:00,12:00,completed", "1,2,08:00,08:00,,running"],
         "1 attempt left out: another that started in the same moment ended later", (1, 0)),
        (["1,2,08:00,09:00,09:00,failed", "1,2,08:00,09:00,12:00,completed"],
         "1 attempt left out: no time passed in it", (1, 0)),
        (["1,2,08:00,09:00,12:00,completed", "1,2,08:00,09:00,09:00,failed"],
         "1 attempt left out: no time passed in it", (1, 0)),
        (["1,2,08:00,,,pending", "1,2,08:00,09:00,12:00,completed"],
         "1 row of jobs that wait left out: another row says that they began since", (1, 0)),
        (["1,2,08:00,09:00,12:00,preempted", "1,2,08:00,,,pending"], "", (0, 1)),
        (["1,2,08:00,09:00,12:00,failed", "1,2,13:00,,,pending"], "", (0, 1)),
    ],
)  # fmt: skip
def test_two_looks_at_one_job(tmp_path: Path, rows: list[str], said: str, counts: tuple[int, int]):
    """What ended is believed before what runs, and what runs before what waits; else it waits."""
    on = "2026-04-01 "
    text = "\n".join(
        ",".join(on + cell if ":" in cell else cell for cell in row.split(",")) for row in rows
    )
    path, journal = tmp_path / "jobs.csv", str(tmp_path / "j.sqlite")
    path.write_text(f"job,gpus,submit,start,end,state\n{text}\n")
    done = tidemill("import", "csv", str(path), "-j", journal)
    assert done.code == 0, done.err
    assert said in done.err
    assert f"1 job of 1 team: {counts[0]} done, {counts[1]} waiting" in done.out


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,2,2026-04-01 08:00,999999999999", "in row 2, which is more than 20 years, read as sec"),
        ("1,2,2126-04-01 08:00,60", "in row 2, after the year 2100"),
    ],
)
def test_times_that_cannot_be_are_named_by_their_row(tmp_path: Path, row: str, words: str):
    """Before, all that was said was how many were left out."""
    code, said = imported(tmp_path, f"job,gpus,start,duration\n{row}\n")
    assert code == 2
    assert words in said


def test_what_is_only_planned_is_not_booked(tmp_path: Path):
    """An end of what runs, and a start of what waits: counted, named, and not taken for done."""
    path, journal = tmp_path / "jobs.csv", str(tmp_path / "j.sqlite")
    day = "2026-04-01"
    path.write_text(
        "job,gpus,submit,start,end,state\n"
        f"1,2,{day} 08:00,{day} 08:00,{day} 20:00,running\n"
        f"2,2,{day} 08:00,{day} 19:00,,pending\n3,2,{day} 08:00,{day} 08:00,{day} 10:00,done\n"
    )
    done = tidemill("import", "csv", str(path), "-j", journal)
    assert done.code == 0, done.err
    assert "a job runs, and when it ended, in 1 row (first: 2): taken as planned" in done.err
    assert "a job waits, and when it started or ended, in 1 row (first: 3)" in done.err
    assert "3 jobs of 1 team: 1 done, 1 running, 1 waiting" in done.out
    assert done.out.startswith("2h of a fleet of 4 ")


def test_a_table_of_jobs_that_ran_must_say_when_they_started(tmp_path: Path):
    """A column that nobody recognises is asked for; it is no row that is broken."""
    path = tmp_path / "jobs.csv"
    path.write_text("job,gpus,created,went,status\na,1,2026-11-03T08:00Z,2026-11-03T08:00Z,done\n")
    done = tidemill("import", "csv", str(path), "--skip-broken", "-j", str(tmp_path / "j.sqlite"))
    assert done.code == 2
    assert "has no column that says when jobs started" in done.err.replace("\n", " ")
    assert "--map start=COLUMN" in done.err.replace("\n", " ")
