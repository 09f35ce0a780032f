"""The pods and nodes of FGD's evaluation (ATC'23) as a World, and the order in which they come.

Start empty. Shuffle the pods by seed; append uniform resamples until they ask for 1.3 times the
capacity; add the nodes in an order shuffled by the same seed, so that ties go to the first of a
permutation.
"""

import os
import random
from collections.abc import Sequence
from pathlib import Path

from tidemill.engine.fold.one_event import fold
from tidemill.model import events as ev
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.rows import Contract, Node, Queue, Role, Shape, Template
from tidemill.model.states import NodeState
from tidemill.model.world import World
from tidemill.twin.traces import openb
from tidemill.twin.traces.openb import NodeLine, PodLine

ARRIVED_PERCENT = 130


def folder() -> Path | None:
    """Where the published files are, if they are here at all."""
    found = Path(os.environ.get("TIDEMILL_TRACES") or "../shared/traces") / "openb"
    return found if found.is_dir() else None


def variants(at: Path) -> list[str]:
    """The names of the pod lists, the default one first."""
    names = sorted(path.stem.removeprefix("openb_pod_list_") for path in at.glob("*pod_list_*.csv"))
    return sorted(names, key=lambda name: name != "default")


def pods_of(at: Path, variant: str) -> list[PodLine]:
    """The pods of one list."""
    return openb.pod_lines(at / f"openb_pod_list_{variant}.csv")[0]


def role_of(pod: PodLine) -> Role:
    """What a pod asks for."""
    milli = pod.gpu_milli if pod.gpus else WHOLE_MILLI
    return Role("worker", 1, pod.gpus, milli, pod.cpu_milli, pod.memory_mib, pod.models)


def arrivals(pods: Sequence[PodLine], capacity_milli: int, seed: int) -> list[Role]:
    """The pods as they come: shuffled, then resampled until enough is asked for."""
    luck = random.Random(seed)
    drawn = [role_of(pod) for pod in pods]
    luck.shuffle(drawn)
    listed, asked = list(drawn), sum(role.replica_milli for role in drawn)
    while 100 * asked < ARRIVED_PERCENT * capacity_milli:
        drawn.append(luck.choice(listed))
        asked += drawn[-1].replica_milli
    return drawn


def empty_world(lines: Sequence[NodeLine], seed: int) -> World:
    """All nodes ready and empty, numbered in an order shuffled by seed."""
    world = World()
    fold(world, ev.QueueSet(0, Queue("pods")))
    shuffled = list(lines)
    random.Random(seed).shuffle(shuffled)
    sizes = [(node.model, node.gpus, node.cpu_milli, node.memory_mib) for node in shuffled]
    for c, size in enumerate(sorted(set(sizes))):
        model, gpus, cpu_milli, memory_mib = size
        template = Template(gpus, cpu_milli, memory_mib)
        count = gpus * sizes.count(size)
        fold(world, ev.ContractSigned(0, Contract(str(size), model, model, count, 0, template)))
        fold(world, ev.ContractStarted(0, c))
    for n, (line, size) in enumerate(zip(shuffled, sizes, strict=True)):
        fold(world, ev.NodeAdded(0, Node(line.name, str(size))))
        for state in (NodeState.BOOTING, NodeState.READY):
            fold(world, ev.NodeMoved(0, n, state))
    return world


def shape_of(role: Role) -> Shape:
    """A pod as a gang of one."""
    return Shape("pods", (role,))
