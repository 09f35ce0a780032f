"""Two replicas whose leader is killed, or whose etcd stands still: `python -m … COUNT [SEED]`.

Both hold their journal in PostgreSQL and wait for one Lease. Each round some gangs of 16 come; the
leader is killed (`kill -9`) at a random instant, most often between two binds of a gang. Then one
more gang comes, and it is measured how long it takes until the other replica has bound a pod. When
all are bound nothing may be over-committed, in part or lost, and the journal tells what the cluster
shows. The killed one is started again, and stands by.

With `pause` as a third word etcd is stopped instead (`SIGSTOP`), and goes on. Meanwhile nobody can
renew the Lease: if that is shorter than it lasts the leader goes on; else it writes nothing, and
either replica leads afterwards. The same holds at rest, and neither has ended.
"""

import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from http.client import HTTPConnection
from pathlib import Path

from tests.rigs import postgres
from tests.rigs.kubernetes.cluster import Cluster, RigError
from tests.rigs.kubernetes.forked import ForkedProcess
from tests.rigs.kubernetes.kills import AFTER_A_BIND, BINDS, JOBS, METRICS, SIZE
from tests.rigs.kubernetes.scheduled import OURS, Process, in_part, live, ready_rig, wrong
from tests.rigs.kubernetes.wanted import gang, node
from tests.rigs.slurm.cluster import quick_folder
from tidemill.live.kubernetes.scheduling.leadership import LASTS_S

GANGS = 6
LEASE = "tidemill/scheduler"
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/tidemill/leases/scheduler"
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
    _begin(leader, other)
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
        _clear(rig)
    return fell, took


def pause_often(
    rig: Cluster, replicas: tuple[Process, Process], pauses: int, seed: int
) -> tuple[int, list[float]]:
    """So many pauses of etcd while gangs are bound: how often somebody else led afterwards, and
    how long each pause was. Raises if anything is wrong at rest.
    """
    chance, took, changes = random.Random(seed), list[float](), 0
    rig.add_nodes(*(node(f"n{i}", rack=f"r{i // 4}") for i in range(2 * GANGS + 4)))
    _begin(*replicas)
    for turn in range(pauses):
        leader = holder(rig)
        rig.create(JOBS, *(gang(f"p{turn}-{i}", SIZE, 1, schedulerName=OURS)
                           for i in range(GANGS)))  # fmt: skip
        lasts_s = chance.uniform(0.5, LASTS_S) if turn % 2 else chance.uniform(LASTS_S, 2 * LASTS_S)
        threading.Event().wait(chance.uniform(0, 0.5))
        with rig.frozen("etcd"):
            threading.Event().wait(lasts_s)
        rig.wait_for("etcd answers", rig.is_answering, 60)
        rig.create(JOBS, gang(f"p{turn}-last", SIZE, 1, schedulerName=OURS))
        rig.wait_for("all are bound", lambda: _bound(rig) == (GANGS + 1) * SIZE, 120)
        rig.wait_for("all is right", lambda: not wrong(rig, replicas[0].journal), 60)
        for one in replicas:
            if one.process is None or one.process.poll() is not None:
                raise RigError(f"a replica ended: {one.said.read_text()[-2000:]}")
        took.append(lasts_s)
        changes += holder(rig) != leader
        print(f"pause {turn + 1}: {lasts_s:.1f} s; others led afterwards {changes} times",
              file=sys.stderr, flush=True)  # fmt: skip
        _clear(rig)
    return changes, took


def holder(rig: Cluster) -> str:
    """Who holds the Lease."""
    found: str = rig.ask("GET", LEASE_PATH)["spec"].get("holderIdentity", "")
    return found


def _begin(leader: Process, other: Process) -> None:
    leader.start()
    leader.wait_for("began")
    other.start()
    other.wait_for("standing by")


def _clear(rig: Cluster) -> None:
    rig.ask("DELETE", JOBS, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    rig.wait_for("all pods are gone", lambda: not live(rig))


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
    try:
        _, told = asked(one, "/metrics")
    except OSError:
        return 0
    found = (int(line.split()[1]) for line in told.splitlines() if line.startswith(BINDS))
    return next(found, 0)


def asked(one: Process, path: str) -> tuple[int, str]:
    """What a replica answers to whoever asks its port of metrics; ``OSError``: it has none yet."""
    port = next((line["port"] for line in one.lines() if line["event"] == "serving metrics"), None)
    if port is None:
        raise ConnectionRefusedError
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def _bound(rig: Cluster) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in live(rig))


@contextmanager
def two_replicas(
    rig: Cluster, folder: Path, given: postgres.Server | None = None
) -> Iterator[tuple[Process, Process]]:
    """Two schedulers with one Lease and one journal, not started yet; ended at the end.

    The journal is on ``given``, or on a server of its own.
    """
    with (
        postgres.running() if given is None else nullcontext(given) as server,
        ForkedProcess(rig, folder, "--lease", LEASE, *METRICS) as first,
        ForkedProcess(rig, folder, "--lease", LEASE, *METRICS) as second,
    ):
        for i, one in enumerate((first, second)):
            one.journal, one.said = server.address("live"), folder / f"replica-{i}.log"
        yield first, second
        for one in (first, second):
            if one.process is not None and one.stop() != 0:
                raise RigError(f"a replica failed: {one.said.read_text()[-2000:]}")


def main() -> None:
    """Kill or pause as often as asked, on a rig of its own."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        ready_rig(Path(folder)) as rig,
        two_replicas(rig, Path(folder)) as both,
    ):
        if "pause" in sys.argv:
            changes, took = pause_often(rig, both, count, seed)
            print(f"{count} pauses of etcd (seed {seed}), {min(took):.1f} to {max(took):.1f} s;"
                  f" another replica led afterwards {changes} times; all is right")  # fmt: skip
            return
        fell, took = take_over_often(rig, both, count, seed)
    some = sorted(took)
    middle = some[len(some) // 2]
    print(f"{count} takeovers (seed {seed}): {fell}; seconds from the kill to the first bind of"
          f" the other: median {middle:.1f}, longest {some[-1]:.1f}; all is right")  # fmt: skip


if __name__ == "__main__":
    main()
