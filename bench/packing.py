"""How full a fleet gets: the published openb pods as real pods, and through our twin, in one order.

The default list of the openb trace as far as a device plugin can serve it (whole GPUs, or none), on
its nodes with their CPU, memory and GPUs: shuffled by seed and resampled until 1.3 times the GPUs
are asked for, as in ``bench/fgd.py``. Pods are created one after another, in parts: each part ends
where the GPUs asked for so far reach a mark, and is measured when every pod of it is bound or was
found not to fit. Nothing ends.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from bench import binding, fgd, openb, packing_loop, schedulers
from bench.schedulers import Scheduler
from tests.rigs.kubernetes import cluster
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.traffic import Object, Seen, Sent, submit, watching
from tests.rigs.kubernetes.wanted import GPU, node
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Role
from tidemill.twin.traces.openb import NODE_LIST, NodeLine, PodLine, node_lines

SEED = 42
TWINS = ("best-fit", "fgd", "pack", "tide")
QUIET_S = 30.0
Row = dict[str, Any]


def run(seed: int = SEED, one_of: int = 1) -> Row:
    """Allocated percent of the GPUs at each mark; ``one_of``: on every so many-th node."""
    at = openb.folder()
    if at is None:
        return {"skipped": "the openb files are not here; set TIDEMILL_TRACES"}
    if reason := cluster.missing():
        return {"skipped": reason}
    lines, pods = node_lines(at / NODE_LIST)[::one_of], whole(openb.pods_of(at, "default"))
    pods = pods[::one_of]
    found: Row = {"nodes": len(lines), "gpus": sum(line.gpus for line in lines)}
    for name in TWINS:
        found[f"twin, {name}"] = _shown(fgd.of_pods(lines, pods, name, seed).percent)
    for one in schedulers.PACKERS:
        found[one.name] = one.missing() or replayed(one, lines, pods, seed)
    return found


def whole(pods: Sequence[PodLine]) -> list[PodLine]:
    """The pods that ask for whole GPUs, or for none."""
    return [pod for pod in pods if not pod.gpus or pod.gpu_milli == WHOLE_MILLI]


def replayed(one: Scheduler, lines: Sequence[NodeLine], pods: Sequence[PodLine], seed: int) -> Row:
    """The same arrivals through a scheduler on a real API server."""
    capacity = sum(line.gpus for line in lines) * WHOLE_MILLI
    coming = openb.arrivals(pods, capacity, seed)
    with binding.started(one, [node_of(line) for line in lines]) as rig:
        found = asyncio.run(replay(rig, one, coming, capacity))
        journal = binding.journal(rig)
        if journal.exists():  # of ours: decisions can be made again
            count, alike = packing_loop.decided_again(str(journal))
            found["placements, and those that the loop makes alike"] = [count, alike]
        return found


async def replay(rig: Cluster, one: Scheduler, coming: Sequence[Role], capacity: int) -> Row:
    """Pods in this order, on a cluster whose nodes are there and whose scheduler runs."""
    milli = {f"{schedulers.NAMESPACE}/p{j}": role.replica_milli for j, role in enumerate(coming)}
    percent, sent_so_far, undecided = list[float](), 0, 0
    async with watching(rig) as seen:
        for part in _parts(coming, capacity):
            first = sent_so_far
            sent = [_sent(one, first + i, role) for i, role in enumerate(part)]
            sent_so_far += len(sent)
            await submit(rig, (each for every in sent for each in every), connections=1)
            await _settle(seen, sent_so_far)
            percent.append(100 * sum(milli[name] for name in seen.node) / capacity)
        undecided = sent_so_far - len(seen.node) - len(seen.refused)
    return _shown(percent) | {"pods": len(coming), "neither bound nor refused": undecided}


async def _settle(seen: Seen, pods: int) -> None:
    """Until every pod is bound or refused, or nothing more is decided for a while."""

    def decided() -> int:
        return len(seen.node) + len(seen.refused)

    before = -1
    while before != decided() < pods:
        before = decided()
        await seen.wait_until(lambda: decided() >= pods, QUIET_S)


def _parts(coming: Sequence[Role], capacity: int) -> list[list[Role]]:
    """The arrivals, cut where a mark is reached."""
    parts: list[list[Role]] = [[]]
    asked = 0
    for role in coming:
        parts[-1].append(role)
        asked += role.replica_milli
        if len(parts) < len(fgd.MARKS) and 100 * asked >= fgd.MARKS[len(parts) - 1] * capacity:
            parts.append([])
    return parts


def _sent(one: Scheduler, j: int, role: Role) -> tuple[Sent, ...]:
    name = f"p{j}"
    wanted = schedulers.pod_of(name, name, role.accelerators)
    amounts = {"cpu": f"{role.cpu_milli}m", "memory": f"{role.memory_mib}Mi"}
    amounts |= {GPU: str(role.accelerators)} if role.accelerators else {}
    for container in wanted["spec"]["containers"]:
        container["resources"] = {"requests": amounts, "limits": amounts}
    return one.single(name, wanted).sent


def node_of(line: NodeLine) -> Object:
    """A node of the list; pods per node are not limited, as they are not in the twin."""
    made = node(line.name, line.gpus, product=line.model)
    amounts = {
        "cpu": f"{line.cpu_milli}m",
        "memory": f"{line.memory_mib}Mi",
        "pods": "10000",
        GPU: str(line.gpus),
    }
    return binding.ready(made | {"status": {"capacity": amounts, "allocatable": amounts}})


def _shown(percent: Sequence[float]) -> Row:
    marks = map(str, fgd.MARKS)
    told = dict(zip(marks, (round(each, 2) for each in percent), strict=True))
    return {"allocated_percent": told}
