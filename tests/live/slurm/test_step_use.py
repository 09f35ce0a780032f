"""What jobs used of their CPUs and memory, as sacct says it of steps and `seff` counts it."""

import io
import json
from pathlib import Path

import pytest

from tests.live.history.test_history import read as books_of
from tests.live.slurm.test_text import PRINTED
from tidemill.ledger import efficiency
from tidemill.ledger.host_use import HostUse
from tidemill.live.history.events import build
from tidemill.live.slurm import reading, translate
from tidemill.live.slurm.rows import SlurmJob

HEAD = "JobID|JobIDRaw|Account|State|Submit|Start|End|NodeList|AllocCPUS|AllocTRES"
TRES = "cpu=16,mem=64G,node=1,gres/gpu=8"
USED = "TotalCPU|MaxRSS|NTasks"


def job(number: int, *used: str, hours: int = 1) -> str:
    """A job of sixteen CPUs and 64 GiB; times follow from its number."""
    start = 1_790_000_000 + 7200 * number
    told = f"{number}|{number}|ml|COMPLETED|{start}|{start}|{start + 3600 * hours}|n1|16|{TRES}"
    return "|".join([told, *used]) + "\n"


def step(name: str, *used: str) -> str:
    return "|".join([name, name, "ml", "COMPLETED", "1", "1", "1", "n1", "16", "", *used]) + "\n"


def uses(text: str, tmp_path: Path) -> dict[str, HostUse]:
    """What the books say of each job."""
    (tmp_path / "sacct.txt").write_text(text)
    past = translate.read([tmp_path / "sacct.txt"], None)
    books = books_of(build(past.parts, past.nodes, shapes=past.shapes))
    return {name: efficiency.facts_of(books, j).host for name, j in books.world.job_number.items()}


def test_cpu_and_memory_are_counted_as_seff_does(tmp_path: Path):
    """By hand: 4 h of CPU time in 16 CPU-hours; a step of four tasks of 8 GiB is half of 64 GiB.

    A job whose steps say nothing, and one without steps whose total is 0, are unknown.
    """
    text = f"{HEAD}|{USED}\n"
    text += job(1, "04:00:00", "", "") + step("1.batch", "03:00:00", "16777216K", "1")
    text += step("1.extern", "00:00.001", "1200K", "1") + step("1.0", "01:00:00", "8G", "4")
    text += job(2, "00:00:00", "", "")
    text += job(3, "", "", "", hours=2) + step("3.0", "1-08:00:00", "", "1")
    text += job(4, "00:00:00", "", "") + step("4.0", "00:36.000", "512.5M", "")
    assert uses(text, tmp_path) == {
        "1": HostUse(250_000, 500_000),
        "2": HostUse(None, None),
        "3": HostUse(1_000_000, None),
        "4": HostUse(36_000 * 1_000_000 // (16 * 3_600_000), round(512.5 / 65_536 * 1_000_000)),
    }


def test_tres_say_it_where_no_column_of_memory_does(tmp_path: Path):
    """TRESUsageInMax has the peak of the largest task under `mem`."""
    text = f"{HEAD}|TotalCPU|TRESUsageInMax\n" + job(1, "08:00:00", "")
    text += step("1.0", "08:00:00", "cpu=08:00:00,energy=0,mem=32G,pages=0,vmem=40G")
    assert uses(text, tmp_path) == {"1": HostUse(500_000, 500_000)}


def test_without_the_columns_nothing_is_told(tmp_path: Path):
    """An export without them is read as before, also with steps in it: unknown is not zero."""
    text = f"{HEAD}\n" + job(1) + step("1.batch")
    assert uses(text, tmp_path) == {"1": HostUse(None, None)}


@pytest.mark.parametrize("block_bytes", [64, 200, 1_000, 1 << 20])
def test_a_job_is_not_cut_from_its_steps(block_bytes: int):
    """Wherever blocks of the file end, every job has all of its steps, and none is lost."""
    text = f"{HEAD}|{USED}\n"
    for number in range(1, 30):
        text += job(number, "", "", "")
        text += "".join(step(f"{number}.{i}", "00:01.000", f"{number}K", "2") for i in range(3))
    raw = text.encode()
    opened = reading.open_output(raw)
    reader = opened._reader  # type: ignore[attr-defined]
    found = [
        row for one in reader.frames(io.BytesIO(raw), block_bytes=block_bytes)
        for row in one.frame.iter_rows(named=True)
    ]  # fmt: skip
    assert [row["job_id"] for row in found] == [*range(1, 30)]
    assert [row["cpu_used_ms"] for row in found] == [3_000] * 29
    assert [row["peak_bytes"] for row in found] == [2 * 1024 * n for n in range(1, 30)]
    assert not opened.refusals.total


@pytest.mark.parametrize(
    ("text", "ms"),
    [("00:01.907", 1_907), ("02:03:04", 7_384_000), ("1-00:00:01", 86_401_000), ("5:00", 300_000),
     ("00:00.5", 500), ("INVALID", None), ("", None)],
)  # fmt: skip
def test_cpu_times_are_read_as_sacct_prints_them(text: str, ms: int | None, tmp_path: Path):
    """Days, hours and thousandths; what is none is unknown and refuses no row."""
    told = uses(f"{HEAD}|{USED}\n" + job(1, text, "", ""), tmp_path)["1"]
    assert told.cpu_ppm == (None if ms is None else ms * 1_000_000 // (16 * 3_600_000))


def test_json_says_the_same_as_text(tmp_path: Path):
    """A record of a real sacct 22.05, with usage as a Slurm that gathers it prints it."""
    record = next(one for one in json.loads((PRINTED / "sacct_22.05.json").read_bytes())["jobs"]
                  if one["steps"])  # fmt: skip
    (made,) = (one for one in _jobs([record]))
    assert made.peak_bytes is None  # that one gathered nothing
    used = record["steps"][0]
    used["time"]["total"] = {"seconds": 1, "microseconds": 907_915}
    used["tres"]["requested"]["max"] = [
        {"type": "cpu", "name": None, "id": 1, "count": 1800, "task": 0, "node": "n1"},
        {"type": "mem", "name": None, "id": 2, "count": 226_672_640, "task": 0, "node": "n1"},
    ]
    used["tasks"]["count"] = 2
    (made,) = (one for one in _jobs([record]))
    assert (made.cpu_used_ms, made.peak_bytes) == (1_907, 2 * 226_672_640)
    numbers = {"set": True, "infinite": False, "number": 226_672_640}  # as newer versions print
    used["tres"]["requested"]["max"][1]["count"] = numbers
    (made,) = (one for one in _jobs([record]))
    assert made.peak_bytes == 2 * 226_672_640


def _jobs(records: list[dict[str, object]]) -> list[SlurmJob]:
    with reading.open_output(json.dumps({"jobs": records}).encode()) as opened:
        return [*opened.rows()]


def test_what_the_queue_shows_too_keeps_what_the_accounting_says(tmp_path: Path):
    """A job that ended a moment ago is in both: squeue goes before, and knows nothing of use."""
    text = f"{HEAD}|{USED}\n" + job(1, "04:00:00", "", "") + step("1.0", "04:00:00", "16G", "1")
    start = 1_790_007_200
    queued = {
        "job_id": 1, "job_state": "COMPLETED", "account": "ml", "submit_time": start,
        "start_time": start, "end_time": start + 3600, "nodes": "n1", "cpus": 16,
        "tres_alloc_str": TRES, "tres_req_str": TRES,
    }  # fmt: skip
    (tmp_path / "squeue.json").write_text(json.dumps({"jobs": [queued]}))
    (tmp_path / "sacct.txt").write_text(text)
    past = translate.read([tmp_path / "sacct.txt", tmp_path / "squeue.json"], None)
    (row,) = past.attempts.iter_rows(named=True)
    assert (row["cpu_used_ms"], row["cpu_had_ms"]) == (14_400_000, 57_600_000)
    assert row["memory_used_ppm"] == 250_000
