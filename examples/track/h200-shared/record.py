"""Runs loops and a service on one GPU as a scheduler would, and keeps what each of them saw.

``python record.py FOLDER``, some seven minutes; nothing that it starts outlives ``LIMIT_S``.

| file | of |
|---|---|
| ``jobs.csv``, ``nodes.csv`` | the scheduler: who held how much of the GPU when |
| ``records.jsonl`` | ``tidemill.track`` in the loops and the service |
| ``gpu.csv`` | ``nvidia-smi --query-gpu``, once a second |
| ``dmon.txt`` | ``nvidia-smi dmon`` with what Hopper counts itself (SM activity, tensor, DRAM) |
| ``pmon.txt`` | ``nvidia-smi pmon``: the same card, process by process |
| ``stopwatch.json`` | stopwatches that know no Tidemill: of loops, and of clients |
| ``about.txt`` | driver, host, clock, what nvidia-smi offers, what failed |

``plain`` is killed between two checkpoints, started again and goes on; ``untold`` works and tells
nothing; ``asleep`` holds the GPU and does nothing; ``shared`` trains on 60 % of the SMs, and for a
part of its time the service ``chat`` has the other 40 %, both under MPS.
"""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE, folder = Path(__file__).parent, Path(sys.argv[1]).absolute()
TRAIN = HERE.with_name("h200") / "train.py"
LIMIT_S = 490.0
NODE = "gpu-box"
SCRATCH = Path(tempfile.mkdtemp())
WATCH, CLIENTS = SCRATCH / "watch.jsonl", SCRATCH / "clients.json"
QUERY = (
    "timestamp,index,uuid,name,utilization.gpu,utilization.memory,memory.used,memory.total,"
    "power.draw,clocks.sm,temperature.gpu"
)
COUNTED = "1,2,3,5,10"
"""What GPM counts: graphics engine, SM activity, SM occupancy, any tensor pipe, DRAM."""
KEPT = ("at_s", "step", "data_s", "checkpoint_s", "flops", "is_saving")
UNTOLD = """
import sys, time, torch
end_s = time.time() + float(sys.argv[1])
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
while time.time() < end_s:
    a @ a
    torch.cuda.synchronize()
"""

rows: list[tuple[str, str, str, float, float, float, float, str, str]] = []
started: list[subprocess.Popen[bytes]] = []
faults: list[str] = []


def start(*command: str, out: Path | None = None, percent: int = 0) -> subprocess.Popen[bytes]:
    """A process, on this share of the SMs if it is one."""
    env = dict(os.environ, TIDEMILL_TRACK=f"file:{SCRATCH / 'records'}")
    if percent:
        env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(percent)
    made = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=out.open("w") if out else None
    )
    started.append(made)
    return made


def end_all() -> None:
    """What still runs at the limit is killed: whoever waits for it goes on."""
    faults.append(f"the limit of {LIMIT_S:.0f} s was reached")
    for one in started:
        if one.poll() is None:
            one.kill()


def steps() -> list[dict[str, float]]:
    """All that the stopwatches of the loops wrote so far."""
    whole = WATCH.read_text().rpartition("\n")[0] if WATCH.exists() else ""
    return [json.loads(line) for line in whole.splitlines()]


def hold(job: tuple[str, str, str], gpus: float, began_s: float, ended: str) -> None:
    name, team, user = job
    rows.append((name, team, user, gpus, began_s, began_s, time.time(), ended, NODE))


def train(name: str, seconds: float, *, is_killed: bool = False, percent: int = 0) -> None:
    """One attempt of a loop; one that is killed is so in the middle between two checkpoints."""
    began_s = time.time()
    command = [sys.executable, str(TRAIN), name, str(seconds), str(SCRATCH / f"{name}.pt")]
    loop = start(*command, str(WATCH), percent=percent)
    while is_killed and loop.poll() is None:
        mine = [line for line in steps() if line["pid"] == loop.pid]
        is_between = mine and 40 <= mine[-1]["step"] % 100 < 60
        if is_between and time.time() - mine[-1]["up_s"] > seconds - 15:
            loop.send_signal(signal.SIGKILL)
        time.sleep(0.05)
    ended = "completed" if loop.wait() == 0 else "requeued" if is_killed else "failed"
    hold((name, "research", "ada"), percent / 100 or 1, began_s, ended)


def simple(name: str, *command: str) -> None:
    """A job that tells nothing."""
    began_s = time.time()
    ended = "completed" if start(*command).wait() == 0 else "failed"
    hold((name, "research", "cem"), 1, began_s, ended)


def share() -> None:
    """A loop and a service beside each other; the loop is there first, the service longer."""
    subprocess.run(["nvidia-cuda-mps-control", "-d"], check=False, timeout=20)
    loop = threading.Thread(target=train, args=("shared", 130.0), kwargs={"percent": 60})
    loop.start()
    time.sleep(35)
    began_s = time.time()
    serve = str(HERE / "serve.py")
    service = start(sys.executable, serve, "180", str(CLIENTS), percent=40)
    ended = "completed" if service.wait() == 0 else "failed"
    hold(("chat", "serving", "bob"), 0.4, began_s, ended)
    loop.join()
    subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", check=False, timeout=20)


def stopwatches() -> dict[str, object]:
    """What the stopwatch of each attempt showed in the end, and after its last checkpoint."""
    loops, lines = list[object](), steps()
    for pid in dict.fromkeys(line["pid"] for line in lines):
        mine = [line for line in lines if line["pid"] == pid]
        last = mine[-1]
        saved = next(line for line in mine if line["checkpoint_s"] == last["checkpoint_s"])
        loops.append(
            {
                "job": last["job"], "began_s": last["began_s"], "up_s": last["up_s"],
                "after_last_checkpoint": {name: saved[name] for name in KEPT},
                "last": {name: last[name] for name in KEPT},
                "step_ends_s": [round(one["at_s"], 4) for one in mine if not one["is_saving"]],
            }
        )  # fmt: skip
    clients = json.loads(CLIENTS.read_text()) if CLIENTS.exists() else None
    return {"loops": loops, "service": clients}


def shown(*command: str) -> str:
    """What a command prints, for ``about.txt``."""
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"$ {' '.join(command)}\n{error}\n"
    return f"$ {' '.join(command)}\n{found.stdout[:12_000]}{found.stderr[:1_000]}\n"


def about() -> str:
    """The machine and its clock."""
    smi = "nvidia-smi"
    clock = time.strftime("zone %Z %z, local %Y-%m-%d %H:%M:%S")
    texts = [
        f"host {socket.gethostname()}, node {NODE}, epoch {time.time():.3f}, {clock}\n",
        *(f"fault: {fault}\n" for fault in faults),
        shown(smi, "--query-gpu=index,uuid,name,driver_version,power.limit,mig.mode.current,"
              "clocks.max.sm", "--format=csv"),
        shown(smi, "-L"), shown(smi, "dmon", "-h"), shown(smi, "pmon", "-h"),
        shown(smi, "dmon", "-c", "2", "--gpm-metrics", COUNTED, "--format", "csv"),
        shown(smi, "dmon", "-c", "2", "-s", "pucm"),
        shown("which", "dcgmi", "nv-hostengine"),
    ]  # fmt: skip
    return "".join(texts)


def write() -> None:
    with (folder / "jobs.csv").open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(("job", "team", "user", "gpus", "submit", "start", "end", "state", "node"))
        table.writerows(sorted(rows, key=lambda row: row[4]))
    (folder / "nodes.csv").write_text(f"node,gpus,gpu_type,usd_per_hour\n{NODE},1,H200,3.50\n")
    told = sorted((SCRATCH / "records").rglob("*.jsonl"))
    (folder / "records.jsonl").write_text("".join(one.read_text() for one in told))
    (folder / "stopwatch.json").write_text(json.dumps(stopwatches()) + "\n")
    (folder / "about.txt").write_text(about())


def main() -> None:
    folder.mkdir(parents=True, exist_ok=True)
    watchdog = threading.Timer(LIMIT_S, end_all)
    watchdog.daemon = True
    watchdog.start()
    smi = ("stdbuf", "-oL", "nvidia-smi")  # a line is in the file as soon as it is printed
    dmon = ("dmon", "-s", "pucm", "-o", "DT", "-d", "1", "--gpm-metrics", COUNTED)
    watchers = [
        start(*smi, f"--query-gpu={QUERY}", "--format=csv", "-l", "1", out=folder / "gpu.csv"),
        start(*smi, *dmon, out=folder / "dmon.txt"),
        start(*smi, "pmon", "-s", "um", "-o", "DT", "-d", "1", out=folder / "pmon.txt"),
    ]
    time.sleep(3)
    try:
        train("plain", 45, is_killed=True)
        train("plain", 30)
        time.sleep(4)
        simple("untold", sys.executable, "-c", UNTOLD, "35")
        simple("asleep", "sleep", "40")
        share()
        time.sleep(3)
    finally:
        for one in watchers:
            one.terminate()
            one.wait(10)
        write()


main()
