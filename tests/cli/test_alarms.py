"""A job that was preempted too often is an alarm: in `ledger`, `pending` and the report."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import tidemill

SPEC = """
[twin]
name = "alarm"
horizon = "4h"

[policy]
evictions_at_most = 1
preempt_gain_ppm = 0

[[contract]]
name = "c"
kind = "H100"
count = 8
usd_per_hour = 2

[[team]]
name = "a"

[[job]]
name = "low"
team = "a"
at = "0h"
accelerators = 8
work = "2h"
estimate = "2h"

[[job]]
name = "high"
team = "a"
at = "1h"
accelerators = 8
work = "30m"
estimate = "30m"
priority = 5
"""
ALARM = "alarm: preempted 1 time without saving any work in between"


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run in which `low` is stopped for `high` once, which is all that the policy allows."""
    folder: Path = tmp_path_factory.mktemp("alarm")
    (folder / "alarm.toml").write_text(SPEC)
    ran = tidemill("twin", "run", str(folder / "alarm.toml"), "-j", str(folder / "alarm.sqlite"))
    assert ran.code == 0, ran.err
    assert f"job `low`: {ALARM}" in ran.out, "the ledger after a run left it out"
    return str(folder / "alarm.sqlite")


def test_pending_raises_it(journal: str):
    """Under the table and in JSON, of the job that waits."""
    assert f"job `low`: {ALARM}" in tidemill("pending", "-j", journal, "--at", "1h10m").out
    found = json.loads(tidemill("pending", "-j", journal, "--at", "1h10m", "--json").out)
    assert [row["alarm"].startswith(ALARM) for row in found["waiting"]] == [True]


def test_the_ledger_raises_it(journal: str):
    """Also when the job has long ended; not in a window in which it was not preempted."""
    assert f"job `low`: {ALARM}" in tidemill("ledger", "-j", journal).out
    found = json.loads(tidemill("ledger", "-j", journal, "--json").out)
    assert [(row["job"], row["team"]) for row in found["alarms"]] == [("low", "a")]
    assert found["alarms"][0]["words"].startswith(ALARM)
    assert ALARM not in tidemill("ledger", "-j", journal, "--from", "2h").out
    assert ALARM in tidemill("ledger", "-j", journal, "--from", "0").out, "0 was no time"
    assert "until it does" not in found["alarms"][0]["words"], "a job that has ended saves no more"


def test_the_report_raises_it(journal: str, tmp_path: Path):
    """The page said nothing of what `ledger` tells of the same journal."""
    page = tmp_path / "page.html"
    assert tidemill("report", journal, str(page)).code == 0
    assert ALARM in page.read_text(encoding="utf-8")
