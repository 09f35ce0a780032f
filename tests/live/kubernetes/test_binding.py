"""The benches that put schedulers side by side measure what they say, on a real API server."""

import asyncio
import random

import pytest

from bench import binding, fgd, openb, packing, schedulers
from bench.schedulers import KUBE, OURS, Scheduler, pod_of
from tests.rigs.kubernetes import cluster
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.traffic import submit, watching
from tidemill.twin.traces.openb import NodeLine, PodLine


@pytest.mark.skipif(bool(cluster.missing()), reason=cluster.missing() or "it is here")
@pytest.mark.parametrize("one", [KUBE, OURS], ids=lambda one: one.name)
def test_a_scheduler_is_measured(one: Scheduler):
    """It binds all pods; times and CPU-seconds of everybody are told; it restarts."""
    row = binding.measured(one, size=6, singles=6, gangs=1, idle_s=0.1)
    singles, gangs = row["singles"], row["gangs"]
    assert (singles["pods"], gangs["pods"], gangs["gangs"]) == (6, 16, 1)
    assert (row["backlog"]["pods"], row["one by one"]["pods"]) == (6, 6)
    assert row["backlog"]["binds_per_s"] > 0
    for load in (singles, gangs):
        assert 0 < load["submit_to_bound_s"]["p50"] <= load["submit_to_bound_s"]["p99"]
        assert load["submit_to_bound_s"]["p99"] <= load["wall_s"] + 0.01  # both are rounded
        assert set(load["cpu_ms_per_bind"]) == {one.name, "kube-apiserver", "etcd", "bench"}
        assert load["cpu_ms_per_bind"]["kube-apiserver"] > 0
    assert row["peak_mib"][one.name] > 10
    assert row["restart"]["first_bind_s"] > 0
    if one is OURS:
        assert set(row["answers_s"]) == {"why", "decision", "pending", "fleet", "ledger"}


def test_two_gangs_that_come_together_lock_each_other_out_of_kube_scheduler(rig: Cluster):
    """On 24 GPUs two gangs of 16 pods hold 12 each, if nobody is told that they are gangs."""

    async def both() -> dict[str, int]:
        two = [KUBE.gang(name, [pod_of(name, f"{name}-{i}") for i in range(16)]) for name in "ab"]
        sent = [each for turn in zip(*(unit.sent for unit in two), strict=True) for each in turn]
        async with watching(rig) as seen:
            await submit(rig, sent, connections=1)
            assert await seen.wait_until(lambda: len(seen.node) + len(seen.refused) == 32, 60)
            return {unit: len(pods) for unit, pods in seen.bound_s.items()}

    rig.add_nodes(*binding.nodes(3))
    assert asyncio.run(both()) == {"a": 12, "b": 12}


def test_published_pods_are_replayed_as_in_the_twin(rig: Cluster):
    """Two nodes of 4 GPUs, one with CPU for a single pod: pods of one GPU fill 5 of 8.

    So they do on a real cluster and in the twin, at every mark. Pods that share a GPU are left out.
    """
    lines = [NodeLine("wide", 8000, 8192, 4, "T4"), NodeLine("narrow", 1500, 8192, 4, "T4")]
    pods = [PodLine(f"p{i}", 1000, 512, 1, 1000, (), "LS", 0, 1, 0) for i in range(8)]
    assert packing.whole([*pods, pods[0]._replace(gpu_milli=500)]) == pods
    rig.add_nodes(*map(packing.node_of, lines))
    coming = openb.arrivals(pods, 8000, 1)
    row = asyncio.run(packing.replay(rig, KUBE, coming, 8000))
    assert row == {
        "allocated_percent": dict.fromkeys(map(str, fgd.MARKS), 62.5),
        "pods": 11,
        "neither bound nor refused": 0,
    }
    assert fgd.of_pods(lines, pods, "pack", 1).percent == (62.5,) * len(fgd.MARKS)


@pytest.mark.skipif(bool(cluster.missing()), reason=cluster.missing() or "it is here")
def test_our_scheduler_fills_a_real_cluster_as_the_twin_fills_its_own():
    """Drawn nodes and pods of whole GPUs, asked for until 1.3 times what there is: at each mark as
    much is allocated as in the twin (which pods share a look is up to the clock: at most one pod of
    8 GPUs differs), and the loop decides every placement of the journal alike once more.
    """
    chance = random.Random(8)
    lines = [
        NodeLine(
            f"n{i}", 96_000 - 32_000 * (i % 2), 262_144, *((8, "V100") if i % 3 else (4, "T4"))
        )
        for i in range(24)
    ]
    pods = [
        PodLine(f"p{i}", chance.choice((4000, 8000, 12_000)), 16_384,
                chance.choice((1, 1, 1, 2, 4, 8)), 1000, (), "LS", 0, 1, 0)
        for i in range(200)
    ]  # fmt: skip
    row = packing.replayed(OURS, lines, pods, 1)
    told = row["allocated_percent"].values()
    twin = fgd.of_pods(lines, pods, "tide", 1).percent
    one_pod = 100 * 8 / sum(line.gpus for line in lines)
    assert max(abs(a - b) for a, b in zip(told, twin, strict=True)) <= one_pod
    assert row["neither bound nor refused"] == 0
    count, alike = row["placements, and those that the loop makes alike"]
    assert count == alike > 50


def test_a_gang_carries_what_each_scheduler_reads():
    """It becomes a PodGroup with pods that name it, or one suspended Job in a queue."""
    pods = [pod_of("g", f"g-{i}") for i in range(2)]
    group, *members = schedulers.NATIVE.gang("g", pods).sent
    assert group.wanted["spec"]["schedulingPolicy"]["gang"]["minCount"] == 2
    named = [one.wanted["spec"]["schedulingGroup"]["podGroupName"] for one in members]
    assert named == ["g", "g"]
    (job,) = schedulers.KUEUE.gang("g", pods).sent
    assert job.wanted["spec"]["suspend"] is True
    assert job.wanted["spec"]["parallelism"] == 2
    assert job.wanted["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "bench"}
