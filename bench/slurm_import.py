"""A million jobs of a Slurm cluster onto the books: `tidemill import slurm`, as a whole command.

The text of `slurm_past` (512 nodes, arrays, gangs, failures, requeues, waits, drained nodes). Then
the commands that answer from its journal: `ledger`, `report`, `pending`, `efficiency`, and `why` at
a moment in the middle. Shorter histories say what each job takes of memory. CPU-seconds are of all
threads of a command, from its start to its end; memory is the most that it had resident. Python
keeps its byte code, as it does where Tidemill is installed.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import slurm_past
from bench.spine import reference_per_cpu_s
from tidemill.journal import open_journal

JOURNAL = "fleet.sqlite"
WARM = 500  # jobs of the import before the clock runs: whatever is new is compiled in it


def run(jobs: int = 1_000_000, nodes: int = 512) -> dict[str, Any]:
    """So many jobs on so many nodes."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        _commands(place, WARM, nodes)
        shorter = {some: _imported(place, some, nodes)[0] for some in (jobs // 10, 3 * jobs // 10)}
        found = _commands(place, jobs, nodes)
    return {
        "reference_per_cpu_s": round(reference_per_cpu_s()), **found,
        "shorter": {str(some): told for some, told in shorter.items()},
    }  # fmt: skip


def _imported(place: Path, jobs: int, nodes: int) -> tuple[dict[str, Any], Path, int]:
    """What the import took, the text that it read, and how many rows that has."""
    text, listed, rows = slurm_past.write(place, jobs, nodes)
    options = ("--zone", "UTC", "--usd-per-hour", "2.5", "--force", "-j", place / JOURNAL)
    return command(place, "import", "slurm", text, listed, *options), text, rows


def _commands(place: Path, jobs: int, nodes: int) -> dict[str, Any]:
    """The import, and what answers from its journal."""
    journal, page = place / JOURNAL, place / "report.html"
    whole, text, rows = _imported(place, jobs, nodes)
    with open_journal(str(journal)) as opened:
        events = len(opened)
    middle = jobs // 6 * 3 + 1  # no member of an array
    at = slurm_past.submit_s(middle, nodes) - slurm_past.submit_s(1, nodes) + 1
    return {
        "rows": rows,
        "jobs": jobs,
        "text_bytes": text.stat().st_size,
        "rows_per_cpu_s": round(rows / whole["cpu_s"]),
        "rows_per_s": round(rows / whole["wall_s"]),
        "jobs_per_cpu_s": round(jobs / whole["cpu_s"]),
        "import": whole,
        "events": events,
        "journal_bytes": journal.stat().st_size,
        "journal_bytes_per_event": round(journal.stat().st_size / events, 1),
        "ledger": command(place, "ledger", journal),
        "ledger --by team": command(place, "ledger", journal, "--by", "team"),
        "why --at": command(place, "why", middle, "--at", f"{at}s", "-j", journal),
        "pending": command(place, "pending", "-j", journal),
        "efficiency": command(place, "efficiency", journal),
        "report": command(place, "report", journal, page),
        "page_bytes": page.stat().st_size,
    }


def command(place: Path, *words: object) -> dict[str, Any]:
    """What a command took; it must succeed."""
    begin = time.monotonic()
    asked = [sys.executable, "-m", "tidemill", *map(str, words)]
    told = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    told["PYTHONPYCACHEPREFIX"] = str(place / "byte-code")
    with subprocess.Popen(
        asked, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=told
    ) as process:
        assert process.stderr is not None, "it was asked for"
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said.decode()
    return {
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "wall_s": round(time.monotonic() - begin, 2),
        "peak_mib": used.ru_maxrss // 1024,
    }
