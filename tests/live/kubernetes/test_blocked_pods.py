"""What keeps pods out whatever is free is their cause, their owner and their fix, busy or not.

A scheduler says two things at once of a pod whose volume is not there while all GPUs are busy, and
nodes show one of them. What ends when others leave is not what has to be mended.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, node, pod, pytorch_job, template, workers
from tests.live.kubernetes.test_import import kept, reason, world_of
from tests.live.kubernetes.test_kueue import condition, workload
from tidemill import explain
from tidemill.explain.answers import Answer, PendingJob
from tidemill.ledger.buckets import Bucket
from tidemill.live.kubernetes import reasons
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause, Layer
from tidemill.model.world import World

BY_REASON = "do what its own scheduler's reason asks for: no GPU that comes free starts it"
L2, L3, L4 = "provisioning", "scheduling", "workload"
UNBOUND = (
    "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/2"
    " nodes are available: 2 Preemption is not helpful for scheduling."
)
LACKS_NIC = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu, 2 Insufficient x.io/nic."
FULL = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."


def said(message: str, **rest: Any) -> list[Object]:
    """A pod of 8 GPUs, and what its scheduler says of it."""
    return [pod("x", 8, message=message, **rest)]


def event(kind: str, message: str, reason: str = "FailedCreate") -> Object:
    """What was said last of an object."""
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ml"},
        "involvedObject": {"kind": kind, "namespace": "ml", "name": "x"}, "reason": reason,
        "firstTimestamp": made.moment(60), "lastTimestamp": made.moment(900), "message": message,
    }  # fmt: skip


def half_made() -> list[Object]:
    """A gang of four pods, of which two exist."""
    return [pytorch_job("x", 4, 2), *workers("x", 2, 2, ["", ""])]


def of_job(**spec: object) -> Object:
    """A Job of one pod."""
    return made.owner("batch/v1", "Job", "x", {"parallelism": 1, "template": template(8), **spec})


def queued(text: str, **spec: object) -> list[Object]:
    """A suspended Job, and why Kueue gives it no quota."""
    told = workload(condition("QuotaReserved", 0, "False", reason="Pending", message=text))
    told["metadata"]["ownerReferences"][0]["name"] = "x"
    told["spec"].update(spec)
    return [of_job(suspend=True), told]


QUOTA = 'pods "x-0" is forbidden: exceeded quota: q, requested: nvidia.com/gpu=2'
WEBHOOK = 'admission webhook "deny.example" denied the request: no owner'
GATE = {"schedulingGates": [{"name": "example.com/data"}]}
BLOCKS: dict[str, tuple[Callable[[], list[Object]], str, str, str]] = {
    "a claim of a volume that is not bound": (
        lambda: said(UNBOUND), "none", L4, "its volumes are not there",
    ),
    "a claim of a volume that is not there": (
        lambda: said('0/2 nodes are available: persistentvolumeclaim "data" not found.'), "none",
        L4, "its volumes are not there",
    ),
    "a volume elsewhere": (
        lambda: said("0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node"
                     " affinity."), "none", L4, "its volumes are not there",
    ),
    "a resource that no node has": (
        lambda: said(LACKS_NIC, requests={"x.io/nic": "1"}), "none", L4,
        "requests x.io/nic, which no node that it could use has",
    ),
    "a larger disk than any": (
        lambda: said(FULL, requests={"ephemeral-storage": "9Ti"}), "none", L4,
        "requests ephemeral-storage, which no node",
    ),
    "a gate": (
        lambda: said("Scheduling is blocked", spec=GATE, reason="SchedulingGated"),
        "not_eligible", L4, "held by scheduling gate example.com/data",
    ),
    "pods that nobody makes": (
        half_made, "none", L4, "2 of the 4 pods that it needs to start do not exist",
    ),
    "pods that a quota refuses": (
        lambda: [*half_made(), event("PyTorchJob", QUOTA)], "over_limit", L3,
        "the quota of its namespace is used up",
    ),
    "all pods that a quota refuses": (
        lambda: [of_job(), event("Job", QUOTA)], "over_limit", L3,
        "the quota of its namespace is used up",
    ),
    "pods that a webhook refuses": (
        lambda: [of_job(), event("Job", WEBHOOK)], "none", L4, "its pods are refused, so it has",
    ),
    "no quota of Kueue's": (
        lambda: queued("insufficient unused quota for nvidia.com/gpu"), "over_limit", L3,
        "the quota of its queue is used up",
    ),
    "a queue that does not exist": (
        lambda: queued("LocalQueue lq doesn't exist"), "none", L3, "its queue does not exist",
    ),
    "a workload that is deactivated": (
        lambda: queued("inactive", active=False), "not_eligible", L4, "is deactivated",
    ),
}  # fmt: skip
"""What waits, the cause, its owner, and what is said of it."""
NEVER: dict[str, tuple[Callable[[], list[Object]], str, str]] = {
    "labels that no node has": (
        lambda: said(FULL, spec={"nodeSelector": {"pool": "b"}}), "impossible_label",
        "is on a node with `pool=b`",
    ),
    "larger than a node": (
        lambda: [pod("x", 16, message=FULL)], "impossible_size", "the largest node",
    ),
}  # fmt: skip
"""What the books prove never to fit stays that."""
ROOM: dict[str, tuple[Callable[[], list[Object]], str, str]] = {
    "nothing but GPUs": (lambda: said(FULL), "busy", L3),
    "no port": (
        lambda: said("0/2 nodes are available: 2 node(s) didn't have free ports for the requested"
                     " pod ports."), "busy", L3,
    ),
    "other pods": (
        lambda: said("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."),
        "busy", L3,
    ),
}  # fmt: skip
"""What ends when others leave, on a cluster that is full."""


def cluster(waits: list[Object], *, is_busy: bool) -> World:
    """Two nodes of 8 GPUs: all are busy, or 15 are free."""
    runs = [pod(f"r{i}", 8, on=f"n{i}") for i in range(2)] if is_busy else [pod("r0", 1, on="n0")]
    return world_of(node("n0"), node("n1"), *runs, *waits)


def told(world: World) -> tuple[Answer, PendingJob]:
    """What `why` and `pending` say of the job."""
    answer = explain.why(world, Policy(), world.job_number["ml/x"])
    [row] = [row for row in explain.board(world, Policy()).waiting if row.job == "ml/x"]
    return answer, row


@pytest.mark.parametrize("is_busy", [True, False])
@pytest.mark.parametrize("case", BLOCKS)
def test_a_block_is_cause_owner_and_fix(case: str, is_busy: bool):
    """Whatever is free; `why` and `pending` say the same."""
    make, cause, owner, words = BLOCKS[case]
    world = cluster(make(), is_busy=is_busy)
    assert words in reason(world, "ml/x")[2]
    answer, row = told(world)
    assert (answer.cause, answer.owner) == (cause, owner)
    assert (row.cause, row.owner) == (cause, owner)
    assert (answer.fix.words, answer.other_fixes) == (BY_REASON, ())
    assert words in answer.words
    assert "become free (" not in answer.words
    if cause != "not_eligible":
        books = "not enough is free" if is_busy else "what it requests is free"
        assert f"\nby the books alone: {books}\n" in answer.words


@pytest.mark.parametrize("is_busy", [True, False])
@pytest.mark.parametrize("case", NEVER)
def test_what_the_books_prove_never_to_fit_stays_that(case: str, is_busy: bool):
    """The proof and what to request instead, whatever is free."""
    make, cause, words = NEVER[case]
    answer, row = told(cluster(make(), is_busy=is_busy))
    assert (answer.cause, answer.owner, row.cause, row.owner) == (cause, L4, cause, L4)
    assert words in answer.words
    assert "wait" not in answer.fix.words


@pytest.mark.parametrize("case", ROOM)
def test_what_ends_when_others_leave_waits_for_that(case: str):
    """All GPUs are busy, and that is what the fix is about."""
    make, cause, owner = ROOM[case]
    answer, row = told(cluster(make(), is_busy=True))
    assert (answer.cause, answer.owner, row.cause, row.owner) == (cause, owner, cause, owner)
    assert answer.fix.words == "wait until some of the 16 accelerators that are busy become free"


def test_gpus_beside_a_pod_without_its_volume_are_booked_alike_busy_or_not():
    """Four of eight are free and it requests eight: it is no piece too small that keeps it out."""
    runs = pod("runs", 4, on="n0")
    for gpus in (8, 4):
        run = kept(node("n0"), runs, pod("x", gpus, message=UNBOUND))
        found = amounts(run.statement, "bucket")
        whole_ms = run.statement.total().paid_milli_ms // 8_000
        assert found[(Bucket.CAUSE_UNKNOWN,)] == 4_000 * whole_ms
        assert (Bucket.FRAGMENTED,) not in found


def test_a_refusal_before_the_last_pod_is_over():
    """A quota refused one at 900 s, and at 1000 s there is another: what lacks is not refused."""
    gang = half_made()
    gang[-1]["metadata"]["creationTimestamp"] = made.moment(1000)
    layer, cause, words = reason(cluster([*gang, event("PyTorchJob", QUOTA)], is_busy=True), "ml/x")
    assert (layer, cause) == (Layer.WORKLOAD, Cause.NONE)
    assert "2 of the 4 pods that it needs to start do not exist" in words


@pytest.mark.parametrize("line", [
    'resourceclaim.resource.k8s.io "gpus" not found',
    "request gpu: device class gpu.example.com does not exist",
    "pod claim gpu: ResourceClaim not created yet",
])  # fmt: skip
def test_a_claim_that_is_not_there_is_a_matter_of_the_job(line: str):
    """No device that comes free is allocated to it."""
    found = reasons.by_message(f"0/2 nodes are available: {line}. preemption: none.")
    assert found is not None
    assert (found.layer, found.cause) == (Layer.WORKLOAD, Cause.NONE)
    later = reasons.by_message("0/2 nodes are available: 2 cannot allocate all claims.")
    assert later is not None
    assert later.cause is Cause.BUSY
