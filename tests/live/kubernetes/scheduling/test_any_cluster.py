"""Whatever a cluster does, and wherever the scheduler dies: at rest the journal tells what is so.

Random stories on a pretended API server; the loop, the comparison and the sender are the real ones.
"""

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.live.kubernetes.scheduling.pretended import (
    CLAIMED,
    GPU,
    MIG,
    Killed,
    Object,
    PretendedServer,
    Scheduler,
    gpus,
    resource_of,
    results_of,
)
from tests.rigs.kubernetes.wanted import DRIVER
from tidemill.engine.loop import BEATS_AT_ONE_MOMENT
from tidemill.journal.memory import MemoryJournal
from tidemill.journal.replay import rebuild
from tidemill.live.kubernetes.scheduling import allocating, sending
from tidemill.live.kubernetes.scheduling.view import Key
from tidemill.model.columns import JOB
from tidemill.model.states import JobClass


def check(server: PretendedServer, journal: MemoryJournal) -> None:
    """What must be so at rest, by plain loops."""
    used, gangs = Counter[tuple[str, str]](), dict[str, list[bool]]()
    here = Counter[tuple[str, int]]()
    for key, one in server.pods.items():
        node = one["spec"].get("nodeName", "")
        used[node, resource_of(one)] += gpus(one)
        if resource_of(one) == CLAIMED:
            check_claim(server, key, one)
            if node in server.nodes and one["spec"]["schedulerName"] != "tidemill":
                here[node, 0] += 1  # its claim holds the devices
        if node in server.nodes:
            here[node, gpus(one)] += 1
        if gang := one["metadata"]["annotations"].get("tidemill/gang", ""):
            gangs.setdefault(gang, []).append(bool(node))
    told, over = told_by(journal)
    if not over:
        assert told == here
    assert all(len(set(some)) == 1 for some in gangs.values()), gangs
    for name in server.nodes:
        for resource in (GPU, MIG, CLAIMED):
            assert used[name, resource] <= server.size(name, resource), (name, resource)
    assert not server.over
    assert not [one for one, count in server.held().items() if count > 1], server.held()


def told_by(journal: MemoryJournal) -> tuple[Counter[tuple[str, int]], int]:
    """How many replicas with how many GPUs each machine carries, and what is not booked."""
    world = rebuild(journal)
    told, over = Counter[tuple[str, int]](), 0
    for j, pieces in world.placements.items():
        for piece in pieces:
            name = world.node_rows[piece.node].name.partition("#")[0].partition("/")[0]
            each = world.shape_of(j).roles[piece.role].accelerators
            told[name, each] += piece.replicas
        over += int(world.matrices.jobs[j, JOB.OVER_MILLI])
    return told, over


def check_claim(server: PretendedServer, key: Key, one: Object) -> None:
    """A pod that is bound has its devices where it is; one that is not has none."""
    results = results_of(server.claims["ml", f"c-{key[1]}"])
    node = one["spec"].get("nodeName", "")
    assert {row["pool"] for row in results} == ({node} if node else set()), key
    assert sum(row["driver"] == DRIVER for row in results) == (gpus(one) if node else 0), key


async def story(seed: int) -> None:
    """Some turns of a cluster that does as it likes."""
    chance = random.Random(seed)
    server, journal = PretendedServer(chance), MemoryJournal()
    for name in ("n0", "m0", "d0", "d1"):
        server.put_node(name, 8)
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
    server.make(f"p{turn}", chance.choice((1, 2, 7)), resource=chance.choice((GPU, MIG, CLAIMED)))


def a_gang_comes(server: PretendedServer, chance: random.Random, turn: int) -> None:
    size, resource = chance.randint(2, 4), chance.choice((GPU, MIG, CLAIMED, CLAIMED))
    for i in range(size):
        server.make(f"g{turn}-{i}", 2, gang=f"g{turn}", size=size, resource=resource)


def another_scheduler_binds(server: PretendedServer, chance: random.Random, turn: int) -> None:
    resource = chance.choice((GPU, MIG, CLAIMED))
    free = [name for name in server.nodes if _free(server, name, resource) >= 2]
    if free:
        server.make(f"f{turn}", 2, on=chance.choice(free), resource=resource)


def a_node_comes(server: PretendedServer, chance: random.Random, turn: int) -> None:
    server.put_node(f"{chance.choice('nmd')}{turn + 10}", chance.choice((4, 8)))


def a_node_is_cordoned_or_not(server: PretendedServer, chance: random.Random, turn: int) -> None:
    del turn
    name = chance.choice(sorted(server.nodes))
    size = server.size(name) or server.size(name, CLAIMED)
    server.put_node(name, size, unschedulable=chance.random() < 0.5)


def a_node_is_resized(server: PretendedServer, chance: random.Random, turn: int) -> None:
    del turn
    name = chance.choice(sorted(server.nodes))
    last = max((int(d[4:]) for at, d in server.held() if at == name), default=0)
    if _used(server, name, GPU, "default-scheduler") <= 4 and last < 4:  # ours can be evicted
        server.put_node(name, chance.choice((4, 8)))


def gpus_get_sick_or_well(server: PretendedServer, chance: random.Random, turn: int) -> None:
    """The device plugin advertises fewer than there are; what runs there goes on."""
    del turn
    name = chance.choice(sorted(server.nodes))
    if size := server.size(name):
        server.put_node(name, size, sick=chance.choice((0, 1, size // 2, size - 1)))


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
    a_node_is_cordoned_or_not, a_node_is_resized, gpus_get_sick_or_well, a_node_goes,
    a_pod_is_deleted, a_pod_ends,
)  # fmt: skip


def _used(server: PretendedServer, name: str, resource: str, by: str = "") -> int:
    """By all pods on a node, or those of one scheduler."""
    here = [one for one in server.pods.values() if one["spec"].get("nodeName") == name]
    mine = [one for one in here if not by or one["spec"]["schedulerName"] == by]
    return sum(gpus(one) for one in mine if resource_of(one) == resource)


def _free(server: PretendedServer, name: str, resource: str) -> int:
    if resource == CLAIMED:  # whoever is not bound may hold some for a moment
        return server.size(name, resource) - sum(at == name for at, _ in server.held())
    return server.size(name, resource, "allocatable") - _used(server, name, resource)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries are for real servers."""
    monkeypatch.setattr(sending, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(sending, "LONGEST_PAUSE_S", 0.0)
    monkeypatch.setattr(allocating, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(allocating, "LONGEST_PAUSE_S", 0.0)


def test_pods_of_another_scheduler_push_ours_out_once():
    """Where they take more than is left, as many of ours leave as are in the way, and no more."""

    async def play() -> None:
        server, journal = PretendedServer(random.Random(1)), MemoryJournal()
        server.put_node("n0", 8)
        scheduler = Scheduler(server, journal)
        for i in range(8):
            server.make(f"p{i}", 1)
        server.deliver(scheduler.view, len(server.news))
        await scheduler.rest()
        server.make("theirs", 2, on="n0")
        server.deliver(scheduler.view, len(server.news))
        await scheduler.rest()
        assert scheduler.sender.counts.evicted == 2
        assert _used(server, "n0", GPU) == 8
        check(server, journal)

    asyncio.run(play())


def test_pods_of_another_scheduler_are_for_what_their_owners_are_for():
    """A Job's trains, a StatefulSet's serves: by the same rule as an observer's."""
    kinds = {"job": ("batch/v1", "Job"), "service": ("apps/v1", "StatefulSet")}

    async def play() -> dict[str, JobClass]:
        server, journal = PretendedServer(random.Random(1)), MemoryJournal()
        server.put_node("n0", 8)
        scheduler = Scheduler(server, journal)
        for name, (version, kind) in kinds.items():
            server.make(f"{name}-0", 1, on="n0", owner=(version, kind, name))
        server.deliver(scheduler.view, len(server.news))
        await scheduler.rest()
        world = rebuild(journal)
        return {name: world.shape_of(j).kind for j, name in enumerate(world.job_names)}

    assert asyncio.run(play()) == {
        "ml/job-0": JobClass.TRAINING, "ml/service-0": JobClass.INFERENCE,
    }  # fmt: skip


def test_a_clock_that_stands_still_stops_nobody():
    """Set back by an hour, the cluster's clock shows the same for long: looks still count."""

    async def play() -> None:
        server, journal = PretendedServer(random.Random(1)), MemoryJournal()
        server.put_node("n0", 8)
        scheduler = Scheduler(server, journal)
        await scheduler.rest()
        scheduler.clock -= 3_600_000
        for _ in range(BEATS_AT_ONE_MOMENT + 2):
            scheduler.view.dirty_nodes["n0"] = None
            scheduler.loop.beat(scheduler.backend.next_ms())

    asyncio.run(play())


@settings(max_examples=40, deadline=None)
@example(seed=652)  # GPUs get sick while the rest of a gang is being bound
@example(seed=1362)
@example(seed=3296)  # a node becomes smaller while a gang is being bound to it
@given(seed=st.integers(0, 2**32))
def test_at_rest_the_journal_tells_what_the_cluster_shows(seed: int):
    """Gangs are whole or absent, no node has too much, and the journal has what the cluster has."""
    asyncio.run(story(seed))
