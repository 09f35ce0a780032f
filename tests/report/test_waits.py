"""Waits, users and top jobs on the page: the statement's own numbers; tables that can be sorted."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.builders import contract, job, opening, team
from tests.report import browser
from tests.report.reading import read
from tidemill import api, report
from tidemill.ledger import statement as ledger
from tidemill.ledger.statement import Statement
from tidemill.ledger.top import top_jobs
from tidemill.model import events as ev
from tidemill.model.measures import HOUR_MS
from tidemill.model.rows import Piece
from tidemill.report import waits
from tidemill.twin.spec import fleet_spec

FLEET = """
[twin]
name = "dated"
seed = 3
horizon = "2d"
begins = "2026-03-02T00:00:00+01:00"
[[contract]]
name = "c"
kind = "H100"
count = 8
usd_per_hour = 2
[[team]]
name = "a"
[[team]]
name = "b"
[[workload]]
name = "w"
team = "a"
users = ["ana", "bo"]
per_day = 60
sizes = { 1 = 0.5, 4 = 0.5 }
run = { median = "30m", mean = "1h", longest = "5h" }
mfu = 0.3
[[workload]]
name = "v"
team = "b"
per_day = 20
sizes = { 1 = 1 }
run = { median = "30m", mean = "1h", longest = "5h" }
"""


@pytest.fixture(scope="module")
def statement() -> Statement:
    """Two days of a small fleet with dates and users."""
    return api.simulate(fleet_spec.parse(FLEET)).statement


def test_the_page_has_dates_users_waits_and_top_jobs(statement: Statement):
    """What the statement says stands on the page, the jobs in the same order."""
    html = report.render(statement, title="dated")
    page = read(html)
    assert "Mon 2026-03-02 00:00 +01:00" in page.one("p", of="window").text
    tables = {table["data-waits"]: table for table in page.all("table", of="waits")}
    for by in ("team", "user", "size"):
        rows = {
            row.one("bdi").text: row.all("td")[0].text for row in tables[by].one("tbody").all("tr")
        }
        assert rows == {key: f"{f.jobs:,}" for key, f in statement.waits_by(by).items()}
    names = [row.one("th").text for row in page.one("table", of="jobs").one("tbody").all("tr")]
    assert names == [row.job for row in top_jobs(statement, 10)]
    assert {"ana", "bo"} <= {b.text for b in page.one("table", data_by="user").all("bdi")}
    assert page.all("svg", id="course")


def test_one_job_is_told_in_the_singular():
    """One was done and one was cancelled."""
    events = [
        *opening(contract(gpus=2, per_node=2), teams=[team("a")]),
        *(ev.JobSubmitted(0, job(name, gpus=2)) for name in ("x", "y")),
        ev.AskedPlace(0, 0, 1, (Piece(0, 0, 1, 0b11),)),
        ev.JobStarted(0, 0, 1),
        ev.JobFinished(HOUR_MS, 0, 1),
        ev.JobCancelled(HOUR_MS, 1),
    ]
    found = waits.waits(ledger.read(events))
    assert found is not None
    assert found.outcomes == (
        "Of these, 1 was done by the end, 0 had failed, 1 was cancelled, 0 ran and 0 waited."
        " 1 never started: the time so far counts (≥)."
    )


def test_without_users_there_is_no_table_of_them():
    """A table whose only row is unknown helps nobody."""
    text = FLEET.replace('users = ["ana", "bo"]\n', "")
    page = read(report.render(api.simulate(fleet_spec.parse(text)).statement, title="s"))
    assert not page.all("table", data_by="user")


def test_a_click_sorts_a_table(statement: Statement, tmp_path: Path):
    """The head of a column is a button: the most jobs first, then the fewest, and it says so."""
    program = next((found for name in browser.NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no chromium here to click in; hint: apt-get install chromium")
    html = re.sub(r"<meta http-equiv[^>]*>", "", report.render(statement, title="s"))
    click = "document.querySelectorAll('table[data-waits=size] thead button')[1].click();"
    for times, order in ((1, "descending"), (2, "ascending")):
        page = tmp_path / f"{order}.html"
        page.write_text(html.replace("</body>", f"<script>{click * times}</script></body>"))
        command = [program, *browser.FLAGS, f"--user-data-dir={tmp_path}/{order}", "--dump-dom"]
        ran = subprocess.run(
            [*command, page.as_uri()], capture_output=True, text=True, timeout=180, check=True
        )
        table = read(ran.stdout).one("table", data_waits="size")
        jobs = [int(row.all("td")[0].text) for row in table.one("tbody").all("tr")]
        assert jobs == sorted(jobs, reverse=order == "descending")
        heads = table.one("thead").all("th")
        assert heads[1]["aria-sort"] == order
