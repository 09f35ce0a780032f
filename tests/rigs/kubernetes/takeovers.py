"""Killing the leader of two replicas, again and again: `python -m … COUNT [SEED]`.

Both hold their journal in PostgreSQL and wait for one Lease. Each round some gangs of 16 come; the
leader is killed (`kill -9`) at a random instant, most often between two binds of a gang. Then one
more gang comes, and it is measured how long it takes until the other replica has bound a pod. When
all are bound nothing may be over-committed, in part or lost, and the journal tells what the cluster
shows. The killed one is started again, and stands by.
"""

import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

from tests.rigs import postgres
from tests.rigs.kubernetes.cluster import Cluster, RigError
from tests.rigs.kubernetes.forked import ForkedProcess
from tests.rigs.kubernetes.kills import AFTER_A_BIND, BINDS, JOBS, METRICS, SIZE
from tests.rigs.kubernetes.scheduled import OURS, Process, in_part, live, ready_rig, wrong
from tests.rigs.kubernetes.wanted import gang, node
from tests.rigs.slurm.cluster import quick_folder

GANGS = 6
LEASE = "tidemill/scheduler"
LONGEST_S = 60.0


def take_over_often(
    rig: Cluster, replicas: tuple[Process, Process], kills: int, seed: int
) -> tuple[dict[str, int], list[float]]:
    """So many kills of the leader: into what they fell, and the seconds until the next bind.

    Raises if anything is wrong at rest.
    """
    chance, took = random.Random(seed), list[float]()
    fell = {"in a gang": 0, "otherwise": 0}
    rig.add_nodes(*(node(f"n{i}", rack=f"r{i // 4}") for i in range(2 * GANGS + 4)))
    leader, other = replicas
    leader.start()
    leader.wait_for("began")
    other.start()
    other.wait_for("standing by")
    for turn in range(kills):
        is_late = chance.random() < AFTER_A_BIND
        where, seconds = _take_over(rig, leader, other, turn, chance.uniform(0, 0.1) - is_late)
        fell[where] += 1
        took.append(seconds)
        print(f"takeover {turn + 1}: {seconds:.1f} s until the first bind; {fell}",
              file=sys.stderr, flush=True)  # fmt: skip
        leader.said.unlink(missing_ok=True)
        leader.start()
        leader.wait_for("standing by")
        leader, other = other, leader
        at_once = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        rig.ask("DELETE", JOBS, at_once)
        rig.wait_for("all pods are gone", lambda: not live(rig))
    return fell, took


def _take_over(
    rig: Cluster, leader: Process, other: Process, turn: int, after_s: float
) -> tuple[str, float]:
    """Kill the leader so long after gangs came; below 0, a second more after its first bind."""
    tick, before = threading.Event(), binds(leader)
    rig.create(JOBS, *(gang(f"g{turn}-{i}", SIZE, 1, schedulerName=OURS)
                       for i in range(GANGS)))  # fmt: skip
    if after_s < 0:
        wait_until("a pod is bound", lambda: binds(leader) > before, tick, 0.005)
        after_s += 1
    tick.wait(after_s)
    begun = time.monotonic()
    leader.kill()
    where = "in a gang" if in_part(rig) else "otherwise"
    rig.create(JOBS, gang(f"g{turn}-last", SIZE, 1, schedulerName=OURS))
    wait_until("the other binds", lambda: binds(other) > 0, tick, 0.05)
    took_s = time.monotonic() - begun
    pods = (GANGS + 1) * SIZE
    rig.wait_for("all are bound", lambda: _bound(rig) == pods, 90)
    rig.wait_for("all is right", lambda: not wrong(rig, other.journal), 30)
    return where, took_s


def wait_until(what: str, is_so: Callable[[], bool], tick: threading.Event, pause_s: float) -> None:
    """Until something is so that a replica says itself."""
    begun = time.monotonic()
    while not is_so():
        if time.monotonic() - begun > LONGEST_S:
            raise RigError(f"not within {LONGEST_S:.0f} s: {what}")
        tick.wait(pause_s)


def binds(one: Process) -> int:
    """How many pods a replica has bound, by its own count; none while it stands by."""
    port = next((line["port"] for line in one.lines() if line["event"] == "serving metrics"), None)
    if port is None:
        return 0
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        told = connection.getresponse().read().decode()
    except OSError:
        return 0
    finally:
        connection.close()
    found = (int(line.split()[1]) for line in told.splitlines() if line.startswith(BINDS))
    return next(found, 0)


def _bound(rig: Cluster) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in live(rig))


def main() -> None:
    """Kill as often as asked, on a rig of its own."""
    kills, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        ready_rig(Path(folder)) as rig,
        postgres.running() as server,
        ForkedProcess(rig, Path(folder), "--lease", LEASE, *METRICS) as first,
        ForkedProcess(rig, Path(folder), "--lease", LEASE, *METRICS) as second,
    ):
        for i, one in enumerate((first, second)):
            one.journal, one.said = server.address("live"), Path(folder) / f"replica-{i}.log"
        fell, took = take_over_often(rig, (first, second), kills, seed)
    some = sorted(took)
    middle = some[len(some) // 2]
    print(f"{kills} takeovers (seed {seed}): {fell}; seconds from the kill to the first bind of"
          f" the other: median {middle:.1f}, longest {some[-1]:.1f}; all is right")  # fmt: skip


if __name__ == "__main__":
    main()
