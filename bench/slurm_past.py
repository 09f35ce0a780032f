"""The past of a generated Slurm cluster, as `sacct -P` and `scontrol show node` print it.

Hundreds of nodes of eight GPUs, first come first served: members of arrays, gangs of whole nodes,
jobs that fail, are preempted or lose a node and come back, jobs that are cancelled while they wait,
drained nodes; a batch step for every second attempt. What runs or waits at the end still does.
"""

import heapq
import random
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.slurm import COLUMNS

BEGIN_S = 1_700_000_000
GPUS = 8
LOAD = 0.94
MEAN_S = 3600
SIZES = (1,) * 11 + (2,) * 3 + (4,) * 3 + (8,) * 2 + (0,)
"""GPUs of twenty jobs; 0: a gang of whole nodes."""
GANGS = (2, 2, 2, 4, 4, 8)
STATES = ("COMPLETED",) * 24 + ("FAILED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED by 7")
AGAIN = ("REQUEUED", "PREEMPTED", "NODE_FAIL")
MEAN_GPUS = (sum(SIZES) + GPUS * sum(GANGS) / len(GANGS)) / len(SIZES)


class _Asked(NamedTuple):
    """One job that waits: its number, GPUs on each of so many nodes, and how it will end."""

    number: int
    submit_s: int
    each: int
    nodes: int
    seconds: int
    state: str


class _Fleet:
    """Nodes by how many of their GPUs are free."""

    def __init__(self, nodes: int) -> None:
        self.free = [GPUS] * nodes
        self._with: list[set[int]] = [set() for _ in range(GPUS + 1)]
        self._with[GPUS] = {*range(nodes)}

    def find(self, each: int, count: int) -> list[int]:
        """The fullest nodes with room for so many GPUs each; none where there are too few."""
        found = list[int]()
        for free in range(each, GPUS + 1):
            found += sorted(self._with[free])[: count - len(found)] if self._with[free] else ()
            if len(found) == count:
                return found
        return []

    def change(self, nodes: list[int], gpus: int) -> None:
        """So many GPUs of each of these nodes are free again, or (less than 0) taken."""
        for n in nodes:
            self._with[self.free[n]].discard(n)
            self.free[n] += gpus
            self._with[self.free[n]].add(n)


def write(folder: Path, jobs: int, nodes: int = 512) -> tuple[Path, Path, int]:
    """Write both files; their paths, and how many rows `sacct` prints."""
    text, listed, rows = folder / "sacct.txt", folder / "nodes.txt", 0
    with text.open("w") as file:
        file.write("|".join(COLUMNS) + "\n")
        for line in lines(jobs, nodes):
            file.write(line)
            rows += 1
    listed.write_text("".join(_node(n) for n in range(nodes)))
    return text, listed, rows


def _node(n: int) -> str:
    state = "IDLE+DRAIN" if n % 97 == 5 else "MIXED"
    reason = f" Reason=ecc errors [root@{_clock(BEGIN_S + 90_000)}]" if n % 97 == 5 else ""
    return (
        f"NodeName={_name(n)} CPUAlloc=0 CPUTot=192 Gres=gpu:h100:{GPUS} RealMemory=2097152"
        f" State={state} Partitions=gpu{reason}\n"
    )


def lines(jobs: int, nodes: int) -> Iterator[str]:
    """The rows in the order of their ends; the same for the same numbers."""
    chance, fleet, waiting = random.Random(11), _Fleet(nodes), deque[_Asked]()
    running = list[tuple[int, int, int, list[int], _Asked]]()
    number = made = 0
    now = BEGIN_S
    while number < jobs:
        next_s = BEGIN_S + submit_s(number + 1, nodes)
        if running and running[0][0] <= next_s:
            now, _, start, where, asked = heapq.heappop(running)
            fleet.change(where, asked.each)
            yield from _rows(asked, start, now, where, asked.state)
            if asked.state in AGAIN:
                again = asked._replace(submit_s=now, state="COMPLETED")
                waiting.append(again)
        else:
            now = next_s
            number += 1
            asked = _asked(number, now, chance)
            if number % 53 == 0:
                yield _line(asked, None, now + 600, [], "CANCELLED by 7")
            else:
                waiting.append(asked)
        while waiting and (where := fleet.find(waiting[0].each, waiting[0].nodes)):
            asked = waiting.popleft()
            fleet.change(where, -asked.each)
            made += 1
            heapq.heappush(running, (now + asked.seconds, made, now, where, asked))
    for _, _, start, where, asked in sorted(running):
        yield from _rows(asked, start, None, where, "RUNNING")
    for asked in waiting:
        yield _line(asked, None, None, [], "PENDING")


def submit_s(number: int, nodes: int) -> int:
    """When a job is submitted, in seconds since the beginning."""
    return int(number * MEAN_S * MEAN_GPUS / (GPUS * nodes * LOAD))


def _asked(number: int, now: int, chance: random.Random) -> _Asked:
    size = chance.choice(SIZES)
    count = 1 if size else chance.choice(GANGS)
    seconds = 10 + int(chance.expovariate(1 / MEAN_S))
    state = AGAIN[number % 3] if number % 41 == 0 else chance.choice(STATES)
    return _Asked(number, now, size or GPUS, count, seconds, state)


def _rows(
    asked: _Asked, start: int, end: int | None, where: list[int], state: str
) -> Iterator[str]:
    yield _line(asked, start, end, where, state)
    if asked.number % 2:
        yield _line(asked, start, end, where, state, step=".batch")


def _line(
    asked: _Asked, start: int | None, end: int | None, where: list[int], state: str, step: str = ""
) -> str:
    number, user = asked.number, asked.number * 7919 % 400
    gpus = asked.each * asked.nodes
    amounts = f"cpu={gpus * 12}"
    gres = f"gres/gpu:h100={gpus},gres/gpu={gpus},mem={gpus * 96}G,node={asked.nodes}"
    array = f"{number - number % 30}_{number % 30}" if number % 3 == 0 else str(number)
    tres = f"billing={gpus * 12},{amounts},{gres}"
    row = {
        "JobIDRaw": f"{number}{step}",
        "JobID": f"{array}{step}",
        "DBIndex": str(number),
        "Cluster": "lab",
        "Account": f"team{user % 40}",
        "JobName": step[1:] or f"train-{number % 5000}",
        "State": state.partition(" ")[0] if step else state,
        "Submit": str(start if step else asked.submit_s),
        "Eligible": str(start if step else asked.submit_s),
        "Start": str(start) if start is not None else "Unknown",
        "End": str(end) if end is not None else "Unknown",
        "ElapsedRaw": str((end or start or 0) - (start or end or 0)),
        "Suspended": "00:00:00",
        "ExitCode": "0:0",
        "NodeList": ",".join(_name(n) for n in where) or "None assigned",
        "NNodes": str(asked.nodes),
        "ReqNodes": str(asked.nodes),
        "AllocCPUS": str(gpus * 12 if where else 0),
        "AllocTRES": tres if where else "",
        "Flags": "SchedBackfill",
    }
    if step:
        row |= {"NTasks": "1", "TRESUsageInTot": "cpu=00:00:01,energy=0,fs/disk=2012"}
    else:
        row |= {
            "User": f"user{user}",
            "UID": str(1000 + user),
            "Partition": "gpu",
            "QOS": "normal",
            "Reason": "Resources" if state == "PENDING" else "None",
            "TimelimitRaw": "1440" if number % 2 else "Partition_Limit",
            "Priority": str(number % 90_000),
            "ReqTRES": tres,
        }
    return "|".join([row.get(name, "") for name in COLUMNS]) + "\n"


def _name(n: int) -> str:
    return f"gpu-{n:04d}"


def _clock(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
