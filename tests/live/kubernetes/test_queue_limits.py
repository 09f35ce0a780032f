"""Limits of queues that KAI-Scheduler and Volcano tell in words alone: no free GPU ends them."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, node, pod, pytorch_job, template
from tests.live.kubernetes.test_import import reason, world_of
from tidemill import explain
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause, Layer

LIMIT = (
    "a quota has reached the allowable limit of GPUs. Limit is {} GPUs, currently 8 GPUs allocated"
    " and workload requested 16 GPUs"
)
OVER = (
    "Non-preemptible workload is over quota. Workload requested 16 GPUs, but a quota is 8 GPUs,"
    " while 0 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go"
    " over quota."
)


def of_kai(message: str, *, on_group: bool) -> list[Object]:
    """A gang of 16 GPUs by KAI-Scheduler, and what that says of it."""
    told = {"type": "UnschedulableOnNodePool", "status": "True", "reason": "OverLimit",
            "message": message if on_group else ""}  # fmt: skip
    group = made.owner(
        "scheduling.run.ai/v2alpha2", "PodGroup", "pg", {"minMember": 2, "queue": "a"},
        status={"schedulingConditions": [told] if on_group else []},
    )  # fmt: skip
    rest: dict[str, Any] = {"annotations": {"pod-group-name": "pg"}}
    if not on_group:
        rest["message"] = message
    of = ("kubeflow.org/v1", "PyTorchJob", "g")
    some = [pod(f"g-worker-{i}", 8, owner=of, **rest) for i in range(2)]
    return [group, pytorch_job("g", 2, 8), *some]


CASES = {
    "used up": (LIMIT.format(16), Cause.OVER_LIMIT, "the limit of its queue is reached"),
    "too large": (LIMIT.format(8), Cause.OVER_LIMIT_ALWAYS, "more than its queue may ever use"),
    "not preemptible": (OVER, Cause.OVER_LIMIT, "beyond which work must be preemptible"),
}


@pytest.mark.parametrize("on_group", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_a_limit_of_a_queue_of_kai_is_the_reason_whatever_is_free(case: str, on_group: bool):
    """It was called a gang of which not all pods fit together, with 32 GPUs free."""
    message, cause, words = CASES[case]
    world = world_of(*(node(f"n{i}") for i in range(4)), *of_kai(message, on_group=on_group))
    _, found, told = reason(world, "ml/g")
    assert (found, words in told, "fit together" in told) == (cause, True, False)
    shown = "podgroups.scheduling.run.ai -n ml pg" if on_group else "pod -n ml g-worker-0"
    assert told.endswith(f"(kubectl describe {shown})")
    answer = explain.why(world, Policy(), world.job_number["ml/g"])
    assert "no GPU that comes free starts it" in answer.fix.words


def of_volcano(name: str) -> list[Object]:
    """A job of Volcano's that its queue has no room for: it has no pods, and an event says why."""
    spec = {"minAvailable": 2, "tasks": [{"name": "w", "replicas": 2, "template": template(8)}]}
    version = "scheduling.volcano.sh/v1beta1"
    return [
        made.owner("batch.volcano.sh/v1alpha1", "Job", "v", spec,
                   status={"state": {"phase": "Pending"}}),
        made.owner(version, "PodGroup", name, {"minMember": 2, "queue": "q"}),
        {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ml"},
            "involvedObject": {"kind": "PodGroup", "namespace": "ml", "name": name},
            "reason": "Unschedulable", "lastTimestamp": made.moment(60),
            "message": "queue resource quota insufficient: insufficient nvidia.com/gpu",
        },
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["v-uid-v", "v"])
def test_a_job_of_volcano_that_is_not_let_in_waits_for_its_queue(name: str):
    """Volcano makes no pods before: that they do not exist is not why."""
    world = world_of(node("n0"), node("n1"), *of_volcano(name), pod("o", on="n0"))
    layer, cause, words = reason(world, "ml/v")
    assert (layer, cause) == (Layer.SCHEDULING, Cause.OVER_LIMIT)
    assert "the quota of its queue has no room for it" in words
    assert words.endswith(f"(kubectl describe podgroups.scheduling.volcano.sh -n ml {name})")
