"""A year of 512 GPUs: an ordinary fleet with everything on, journal on disk, then its ledger.

Organisations, guaranteed quotas, racks, easy backfill and node faults (see ``ordinary``), at 80 %
load. Reports how many days pass in a CPU-second, memory at each quarter of the way, the journal,
and what ``tidemill ledger`` takes on it as a whole command.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from bench import ordinary
from bench.spine import reference_per_cpu_s
from tidemill import api
from tidemill.model.measures import DAY_MS
from tidemill.model.policy import Policy
from tidemill.model.rows import Contract, Template
from tidemill.model.states import JobState
from tidemill.twin.arrivals import Arrival
from tidemill.twin.backend import Twin

LOAD = 0.8
FEATURES = ordinary.ALL._replace(fault_rate=6.5)
_SAMPLE = 20_000  # jobs, from which it follows how many come in a day


def run(days: int = 365, nodes: int = 64) -> dict[str, Any]:
    """So many days of so many nodes of eight."""
    api.run(twin(1, nodes), Policy())  # compiled, or loaded, before the clock runs
    with tempfile.TemporaryDirectory() as folder:
        path, quarters = str(Path(folder) / "year.sqlite"), list[int]()

        def on_progress(at_ms: int, _: int) -> None:
            if at_ms * 4 >= (len(quarters) + 1) * days * DAY_MS:
                quarters.append(_resident_mib())

        start, at = time.process_time(), time.monotonic()
        done = api.run(
            twin(days, nodes), Policy(), journal=path, end_ms=days * DAY_MS, on_progress=on_progress
        )
        cpu_s, wall_s = time.process_time() - start, time.monotonic() - at
        world, size = done.world, Path(path).stat().st_size
        return {
            "reference_per_cpu_s": round(reference_per_cpu_s()),
            "days": round(world.now_ms / DAY_MS),
            "jobs": world.job_count,
            "ended": int((world.jobs.state[: world.job_count] >= JobState.DONE).sum()),
            "events": world.seq,
            "cpu_s": round(cpu_s, 1),
            "wall_s": round(wall_s, 1),
            "days_per_cpu_s": round(world.now_ms / DAY_MS / cpu_s, 1),
            "resident_mib_by_quarter": quarters,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "journal_bytes_per_event": round(size / world.seq, 1),
            "ledger_command": _ledger(path),
        }


def twin(days: int, nodes: int) -> Twin:
    """The fleet for so many days; jobs are made as they come."""
    sample = list(ordinary.stream(_SAMPLE, nodes, FEATURES, LOAD, 1))
    jobs = round(1.1 * days * DAY_MS * _SAMPLE / sample[-1].at_ms)
    coming = ordinary.stream(max(1, jobs), nodes, FEATURES, LOAD, 1)
    return Twin(
        [Contract("fleet", "main", "H100", nodes * 8, 2_000_000, Template(8, 192_000, 2_000_000))],
        ordinary.queues(nodes, FEATURES),
        _until(days * DAY_MS, coming),
        faults=ordinary.faults(FEATURES.fault_rate),
        topology=ordinary.topology(FEATURES),
        nodes_per=ordinary.NODES_PER,
        horizon_ms=days * DAY_MS,
        seed=1,
    )


def _until(end_ms: int, coming: Iterator[Arrival]) -> Iterator[Arrival]:
    """Those who come before a moment."""
    return takewhile(lambda arrival: arrival.at_ms < end_ms, coming)


def _ledger(path: str) -> dict[str, float]:
    """The CPU-seconds and seconds of the whole command."""
    before, at = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    program = "import sys; from tidemill.cli.main import main; sys.argv[0] = 'tidemill'; main()"
    subprocess.run(
        [sys.executable, "-c", program, "ledger", "-j", path], check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_s": round(cpu_s, 2), "wall_s": round(time.monotonic() - at, 2)}


def _resident_mib() -> int:
    """What this process holds of memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20
