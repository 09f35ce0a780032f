"""What nvidia-smi wrote on a real H200, on the books: measured as if a Prometheus had it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import tidemill
from tests.live.nvidia_smi.test_files import H200, minutes, written

JOBS = """job,user,gpus,submit,start,end,state,node
untold,cem,1,1795068944.367,1795068944.367,1795068983.908,completed,gpu-box
asleep,cem,1,1795068983.909,1795068983.909,1795069023.910,completed,gpu-box
"""
NODES = "node,gpus,gpu_type,usd_per_hour\ngpu-box,1,H200,3.50\n"


def imported(into: Path, *files: Path, zone: str = "UTC") -> tuple[dict[str, Any], str]:
    """Seconds of jobs by bucket with how they are known, and what the import remarked."""
    (into / "jobs.csv").write_text(JOBS)
    (into / "nodes.csv").write_text(NODES)
    told = [text for one in files for text in ("--nvidia-smi", str(one))]
    asked = ("import", "csv", "jobs.csv", "--nodes", "nodes.csv", *told, "-j", "a.sqlite")
    ran = tidemill(*asked, "--nvidia-smi-zone", zone, cwd=into)
    shown = tidemill("ledger", "a.sqlite", "--by", "job", "--json", cwd=into)
    rows = json.loads(shown.out)["breakdown"]["rows"]
    seconds = {
        row["key"]: {cell["key"]: cell["milli_ms"] / 1e6 for cell in row["cells"]} for row in rows
    }
    return seconds, ran.err


def figures(into: Path) -> set[int]:
    """Which figures of devices are on the journal, by number."""
    tidemill("journal", "export", "a.sqlite", "a.jsonl", cwd=into)
    events = [json.loads(line) for line in (into / "a.jsonl").read_text().splitlines()]
    return {event["figure"] for event in events if event.get("is") == "figure_seen"}


def test_idle_is_measured_for_jobs_that_tell_nothing(tmp_path: Path):
    """Who held the GPU and slept did nothing with it; who worked was busy once it had started."""
    found, said = imported(tmp_path, H200 / "gpu.csv", H200 / "dmon.txt")
    assert found["asleep"]["idle"] > 0.97 * 40
    assert 0.05 * 39.5 < found["untold"]["idle"] < 0.2 * 39.5
    assert "busy is graphics engine active (DCGM 1001)" in said
    assert {0, 1, 2, 3, 4, 5, 8} <= figures(tmp_path), "SM, tensor, DRAM, memory, power, clock"


def test_what_no_column_says_stays_unknown(tmp_path: Path):
    """Utilization says that a kernel ran: of SMs, tensor pipes and bandwidth there is no figure."""
    found, said = imported(tmp_path, H200 / "gpu.csv")
    assert found["asleep"] == {"idle": pytest.approx(40.0, abs=0.01)}
    assert "busy is GPU utilization (DCGM 203)" in said
    assert figures(tmp_path) == {3, 4, 5, 8}


def test_another_zone_is_another_time(tmp_path: Path):
    """Read as of Berlin, nothing was sampled while the jobs ran."""
    found, said = imported(tmp_path, H200 / "gpu.csv", zone="Europe/Berlin")
    assert "nothing of the jobs is measured" in said
    assert "idle" not in found["asleep"]


def test_a_time_without_samples_is_not_measured(tmp_path: Path):
    """Of one minute that was mostly not sampled, nobody says anything; of the other, as before."""
    lines = (H200 / "gpu.csv").read_text().splitlines()
    kept = [line for line in lines if not "06:16:30" < line[11:19] < "06:17:00"]
    found, _ = imported(tmp_path, written(tmp_path / "gpu.csv", *kept))
    assert len(minutes(tmp_path / "gpu.csv")) == len(minutes(H200 / "gpu.csv"))
    assert 0 < found["asleep"]["idle"] < 37
    assert found["asleep"]["unknown"] > 1


def test_without_a_zone_it_is_refused(tmp_path: Path):
    """nvidia-smi prints none, and none is guessed."""
    (tmp_path / "jobs.csv").write_text(JOBS)
    ran = tidemill("import", "csv", "jobs.csv", "--nvidia-smi", str(H200 / "gpu.csv"), cwd=tmp_path)
    assert ran.code != 0
    assert "times of day without a zone" in ran.err
    assert "--nvidia-smi-zone" in ran.err
