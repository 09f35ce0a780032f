"""``tidemill why`` and ``decision`` at size: 10,000 nodes, all busy, 5,000 jobs waiting.

The whole commands are timed, from the shell's point of view.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tidemill import api
from tidemill.model.rows import Contract, Job, Queue, Role, Shape, Template
from tidemill.twin.backend import Twin

HOUR_MS = 3_600_000


def run(nodes: int = 10_000, waiting: int = 5_000) -> dict[str, Any]:
    """Fill a fleet, queue jobs behind it, and ask for the reason of the last one."""
    contract = Contract("fleet", "main", "H100", nodes * 8, 2_000_000, Template(8, 192_000, 10**6))
    arrivals = [_job(j, nodes) for j in range(2 * nodes + waiting)]
    backend = Twin([contract], [Queue("a"), Queue("b")], arrivals, horizon_ms=2 * HOUR_MS)
    with tempfile.TemporaryDirectory() as folder:
        journal = str(Path(folder) / "full.sqlite")
        done = api.run(backend, api.Policy(), journal=journal, end_ms=2 * HOUR_MS)
        last = done.world.job_names[done.world.waiting[-1][-1]]
        commands = {
            "why": ["why", last],
            "why_json": ["why", last, "--json"],
            "decision": ["decision", last],
            "decision_running": ["decision", done.world.job_names[max(done.world.placements)]],
            "pending": ["pending"],
        }
        seconds = {name: _timed([*words, "-j", journal]) for name, words in commands.items()}
    queued = sum(len(jobs) for jobs in done.world.waiting)
    return {"nodes": nodes, "waiting": queued, "seconds": seconds}


def _job(j: int, nodes: int) -> tuple[int, Job, int]:
    is_late = j >= 2 * nodes
    role = Role(accelerators=4) if not is_late else Role(count=1 + j % 4, accelerators=8)
    shape = Shape("ab"[j % 2], (role,), priority=0 if not is_late else j % 3)
    at_ms = 20 * 60_000 + (j - 2 * nodes) * 100 if is_late else 15 * 60_000
    return at_ms, Job(f"j{j}", shape, estimate_ms=24 * HOUR_MS), 24 * HOUR_MS


def _timed(words: list[str]) -> float:
    """The best of three runs of the real command, from the shell's point of view."""
    best = 1e9
    for _ in range(3):
        start = time.perf_counter()
        command = [sys.executable, "-m", "tidemill.cli.main", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - start)
    return round(best, 3)
