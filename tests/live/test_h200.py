"""Real training loops on a real H200: the ledger agrees with a stopwatch that knows no Tidemill.

The launcher's ``jobs.csv`` says who held the GPU when, the loops' own records what they did with
it, ``gpu.csv`` is what nvidia-smi showed meanwhile; see ``examples/track/h200``, and
``examples/track/h200-frameworks`` for the trainers of Hugging Face and Lightning.
"""

import csv
import json
import os
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tidemill.ledger.buckets import ABOUT, ALLOCATED, BY_KEY

FOLDER = ROOT / "examples" / "track" / "h200"
FRAMEWORKS = FOLDER.with_name("h200-frameworks")
WATCHED: list[dict[str, Any]] = json.loads((FOLDER / "stopwatch.json").read_text())
PEAK = 989.5e12
"""Dense BF16 FLOP/s of an H200, by its data sheet."""


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The ledger by job of plain loops."""
    return booked(FOLDER, tmp_path_factory.mktemp("h200"))


def booked(folder: Path, into: Path) -> dict[str, Any]:
    """The ledger by job, as `tidemill import csv --track` books an example."""
    journal = into / "h200.sqlite"
    files = (folder / "jobs.csv", "--nodes", folder / "nodes.csv")
    track = ("--track", str(folder / "records.jsonl"), "-j", str(journal))
    tidemill("import", "csv", *map(str, files), *track)
    shown = tidemill("ledger", str(journal), "--by", "job", "--json")
    told: dict[str, Any] = json.loads(shown.out)
    return told


def attempts(folder: Path) -> list[tuple[dict[str, float], dict[str, Any]]]:
    """Attempts of loops: the launcher's row, and the stopwatch's."""
    with (folder / "jobs.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["job"] != "service"]
    held = [{"start": float(row["start"]), "end": float(row["end"])} for row in rows]
    return list(zip(held, json.loads((folder / "stopwatch.json").read_text()), strict=True))


def _gone_on_from(mine: list[tuple[dict[str, Any], dict[str, Any]]], number: int) -> int:
    """After which step a launch of a job began: each step has as many FLOPs as any other."""
    first, last = mine[0][1]["last"], mine[number][1]["last"]
    return int(last["step"]) - round(last["flops"] * first["step"] / first["flops"])


def watched_s(folder: Path, job: str) -> dict[str, float]:
    """Seconds by bucket, by the stopwatch and the launcher alone."""
    found = dict.fromkeys(("starting", "restart", "checkpoint", "host", "rework", "idle"), 0.0)
    found["useful"] = 0.0
    mine = [pair for pair in attempts(folder) if pair[1]["job"] == job]
    for number, (held, watch) in enumerate(mine):
        is_killed = number + 1 < len(mine)
        lasting, end = watch["after_last_checkpoint" if is_killed else "last"], held["end"]
        if is_killed and watch["last"].get("is_saving"):
            end = watch["last"]["at_s"]  # killed within a checkpoint, which may be on the disk
            found["checkpoint"] += held["end"] - end
            if _gone_on_from(mine, number + 1) == watch["last"]["step"]:
                lasting = watch["last"]
        found["starting" if number == 0 else "restart"] += watch["up_s"] - held["start"]
        found["checkpoint"] += watch["last"]["checkpoint_s"]
        found["host"] += lasting["data_s"]
        found["useful"] += lasting["flops"] / PEAK
        left = "rework" if is_killed else "idle"
        found[left] += end - lasting["at_s"]
    return found


def seconds_of(ledger: dict[str, Any], job: str) -> dict[str, float]:
    """Seconds by bucket, as they are booked."""
    (row,) = (row for row in ledger["breakdown"]["rows"] if row["key"] == job)
    return {cell["key"]: cell["milli_ms"] / 1e6 for cell in row["cells"]}


@pytest.mark.parametrize("job", ["plain", "starved", "shared"])
def test_every_bucket_is_within_a_hundredth_of_the_stopwatch(ledger: dict[str, Any], job: str):
    """Of the time that the job held the GPU; large buckets within 1 % of themselves."""
    found = seconds_of(ledger, job)
    held = sum(found.values())
    for bucket, seconds in watched_s(FOLDER, job).items():
        assert abs(found.get(bucket, 0.0) - seconds) < 0.01 * held, bucket
        if seconds > 0.05 * held:
            assert found[bucket] == pytest.approx(seconds, rel=0.01), bucket


def test_trainers_of_frameworks_agree_with_the_stopwatch(tmp_path: Path):
    """Within 1 % of the time held; of data, what the trainer itself does between steps is in it."""
    ledger = booked(FRAMEWORKS, tmp_path)
    for job, between in (("huggingface", 0.01), ("lightning", 0.025)):
        found = seconds_of(ledger, job)
        held = sum(found.values())
        for bucket, seconds in watched_s(FRAMEWORKS, job).items():
            assert abs(found[bucket] - seconds) < 0.01 * held, (job, bucket)
            if bucket in ("starting", "restart", "checkpoint", "useful"):
                assert found[bucket] == pytest.approx(seconds, rel=0.01), (job, bucket)
        assert found["host"] == pytest.approx(watched_s(FRAMEWORKS, job)["host"], rel=between)
    known = {line["confidence"] for line in ledger["lines"] if line["milli_ms"]}
    assert known == {"measured"}


def test_every_line_below_allocated_is_measured(ledger: dict[str, Any]):
    """Nothing is modelled or unknown where the loop told everything."""
    allocated = [line for line in ledger["lines"] if BY_KEY[line["key"]] in ALLOCATED]
    assert {line["confidence"] for line in allocated if line["milli_ms"]} == {"measured"}
    assert sum(line["milli_ms"] for line in allocated) > 0.99 * ledger["totals"]["milli_ms"]
    assert {line["key"] for line in ledger["lines"]} <= {about.key for about in ABOUT.values()}


def test_a_neighbour_costs_what_the_steps_show(ledger: dict[str, Any]):
    """Beside a service under MPS steps take longer: by as much as the stopwatch says."""
    found = seconds_of(ledger, "shared")
    (watch,) = (watch for watch in WATCHED if watch["job"] == "shared")
    with (FOLDER / "jobs.csv").open() as file:
        (service,) = (row for row in csv.DictReader(file) if row["job"] == "service")
    ends, begins = watch["step_ends_s"], float(service["start"])
    alone = median(b - a for a, b in pairwise(ends) if b < begins)
    beside = median(b - a for a, b in pairwise(ends) if a > begins)
    at_work = sum(found[key] for key in ("interference", "useful", "below_peak", "host"))
    worked_beside = at_work - (begins - watch["up_s"]) * at_work / (at_work + found["checkpoint"])
    assert beside / alone > 1.5
    wanted = worked_beside * (1 - alone / beside)
    assert found["interference"] == pytest.approx(wanted, rel=0.2)


def test_the_device_itself_was_as_busy(ledger: dict[str, Any]):
    """nvidia-smi shows the GPU at work for the share of the time that the loop leaves it."""
    with (FOLDER / "gpu.csv").open() as file:
        rows = [row for row in csv.reader(file) if len(row) == 6][1:]
    shown = [(_seconds(row[0]), float(row[1]) / 100) for row in rows]
    (watch,) = (watch for watch in WATCHED if watch["job"] == "starved")
    start, end = watch["up_s"], watch["last"]["at_s"]
    busy = [share for at, share in shown if start <= at <= end]
    found = seconds_of(ledger, "starved")
    at_work = found["useful"] + found["below_peak"]
    assert sum(busy) / len(busy) == pytest.approx(at_work / (end - start), abs=0.05)


def _seconds(text: str) -> float:
    """A time as nvidia-smi prints it, on a machine in UTC."""
    return datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize("name", ["journal.jsonl", "report.html"])
def test_the_journal_and_the_report_are_what_the_files_make(tmp_path: Path, name: str):
    """Whoever has neither GPU nor Python can read both; ``TIDEMILL_GOLDEN=write`` makes them."""
    files = ("jobs.csv", "--nodes", "nodes.csv", "--track", "records.jsonl")
    journal = str(tmp_path / "h200.sqlite")
    tidemill("import", "csv", *files, "-j", journal, cwd=FOLDER)
    tidemill("journal", "export", "h200.sqlite", "journal.jsonl", cwd=tmp_path)
    tidemill("report", "report.html", "-j", "h200.sqlite", cwd=tmp_path)
    made = (tmp_path / name).read_text()
    if os.environ.get("TIDEMILL_GOLDEN") == "write":
        (FOLDER / name).write_text(made)
    assert (FOLDER / name).read_text() == made


def test_the_kept_journal_has_the_same_books(ledger: dict[str, Any], tmp_path: Path):
    """Imported, it is the ledger of the tables and records, line by line."""
    journal = str(tmp_path / "kept.sqlite")
    tidemill("journal", "import", str(FOLDER / "journal.jsonl"), journal)
    kept = json.loads(tidemill("ledger", journal, "--by", "job", "--json").out)
    assert kept["lines"] == ledger["lines"]
    assert kept["breakdown"] == ledger["breakdown"]


def test_the_folder_holds_no_secret():
    """Only what the README names."""
    assert {path.name for path in Path(FOLDER).iterdir()} == {
        "README.md", "gpu.csv", "jobs.csv", "journal.jsonl", "nodes.csv", "record.py",
        "records.jsonl", "report.html", "serve.py", "stopwatch.json", "train.py",
    }  # fmt: skip
    assert {path.name for path in FRAMEWORKS.iterdir() if path.is_file()} == {
        "README.md", "huggingface_loop.py", "jobs.csv", "lightning_loop.py", "nodes.csv",
        "record.py", "records.jsonl", "stopwatch.json", "watch.py", "words.py",
    }  # fmt: skip
