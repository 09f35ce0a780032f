"""``doctor`` on an observed cluster: which source told what, and what to install."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT

H200 = ROOT / "examples" / "track" / "h200"


def findings(folder: Path, *more: str) -> dict[str, tuple[bool, str, str]]:
    """What the doctor finds of the H200 example, imported with these options."""
    journal = str(folder / "fleet.sqlite")
    tidemill("import", "csv", str(H200 / "jobs.csv"), *more, "-j", journal, "--force")
    told = json.loads(tidemill("doctor", journal, "--json").out)
    return {one["what"]: (one["is_ok"], one["found"], one["so"]) for one in told}


def test_what_is_missing_is_said_with_what_to_install(tmp_path: Path):
    """Bare records of a scheduler: neither loops, nor devices, nor prices."""
    bare = findings(tmp_path)
    is_ok, found, so = bare["training loops"]
    assert not is_ok
    assert found == "efficiency of 0 % of the hours at work"
    assert "--track" in so
    assert not bare["devices (DCGM, or a loop that ended)"][0]
    assert "--prometheus" in bare["devices (DCGM, or a loop that ended)"][2]
    is_ok, found, so = bare["ranks that were compared (slow ones)"]
    assert (is_ok, found) == (True, "no job is on several GPUs"), "each holds one GPU"
    assert not bare["accelerator-hours without a price"][0]
    assert "jobs without efficiency (MFU)" not in bare


def test_what_is_there_is_not_called_missing(tmp_path: Path):
    """With nodes, prices and the loops' own records."""
    nodes, records = str(H200 / "nodes.csv"), str(H200 / "records.jsonl")
    told = findings(tmp_path, "--nodes", nodes, "--track", records)
    assert told["training loops"][0]
    assert told["training loops"][1].startswith("efficiency of 100 % of the hours at work")
    assert told["accelerator-hours without a price"] == (True, "0.0", "")
    assert told["attempts shown on GPUs that others held"][:2] == (False, "1")
    assert "ledger line `stalled: host`" not in told


def test_what_is_assumed_is_not_called_known(tmp_path: Path):
    """Nobody measured it: the share that is assumed is said apart, with what to install."""
    is_ok, found, so = findings(tmp_path, "--assume", "training.mfu=0.35")["training loops"]
    assert not is_ok
    assert found == "efficiency of 0 % of the hours at work, assumed of another 71 %"
    assert "--track" in so


def test_a_clock_that_is_declared_wrong_contradicts_the_scheduler(tmp_path: Path):
    """An import keeps it as an observer does: which jobs, by how much, what to do."""
    records = str(H200 / "records.jsonl")
    told = findings(tmp_path, "--track", records, "--track-ahead", "-300s")
    title = "contradiction: loops that ran while their job held nothing"
    is_ok, found, so = told[title]
    assert not is_ok
    assert found.startswith("3 jobs: ")
    assert "its loop ran 4m 59s after its end" in found
    assert "--track-ahead" in so
    assert title not in findings(tmp_path, "--track", records)


def test_a_journal_that_was_rolled_up_is_examined_too(tmp_path: Path):
    """What is left is counted, a drain of a node too, and it is said since when that is."""
    history, journal = ROOT / "examples" / "history", str(tmp_path / "fleet.sqlite")
    files = [str(history / "sacct.txt"), str(history / "nodes.txt")]
    books = ["--zone", "Europe/Berlin", "--to", "2026-11-02T20:00", "-j", journal]
    assert tidemill("import", "slurm", *files, *books).code == 0
    assert tidemill("journal", "roll-up", journal, "--keep", "4h", "--anyway").code == 0
    ran = tidemill("doctor", journal, "--json")
    assert ran.code == 0, ran.err
    told = {one["what"]: (one["is_ok"], one["found"]) for one in json.loads(ran.out)}
    rolled = told["events that were rolled up"]
    assert rolled == (True, "13, up to Mon 2026-11-02 08:00 +01:00")
    assert told["states of nodes"] == (True, "1 change")


def test_ranks_that_tell_nothing_leave_the_straggler_line_unknown(tmp_path: Path):
    """Loops of eight ranks with and without their records: then nobody, then every job is compared.

    What `stragglers` says they waited for is the line of the ledger, in GPU-time, but for where
    windows end.
    """
    track = ROOT / "examples" / "track" / "stragglers" / "planned"
    journal = str(tmp_path / "ranks.sqlite")
    tidemill("import", "track", str(track), "--gpu-type", "H100", "-j", journal)
    told = json.loads(tidemill("doctor", journal, "--json").out)
    one = {row["what"]: row for row in told}["ranks that were compared (slow ones)"]
    assert one["is_ok"], one
    assert "lost: straggler" not in " ".join(row["found"] for row in told)
    books = json.loads(tidemill("ledger", journal, "--json").out)
    line = {row["key"]: row for row in books["lines"]}["straggler"]
    assert line["confidence"] == "inferred"
    found = json.loads(tidemill("stragglers", "--track", str(track), "--json").out)
    waited = found["ranks"]["waited_gpu_ms"]
    assert waited > 0
    assert line["milli_ms"] / 1000 == pytest.approx(waited, rel=0.05)
