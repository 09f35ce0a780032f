"""Schedulers side by side on a real API server: how fast they bind, and what it costs everybody.

The same nodes and pods for each, on a fresh etcd and API server of the same release. Pods are
created as fast as the API server takes them and counted when a watch shows them with a node. Nodes
are objects that say they are Ready: nobody stands behind them, nothing renews them and nothing runs
on them, so that only the scheduler and whom it asks are at work. etcd does not wait for the disk.
What the API server and etcd spend is for creating and binding; the row ``nobody`` is for creating
alone.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench import schedulers
from bench.processes import Meter, Spent, cpu_s, peak_mib
from bench.schedulers import Scheduler, pod_of
from tests.rigs.kubernetes import cluster
from tests.rigs.kubernetes.cluster import Cluster, RigError
from tests.rigs.kubernetes.traffic import Object, Seen, Sent, Unit, submit, watching
from tests.rigs.kubernetes.wanted import node
from tests.rigs.slurm.cluster import quick_folder

NODES_PER_RACK = 16
RACKS_PER_ZONE = 20
PODS_PER_GANG = 16
SERVERS = ("kube-apiserver", "etcd")
IDLE_S = 20.0
QUIET_S = 10.0
"""Nothing bound for so long: whatever waits then is taken to wait for good."""
ONE_BY_ONE, APART_S = 100, 0.05
"""Pods that come so far apart that none waits behind another."""
BOUND_WITHIN_S = 400.0
WIDE = f"{schedulers.NAMESPACE}/wide"
ASKED = (("why", WIDE), ("decision", WIDE), ("pending",), ("fleet",), ("ledger",))
Row = dict[str, Any]


def run(
    sizes: tuple[int, ...] = (1000, 5000),
    singles: int = 2000,
    gangs: int = 100,
    idle_s: float = IDLE_S,
    quiet_s: float = QUIET_S,
) -> Row:
    """All figures; none where no Kubernetes was built."""
    if reason := cluster.missing():
        return {"skipped": reason}
    found: Row = {}
    for size in sizes:
        rows = found[f"{size} nodes"] = {"nobody": creating_alone(size, singles)}
        for one in schedulers.SCHEDULERS:
            rows[one.name] = _told(one, partial(measured, one, size, singles, gangs, idle_s))
    found["gangs in need"] = {
        one.name: _told(one, partial(in_need, one, quiet_s)) for one in schedulers.SCHEDULERS
    }
    return found


def _told(one: Scheduler, measure: Callable[[], Row]) -> Row:
    """One row, shown as it comes: a run is long, and what one scheduler fails is a result too."""
    if reason := one.missing():
        return {"skipped": reason}
    try:
        row = measure()
    except RigError as error:
        row = {"failed": str(error)}
    print(f"  {one.name}: {json.dumps(row)}", file=sys.stderr)
    return row


def measured(one: Scheduler, size: int, singles: int, gangs: int, idle_s: float) -> Row:
    """One scheduler on one cluster: pods, gangs beside them, a backlog, rest, and a restart."""
    row: Row = {"load_before": _load()}
    with started(one, nodes(size)) as rig:
        fewer = singles // one.fewer_singles
        row["singles"] = asyncio.run(bound(rig, one, single_units(one, fewer)))
        row["gangs"] = asyncio.run(bound(rig, one, gang_units(one, gangs)))
        if one.may_be_stopped:
            backlog = single_units(one, fewer, "late")
            row["backlog"] = asyncio.run(bound_from_backlog(rig, one, backlog))
        few = single_units(one, min(fewer, ONE_BY_ONE), "alone")
        row["one by one"] = asyncio.run(bound_one_by_one(rig, one, few))
        row["peak_mib"] = {name: round(peak_mib(_pid(rig, name))) for name in one.programs}
        row["idle_cpu_percent"] = idle_cpu_percent(rig, one, idle_s)
        if journal(rig).exists():  # of ours
            row["answers_s"] = asyncio.run(answered(rig, one))
        row["restart"] = asyncio.run(restarted(rig, one))
    return row | {"load_after": _load()}


def creating_alone(size: int, count: int) -> Row:
    """What it costs the servers to take pods that nobody looks at."""
    units = [schedulers.plain_single(f"p{i}", pod_of(f"p{i}", f"p{i}")) for i in range(count)]
    with rig_with(nodes(size)) as rig:
        meter = Meter(_pids(rig, SERVERS))
        asyncio.run(submit(rig, _all_sent(units)))
        spent = meter.read()
    return {
        "pods": count,
        "pods_per_s": round(count / spent.wall_s, 1),
        "cpu_ms_per_pod": {name: round(1e3 * s / count, 2) for name, s in spent.cpu_s.items()},
        "others_cores": round(spent.others_cores, 2),
    }


def in_need(one: Scheduler, quiet_s: float) -> Row:
    """On three nodes of 8: a gang that can never fit; and two of 16 that come at the same time."""
    with started(one, nodes(3)) as rig:
        never = one.gang("never", [pod_of("never", f"never-{i}", 8) for i in range(4)])
        bound_of_never = asyncio.run(bound_when_quiet(rig, never.sent, quiet_s)).get("never", 0)
    with started(one, nodes(3)) as rig:
        two = [_gang(one, name, 16) for name in ("a", "b")]
        turns = zip(*(unit.sent for unit in two), strict=True)
        sent = [each for turn in turns for each in turn]
        held = asyncio.run(bound_when_quiet(rig, sent, quiet_s))
    return {
        "gang of 4 x 8 on 3 nodes of 8: pods bound": bound_of_never,
        "two gangs of 16 on 24 GPUs: pods bound": [held.get("a", 0), held.get("b", 0)],
    }


# One load ---------------------------------------------------------------------------------------


async def bound(rig: Cluster, one: Scheduler, units: Sequence[Unit]) -> Row:
    """Create units as fast as can be, and wait until all are bound: what it took."""
    pods = sum(unit.pods for unit in units)
    async with watching(rig) as seen:
        meter = Meter(_pids(rig, (*one.programs, *SERVERS)))
        begun_s = await submit(rig, _all_sent(units))
        submitted_s = time.monotonic()
        if not await seen.wait_until(lambda: len(seen.node) >= pods, BOUND_WITHIN_S):
            raise RigError(f"{one.name}: {len(seen.node)} of {pods} pods were bound")
        spent = meter.read()
    first_s = min(begun_s.values())
    wall_s = seen.last_s - first_s
    row: Row = {
        "pods": pods,
        "wall_s": round(wall_s, 2),
        "created_in_s": round(submitted_s - first_s, 2),
        "binds_per_s": round(pods / wall_s, 1),
        "submit_to_bound_s": _waits(units, begun_s, seen),
    } | _cost(spent, pods)
    if len(units) < pods:
        row |= {"gangs": len(units), "gangs_per_s": round(len(units) / wall_s, 2)}
    return row


async def bound_from_backlog(rig: Cluster, one: Scheduler, units: Sequence[Unit]) -> Row:
    """Units that are all there when a scheduler that stood still goes on: binding alone."""
    pods = sum(unit.pods for unit in units)
    async with watching(rig) as seen:
        with _standing_still(rig, one):
            await submit(rig, _all_sent(units))
        meter, begun_s = Meter(_pids(rig, (*one.programs, *SERVERS))), time.monotonic()
        if not await seen.wait_until(lambda: len(seen.node) >= pods, BOUND_WITHIN_S):
            raise RigError(f"{one.name}: {len(seen.node)} of {pods} pods were bound")
        spent = meter.read()
    return {"pods": pods, "binds_per_s": round(pods / (seen.last_s - begun_s), 1)} | _cost(
        spent, pods
    )


async def bound_one_by_one(rig: Cluster, one: Scheduler, units: Sequence[Unit]) -> Row:
    """Units that come one after the other, to a scheduler that has nothing else to do."""
    begun_s, pods = dict[str, float](), sum(unit.pods for unit in units)
    async with watching(rig) as seen:
        for unit in units:
            begun_s |= await submit(rig, unit.sent, 1)
            await asyncio.sleep(APART_S)
        if not await seen.wait_until(lambda: len(seen.node) >= pods, BOUND_WITHIN_S):
            raise RigError(f"{one.name}: {len(seen.node)} of {pods} pods were bound")
    return {"pods": pods, "submit_to_bound_s": _waits(units, begun_s, seen)}


@contextmanager
def _standing_still(rig: Cluster, one: Scheduler) -> Iterator[None]:
    for name in one.programs:
        rig.processes[name].send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for name in one.programs:
            rig.processes[name].send_signal(signal.SIGCONT)


async def bound_when_quiet(
    rig: Cluster, sent: Sequence[Sent], quiet_s: float, connections: int = 1
) -> dict[str, int]:
    """Create objects in this order; how many pods of each unit are bound when no more come."""
    async with watching(rig) as seen:
        await submit(rig, sent, connections)
        seen.last_s = time.monotonic()
        await seen.wait_until_quiet(quiet_s)
    return {unit: len(pods) for unit, pods in seen.bound_s.items()}


def idle_cpu_percent(rig: Cluster, one: Scheduler, idle_s: float) -> Row:
    """What a scheduler spends while nothing changes and nothing waits, of one core."""
    meter = Meter(_pids(rig, one.programs))
    time.sleep(idle_s)
    spent = meter.read()
    return {name: round(100 * spent.cpu_s[name] / spent.wall_s, 2) for name in one.programs}


async def answered(rig: Cluster, one: Scheduler) -> Row:
    """What is asked of the journal while it is written, of a pod that fits nowhere: the seconds of
    each whole command, once all files that it reads were read before.
    """
    wide = one.single("wide", pod_of("wide", "wide", 9))
    await submit(rig, wide.sent)
    begun_s = time.monotonic()
    while _asked(rig, "why", WIDE)[1].returncode:
        if time.monotonic() - begun_s > BOUND_WITHIN_S:
            raise RigError("its journal has no pod that waits")
    found = {words[0]: _asked(rig, *words) for words in ASKED}
    for name, (_, ended) in found.items():
        if ended.returncode:
            raise RigError(f"{name}: {ended.stderr}")
    return {name: round(s, 2) for name, (s, _) in found.items()}


def _asked(rig: Cluster, *words: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    command = [sys.executable, "-m", "tidemill", *words, "-j", str(journal(rig))]
    begun_s = time.monotonic()
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return time.monotonic() - begun_s, ended


def journal(rig: Cluster) -> Path:
    """Where our scheduler writes what it does."""
    return rig.folder / schedulers.JOURNAL


async def restarted(rig: Cluster, one: Scheduler) -> Row:
    """Kill a scheduler and start it: until it binds a pod that came meanwhile."""
    unit = one.single("after", pod_of("after", "after"))
    async with watching(rig) as seen:
        for name in one.programs:
            rig.kill(name)
        begun_s = time.monotonic()
        starting = asyncio.create_task(asyncio.to_thread(one.start, rig))
        await _submit_when_taken(rig, unit, begun_s)
        if not await seen.wait_until(lambda: bool(seen.node), BOUND_WITHIN_S):
            raise RigError(f"{one.name} bound nothing after its restart")
        await starting
    spent = {name: round(cpu_s(_pid(rig, name)), 2) for name in one.programs}
    return {"first_bind_s": round(seen.last_s - begun_s, 2), "cpu_s": spent}


async def _submit_when_taken(rig: Cluster, unit: Unit, begun_s: float) -> None:
    """A scheduler with webhooks is asked before a pod is taken, and may not be there yet."""
    is_taken = False
    while not is_taken:
        try:
            await submit(rig, unit.sent)
            is_taken = True
        except* RigError:
            if time.monotonic() - begun_s > BOUND_WITHIN_S:
                raise
            await asyncio.sleep(0.05)


# The cluster and what is put into it ------------------------------------------------------------


@contextmanager
def rig_with(all_nodes: Sequence[Object]) -> Iterator[Cluster]:
    """etcd and API server with nodes, and nobody who acts on them."""
    with tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder:
        rig = Cluster(Path(folder), *schedulers.API_FLAGS)
        try:
            rig.start_store_and_api()
            sent = (Sent("", "/api/v1/nodes", each) for each in all_nodes)
            asyncio.run(submit(rig, sent))
            yield rig
        finally:
            rig.stop()


@contextmanager
def started(one: Scheduler, all_nodes: Sequence[Object]) -> Iterator[Cluster]:
    """The same, with a scheduler that has bound its first pod."""
    with rig_with(all_nodes) as rig:
        one.install(rig)
        one.start(rig)
        asyncio.run(_first(rig, one))
        yield rig


async def _first(rig: Cluster, one: Scheduler) -> None:
    async with watching(rig) as seen:
        await submit(rig, one.single("first", pod_of("first", "first", 0)).sent)
        if not await seen.wait_until(lambda: bool(seen.node), BOUND_WITHIN_S):
            raise RigError(f"{one.name} binds nothing")


def nodes(count: int) -> list[Object]:
    """Nodes of 8 in racks and zones, as they are when a kubelet has reported once."""
    return [
        ready(node(f"n{i}", rack=f"r{i // NODES_PER_RACK}", labels=_zone(i))) for i in range(count)
    ]


def ready(one: Object) -> Object:
    """A node that says it is Ready."""
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return one | {"status": one["status"] | {"conditions": [condition]}}


def single_units(one: Scheduler, count: int, prefix: str = "p") -> list[Unit]:
    """Pods of one GPU."""
    names = [f"{prefix}{i}" for i in range(count)]
    return [one.single(name, pod_of(name, name)) for name in names]


def gang_units(one: Scheduler, count: int) -> list[Unit]:
    """Gangs of pods of one GPU."""
    return [_gang(one, f"g{i}", PODS_PER_GANG) for i in range(count)]


def _gang(one: Scheduler, name: str, pods: int) -> Unit:
    return one.gang(name, [pod_of(name, f"{name}-{i}") for i in range(pods)])


def _zone(i: int) -> dict[str, str]:
    return {"topology.kubernetes.io/zone": f"z{i // (NODES_PER_RACK * RACKS_PER_ZONE)}"}


def _all_sent(units: Sequence[Unit]) -> list[Sent]:
    return [sent for unit in units for sent in unit.sent]


def _pid(rig: Cluster, name: str) -> int:
    return rig.processes[name].pid


def _pids(rig: Cluster, names: Sequence[str]) -> dict[str, int]:
    return {name: _pid(rig, name) for name in names}


def _cost(spent: Spent, pods: int) -> Row:
    each = {name: round(1e3 * s / pods, 2) for name, s in spent.cpu_s.items()}
    return {"cpu_ms_per_bind": each, "others_cores": round(spent.others_cores, 2)}


def _waits(units: Sequence[Unit], begun_s: dict[str, float], seen: Seen) -> Row:
    """From when a unit was sent until its last pod was bound."""
    waits = sorted(max(seen.bound_s[u.name].values()) - begun_s[u.name] for u in units)
    return {"p50": _quantile(waits, 50), "p99": _quantile(waits, 99)}


def _quantile(ordered: Sequence[float], percent: int) -> float:
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 3)


def _load() -> float:
    return round(os.getloadavg()[0], 1)
