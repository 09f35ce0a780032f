"""What `why` and `fit` say of clusters at random, counted by hand and done: whoever is told that
something fits now finds room for it, what would run instead runs, and a fix that is named is made
in the objects, which are imported again.
"""

import copy
import re
from random import Random
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from tests.live.kubernetes.made import Object, node, pod
from tests.live.kubernetes.test_claims import fit, imported, why
from tidemill import explain
from tidemill.explain.answers import Answer, Certificate
from tidemill.model.policy import Policy
from tidemill.model.rows import Job, Role
from tidemill.model.world import World

PRODUCTS = {"H100": "NVIDIA-H100-80GB-HBM3", "A100-80GB": "NVIDIA-A100-SXM4-80GB"}
REPLICAS = ("fewer replicas", "fewer accelerators")
"""Changes of which the largest that runs is named."""
CHANGED = re.compile(r"(uncordon|repair|move|stop) (.*?)(?::| off | on )")
_FIELDS = dict(zip(REPLICAS, ("count", "accelerators"), strict=True))
NOT_ENOUGH = ("that alone does not start", "then it still waits")


class Machine(NamedTuple):
    """A node as the test counts it; what is free: GPUs, CPUs in thousandths, memory in MiB."""

    kind: str
    gpus: int
    is_open: bool
    free: tuple[int, int, int]


class Cluster(NamedTuple):
    """Nodes of several types and sizes with pods on them, some cordoned, tainted or down."""

    nodes: list[Object]
    pods: list[Object]
    machines: list[Machine]


def at_random(luck: Random) -> Cluster:
    """A small cluster in which something runs."""
    nodes, pods, machines = [], [pod("p", 1, on="n0", cpu="1", memory="1Gi")], list[Machine]()
    for i in range(luck.randint(2, 5)):
        kind, gpus = luck.choice([*PRODUCTS]), luck.choice([2, 4, 8, 8])
        cores, gib = luck.choice([16, 32, 96]), luck.choice([64, 257, 512])
        is_cordoned, is_tainted, is_ready = (luck.random() < share for share in (0.2, 0.15, 0.9))
        nodes.append(node(
            f"n{i}", gpus, labels={"nvidia.com/gpu.product": PRODUCTS[kind]},
            amounts={"cpu": str(cores), "memory": f"{gib}Gi"}, unschedulable=is_cordoned,
            ready=is_ready,
            taints=[{"key": "x", "value": "y", "effect": "NoSchedule"}] if is_tainted else [],
        ))  # fmt: skip
        left = [gpus, cores * 1000, gib * 1024]
        if not i:
            left = [left[0] - 1, left[1] - 1000, left[2] - 1024]
        for k in range(luck.randint(0, 2)):
            asks = [luck.randint(0, left[0]), luck.choice([1000, left[1] // 2]),
                    luck.choice([4096, left[2] // 2])]  # fmt: skip
            if all(a <= b for a, b in zip(asks, left, strict=True)):
                left = [b - a for a, b in zip(asks, left, strict=True)]
                pods.append(
                    pod(f"p{i}-{k}", asks[0], on=f"n{i}", cpu=f"{asks[1]}m", memory=f"{asks[2]}Mi")
                )
        is_open = is_ready and not is_cordoned and not is_tainted
        machines.append(Machine(kind, gpus, is_open, (left[0], left[1], left[2])))
    return Cluster(nodes, pods, machines)


def by_hand(cluster: Cluster, asks: Role) -> int:
    """How many replicas there is room for."""
    each = (asks.accelerators, asks.cpu_milli, asks.memory_mib)
    return sum(
        min(has // one for has, one in zip(row.free, each, strict=True) if one)
        for row in cluster.machines
        if row.is_open and (not asks.kinds or row.kind in asks.kinds)
    )


def request(luck: Random) -> Role:
    """Replicas that somebody could ask for."""
    return Role(
        count=luck.choice([1, 1, 2, 3, 5]), accelerators=luck.choice([1, 2, 4, 8]),
        cpu_milli=luck.choice([1000, 8000, 50_000]), memory_mib=luck.choice([1024, 65_536]),
        kinds=tuple(luck.choice([[], [], [*PRODUCTS][:1]])),
    )  # fmt: skip


def check_offers(world: World, proof: Certificate | None, asked: Role) -> None:
    """What would run now instead does; of what is named as the largest, one more does not."""
    for offer in proof.fits_now if proof else ():
        assert offer.shape is not None
        told = explain.fit(world, Policy(), Job("instead", offer.shape))
        assert told.verdict == "now", (offer.words, told.words)
        (role,) = offer.shape.roles
        one = role.count if offer.change == REPLICAS[0] else role.accelerators
        larger = replace(role, **{_FIELDS.get(offer.change, "count"): one + 1})
        if offer.change in REPLICAS and larger != asked:
            assert fit(world, larger).verdict != "now", offer.words


@pytest.mark.parametrize("seed", range(16))
def test_what_fits_and_what_would_instead_is_so(seed: int):
    """Three requests of a cluster: `fit` says *now* where a count by hand finds room."""
    luck = Random(seed)
    cluster = at_random(luck)
    world = imported(*cluster.nodes, *cluster.pods)
    for asks in (request(luck) for _ in range(3)):
        told = fit(world, asks)
        assert (told.verdict == "now") == (by_hand(cluster, asks) >= asks.count), told.words
        check_offers(world, told.certificate, asks)


def has_room(found: Answer) -> bool:
    """Whether by the books nothing keeps a job out."""
    return found.detail == "none" or "by the books alone: what it requests is free" in found.words


def changed(cluster: Cluster, verb: str, names: list[str]) -> list[Object]:
    """The cluster when somebody has done that."""
    nodes = copy.deepcopy(cluster.nodes)
    for one in nodes:
        if one["metadata"]["name"] in names and verb == "uncordon":
            one["spec"].pop("unschedulable")
        if one["metadata"]["name"] in names and verb == "repair":
            one["status"]["conditions"][0].update(status="True", reason="KubeletReady")
    return [*nodes, *(one for one in cluster.pods if f"ml/{one['metadata']['name']}" not in names)]


@pytest.mark.parametrize("seed", range(100, 124))
def test_a_fix_that_is_named_is_one(seed: int):
    """Who waits is told a fix: made, it starts, or does not if that was said too."""
    luck = Random(seed)
    cluster, asks = at_random(luck), request(luck)
    told: dict[str, Any] = {
        "cpu": f"{asks.cpu_milli}m", "memory": f"{asks.memory_mib}Mi",
        "message": "0/9 nodes are available: 9 Insufficient nvidia.com/gpu.",
    }  # fmt: skip
    if asks.count > 1:
        told["owner"] = ("kubeflow.org/v1", "PyTorchJob", "w")
    names = ["w"] if asks.count == 1 else [f"w-worker-{i}" for i in range(asks.count)]
    waits = [pod(name, asks.accelerators, **told) for name in names]
    found = why(imported(*cluster.nodes, *cluster.pods, *waits), "ml/w")
    room = by_hand(cluster, replace(asks, kinds=()))
    assert has_room(found) == (room >= asks.count), found.words
    for fix in (found.fix, *found.other_fixes):
        if match := CHANGED.match(fix.words):
            named = re.findall("`([^`]+)`", match[2])
            then = why(imported(*changed(cluster, match[1], named), *waits), "ml/w")
            starts = not any(one in fix.words for one in NOT_ENOUGH)
            assert has_room(then) == starts, (fix.words, then.words)
