"""Whatever a cluster does, and wherever the scheduler dies: at rest the journal tells what is so.

A pretended API server keeps pods, nodes and claims in memory, loses answers, is slow to tell of
changes, and takes evictions as owners do: a new pod comes. Devices are whole, MIG instances, or
given out by claims. The loop, the comparison and the sender are the real ones; which binds and
allocations a killed scheduler had sent is up to chance.
"""

import asyncio
import json
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.live.kubernetes import made
from tests.rigs.kubernetes import wanted
from tidemill.engine.loop import BEATS_AT_ONE_MOMENT, Loop
from tidemill.journal.memory import MemoryJournal
from tidemill.journal.replay import rebuild
from tidemill.live.kubernetes import dra, nodes, pods
from tidemill.live.kubernetes.api.writing import Written
from tidemill.live.kubernetes.scheduling import allocating, sending
from tidemill.live.kubernetes.scheduling.backend import KubernetesBackend
from tidemill.live.kubernetes.scheduling.differ import Differ
from tidemill.live.kubernetes.scheduling.running import live_policy
from tidemill.live.kubernetes.scheduling.sending import Sender
from tidemill.live.kubernetes.scheduling.view import ClusterView, Key
from tidemill.live.kubernetes.watching import kinds
from tidemill.live.kubernetes.watching.kinds import ServedKind
from tidemill.live.prices.rules import unpriced
from tidemill.model.columns import JOB
from tidemill.model.policy import Policy

Object = dict[str, Any]
OWNER = ("apps/v1", "StatefulSet", "owner")
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
CLAIMED = ""
"""Instead of a resource: devices by claim."""


class Killed(BaseException):
    """The scheduler dies here."""


class PretendedServer:
    """Pods and nodes in memory; what changes is told when somebody delivers it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.pods: dict[Key, Object] = {}
        self.nodes: dict[str, Object] = {}
        self.claims: dict[Key, Object] = {}
        self.slices: dict[str, Object] = {}
        self.news: list[tuple[str, Key, Object, bool]] = []
        self.faults = 0
        self.kill_after = -1
        self._uid = 0

    def put_node(self, name: str, gpus: int, *, unschedulable: bool = False) -> None:
        """A node; by its name it has MIG instances too, or gives its devices out by claim."""
        amounts: dict[str, str | None] = {MIG: "7"} if name.startswith("m") else {}
        if name.startswith("d"):
            amounts = {GPU: None}
            some = [wanted.device(f"gpu-{d}") for d in range(gpus)]
            self.slices[name] = wanted.resource_slice(name, some)
            self._uid += 1
            self.slices[name]["spec"]["pool"]["generation"] = self._uid
            self.news.append(("ResourceSlice", ("", name), self.slices[name], False))
        self.nodes[name] = made.node(name, gpus, unschedulable=unschedulable, amounts=amounts)
        self.news.append(("Node", ("", name), self.nodes[name], False))

    def size(self, name: str, resource: str = GPU) -> int:
        """How many units of a resource a node has."""
        if resource == CLAIMED:
            slices = self.slices.get(name)
            return len(slices["spec"]["devices"]) if slices else 0
        return int(self.nodes[name]["status"]["allocatable"].get(resource, 0))

    def drop_node(self, name: str) -> None:
        self.news.append(("Node", ("", name), self.nodes.pop(name), True))
        if name in self.slices:
            self.news.append(("ResourceSlice", ("", name), self.slices.pop(name), True))
        for key, one in list(self.pods.items()):
            if one["spec"].get("nodeName") == name:
                self.delete(key)

    def make(
        self, name: str, gpus: int, *, gang: str = "", size: int = 1, on: str = "",
        resource: str = GPU,
    ) -> None:  # fmt: skip
        told = {"tidemill/gang": gang, "tidemill/gang-size": str(size), "rig/gpus": str(gpus)}
        told |= {"rig/resource": resource}
        told = {key: value for key, value in told.items() if gang or key.startswith("rig")}
        self._uid += 1
        spec: Object = {} if on else {"schedulerName": "tidemill"}
        if resource == CLAIMED:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"c-{name}"}]
        counts = {resource: gpus} if resource else {}
        one = made.pod(name, counts, annotations=told, owner=OWNER, spec=spec, on=on, cpu="1")
        one["metadata"]["uid"] = f"u{self._uid}"
        if resource == CLAIMED:
            self._claim(f"c-{name}", gpus, on, one)
        self._put(("ml", name), one)

    def _claim(self, name: str, gpus: int, on: str, user: Object) -> None:
        """A claim of a pod; another scheduler has allocated it before it binds."""
        one = wanted.claim(name, wanted.claim_spec(gpus))
        self._uid += 1
        one["metadata"] |= {"uid": f"c{self._uid}"}
        if on:
            held = self.held()
            free = [d["name"] for d in self.slices[on]["spec"]["devices"]
                    if not held[on, d["name"]]]  # fmt: skip
            one["status"] = _allocation(on, free[:gpus], user)
        self._put_claim(one)

    def _put_claim(self, one: Object) -> None:
        self._uid += 1
        one["metadata"]["resourceVersion"] = str(self._uid)
        key = ("ml", one["metadata"]["name"])
        self.claims[key] = one
        self.news.append(("ResourceClaim", key, json.loads(json.dumps(one)), False))

    def held(self) -> Counter[tuple[str, str]]:
        """How many claims hold each device, by machine and name."""
        return Counter(
            (row["pool"], row["device"]) for one in self.claims.values() for row in _results(one)
        )

    def delete(self, key: Key) -> None:
        """A pod is gone; its owner makes another in its place, if it was ours."""
        one = self._drop(key)
        if one["spec"]["schedulerName"] == "tidemill":
            told = one["metadata"]["annotations"]
            self._uid += 1
            self.make(
                f"{key[1].partition('.')[0]}.{self._uid}", gpus(one), resource=told["rig/resource"],
                gang=told.get("tidemill/gang", ""), size=int(told.get("tidemill/gang-size", 1)),
            )  # fmt: skip

    def _drop(self, key: Key) -> Object:
        """A pod is gone, and its claim with it."""
        one = self.pods.pop(key)
        self.news.append(("Pod", key, one, True))
        claim = ("ml", f"c-{key[1]}")
        if claim in self.claims:
            self.news.append(("ResourceClaim", claim, self.claims.pop(claim), True))
        return one

    def finish(self, key: Key) -> None:
        self._drop(key)

    def collect(self) -> None:
        """Pods on nodes that are not there are deleted, as the cluster's own collector does."""
        for key, one in list(self.pods.items()):
            if one["spec"].get("nodeName", next(iter(self.nodes))) not in self.nodes:
                self.delete(key)

    def deliver(self, view: ClusterView, count: int) -> None:
        for kind, key, one, is_gone in self.news[:count]:
            read, of = READ[kind]
            row: Any = read(one)
            if is_gone and kind == "Pod":
                row = row.deleted(made.BEGIN_MS)
            view.take(of, key, row, is_gone)
        del self.news[:count]

    async def send(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Written:
        del kind
        await asyncio.sleep(0)
        if self.faults and self.chance.random() < 0.5:
            self.faults -= 1
            if self.chance.random() < 0.5:
                return Written(self.chance.choice((429, 500)), b"{}")
            if self.chance.random() < 0.5:
                self._do(method, path, body)
            raise OSError("lost")
        return self._do(method, path, body)

    def _do(self, method: str, path: str, body: bytes) -> Written:
        part = path.split("/")
        if "resourceclaims" in part:
            return self._do_claim(method, ("ml", part[7]), body)
        key = (part[4], part[6])
        one = self.pods.get(key)
        if one is None:
            return Written(404, b"{}")
        if method == "GET":
            return Written(200, json.dumps(one).encode())
        if part[-1] == "eviction":
            self.delete(key)
            return Written(201, b"{}")
        told = json.loads(body)
        if one["spec"].get("nodeName") or told["metadata"]["uid"] != one["metadata"]["uid"]:
            return Written(409, b"{}")
        self._bind(key, told["target"]["name"])
        self._may_be_killed()
        return Written(201, b"{}")

    def _may_be_killed(self) -> None:
        self.kill_after -= 1
        if self.kill_after == 0:
            raise Killed

    def _do_claim(self, method: str, key: Key, body: bytes) -> Written:
        """As the API does: only of the version that was read, and nothing given twice to it."""
        one = self.claims.get(key)
        if one is None:
            return Written(404, b"{}")
        if method == "GET":
            return Written(200, json.dumps(one).encode())
        told, before = json.loads(body), one["metadata"]
        if told["metadata"]["resourceVersion"] != before["resourceVersion"]:
            return Written(409, b"{}")
        one = json.loads(json.dumps(one))
        one["metadata"]["finalizers"] = [dra.FINALIZER]
        if "status" in told:
            if told["status"]["allocation"] and one.get("status", {}).get("allocation"):
                return Written(422, b"{}")
            one["status"] = {k: v for k, v in told["status"].items() if v is not None}
        self._put_claim(one)
        self._may_be_killed()
        return Written(200, json.dumps(one).encode())

    def _bind(self, key: Key, node: str) -> None:
        one = self.pods[key]
        bound = made.pod(key[1], 1, on=node)
        self._put(key, one | {
            "spec": {**one["spec"], "nodeName": node}, "status": bound["status"],
        })  # fmt: skip

    def _put(self, key: Key, one: Object) -> None:
        self.pods[key] = one
        self.news.append(("Pod", key, one, False))


class Scheduler:
    """A scheduler in the making: from a journal and a list of what is there."""

    def __init__(self, server: PretendedServer, journal: MemoryJournal) -> None:
        self.server = server
        self.view = ClusterView("tidemill")
        world = rebuild(journal)
        self.sender = Sender(server, self.view, lambda: True, self._settled)  # type: ignore[arg-type]
        self.differ = Differ(world, self.view, unpriced, self.sender.is_being_sent)
        self.clock = world.now_ms
        self.backend = KubernetesBackend(
            world, self.view, self.differ, self.sender, lambda: self.clock
        )
        self.loop = Loop(world, live_policy(Policy()), self.backend, journal)
        server.collect()
        server.news = [("DeviceClass", ("", "all"), wanted.device_class(), False)]
        server.news += [("ResourceClaim", key, json.loads(json.dumps(one)), False)
                        for key, one in server.claims.items()]  # fmt: skip
        server.news += [("Pod", key, one, False) for key, one in server.pods.items()]
        server.news += [("Node", ("", name), one, False) for name, one in server.nodes.items()]
        server.news += [("ResourceSlice", ("", name), one, False)
                        for name, one in server.slices.items()]  # fmt: skip
        server.deliver(self.view, len(server.news))
        self.view.look_at_all()

    def _settled(self, j: int, is_as_asked: bool) -> None:
        self.differ.settle(j, is_as_asked=is_as_asked)

    def beat(self) -> None:
        self.clock += 1000
        if self.backend.is_due:
            self.loop.beat(self.backend.next_ms())
            self.loop.commit()

    async def rest(self) -> None:
        """Beat and wait until nothing is left to do."""
        for _ in range(60):
            self.beat()
            while not self.sender.is_idle:
                await asyncio.sleep(0)
                for task in list(self.sender._tasks):
                    if task.done() and isinstance(task.exception(), Killed):
                        raise Killed
            self.server.collect()
            self.server.deliver(self.view, len(self.server.news))
            if not self.view.is_changed:
                return
        raise AssertionError("it does not come to rest")


READ = {
    "Pod": (pods.read, kinds.PODS), "Node": (nodes.read, kinds.NODES),
    "ResourceSlice": (dra.read_slice, ServedKind(dra.GROUP, "v1", "ResourceSlice", "")),
    "ResourceClaim": (dra.read_claim, ServedKind(dra.GROUP, "v1", "ResourceClaim", "")),
    "DeviceClass": (dra.read_class, ServedKind(dra.GROUP, "v1", "DeviceClass", "")),
}  # fmt: skip


def _allocation(node: str, devices: list[str], user: Object) -> Object:
    """As another scheduler writes it."""
    results = [{"request": "gpu", "driver": wanted.DRIVER, "pool": node, "device": one}
               for one in devices]  # fmt: skip
    me = {"resource": "pods", "name": user["metadata"]["name"], "uid": user["metadata"]["uid"]}
    return {"allocation": {"devices": {"results": results}}, "reservedFor": [me]}


def _results(claim: Object) -> list[Object]:
    given = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
    found: list[Object] = given["devices"]["results"]
    return found


def gpus(one: Object) -> int:
    """What a pod requests, of whatever resource."""
    return int(one["metadata"]["annotations"]["rig/gpus"])


def resource_of(one: Object) -> str:
    """Which resource it requests."""
    found: str = one["metadata"]["annotations"]["rig/resource"]
    return found


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
    results = _results(server.claims["ml", f"c-{key[1]}"])
    node = one["spec"].get("nodeName", "")
    assert {row["pool"] for row in results} == ({node} if node else set()), key
    assert len(results) == (gpus(one) if node else 0), key


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


def _used(server: PretendedServer, name: str, resource: str, by: str = "") -> int:
    """By all pods on a node, or those of one scheduler."""
    here = [one for one in server.pods.values() if one["spec"].get("nodeName") == name]
    mine = [one for one in here if not by or one["spec"]["schedulerName"] == by]
    return sum(gpus(one) for one in mine if resource_of(one) == resource)


def _free(server: PretendedServer, name: str, resource: str) -> int:
    if resource == CLAIMED:  # whoever is not bound may hold some for a moment
        return server.size(name, resource) - sum(at == name for at, _ in server.held())
    return server.size(name, resource) - _used(server, name, resource)


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
@given(seed=st.integers(0, 2**32))
def test_at_rest_the_journal_tells_what_the_cluster_shows(seed: int):
    """Gangs are whole or absent, no node has too much, and the journal has what the cluster has."""
    asyncio.run(story(seed))
