"""A service on one GPU that answers under load: a decoder with a queue, and clients that ask it.

``python record.py FOLDER`` (``serving.py`` has the decoder). Clients ask steadily, then faster than
can be answered, then not at all for more than a minute of the clock, then again. What
`tidemill.track` counts goes to ``FOLDER/records``; the clients keep a stopwatch of their own
(``FOLDER/stopwatch.json``), and ``nvidia-smi`` is asked twice a second (``FOLDER/gpu.csv``).
"""

import csv
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch
from serving import Clients, loaded, serve

from tidemill import track

STEADY_PER_S, BURST_PER_S = 1.5, 90.0
NODE = "gpu-box"


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    began_s = time.time()
    query = "timestamp,utilization.gpu,memory.used,power.draw"
    smi = subprocess.Popen(
        ["nvidia-smi", f"--query-gpu={query}", "--format=csv,nounits", "-lms", "500"],
        stdout=(folder / "gpu.csv").open("w"),
    )
    to = f"file:{folder / 'records'}"
    with track.service("chat", team="serving", user="bob", gpus=1, to=to) as served:
        model = loaded()
        served.ready()
        ready_s, clients = time.time(), Clients(served)
        worker = threading.Thread(target=serve, args=(model, clients.inbox))
        worker.start()
        minute_s = (time.time() // 60 + 1) * 60
        if minute_s - time.time() > 40:  # enough is left of this one
            minute_s -= 60
        clients.ask("steady", STEADY_PER_S, minute_s + 38)
        clients.ask("burst", BURST_PER_S, minute_s + 50)
        while any(one.left for one in clients.asked):
            time.sleep(0.05)
        quiet_s = time.time()
        time.sleep(max(0.0, (quiet_s // 60 + 2) * 60 + 1.5 - time.time()))
        asking_s = time.time()
        clients.ask("again", STEADY_PER_S, time.time() + 15)
        clients.inbox.put(None)
        worker.join()
    end_s = time.time()
    smi.terminate()
    phases = ("steady", "burst", "again")
    told = {
        "began_s": began_s,
        "ready_s": ready_s,
        "quiet_s": quiet_s,
        "asking_s": asking_s,
        "end_s": end_s,
        "phases": {phase: clients.watched((phase,)) for phase in phases},
        "all": clients.watched(phases),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }
    (folder / "stopwatch.json").write_text(json.dumps(told, indent=1) + "\n")
    with (folder / "jobs.csv").open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(("job", "team", "user", "gpus", "submit", "start", "end", "state", "node"))
        table.writerow(("chat", "serving", "bob", 1, began_s, began_s, end_s, "completed", NODE))


main()
