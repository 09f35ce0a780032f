"""Whatever a cluster does, and wherever the scheduler dies: at rest the journal tells what is so.

Random stories on a pretended API server; the loop, the comparison and the sender are the real ones.
"""

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.live.kubernetes.scheduling.pretended import Killed, Object, PretendedServer, Scheduler
from tidemill.journal.memory import MemoryJournal
from tidemill.journal.replay import rebuild
from tidemill.live.kubernetes.scheduling import sending
from tidemill.model.columns import JOB


def gpus(one: Object) -> int:
    """What a pod requests."""
    amounts = one["spec"]["containers"][0]["resources"]["requests"]
    return int(amounts.get("nvidia.com/gpu", 0))


def check(server: PretendedServer, journal: MemoryJournal) -> None:
    """What must be so at rest, by plain loops."""
    used, gangs = Counter[str](), dict[str, list[bool]]()
    here = Counter[tuple[str, int]]()
    for one in server.pods.values():
        node = one["spec"].get("nodeName", "")
        used[node] += gpus(one)
        if node in server.nodes:
            here[node, gpus(one)] += 1
        if gang := one["metadata"]["annotations"].get("tidemill/gang", ""):
            gangs.setdefault(gang, []).append(bool(node))
    world = rebuild(journal)
    told = Counter[tuple[str, int]]()
    over = 0
    for j, pieces in world.placements.items():
        for piece in pieces:
            name = world.node_rows[piece.node].name.partition("#")[0]
            each = world.shape_of(j).roles[piece.role].accelerators
            told[name, each] += piece.replicas
        over += int(world.matrices.jobs[j, JOB.OVER_MILLI])
    if not over:
        assert told == here
    assert all(len(set(some)) == 1 for some in gangs.values()), gangs
    for name, node in server.nodes.items():
        assert used[name] <= int(node["status"]["allocatable"]["nvidia.com/gpu"]), name


async def story(seed: int) -> None:
    """Some turns of a cluster that does as it likes."""
    chance = random.Random(seed)
    server, journal = PretendedServer(chance), MemoryJournal()
    for i in range(3):
        server.put_node(f"n{i}", 8)
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


def a_pod_comes(server: PretendedServer, chance: random.Random, turn: int) -> None:
    server.make(f"p{turn}", chance.choice((1, 2, 8)))


def a_gang_comes(server: PretendedServer, chance: random.Random, turn: int) -> None:
    size = chance.randint(2, 4)
    for i in range(size):
        server.make(f"g{turn}-{i}", 2, gang=f"g{turn}", size=size)


def another_scheduler_binds(server: PretendedServer, chance: random.Random, turn: int) -> None:
    free = [name for name in server.nodes if _free(server, name) >= 2]
    if free:
        server.make(f"f{turn}", 2, on=chance.choice(free))


def a_node_comes(server: PretendedServer, chance: random.Random, turn: int) -> None:
    server.put_node(f"n{turn + 10}", chance.choice((4, 8)))


def a_node_is_cordoned_or_not(server: PretendedServer, chance: random.Random, turn: int) -> None:
    del turn
    name = chance.choice(sorted(server.nodes))
    size = int(server.nodes[name]["status"]["allocatable"]["nvidia.com/gpu"])
    server.put_node(name, size, unschedulable=chance.random() < 0.5)


def a_node_is_resized(server: PretendedServer, chance: random.Random, turn: int) -> None:
    del turn
    name = chance.choice(sorted(server.nodes))
    if _used(server, name) <= 4:
        server.put_node(name, chance.choice((4, 8)))


def a_node_goes(server: PretendedServer, chance: random.Random, turn: int) -> None:
    del turn
    if len(server.nodes) > 1:
        server.drop_node(chance.choice(sorted(server.nodes)))


def a_pod_is_deleted(server: PretendedServer, chance: random.Random, turn: int) -> None:
    del turn
    if server.pods:
        server.delete(chance.choice(sorted(server.pods)))


def a_pod_ends(server: PretendedServer, chance: random.Random, turn: int) -> None:
    del turn
    alone = [
        key for key, one in server.pods.items()
        if not one["metadata"]["annotations"].get("tidemill/gang")
    ]  # fmt: skip
    if alone:
        server.finish(chance.choice(sorted(alone)))


HAPPENINGS = (
    a_pod_comes, a_gang_comes, a_gang_comes, another_scheduler_binds, a_node_comes,
    a_node_is_cordoned_or_not, a_node_is_resized, a_node_goes, a_pod_is_deleted, a_pod_ends,
)  # fmt: skip


def _used(server: PretendedServer, name: str) -> int:
    return sum(gpus(one) for one in server.pods.values() if one["spec"].get("nodeName") == name)


def _free(server: PretendedServer, name: str) -> int:
    return int(server.nodes[name]["status"]["allocatable"]["nvidia.com/gpu"]) - _used(server, name)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries are for real servers."""
    monkeypatch.setattr(sending, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(sending, "LONGEST_PAUSE_S", 0.0)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_at_rest_the_journal_tells_what_the_cluster_shows(seed: int):
    """Gangs are whole or absent, no node has too much, and the journal has what the cluster has."""
    asyncio.run(story(seed))
