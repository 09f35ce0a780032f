"""Runs the loops of this example on one GPU, as a scheduler would, and keeps what it saw.

``python record.py FOLDER``: each loop is ended with ``kill -9`` after some seconds, and started
again. ``jobs.csv`` says who held the GPU when, ``records`` what ``tidemill.track`` told, and
``stopwatch.json`` what the stopwatch showed at the end of each attempt and after its last
checkpoint.
"""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE, folder = Path(__file__).parent, Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
os.environ["TIDEMILL_TRACK"] = f"file:{folder / 'records'}"
rows = []


def run(job: str, steps: int, kill_after_s: float = 0) -> None:
    """One attempt of a job."""
    start_s = time.time()
    command = [sys.executable, str(HERE / f"{job}_loop.py"), job, str(steps), f"/tmp/{job}"]
    loop = subprocess.Popen([*command, str(folder / "watch.jsonl")])
    if kill_after_s:
        time.sleep(kill_after_s)
        loop.send_signal(signal.SIGKILL)
    code = loop.wait()
    ended = "completed" if code == 0 else "requeued" if kill_after_s else "failed"
    rows.append((job, "research", "ada", 1, start_s, start_s, time.time(), ended, "gpu-box"))


def summary(lines: list[dict[str, float]]) -> dict[str, object]:
    """What the stopwatch of one process showed in the end, and after its last checkpoint."""
    kept = ("at_s", "data_s", "checkpoint_s", "evaluation_s", "steps", "flops")
    saved = [line for line in lines if line["after"] == "checkpoint"]
    last, after = ({name: line.get(name, 0) for name in kept} for line in (lines[-1], saved[-1]))
    return {
        "job": lines[0]["job"], "up_s": lines[-1]["up_s"],
        "last": last, "after_last_checkpoint": after,
    }  # fmt: skip


for job in ("huggingface", "lightning"):
    shutil.rmtree(f"/tmp/{job}", ignore_errors=True)
    Path(f"/tmp/{job}").mkdir()
    run(job, 100_000, kill_after_s=60)
    run(job, 800)
with (folder / "jobs.csv").open("w", newline="") as out:
    table = csv.writer(out)
    table.writerow(("job", "team", "user", "gpus", "submit", "start", "end", "state", "node"))
    table.writerows(rows)
watched: dict[float, list[dict[str, float]]] = {}
for line in map(json.loads, (folder / "watch.jsonl").read_text().splitlines()):
    watched.setdefault(line["pid"], []).append(line)
shown = json.dumps([summary(lines) for lines in watched.values()], indent=1)
(folder / "stopwatch.json").write_text(shown + "\n")
