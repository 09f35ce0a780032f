"""Whatever a cluster with nodes without GPUs does: no node has too much, and nobody waits in vain.

Random stories on a pretended API server; the loop, the comparison and the sender are the real ones.
"""

import asyncio
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.live.kubernetes.scheduling.pretended import (
    Killed,
    Object,
    PretendedServer,
    Scheduler,
    cores,
    gpus,
)
from tests.live.kubernetes.scheduling.test_any_cluster import told_by
from tidemill.journal.memory import MemoryJournal
from tidemill.live.kubernetes.scheduling import sending

CORES = 8
"""Of each node without GPUs."""


def put_cpu_node(server: PretendedServer, name: str, *, unschedulable: bool = False) -> None:
    server.put_node(name, 0, unschedulable=unschedulable)
    one = json.loads(json.dumps(server.nodes[name]))
    one["metadata"]["labels"]["pool"] = "cpu"
    for part in ("allocatable", "capacity"):
        one["status"][part]["cpu"] = str(CORES)
    server.nodes[name] = one
    server.news[-1] = ("Node", ("", name), one, False)


def free(server: PretendedServer, name: str) -> float:
    here = [one for one in server.pods.values() if one["spec"].get("nodeName") == name]
    return CORES - sum(map(cores, here))


def is_ready(server: PretendedServer, name: str) -> bool:
    return name.startswith("z") and not server.nodes[name]["spec"].get("unschedulable")


def check(server: PretendedServer, journal: MemoryJournal) -> None:
    """What must be so at rest, by plain loops."""
    assert not server.over
    open_ = [name for name in server.nodes if is_ready(server, name)]
    gangs = dict[str, list[Object]]()
    here = sum(one["spec"].get("nodeName", "z").startswith("n") for one in server.pods.values())
    for key, one in server.pods.items():
        node = one["spec"].get("nodeName", "")
        selects = "nodeSelector" in one["spec"]  # those that are made again may be beside GPUs
        assert not node or not selects or node.startswith("z"), key
        if not node and not gpus(one):
            assert all(free(server, name) < cores(one) for name in open_), key
        if gang := one["metadata"]["annotations"].get("tidemill/gang", ""):
            gangs.setdefault(gang, []).append(one)
    for some in gangs.values():
        assert len({bool(one["spec"].get("nodeName")) for one in some if gpus(one)}) <= 1
    told, over = told_by(journal)
    assert over or sum(told.values()) == here
    assert all(name.startswith("n") for name, _ in told)


async def story(seed: int) -> None:
    """Some turns of a cluster that does as it likes."""
    chance = random.Random(seed)
    server, journal = PretendedServer(chance), MemoryJournal()
    server.put_node("n0", 8)
    for name in ("z0", "z1"):
        put_cpu_node(server, name)
    turn, scheduler = 0, Scheduler(server, journal)
    for _ in range(chance.randint(2, 8)):
        for _ in range(chance.randint(1, 3)):
            turn += 1
            chance.choice(HAPPENINGS)(server, chance, turn)
            server.deliver(scheduler.view, chance.randint(0, len(server.news)))
            scheduler.beat()
        server.faults = chance.choice((0, 0, 2))
        server.kill_after = chance.choice((-1, -1, 1, 2, 3))
        try:
            await scheduler.rest()
        except Killed:
            await scheduler.sender.stop()
            server.kill_after, server.faults = -1, 0
            scheduler = Scheduler(server, journal)
        server.kill_after, server.faults = -1, 0
        await scheduler.rest()
        check(server, journal)


def a_launcher(server: PretendedServer, name: str, cpu: int, **gang: Any) -> None:
    server.make(name, 0, cpu=str(cpu), spec={"nodeSelector": {"pool": "cpu"}}, **gang)


def a_driver_comes(server: PretendedServer, chance: random.Random, turn: int) -> None:
    a_launcher(server, f"p{turn}", chance.randint(1, 6))


def a_gang_comes(server: PretendedServer, chance: random.Random, turn: int) -> None:
    """Two pods with GPUs, and a launcher: before, between or after them."""
    at = chance.randint(0, 2)
    for i in range(3):
        if i == at:
            a_launcher(server, f"l{turn}", chance.randint(1, 4), gang=f"g{turn}", size=3)
        else:
            server.make(f"g{turn}-{i}", chance.choice((1, 2, 4)), gang=f"g{turn}", size=3)


def another_scheduler_binds(server: PretendedServer, chance: random.Random, turn: int) -> None:
    wide = [name for name in server.nodes if name.startswith("z") and free(server, name) >= 2]
    if wide:
        server.make(f"f{turn}", 0, cpu="2", on=chance.choice(wide))


def a_node_comes_or_is_cordoned(server: PretendedServer, chance: random.Random, turn: int) -> None:
    name = chance.choice(("z0", "z1", f"z{turn + 10}"))
    put_cpu_node(server, name, unschedulable=chance.random() < 0.5)


def a_node_goes(server: PretendedServer, chance: random.Random, turn: int) -> None:
    del turn
    if some := sorted(name for name in server.nodes if name.startswith("z")):
        server.drop_node(chance.choice(some))


def a_pod_goes(server: PretendedServer, chance: random.Random, turn: int) -> None:
    """For good, or its owner makes it again; of a gang all."""
    del turn
    if not server.pods:
        return
    key = chance.choice(sorted(server.pods))
    gang = server.pods[key]["metadata"]["annotations"].get("tidemill/gang", "")
    if gang or chance.random() < 0.5:
        for at, one in sorted(server.pods.items()):
            if at == key or (gang and one["metadata"]["annotations"].get("tidemill/gang") == gang):
                server.finish(at)
    else:
        server.drop(key)


HAPPENINGS = (
    a_driver_comes, a_driver_comes, a_gang_comes, another_scheduler_binds,
    a_node_comes_or_is_cordoned, a_node_goes, a_pod_goes, a_pod_goes,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries are for real servers."""
    monkeypatch.setattr(sending, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(sending, "LONGEST_PAUSE_S", 0.0)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_at_rest_no_pod_without_gpus_waits_beside_room(seed: int):
    """Nodes are not over-committed, gangs are whole or absent, and the journal has GPU nodes
    alone.
    """
    asyncio.run(story(seed))
