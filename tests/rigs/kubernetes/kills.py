"""Killing a scheduler of ours while it binds gangs, again and again: `python -m … COUNT [SEED]`.

Each round some gangs of 16 wait; the scheduler is started, and killed (`kill -9`) at a random
instant after it began; at last it is left to finish. Then nothing may be over-committed, in part or
lost, and the journal tells what the cluster shows. Between rounds the jobs are deleted while nobody
watches.
"""

import random
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from itertools import count
from pathlib import Path

from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.forked import ForkedProcess
from tests.rigs.kubernetes.scheduled import OURS, Process, in_part, live, ready_rig, wrong
from tests.rigs.kubernetes.wanted import gang, node
from tests.rigs.slurm.cluster import quick_folder

GANGS, SIZE = 5, 16
MANY_GANGS = 14
"""So many take about a second to be bound: most kills fall into that."""
AFTER_A_BIND = 0.8
"""The share of kills that wait for a first bind: most of the others fall before it."""
BINDS = "tidemill_scheduler_binds_total "
METRICS = ("--metrics", "0")
"""What the scheduler is started with, so that it tells how far it is."""
JOBS = "/apis/batch/v1/namespaces/ml/jobs"


def kill_often(
    rig: Cluster, ours: Process, kills: int, seed: int, gangs: int = GANGS
) -> dict[str, int]:
    """So many kills; how many of them fell into the middle of what. Raises if anything is wrong."""
    chance, done, tick = random.Random(seed), 0, threading.Event()
    fell = {"before": 0, "in a gang": 0, "between": 0, "after": 0}
    longest_s, pods = 0.02 * gangs, gangs * SIZE
    rig.add_nodes(*(node(f"n{i}", rack=f"r{i // 4}") for i in range(2 * gangs + 2)))
    for turn in count():
        if done >= kills:
            break
        rig.create(JOBS, *(gang(f"g{turn}-{i}", SIZE, 1, schedulerName=OURS)
                           for i in range(gangs)))  # fmt: skip
        for _ in range(min(gangs, kills - done)):
            if _bound(rig) == pods:
                break  # there is nothing left to kill it in
            ours.said.unlink(missing_ok=True)
            ours.start()
            ours.wait_for("began")
            if chance.random() < AFTER_A_BIND:
                rig.wait_for("a pod is bound", lambda: _binds(ours) > 0)
            tick.wait(chance.uniform(0, longest_s))
            ours.kill()
            done += 1
            fell[_where(rig, pods)] += 1
        rig.wait_for("all pods are made", lambda: len(live(rig)) == pods)  # once looks once
        ours.start("--once")
        assert ours.process is not None
        assert ours.process.wait(120) == 0, ours.said.read_text()[-3000:]
        assert _bound(rig) == pods
        found = wrong(rig, ours.journal)
        assert not found, f"seed {seed}, round {turn}, after {done} kills: {found}"
        print(f"after {done} kills all is right: {fell}", file=sys.stderr, flush=True)
        at_once = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        rig.ask("DELETE", JOBS, at_once)
        rig.wait_for("all pods are gone", lambda: not live(rig))
    return fell


def _binds(ours: Process) -> int:
    """How many pods it has bound, by its own count: to list pods takes longer than to bind them."""
    port = next(line["port"] for line in ours.lines() if line["event"] == "serving metrics")
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        told = connection.getresponse().read().decode()
    finally:
        connection.close()
    return next(int(line.split()[1]) for line in told.splitlines() if line.startswith(BINDS))


def _bound(rig: Cluster) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in live(rig))


def _where(rig: Cluster, pods: int) -> str:
    if in_part(rig):
        return "in a gang"
    bound = _bound(rig)
    return "before" if not bound else "after" if bound == pods else "between"


def main() -> None:
    """Kill as often as asked, on a rig of its own."""
    kills, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        ready_rig(Path(folder)) as rig,
        ForkedProcess(rig, Path(folder), *METRICS) as ours,
    ):
        fell = kill_often(rig, ours, kills, seed, MANY_GANGS)
    print(f"{kills} kills (seed {seed}) in {time.monotonic() - begun:,.0f} s: {fell}; all is right")


if __name__ == "__main__":
    main()
