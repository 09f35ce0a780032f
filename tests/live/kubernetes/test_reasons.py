"""Why pods wait: the classic causes, and those that the same line of the scheduler hides."""

from typing import Any

import pytest

from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.made import node, pod, pytorch_job, template, workers
from tests.live.kubernetes.test_import import Object, kept, reason, world_of
from tidemill import explain
from tidemill.ledger.buckets import Bucket
from tidemill.ledger.unknowns import unknowns_of
from tidemill.live.kubernetes import reasons
from tidemill.live.kubernetes.fleet_now import WhyPending
from tidemill.live.kubernetes.kueue import GROUP
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause, Layer
from tidemill.model.rows import Share

L1, L2, L3, L4 = Layer.RESERVATION, Layer.PROVISIONING, Layer.SCHEDULING, Layer.WORKLOAD
SAID = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
"""The same line for all of these."""
BARE = {"nvidia.com/gpu": None}
TAINT = {"key": "dedicated", "value": "infra", "effect": "NoSchedule"}
RUNS = pod("runs", 1, on="n0")
FULL = [pod("runs", 8, on="n0"), pod("too", 8, on="n1")]

PRESSURE = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}


def named(name: str) -> Object:
    """Node affinity for one node by its name, as a DaemonSet's pods have it."""
    only = {"key": "metadata.name", "operator": "In", "values": [name]}
    terms = {"nodeSelectorTerms": [{"matchFields": [only]}]}
    must = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {must: terms}}}


HIDDEN: dict[str, tuple[list[Object], Object, Layer, Cause, str]] = {
    "none anywhere": (
        [node("n0", amounts={**BARE, "amd.com/gpu": "8"}),
         pod("runs", {"amd.com/gpu": 1}, on="n0")],
        pod("x", 1, message=SAID), L1, Cause.NOTHING_CLAIMED, "no node has nvidia.com/gpu",
    ),
    "no device plugin": (
        [node("n0", labels={"nvidia.com/gpu.count": "8"}, amounts={**BARE, "amd.com/gpu": "1"}),
         pod("runs", {"amd.com/gpu": 1}, on="n0")],
        pod("x", 1, message=SAID), L2, Cause.NOTHING_READY, "no node advertises nvidia.com/gpu",
    ),
    "not Ready": (
        [node("n0", 1), node("n1", ready=False, turned=60), RUNS],
        pod("x", 8, message=SAID), L2, Cause.NOTHING_READY, "0 cordoned, 1 not Ready",
    ),
    "cordoned": (
        [node("n0", 1), node("n1", unschedulable=True), RUNS],
        pod("x", 8, message=SAID), L2, Cause.NOTHING_READY, "1 cordoned, 0 not Ready",
    ),
    "cordoned, which it tolerates": (
        [node("n0", 1), node("n1", unschedulable=True), RUNS, pod("too", 1, on="n1")],
        pod("x", 8, message=SAID, spec={"tolerations": [{"operator": "Exists"}]}), L3, Cause.BUSY,
        "needs 8 nvidia.com/gpu, and 7 are free",
    ),
    "tainted by Kubernetes": (
        [node("n0", 1), node("n1", taints=[PRESSURE]), RUNS],
        pod("x", 8, message=SAID), L2, Cause.NOTHING_READY,
        "0 not Ready, 1 Ready but tainted by Kubernetes (node.kubernetes.io/disk-pressure:NoSc",
    ),
    "tainted": (
        [node("n0", 1), node("n1", taints=[TAINT]), RUNS],
        pod("x", 8, message=SAID), L4, Cause.IMPOSSIBLE_LABEL,
        "does not tolerate the taint {dedicated: infra}",
    ),
    "more CPU than any node has": (
        [node("n0"), RUNS], pod("x", 1, message=SAID, cpu="200"), L4, Cause.IMPOSSIBLE_SIZE,
        "requests 200 CPUs on one node; the largest that it could use has 192",
    ),
    "more CPU for the pod than any node has": (
        [node("n0"), RUNS],
        pod("x", 1, message=SAID, spec={"resources": {"requests": {"cpu": "200"}}}), L4,
        Cause.IMPOSSIBLE_SIZE, "requests 200 CPUs on one node",
    ),
    "more CPU with that of its runtime": (
        [node("n0"), RUNS], pod("x", 1, message=SAID, spec={"overhead": {"cpu": "190"}}), L4,
        Cause.IMPOSSIBLE_SIZE, "requests 198 CPUs on one node",
    ),
    "a node by name that is full": (
        [node("n0"), node("n1"), FULL[0]], pod("x", 1, message=SAID, spec=named("n0")), L3,
        Cause.BUSY, "needs 1 nvidia.com/gpu, and 0 are free",
    ),
    "a node by name that is tainted": (
        [node("n0"), node("n1", taints=[TAINT]), RUNS],
        pod("x", 1, message=SAID, spec=named("n1")), L4, Cause.IMPOSSIBLE_LABEL,
        "does not tolerate the taint {dedicated: infra} of n1",
    ),
    "a node by name that is not there": (
        [node("n0"), RUNS], pod("x", 1, message=SAID, spec=named("n7")), L4,
        Cause.IMPOSSIBLE_LABEL, "selects `metadata.name` in `n7`, which no node",
    ),
    "an unhealthy device": (
        [node("n0", 7, capacity={"nvidia.com/gpu": "8"}), RUNS],
        pod("x", 8, message=SAID), L2, Cause.NOT_ENOUGH_READY, "at most 7 of a node are healthy",
    ),
    "larger than the nodes it selects": (
        [node("n0", 4, labels={"rack": "c"}), node("n1"), RUNS],
        pod("x", 8, message=SAID, spec={"nodeSelector": {"rack": "c"}}), L4,
        Cause.IMPOSSIBLE_SIZE,
        "requests 8 nvidia.com/gpu on one node; the largest that it selects has 4",
    ),
    "busy": (
        [node("n0"), node("n1"), *FULL], pod("x", 4, message=SAID), L3, Cause.BUSY,
        "needs 4 nvidia.com/gpu, and 0 are free",
    ),
    "fragmented": (
        [node("n0"), node("n1"), pod("a", 5, on="n0"), pod("b", 5, on="n1")],
        pod("x", 4, message=SAID), L3, Cause.SCATTERED, "6 nvidia.com/gpu are free, but at most 3",
    ),
    "no CPU beside it": (
        [node("n0", amounts={"cpu": "16"}), pod("a", 1, on="n0", cpu="12")],
        pod("x", 4, message=SAID), L3, Cause.CPU_BINDS, "not the CPU beside them",
    ),
    "too large": (
        [node("n0"), RUNS], pod("x", 16, message=SAID), L4, Cause.IMPOSSIBLE_SIZE,
        "the largest node has 8",
    ),
    "no such label": (
        [node("n0"), RUNS], pod("x", 1, message=SAID, spec={"nodeSelector": {"pool": "b"}}), L4,
        Cause.IMPOSSIBLE_LABEL, "selects pool=b, which no node",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HIDDEN)
def test_facts_tell_apart_what_one_line_hides(case: str):
    """The same sentence of the scheduler; the layer, the cause and the words differ."""
    objects, waits, layer, cause, words = HIDDEN[case]
    world = world_of(*objects, waits)
    found = reason(world, "ml/x")
    assert found[:2] == (layer, cause)
    assert words in found[2]
    assert found[2].startswith(f'Unschedulable "{SAID}"')
    assert found[2].endswith("(kubectl describe pod -n ml x)")
    assert found[2] in explain.why(world, Policy(), world.job_number["ml/x"]).words


OTHER = "1 node(s) had untolerated taint {own: x}, 7 node(s) didn't match Pod's node affinity/sel"
HCA = {"rdma/hca": "2", "ephemeral-storage": "100Gi"}
POOL = [node("n0", labels={"pool": "a"}, amounts=HCA), node("n1", taints=[TAINT])]
CHOSEN = {"nodeSelector": {"pool": "a"}}
HOLDS = pod("holds", 1, on="n0", requests={"rdma/hca": "2", "ephemeral-storage": "60Gi"})
GAUDI = pod("x", {"habana.ai/gaudi": 1}, message="0/9 nodes: 9 Insufficient habana.ai/gaudi")
COUNTED = node("n0", labels={"nvidia.com/gpu.count": "8"})


def waits(said: str, **rest: Any) -> Object:
    """A pod that selects some nodes, which others are not; some of the line is about those."""
    return pod("x", 1, message=f"0/9 nodes are available: 1 {said}, {OTHER}.", spec=CHOSEN, **rest)


LATER: dict[str, tuple[list[Object], Object, Layer, Cause, str]] = {
    "other pods are too near": (
        [*POOL, HOLDS], waits("node(s) didn't match pod anti-affinity rules"), L3, Cause.TOPOLOGY,
        "kept away from other pods (anti-affinity)",
    ),
    "a port is taken": (
        [*POOL, HOLDS], waits("node(s) didn't have free ports for the requested pod ports"), L3,
        Cause.NONE, "nodes have no port",
    ),
    "a network card is taken": (
        [*POOL, HOLDS], waits("Insufficient rdma/hca", requests={"rdma/hca": "1"}), L3, Cause.NONE,
        "enough nvidia.com/gpu are free, but not the rdma/hca beside them",
    ),
    "more network cards than a node has": (
        [*POOL, HOLDS], waits("Insufficient rdma/hca", requests={"rdma/hca": "4"}), L4, Cause.NONE,
        "requests 4 rdma/hca on one node; the largest that it could use has 2",
    ),
    "a resource that no node has": (
        [*POOL, HOLDS], waits("Insufficient x.io/nic", requests={"x.io/nic": "1"}), L4, Cause.NONE,
        "requests x.io/nic, which no node that it could use has",
    ),
    "the disk is full": (
        [*POOL, HOLDS],
        waits("Insufficient ephemeral-storage", requests={"ephemeral-storage": "50Gi"}), L3,
        Cause.NONE, "not the disk beside them",
    ),
    "a larger disk than any": (
        [*POOL, HOLDS],
        waits("Insufficient ephemeral-storage", requests={"ephemeral-storage": "200Gi"}), L4,
        Cause.NONE, "requests 200 GiB of its node's disk on one node",
    ),
    "no place for a pod": (
        [node("n0", labels={"pool": "a"}, amounts={"pods": "1"}), RUNS], waits("Too many pods"), L3,
        Cause.NONE, "are free, but their nodes take no more pods",
    ),
    "nothing that is known": (
        [*POOL, HOLDS], waits("Insufficient nvidia.com/gpu"), L3, Cause.NONE,
        "7 nvidia.com/gpu are free, which is enough for it",
    ),
    "another vendor's": (
        [COUNTED, RUNS], GAUDI, L1, Cause.NOTHING_CLAIMED,
        "no node has habana.ai/gaudi; they have nvidia.com/gpu",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LATER)
def test_the_line_about_nodes_that_came_furthest_counts(case: str):
    """Most nodes have other labels, and one that has them falls at a later rule: that is why."""
    objects, waiting, layer, cause, words = LATER[case]
    found = reason(world_of(*objects, waiting), "ml/x")
    assert words in found[2]
    assert found[:2] == (layer, cause)


def dra_node(*, at: int = 3600) -> list[Object]:
    """A node whose eight GPUs are given out by claims."""
    devices = [
        {"name": f"gpu-{i}", "attributes": {
            "type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100 80GB HBM3"},
        }} for i in range(8)
    ]  # fmt: skip
    told = {
        "driver": "gpu.nvidia.com", "nodeName": "dra", "pool": {"name": "dra"}, "devices": devices,
    }  # fmt: skip
    labels = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    return [
        node("dra", amounts=BARE, labels=labels, at=at),
        made.owner("resource.k8s.io/v1", "ResourceSlice", "s", told),
    ]


def test_gpus_that_are_given_out_by_claims_are_not_asked_for_by_name():
    """A node whose GPUs DRA gives out advertises none, and no device plugin should run there."""
    selected = {"nodeSelector": {"kubernetes.io/hostname": "dra"}}
    waiting = pod("x", 1, message=SAID, spec=selected)
    world = world_of(node("n0"), RUNS, *dra_node(), waiting)
    found = reason(world, "ml/x")
    assert "which no node with nvidia.com/gpu has; GPUs of dra are given out by claims" in found[2]
    assert found[:2] == (L4, Cause.IMPOSSIBLE_LABEL)
    words = explain.why(world, Policy(), world.job_number["ml/x"]).words
    assert "labels, taints or node affinity keep it off every node" in words


@pytest.mark.parametrize("by_claim", [True, False])
def test_a_claim_is_not_given_what_a_device_plugin_has_nor_inversely(by_claim: bool):
    """One of two H100 nodes gives its GPUs out by claims; the other has room, and is no help."""
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": 8}
    wanted = {"devices": {"requests": [{"name": "g", "exactly": exactly}]}}
    claims = [
        made.owner("resource.k8s.io/v1", "ResourceClaim", name, wanted)
        for name in ("held", "wanted")
    ]  # fmt: skip
    given = [{"driver": "gpu.nvidia.com", "pool": "dra", "device": f"gpu-{i}"} for i in range(8)]
    claims[0]["status"] = {
        "allocation": {"devices": {"results": given}},
        "reservedFor": [{"resource": "pods", "name": "h"}],
    }
    named = [
        {"resourceClaims": [{"name": "x", "resourceClaimName": one}]} for one in ("held", "wanted")
    ]
    holds, waits = pod("h", 0, on="dra", spec=named[0]), pod("x", 0, message=SAID, spec=named[1])
    if not by_claim:
        holds, waits = pod("h", 8, on="n0"), pod("x", 8, message=SAID)
    world = world_of(node("n0"), *dra_node(), *claims, holds, waits)
    answer = explain.why(world, Policy(), world.job_number["ml/x"])
    assert answer.cause == "busy"
    assert f"needs 8 {'GPUs by claim' if by_claim else 'nvidia.com/gpu'}, and 0" in answer.words
    assert "8 more free on 1 node that it may not use" in answer.words


@pytest.mark.parametrize(
    ("spec", "cpus"),
    [
        ({"resources": {"requests": {"cpu": "20"}}}, 20),
        ({"resources": {"limits": {"cpu": "20"}}}, 8),
        ({"overhead": {"cpu": "250m"}}, 8.25),
        ({"resources": {"requests": {"cpu": "20"}}, "overhead": {"cpu": "1"}}, 21),
    ],
)
def test_a_pod_s_own_request_goes_before_that_of_its_containers(spec: Object, cpus: float):
    """What it requests as a whole counts, with what its runtime takes; a limit is no request."""
    shape = world_of(node("n0"), pod("x", 1, on="n0", spec=spec)).shape_rows[0]
    assert shape.roles[0].cpu_milli == 1000 * cpus


def test_what_a_job_tolerates_does_not_keep_it_out():
    """With the toleration the same pod only waits for its turn."""
    accepts = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    world = world_of(
        node("n0", 1), node("n1", taints=[TAINT]), RUNS, pod("x", 8, message=SAID, spec=accepts)
    )
    assert reason(world, "ml/x")[:2] == (L3, Cause.NONE)


def test_without_nodes_the_line_has_to_do():
    """Rules over the scheduler's own words, when nobody gave nodes."""
    told = "0/9 nodes are available: 9 node(s) didn't match Pod's node affinity/selector."
    found = reasons.by_message(told)
    assert found is not None
    assert (found.layer, found.cause) == (L4, Cause.IMPOSSIBLE_LABEL)
    said = reasons.by_message("0/9 nodes: 9 node(s) had untolerated taint {gpu: a100}.")
    assert said is not None
    assert (said.layer, said.words) == (L2, "does not tolerate the taint {gpu: a100}")
    assert reasons.by_message("something that nobody has ever said") is None


def workload(name: str, message: str, **rest: object) -> Object:
    """A Workload of Kueue's for a suspended Job of four pods of 2 GPUs."""
    owner = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": True}
    ]
    spec = {"queueName": "lq", "podSets": [{"name": "main", "count": 4, "template": template(2)}]}
    condition = {
        "type": "QuotaReserved",
        "status": "False",
        "reason": "Pending",
        "message": message,
    }
    return made.owner(
        "kueue.x-k8s.io/v1beta1", "Workload", f"job-{name}", spec, owners=owner,
        status={"conditions": [condition]}, **rest,
    )  # fmt: skip


KUEUE = {
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in"
    " flavor h100, 4 more needed": Cause.OVER_LIMIT,
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor h100,"
    " request > maximum capacity (24 > 16)": Cause.OVER_LIMIT_ALWAYS,
    'topology "racks" doesn\'t allow to fit any of 4 pod(s)': Cause.TOPOLOGY,
}


@pytest.mark.parametrize("message", KUEUE)
def test_a_workload_without_quota_waits_for_it(message: str):
    """Jobs that Kueue holds have no pods; what they want and why they wait is in the Workload."""
    world = world_of(node("n0"), RUNS, workload("train", message))
    found = reason(world, "ml/train")
    assert found[1] == KUEUE[message]
    assert "kubectl describe workloads.kueue.x-k8s.io -n ml job-train" in found[2]
    assert world.shape_of(world.job_number["ml/train"]).total_milli == 8_000


def test_quotas_of_cluster_queues_are_those_of_teams():
    """8 guaranteed, 4 to borrow, 2 to lend, below the cohort; only nodes of the flavor count."""
    quota = {"name": "nvidia.com/gpu", "nominalQuota": "8", "borrowingLimit": "4",
             "lendingLimit": "2"}  # fmt: skip
    world = world_of(
        node("n0", labels={"pool": "h"}), RUNS, workload("train", "insufficient unused quota"),
        made.owner("kueue.x-k8s.io/v1beta1", "LocalQueue", "lq", {"clusterQueue": "research"}),
        made.owner(f"{GROUP}/v1beta1", "ResourceFlavor", "h100", {"nodeLabels": {"pool": "h"}}),
        made.owner(f"{GROUP}/v1beta1", "ClusterQueue", "research", {
            "cohort": "all", "resourceGroups": [{"flavors": [
                {"name": "h100", "resources": [quota]}]}],
        }), team_by="queue",
    )  # fmt: skip
    row = next(row for row in world.queue_rows if row.name == "research")
    assert row.parent == "cohort all"
    assert row.shares == (Share("H100", 8_000, 12_000, lend_milli=2_000),)
    assert world.shape_of(world.job_number["ml/train"]).team == "research"


def test_a_namespace_with_a_quota_has_a_maximum():
    """`requests.nvidia.com/gpu: 4` of a ResourceQuota; a Job whose pods it refuses says so."""
    quota = made.owner("v1", "ResourceQuota", "q", {"hard": {"requests.nvidia.com/gpu": "4"}})
    job = made.owner("batch/v1", "Job", "big", {"parallelism": 1, "template": template(8)})
    refused = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ml"},
        "involvedObject": {"kind": "Job", "namespace": "ml", "name": "big"},
        "reason": "FailedCreate", "lastTimestamp": made.moment(60),
        "message": 'pods "big-x" is forbidden: exceeded quota: q, requested: nvidia.com/gpu=8',
    }  # fmt: skip
    world = world_of(node("n0"), RUNS, quota, job, refused)
    assert world.queue_rows[0].shares == (Share("H100", 0, 4_000),)
    layer, cause, words = reason(world, "ml/big")
    assert (layer, cause) == (L3, Cause.OVER_LIMIT)
    assert "kubectl describe resourcequota -n ml" in words


def test_what_nodes_show_too_is_booked_since_its_scheduler_said_it():
    """A pod lacks the CPU beside two free GPUs; the scheduler says so since 600 s, nodes now."""
    line = "0/1 nodes are available: 1 Insufficient cpu."
    said = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ml"},
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "waits"},
        "reason": "FailedScheduling", "firstTimestamp": made.moment(600),
        "lastTimestamp": made.moment(3000), "message": line,
    }  # fmt: skip
    run = kept(node("n0"), pod("runs", 6, on="n0", cpu="190"), pod("waits", 2, message=line), said)
    assert reason(run.world, "ml/waits")[:2] == (L3, Cause.CPU_BINDS)
    found = amounts(run.statement, "bucket")
    whole_ms = run.statement.total().paid_milli_ms // 8_000
    assert found[(Bucket.FRAGMENTED,)] == 2_000 * (whole_ms - 600_000)
    assert found[(Bucket.CAUSE_UNKNOWN,)] == 2_000 * 600_000


def test_what_a_quota_refuses_is_booked_as_that_since_it_was_said():
    """2 of 8 GPUs are asked for from 0 on, and refused since 600 s: before that nobody said why."""
    job = made.owner("batch/v1", "Job", "big", {"parallelism": 1, "template": template(2)})
    refused = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ml"},
        "involvedObject": {"kind": "Job", "namespace": "ml", "name": "big"},
        "reason": "FailedCreate", "firstTimestamp": made.moment(600),
        "lastTimestamp": made.moment(3000),
        "message": 'pods "big-x" is forbidden: exceeded quota: q, requested: nvidia.com/gpu=2',
    }  # fmt: skip
    unlisted = world_of(pod("runs", 1, on="n0"), job, refused)
    told = explain.why(unlisted, Policy(), unlisted.job_number["ml/big"])
    assert (told.cause, "its own scheduler's reason" in told.words) == ("over_limit", True)
    run = kept(node("n0"), pod("runs", 1, on="n0", end=3600), job, refused)
    found = amounts(run.statement, "bucket")
    whole_ms = run.statement.total().paid_milli_ms // 8_000
    assert found[(Bucket.QUOTA,)] == 2_000 * (whole_ms - 600_000)
    assert found[(Bucket.CAUSE_UNKNOWN,)] == 2_000 * 600_000
    j = run.world.job_number["ml/big"]
    answer, board = explain.why(run.world, Policy(), j), explain.board(run.world, Policy())
    assert (answer.cause, {row.cause for row in board.rows}) == ("over_limit", {"over_limit"})
    words = "cause, as that scheduler says: it would exceed its team's maximum quota"
    words += " (owner: scheduling)\nby the books alone: what it requests is free"
    assert words in answer.words
    assert Bucket.QUOTA not in unknowns_of(run.statement)
    assert "within `cause_unknown`" in unknowns_of(run.statement)[Bucket.HELD]


@pytest.mark.parametrize(
    ("version", "kind", "spec"),
    [("batch/v1", "Job", {"parallelism": 4}), ("apps/v1", "ReplicaSet", {"replicas": 4})],
)
def test_pods_that_a_quota_refuses_wait_beside_those_that_run(
    version: str, kind: str, spec: made.Object
):
    """One of four runs, and three were refused; when another has come since, nobody says so."""
    big = made.owner(version, kind, "big", spec | {"template": template(2)})
    refused = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ml"},
        "involvedObject": {"kind": kind, "namespace": "ml", "name": "big"},
        "reason": "FailedCreate", "lastTimestamp": made.moment(60),
        "message": 'pods "big-x" is forbidden: exceeded quota: q, requested: nvidia.com/gpu=2',
    }  # fmt: skip
    runs = pod("big-0", 2, on="n0", owner=(version, kind, "big"))
    world = world_of(node("n0"), runs, big, refused)
    assert world.shape_of(world.job_number["ml/big"]).total_milli == 3 * 2 * 1000
    _, cause, words = reason(world, "ml/big")
    assert cause is Cause.OVER_LIMIT
    assert "exceeded quota: q" in words
    later = pod("big-1", 2, on="n0", owner=(version, kind, "big"), created=70)
    assert "ml/big" not in world_of(node("n0"), runs, later, big, refused).job_number


def test_a_scheduler_that_has_said_nothing_of_a_pod_is_named():
    """There is room, and nobody serves the name that the pod asks for."""
    waits = pod("waits", 1, spec={"schedulerName": "volcano"})
    *_, words = reason(world_of(node("n0"), RUNS, waits), "ml/waits")
    assert "its scheduler `volcano` has said nothing of it" in words


def test_what_is_held_is_no_demand():
    """A suspended Job, and a pod behind somebody's scheduling gate, are not eligible."""
    job = made.owner(
        "batch/v1", "Job", "later", {"suspend": True, "parallelism": 1, "template": template(1)}
    )
    gated = pod("gated", 1, spec={"schedulingGates": [{"name": "example.com/wait"}]},
                reason="SchedulingGated", message="Scheduling is blocked")  # fmt: skip
    world = world_of(node("n0"), RUNS, job, gated)
    for name in ("ml/later", "ml/gated"):
        assert reason(world, name)[:2] == (L4, Cause.NOT_ELIGIBLE)


def test_what_the_autoscaler_says_is_told():
    """A scale-up that was triggered stands beside the reason."""
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ml"},
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "x"},
        "reason": "TriggeredScaleUp", "message": "pod triggered scale-up",
        "lastTimestamp": made.moment(9),
    }  # fmt: skip
    world = world_of(node("n0"), node("n1"), *FULL, pod("x", 1, message=SAID), event)
    assert "the autoscaler is adding nodes" in reason(world, "ml/x")[2]


def test_a_machine_that_is_launched_and_no_node_yet_is_paid_and_not_ready():
    """Karpenter's claim says what it has; jobs hear of it as not Ready."""
    labels = {
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "karpenter.sh/capacity-type": "spot",
    }
    claim = made.owner("karpenter.sh/v1", "NodeClaim", "c1", {}, labels=labels, status={
        "capacity": {"cpu": "192", "nvidia.com/gpu": "8"},
        "conditions": [{"type": "Launched", "status": "True"}],
    })  # fmt: skip
    world = world_of(node("n0", 1), RUNS, claim, pod("x", 8, message=SAID))
    assert {row.name for row in world.node_rows} == {"n0", "nodeclaim/c1"}
    assert reason(world, "ml/x")[:2] == (L2, Cause.NOTHING_READY)


def test_reasons_fit_into_their_event():
    """However long the scheduler's sentence, the command at the end stays whole."""
    found = reasons.told(
        WhyPending(Cause.BUSY, L3, "w" * 90), "Unschedulable", "x" * 4000, "kubectl y"
    )
    assert len(found) == reasons.LONGEST_WORDS
    assert found.endswith("(kubectl y)")


def test_the_rest_of_a_gang_is_explained_by_what_is_missing():
    """Two of four pods are bound; one more would fit: only 1 of its 2 missing."""
    world = world_of(
        node("n0"), pytorch_job("g", 4, 2), *workers("g", 4, 2, ["n0"] * 2), pod("o", 2, on="n0")
    )
    layer, cause, words = reason(world, "ml/g")
    assert (layer, cause) == (L3, Cause.PARTIAL_GANG)
    assert "only 1 of its 2 missing pods fit" in words


def test_a_pod_larger_than_its_quota_never_comes():
    """A quota that is used up gets free; one that is smaller than the pod does not."""
    told = ('Error creating: pods "x-1" is forbidden: exceeded quota: gpus, requested:'
            " pods=1,requests.nvidia.com/gpu=2, used: pods=0,requests.nvidia.com/gpu={}, limited:"
            " pods=9,requests.nvidia.com/gpu={}")  # fmt: skip
    assert reasons.by_quota(told.format(0, 0)).cause is Cause.OVER_LIMIT_ALWAYS
    assert reasons.by_quota(told.format(2, 2)).cause is Cause.OVER_LIMIT
    assert reasons.by_quota("exceeded quota").cause is Cause.OVER_LIMIT


@pytest.mark.parametrize("places", [["n0", "n0"], ["", ""]])
def test_pods_of_a_gang_that_nobody_has_created_are_missed(places: list[str]):
    """Of a gang of four two pods exist, bound or not, and much is free: the others are why."""
    some = workers("g", 2, 1, places)
    world = world_of(node("n0"), pytorch_job("g", 4, 1), *some)
    layer, _, words = reason(world, "ml/g")
    assert layer is L4
    assert "by its nodes and pods: 2 of the 4 pods that it needs to start do not exist" in words
    assert words.endswith("(kubectl describe pytorchjobs.kubeflow.org -n ml g)")
    told = explain.why(world, Policy(), world.job_number["ml/g"]).words
    assert "2 of the 4 pods that it needs to start do not exist" in told


def test_an_admitted_workload_without_pods_says_that_it_has_none():
    """Kueue has admitted it: what it waits for is who creates its pods."""
    told = workload("w", "")
    told["status"]["conditions"] = [
        {"type": kind, "status": "True", "reason": kind} for kind in ("QuotaReserved", "Admitted")
    ]
    world = world_of(node("n0"), RUNS, told)
    (words,) = [reason(world, name)[2] for name in world.job_number if name != "ml/runs"]
    assert "4 of the 4 pods that it needs to start do not exist" in words


def test_a_node_that_is_being_emptied_for_a_pod_is_named():
    """Its scheduler has chosen n0 and deletes a pod there, which has not ended yet."""
    leaves = pod("runs", 8, on="n0")
    leaves["metadata"]["deletionTimestamp"] = made.moment(900)
    waiting = pod("x", 8, message=SAID)
    waiting["status"]["nominatedNodeName"] = "n0"
    found = reason(world_of(node("n0"), leaves, waiting), "ml/x")
    assert found[1] is Cause.PROMISED
    assert "its scheduler has chosen n0 for it, where ml/runs must end first" in found[2]
