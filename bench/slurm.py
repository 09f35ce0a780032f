"""Reading a long history of Slurm: a million rows of `sacct -P`, generated, into typed columns.

The text is what ``live.slurm.commands.history`` asks sacct for: jobs, members of arrays, requeued
attempts, one batch step for every second job. It is read as columns (times in seconds since 1970,
then as local times) and, a part of it, as rows. (The way onto the books is `slurm_import`.)
"""

import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.spine import reference_per_cpu_s
from tidemill.live.slurm.commands import SACCT_COLUMNS
from tidemill.live.slurm.reading import open_output

BEGIN_S = 1_700_000_000
COLUMNS = (
    *SACCT_COLUMNS,
    *("DBIndex", "ElapsedRaw", "Suspended", "ExitCode", "Priority", "NTasks", "Constraints"),
    *("Flags", "TRESUsageInAve", "TRESUsageInMax", "TRESUsageInTot"),
)
"""Also what people export and nobody reads."""
STATES = ("COMPLETED",) * 6 + ("FAILED", "TIMEOUT", "PREEMPTED", "REQUEUED")


def run(rows: int = 1_000_000, as_rows: int = 100_000, repeats: int = 2) -> dict[str, Any]:
    """Rows per second and per CPU-second of each way to read, the best of some."""
    found: dict[str, Any] = {"reference_per_cpu_s": round(reference_per_cpu_s())}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sacct.txt"
        for name, is_local in (("seconds", False), ("local_times", True)):
            write(path, rows, is_local=is_local)
            found[name] = _best([_read(path, rows) for _ in range(repeats)])
        write(path, as_rows)
        found["as_rows"] = _best([_read(path, as_rows, as_rows=True) for _ in range(repeats)])
    found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return found


def _best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return max(runs, key=lambda one: float(one["rows_per_s"]))


def _read(path: Path, rows: int, *, as_rows: bool = False) -> dict[str, Any]:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    gpu_ms = 0
    with open_output(path, zone="Europe/Berlin") as reading:
        if as_rows:
            for row in reading.rows():
                gpu_ms += (row.gpus_allocated or 0) * ((row.end_ms or 0) - (row.start_ms or 0))
        else:
            for _, frame in reading.frames():
                gpu_ms += int(
                    (frame["gpus_allocated"] * (frame["end_ms"] - frame["start_ms"])).sum()
                )
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    assert not reading.refusals.total, reading.refusals.kept[0].words()
    return {
        "rows": rows,
        "bytes": path.stat().st_size,
        "gpu_hours": gpu_ms // 3_600_000,
        "rows_per_s": round(rows / wall_s),
        "rows_per_cpu_s": round(rows / cpu_s),
    }


def write(path: Path, rows: int, *, is_local: bool = False) -> None:
    """Write a history of so many rows."""
    with path.open("w") as file:
        file.write("|".join(COLUMNS) + "\n")
        file.writelines(lines(rows, is_local=is_local))


def lines(rows: int, *, is_local: bool = False) -> Iterator[str]:
    """The rows, in the order of submission; the same for the same number."""
    chance = random.Random(11)
    number = made = 0
    while made < rows:
        number += 1
        job = _job(number, chance, is_local)
        yield _line(job)
        made += 1
        if number % 2 and made < rows:
            yield _line(_step(job))
            made += 1


def _job(number: int, chance: random.Random, is_local: bool) -> dict[str, str]:
    submit = BEGIN_S + number * 3
    start = submit + chance.randrange(7200)
    end = start + 30 + chance.randrange(86_400)
    gpus, user = 1 << chance.randrange(4), chance.randrange(400)
    tres = f"cpu={gpus * 12},gres/gpu:h100={gpus},gres/gpu={gpus},mem={gpus * 96}G,node=1"
    return {
        "JobIDRaw": str(number),
        "JobID": f"{number - number % 30}_{number % 30}" if number % 3 == 0 else str(number),
        "DBIndex": str(number),
        "Cluster": "lab",
        "User": f"user{user}",
        "UID": str(1000 + user),
        "Account": f"team{user % 40}",
        "Partition": "gpu",
        "QOS": "normal",
        "JobName": f"train-{number % 5000}",
        "State": chance.choice(STATES) if number % 11 else f"CANCELLED by {1000 + user}",
        "Reason": "None",
        "Submit": _moment(submit, is_local),
        "Eligible": _moment(submit, is_local),
        "Start": _moment(start, is_local),
        "End": _moment(end, is_local),
        "ElapsedRaw": str(end - start),
        "Suspended": "00:00:00",
        "TimelimitRaw": "1440" if number % 2 else "Partition_Limit",
        "ExitCode": "0:0",
        "Priority": str(number % 90_000),
        "NodeList": f"gpu-{chance.randrange(12_500):05d}",
        "NNodes": "1",
        "ReqNodes": "1",
        "AllocCPUS": str(gpus * 12),
        "ReqTRES": f"billing={gpus * 12},{tres}",
        "AllocTRES": f"billing={gpus * 12},{tres}",
        "Flags": "SchedBackfill",
    }


OF_JOBS_ONLY = ("User", "UID", "Partition", "QOS", "Reason", "TimelimitRaw", "Priority", "ReqTRES")


def _step(job: dict[str, str]) -> dict[str, str]:
    """The batch step of a job, with the fields that sacct prints for steps."""
    return {
        **job,
        **dict.fromkeys(OF_JOBS_ONLY, ""),
        "JobIDRaw": f"{job['JobIDRaw']}.batch",
        "JobID": f"{job['JobID']}.batch",
        "JobName": "batch",
        "State": job["State"].partition(" ")[0],
        "Submit": job["Start"],
        "Eligible": job["Start"],
        "NTasks": "1",
        "TRESUsageInTot": "cpu=00:00:01,energy=0,fs/disk=2012",
    }


def _line(row: dict[str, str]) -> str:
    return "|".join([row.get(name, "") for name in COLUMNS]) + "\n"


def _moment(seconds: int, is_local: bool) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) if is_local else str(seconds)
