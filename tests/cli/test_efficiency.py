"""``tidemill efficiency`` on a simulated fleet, and on a real H200's records."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import Ran, tidemill
from tests.conftest import ROOT

RECORDS = ROOT / "examples" / "track" / "h200" / "records.jsonl"
Ask = Callable[..., Ran]


@pytest.fixture(scope="module")
def h200(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The books of the training loops on an H200."""
    journal = tmp_path_factory.mktemp("h200") / "h200.sqlite"
    ran = tidemill(
        "import", "track", str(RECORDS), "--gpu-type", "H200", "--usd-per-hour", "3.50",
        "-j", str(journal),
    )  # fmt: skip
    assert ran.code == 0, ran.err
    return journal


def test_the_worst_come_first_and_the_printed_rows_add_up(ask: Ask):
    """Rows by dollars wasted; the printed GPU-hours and dollars add up to the last row's."""
    ran = ask("efficiency", "--top", "4")
    assert ran.code == 0, ran.err
    rows = [line.replace("≥ ", "").split() for line in ran.out.splitlines()[2:]]
    assert {row[-1] for row in rows} == {"e"}, "most of the waste is below peak, as modelled"
    wasted = [float(row[-2].strip("$").replace(",", "")) for row in rows]
    assert wasted[:4] == sorted(wasted[:4], reverse=True)
    assert sum(wasted[:-1]) == pytest.approx(wasted[-1], abs=1e-6)
    cost = [float(row[-3].strip("$").replace(",", "")) for row in rows]
    assert sum(cost[:-1]) == pytest.approx(cost[-1], abs=1e-6)
    assert "simulated" in ran.out


def test_its_json_has_the_ledgers_sums(ask: Ask):
    """By team: what each held is what the ledger's buckets of jobs say, and dollars too."""
    found = json.loads(ask("efficiency", "--by", "team", "--json").out)
    ledger = json.loads(ask("ledger", "--json").out)
    held = {part["key"] for part in found["total"]["parts"]}
    lines = [line for line in ledger["lines"] if line["key"] in held]
    assert sum(line["milli_ms"] for line in lines) == found["total"]["held_milli_ms"]
    assert found["version"] == 1
    for line in lines:
        parts = [p for row in found["rows"] for p in row["parts"] if p["key"] == line["key"]]
        assert sum(part["milli_ms"] or 0 for part in parts) == line["milli_ms"]


def test_hours_without_a_price_say_so(tmp_path: Path):
    """Nobody holds GPU-hours "for unknown"."""
    journal = str(tmp_path / "j.sqlite")
    tidemill("import", "track", str(RECORDS), "--gpu-type", "H200", "-j", journal)
    ran = tidemill("efficiency", journal)
    assert " GPU-hours (price unknown), " in " ".join(ran.out.split())


def test_one_job_with_its_attempts(h200: Path):
    """The job that was killed has three attempts, whose buckets add up to the job's; what its loop
    measured is measured, what nobody did is unknown.
    """
    ran = tidemill("efficiency", str(h200), "--job", "plain", "--json")
    found = json.loads(ran.out)
    (row,) = found["rows"]
    parts = {part["key"]: part for part in row["parts"]}
    assert parts["checkpoint"]["known"] == "measured"
    assert (parts["idle"]["known"], parts["idle"]["milli_ms"]) == ("unknown", None)
    assert row["use"]["occupancy_ppm"] is None
    assert row["use"]["mfu_known"] == "measured"
    attempts = found["attempts"]
    assert [one["outcome"] for one in attempts] == ["stopped", "stopped", "done"]
    for key, part in parts.items():
        sums = sum(one["milli_ms"].get(key, 0) for one in attempts)
        assert sums == (part["milli_ms"] or 0)
    stood = sum(parts[key]["share_ppm"] for key in ("starting", "restart", "checkpoint", "host"))
    assert row["use"]["occupancy_at_most_ppm"] == pytest.approx(1_000_000 - stood, abs=4)
    text = tidemill("efficiency", str(h200), "--job", "plain").out
    assert "occupancy at most" in text
    assert "in 3 attempts" in text


def test_a_job_that_is_not_there_is_told_with_its_neighbours(h200: Path):
    """The message names what was asked and what is near it."""
    ran = tidemill("efficiency", str(h200), "--job", "plai")
    assert ran.code == 2
    assert "plai" in ran.err
    assert "plain" in ran.err


@pytest.mark.parametrize("words", [["--by", "node"], ["--job", "x", "--by", "user"]])
def test_what_cannot_be_asked_is_refused(ask: Ask, words: list[str]):
    """Exit code 2 and a hint."""
    ran = ask("efficiency", *words)
    assert ran.code == 2
    assert "hint:" in ran.err
