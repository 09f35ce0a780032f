"""Runs the loops of this example on one GPU, as a scheduler would, and keeps what it saw.

``python record.py FOLDER``: ``jobs.csv`` and ``nodes.csv`` (who held the GPU when, and how that
ended), ``records.jsonl`` (of ``tidemill.track``), ``stopwatch.json`` (the stopwatch, of which
``watch.jsonl`` is every line), ``gpu.csv`` (what nvidia-smi showed).
One loop is ended with ``kill -9`` between two checkpoints and started again, then within a
checkpoint; one waits for its data; one shares the GPU with a service under MPS for the second half
of its time.
"""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE, folder = Path(__file__).parent, Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
os.environ["TIDEMILL_TRACK"] = f"file:{folder / 'records'}"
rows = []
NODE = "gpu-box"
NODES = f"node,gpus,gpu_type,usd_per_hour\n{NODE},1,H200,3.50\n"
KEPT = ("at_s", "step", "data_s", "checkpoint_s", "flops", "is_saving")
BETWEEN, WITHIN = "between two checkpoints", "within a checkpoint"


def noted(pid: int) -> list[dict[str, float]]:
    """What the stopwatch of a process wrote so far."""
    watch = folder / "watch.jsonl"
    whole = watch.read_text().rpartition("\n")[0] if watch.exists() else ""
    lines = [json.loads(text) for text in whole.splitlines()]
    return [line for line in lines if line["pid"] == pid]


def wait_until(loop: subprocess.Popen[bytes], moment: str, seconds: float) -> None:
    """Until it has trained for so long, and is at such a moment."""
    while loop.poll() is None:
        if lines := noted(loop.pid):
            last = lines[-1]
            is_now = 40 <= last["step"] % 100 < 60 if moment == BETWEEN else last["is_saving"]
            if is_now and last["at_s"] - last["up_s"] > seconds:
                break
        time.sleep(0.05)
    if moment == WITHIN:
        time.sleep(0.8)  # a checkpoint takes some two seconds


def run(job: str, seconds: float, *more: str, killed: str = "", with_service: bool = False) -> None:
    """One attempt of a job."""
    start_s, command = time.time(), [sys.executable, str(HERE / "train.py")]
    state = f"/tmp/{job}.pt"
    loop = subprocess.Popen(
        [*command, job, str(seconds), state, str(folder / "watch.jsonl"), *more]
    )
    if killed:
        wait_until(loop, killed, seconds - 15)
        loop.send_signal(signal.SIGKILL)
    if with_service:
        time.sleep(seconds / 2 + 8)
        began_s = time.time()
        subprocess.run([sys.executable, str(HERE / "serve.py"), str(seconds / 2 - 2)], check=True)
        rows.append(
            ("service", "serving", "bob", 1, began_s, began_s, time.time(), "completed", NODE)
        )
    code = loop.wait()
    ended = "completed" if code == 0 else "requeued" if killed else "failed"
    rows.append((job, "research", "ada", 1, start_s, start_s, time.time(), ended, NODE))


def stopwatch() -> list[dict[str, object]]:
    """What the stopwatch of each attempt showed in the end, and after its last checkpoint."""
    text = (folder / "watch.jsonl").read_text()
    pids = dict.fromkeys(json.loads(line)["pid"] for line in text.splitlines())
    found = []
    for lines in map(noted, pids):
        last = lines[-1]
        saved = next(line for line in lines if line["checkpoint_s"] == last["checkpoint_s"])
        found.append(
            {
                "job": last["job"], "began_s": last["began_s"], "up_s": last["up_s"],
                "after_last_checkpoint": {name: saved[name] for name in KEPT},
                "last": {name: last[name] for name in KEPT},
                "step_ends_s": [line["at_s"] for line in lines if not line["is_saving"]],
            }
        )  # fmt: skip
    return found


def main() -> None:
    query = "timestamp,utilization.gpu,utilization.memory,memory.used,power.draw,clocks.sm"
    with (folder / "gpu.csv").open("w") as out:
        smi = subprocess.Popen(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,nounits", "-lms", "500"],
            stdout=out,
        )
        try:
            run("plain", 45, killed=BETWEEN)
            run("plain", 45, killed=WITHIN)
            run("plain", 40)
            run("starved", 40, "--starved")
            subprocess.run(["nvidia-cuda-mps-control", "-d"], check=False)
            run("shared", 60, with_service=True)
            subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", check=False)
        finally:
            smi.terminate()
    with (folder / "jobs.csv").open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(("job", "team", "user", "gpus", "submit", "start", "end", "state", "node"))
        table.writerows(sorted(rows, key=lambda row: row[4]))
    (folder / "nodes.csv").write_text(NODES)
    told = sorted((folder / "records").rglob("*.jsonl"))
    (folder / "records.jsonl").write_text("".join(one.read_text() for one in told))
    (folder / "stopwatch.json").write_text(json.dumps(stopwatch(), indent=1) + "\n")


main()
