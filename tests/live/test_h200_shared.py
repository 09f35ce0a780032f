"""A loop and a service that share a real H200 under MPS, and what nvidia-smi saw of the card.

Jobs, loops and the service tell what they know; `examples/track/h200-shared` has the stopwatches of
the loops and of the service's clients, which know no Tidemill.
"""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tests.live.test_h200 import PEAK
from tidemill.track.serving import BOUNDS_US

FOLDER = ROOT / "examples" / "track" / "h200-shared"
WATCHED: dict[str, Any] = json.loads((FOLDER / "stopwatch.json").read_text())
PARTS = {"plain": 1.0, "shared": 0.6, "chat": 0.4}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The books of all that is in the folder."""
    made = tmp_path_factory.mktemp("shared") / "shared.sqlite"
    files = ("--nvidia-smi", "gpu.csv", "--nvidia-smi", "dmon.txt", "--nvidia-smi-zone", "UTC")
    told = ("jobs.csv", "--nodes", "nodes.csv", "--track", "records.jsonl", *files)
    assert tidemill("import", "csv", *told, "-j", str(made), cwd=FOLDER).code == 0
    return made


@pytest.fixture(scope="module")
def ledger(journal: Path) -> dict[str, Any]:
    """The ledger by job."""
    told: dict[str, Any] = json.loads(tidemill("ledger", str(journal), "--by", "job", "--json").out)
    return told


@pytest.fixture(scope="module")
def chat(journal: Path) -> dict[str, Any]:
    """What `tidemill efficiency` says of the service."""
    shown = tidemill("efficiency", str(journal), "--job", "chat", "--json")
    found: dict[str, Any] = json.loads(shown.out)["total"]
    return found


def seconds_of(ledger: dict[str, Any], job: str) -> dict[str, float]:
    """GPU-seconds by bucket."""
    (row,) = (row for row in ledger["breakdown"]["rows"] if row["key"] == job)
    return {cell["key"]: cell["milli_ms"] / 1e6 for cell in row["cells"]}


def held_s(job: str) -> float:
    """How long a job held its GPU, or the part of it, by the launcher."""
    with (FOLDER / "jobs.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["job"] == job]
    return sum(float(row["end"]) - float(row["start"]) for row in rows)


@pytest.mark.parametrize("job", PARTS)
def test_each_is_booked_by_its_part_and_takes_no_time_of_another(ledger: dict[str, Any], job: str):
    """600 thousandths of the GPU for one, 400 for the other, for as long as the launcher says."""
    assert sum(seconds_of(ledger, job).values()) == pytest.approx(
        PARTS[job] * held_s(job), abs=0.01
    )


@pytest.mark.parametrize("job", ["plain", "shared"])
def test_what_loops_told_is_within_a_hundredth_of_the_stopwatch(ledger: dict[str, Any], job: str):
    """All of it measured; and their useful time is their FLOPs over the peak, whatever the part."""
    found, part = seconds_of(ledger, job), PARTS[job]
    with (FOLDER / "jobs.csv").open() as file:
        starts = [float(row["start"]) for row in csv.DictReader(file) if row["job"] == job]
    loops = [one for one in WATCHED["loops"] if one["job"] == job]
    first, *again = (up["up_s"] - at for up, at in zip(loops, starts, strict=True))
    lasting = [*(one["after_last_checkpoint"] for one in loops[:-1]), loops[-1]["last"]]
    wanted = {
        "starting": part * first, "restart": part * sum(again),
        "checkpoint": part * sum(one["last"]["checkpoint_s"] for one in loops),
        "host": part * sum(one["data_s"] for one in lasting),
        "useful": sum(one["flops"] for one in lasting) / PEAK,
    }  # fmt: skip
    held = sum(found.values())
    for bucket, seconds in wanted.items():
        assert found.get(bucket, 0.0) == pytest.approx(seconds, abs=0.01 * held), bucket
        if seconds > 0.05 * held:
            assert found[bucket] == pytest.approx(seconds, rel=0.01), bucket
    assert "unknown" not in found


def test_every_line_is_measured_but_what_nobody_told(ledger: dict[str, Any]):
    """A job that tells nothing worked so and so long; nobody knows how well, nor of a service."""
    known = {line["key"]: line["confidence"] for line in ledger["lines"] if line["milli_ms"]}
    assert known.pop("unknown") == "unknown"
    assert {*known.values()} == {"measured"}
    told_nothing = {
        row["key"] for row in ledger["breakdown"]["rows"]
        if any(cell["key"] == "unknown" and cell["milli_ms"] for cell in row["cells"])
    }  # fmt: skip
    assert told_nothing == {"untold", "asleep", "chat"}


def test_devices_say_what_jobs_do_not(ledger: dict[str, Any]):
    """Who slept was idle, but for the second by which GPM is late; who worked was busy."""
    asleep, untold = seconds_of(ledger, "asleep"), seconds_of(ledger, "untold")
    assert asleep["idle"] == pytest.approx(40.0, abs=1.0)
    assert untold["idle"] < 0.2 * held_s("untold")


def test_device_figures_are_on_the_books(journal: Path, tmp_path: Path):
    """SM, tensor and DRAM activity, memory, power and clock, of loops too."""
    tidemill("journal", "export", str(journal), "told.jsonl", cwd=tmp_path)
    events = [json.loads(line) for line in (tmp_path / "told.jsonl").read_text().splitlines()]
    told = [event for event in events if event.get("is") == "figure_seen"]
    assert {event["figure"] for event in told} >= {0, 1, 2, 3, 4, 5, 8}
    assert len({event["job"] for event in told}) == 5


@pytest.mark.parametrize("what", ["requests", "tokens_in", "tokens_out"])
def test_the_services_counts_are_its_clients_own(chat: dict[str, Any], what: str):
    """To the last one."""
    assert chat["load"][what] == WATCHED["service"]["all"][what]


@pytest.mark.parametrize("percent", [50, 99])
@pytest.mark.parametrize("what", ["first_token", "between_tokens", "whole"])
def test_its_quantiles_lie_in_the_bucket_that_is_told(
    chat: dict[str, Any], what: str, percent: int
):
    """As its clients measured them, who note a time a moment after the service does."""
    figures = next(one for one in chat["load"]["latencies"] if one["what"] == what)
    bound_us = figures[f"p{percent}_at_most_us"]
    below_us = max([0, *(one for one in BOUNDS_US if one < bound_us)])
    watched = WATCHED["service"]["all"][f"{what}_s_p{percent}"]
    assert 0.99 * below_us <= 1e6 * watched <= 1.01 * bound_us


def test_the_service_is_idle_for_its_part_while_nobody_asks(chat: dict[str, Any]):
    """The minute of the clock without a request, measured; and what the GPU stood still beside."""
    parts = {part["key"]: part for part in chat["parts"]}
    service = WATCHED["service"]
    assert parts["idle"]["known"] == "measured"
    quiet_s = service["asking_s"] - service["quiet_s"]
    after_s = service["end_s"] - service["asking_s"]
    assert 0.4 * 60 <= parts["idle"]["milli_ms"] / 1e6 <= 0.4 * (quiet_s + after_s)
    up_s = service["ready_s"] - service["began_s"]
    assert parts["starting"]["milli_ms"] == pytest.approx(0.4 * 1e6 * up_s, rel=0.02)


def test_the_folder_holds_no_secret_and_is_small():
    """Only what the README names."""
    assert {path.name for path in FOLDER.iterdir() if path.is_file()} == {
        "README.md", "about.txt", "dmon.txt", "gpu.csv", "jobs.csv", "nodes.csv", "pmon.txt",
        "record.py", "records.jsonl", "serve.py", "stopwatch.json",
    }  # fmt: skip
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 500_000
