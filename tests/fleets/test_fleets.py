"""Fleets written by hand from the guide, run and asked everything; a naive reading agrees.

Each file of this folder is one fleet. What the commands say of it is compared with a count over the
exported lines that shares no code with the package, and every command that an output suggests is
run as it is printed.
"""

import csv
import html
import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from tests.cli.shell import tidemill
from tests.cli.test_suggested import suggested
from tests.fleets.naive import Fleet
from tidemill import api

HERE = Path(__file__).parent
NOT_HELD = {
    "not_launched", "not_ready", "unhealthy", "cordoned", "draining", "no_demand", "fragmented",
    "topology", "quota", "held", "cause_unknown", "by_design", "stranded",
}  # fmt: skip


class Told(NamedTuple):
    """A fleet that was run: what that printed, its journal, and the naive reading of its lines."""

    printed: str
    journal: str
    lines: Path
    naive: Fleet

    def json(self, *words: str) -> Any:
        """What a command says of this journal, as JSON."""
        return json.loads(self.says(*words, "--json"))

    def says(self, *words: str) -> str:
        """What a command prints about this journal."""
        ran = tidemill(*words, "-j", self.journal)
        assert ran.code == 0, (words, ran.err)
        return ran.out


@pytest.fixture(scope="module", params=sorted(path.stem for path in HERE.glob("*.toml")))
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Each fleet once, through the commands."""
    folder = tmp_path_factory.mktemp(request.param)
    spec, journal, lines = HERE / f"{request.param}.toml", folder / "run.sqlite", folder / "e.jsonl"
    ran = tidemill("twin", "run", str(spec), str(journal))
    assert ran.code == 0, ran.err
    assert tidemill("journal", "export", str(journal), str(lines)).code == 0
    with lines.open(encoding="utf-8") as read:
        return Told(ran.out, str(journal), lines, Fleet(read))


def held(cells: list[dict[str, Any]]) -> int:
    """What a row of a breakdown says that jobs held."""
    return sum(cell["milli_ms"] for cell in cells if cell["key"] not in NOT_HELD)


def test_paid_and_busy_are_what_the_lines_say(told: Told):
    """GPU time paid and held, and dollars, by a count of nodes and pieces line by line."""
    found, naive = told.json("ledger"), told.naive
    assert found["totals"]["milli_ms"] == sum(naive.paid_milli_ms)
    assert abs(found["totals"]["usd_micro"] - naive.usd_micro_paid()) <= len(naive.contracts)
    share = found["utilisation"]["allocation"]
    assert share["numerator"] * sum(naive.paid_milli_ms) == (
        share["denominator"] * naive.busy_milli_ms
    )


@pytest.mark.parametrize("whose", ["team", "user"])
def test_every_team_and_user_held_what_the_lines_say(told: Told, whose: str):
    """The parts of a row that are not free add up to what its jobs held; nobody is left out."""
    rows = told.json("ledger", "--by", whose)["breakdown"]["rows"]
    found = {row["key"]: held(row["cells"]) for row in rows}
    naive = {name or "(unknown)": ms for name, ms in told.naive.busy_by(whose).items()}
    assert {name: ms for name, ms in found.items() if ms} == naive


@pytest.mark.parametrize("whose", ["team", "user"])
def test_waits_and_ends_are_what_the_lines_say(told: Told, whose: str):
    """Mean and quantiles of the queue wait, and jobs by how they ended; all, and by group."""
    waits = told.json("ledger", "--waits", "--by", whose)["waits"]
    groups = {name or "(unknown)": jobs for name, jobs in told.naive.jobs_by(whose).items()}
    assert {row["key"] for row in waits["rows"]} == set(groups)
    for row in [waits["total"], *waits["rows"]]:
        jobs = groups.get(row["key"], told.naive.jobs)
        wait = row["wait_ms"]
        naive = told.naive.waits(jobs)
        assert {name: wait[name] for name in naive} == naive, row["key"]
        states = Counter(job.state for job in jobs)
        states["running"] += states.pop("starting", 0)
        ends = ("done", "failed", "cancelled", "running", "waiting")
        assert {end: row[end] for end in ends} == {end: states[end] for end in ends}, row["key"]


def test_the_head_of_a_run_counts_teams_that_have_jobs(told: Told):
    """A queue that only has others below it submitted nothing."""
    teams = len(told.naive.jobs_by("team"))
    assert f"{len(told.naive.jobs):,} jobs of {teams} team{'s' * (teams > 1)}: " in told.printed


@pytest.mark.parametrize("by", ["team", "user"])
def test_no_name_is_cut_short(told: Told, by: str):
    """Two teams whose names begin alike can be told apart in the table of waits."""
    printed = told.says("ledger", "--waits", "--by", by)
    firsts = {line.split("  ")[0].strip() for line in printed.splitlines()[2:]}
    assert {name or "(unknown)" for name in told.naive.jobs_by(by)} <= firsts, printed
    assert "…" not in printed


def test_csv_leaves_empty_what_the_ledger_calls_unknown(told: Told):
    """The cell of a bucket that nobody can fill is empty, not 0; the rest adds up to the row."""
    unknown = {row["key"] for row in told.json("ledger")["unknown"]}
    assert unknown
    rows = list(csv.DictReader(io.StringIO(told.says("ledger", "--by", "team", "--csv"))))
    for row in rows:
        cells = {key: text for key, text in row.items() if key.endswith("_usd_micro")}
        assert all(row[f"{key}_usd_micro"] == "" for key in unknown), row
        assert sum(int(text) for text in cells.values() if text) == int(row["usd_micro"])
        assert (row["useful_milli_ms"] == "") == (row["useful_usd_micro"] == ""), row


def test_the_doctor_and_the_ledger_agree_on_what_is_unknown(told: Told):
    """A line that has money in the ledger is not called `no source`, and the other way round."""
    missing = {row["title"] for row in told.json("ledger")["unknown"]}
    said = told.says("doctor")
    assert set(re.findall(r"ledger line `(.*?)`", said)) == missing
    training = sum(
        '"kind":"training"' in line
        for line in told.lines.read_text(encoding="utf-8").splitlines()
        if '"job_submitted"' in line
    )
    assert f"of {training:,} training job" in said


def test_fit_divides_a_job_so_that_the_nodes_it_may_use_hold_it(told: Told):
    """`never fits` is not the answer to two nodes' worth of GPUs that the fleet has."""
    for contract in told.naive.contracts:
        devices, kind = contract["node"]["devices"], contract["kind"]
        team = next(job.team for job in told.naive.jobs)
        if contract["count"] < 2 * devices:
            continue
        words = ("--team", team, "--gpus", str(2 * devices), "--gpu-type", kind, "--at", "1d")
        assert "on one node" not in told.says("fit", *words)


def test_exports_come_back_as_the_same_lines(told: Told, tmp_path: Path):
    """JSON lines and Parquet make a sound journal with the same events."""
    for ending in (".jsonl.gz", ".parquet"):
        out, back = tmp_path / f"e{ending}", tmp_path / f"back{ending}.sqlite"
        assert tidemill("journal", "export", told.journal, str(out)).code == 0
        assert tidemill("journal", "import", str(out), str(back)).code == 0
        again = tmp_path / f"again{ending}.jsonl"
        assert tidemill("journal", "export", str(back), str(again)).code == 0
        assert again.read_bytes() == told.lines.read_bytes()
        assert tidemill("journal", "verify", str(back)).code == 0


def test_frames_have_the_same_jobs(told: Told):
    """The DataFrame of jobs agrees, row by row, with the lines."""
    frame = api.read_statement(told.journal).frame("jobs")
    assert isinstance(frame, pl.DataFrame)
    naive = {job.name: (job.team, job.user or None, job.wait_ms(told.naive.now_ms))
             for job in told.naive.jobs}  # fmt: skip
    found = {row["job"]: (row["team"], row["user"], row["wait_ms"]) for row in frame.to_dicts()}
    assert found == naive


def outputs(told: Told, page: Path) -> Iterator[str]:
    """What every group of commands says about a fleet, in the middle and at the end."""
    half, end = f"{told.naive.now_ms // 2}ms", f"{told.naive.now_ms}ms"
    for words in (
        ("ledger",), ("ledger", "--tree"), ("ledger", "--lending"), ("ledger", "--top", "5"),
        ("ledger", "--by", "kind"), ("ledger", "--from", half, "--to", end, "--previous"),
        ("doctor",), ("pending", "--no-eta"), ("pending", "--at", half, "--no-eta"),
        ("fleet", "--at", half), ("fleet", "--nodes"), ("fleet", "--teams"), ("unit", "underused"),
    ):  # fmt: skip
        yield told.says(*words)
    with told.lines.open(encoding="utf-8") as read:
        waiting = Fleet(read, told.naive.now_ms // 2).waiting()
    assert told.json("pending", "--at", half, "--no-eta")["jobs"] == len(waiting)
    for job in waiting[:2]:
        yield told.says("why", job.name, "--at", half)
    yield told.says("why", told.naive.jobs[0].name)
    ran = tidemill("report", told.journal, str(page))
    assert ran.code == 0, ran.err
    yield html.unescape(page.read_text(encoding="utf-8"))


def test_every_command_that_an_output_suggests_runs(told: Told, tmp_path: Path):
    """Word for word as it is printed, except those with a word to fill in; one of each sort."""
    found = {line for text in outputs(told, tmp_path / "p.html") for line in suggested(text)}
    ready = [shlex.split(line) for line in sorted(found) if not re.search(r"\b[A-Z]{4}\b", line)]
    sorts = {(words[1], *(word for word in words if word[0] == "-")): words for words in ready}
    assert sorts
    wrong = [(words, ran.err) for words in sorts.values() if (ran := tidemill(*words[1:])).code]
    assert wrong == []
