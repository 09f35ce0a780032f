"""Pods that sit on a node while none of their containers runs: their hours, and what `why` says."""

from typing import Any

from tests.ledger.sums import amounts
from tests.live.kubernetes.made import moment, node, pod, pytorch_job
from tests.live.kubernetes.test_import import kept
from tidemill import api, explain
from tidemill.ledger.buckets import Bucket
from tidemill.model.policy import Policy

Object = dict[str, Any]


def waiting(one: Object, reason: str, *, restarts: int = 0, ran: tuple[str, str] | None = None):
    """The same pod with its container waiting; ``ran``: from when to when it ran last."""
    status: Object = {
        "name": "main", "restartCount": restarts,
        "state": {"waiting": {"reason": reason, "message": "as the kubelet says"}},
    }  # fmt: skip
    if ran is not None:
        ended = {"startedAt": ran[0], "finishedAt": ran[1], "exitCode": 1, "reason": "Error"}
        status["lastState"] = {"terminated": ended}
    one["status"]["containerStatuses"] = [status]
    return one


def said(run: api.Run, job: str) -> str:
    """What `why` answers."""
    return explain.why(run.world, Policy(), run.world.job_number[job]).words


def test_an_image_that_cannot_be_pulled_is_not_started_and_said():
    """Bound at 600 s: for the rest of the hour its 2 GPUs are allocated, not started."""
    held = waiting(pod("pull", 2, on="n0", created=0, bound=600), "ImagePullBackOff")
    run = kept(node("n0"), held)
    assert amounts(run.statement, "bucket")[Bucket.STARTING,] == 2_000 * 3_000_000
    words = said(run, "ml/pull")
    assert 'ImagePullBackOff "as the kubelet says"' in words
    assert "its image cannot be pulled" in words


def test_after_a_crash_nothing_works_until_the_container_runs_again():
    """Bound at 0 s, last ended at 1200 s after 5 restarts: what was before is unknown, the rest is
    lost to the restart.
    """
    ran = ("2026-11-02T08:10:00Z", "2026-11-02T08:20:00Z")
    held = pod("crash", 1, on="n0", created=0, bound=0)
    run = kept(node("n0"), waiting(held, "CrashLoopBackOff", restarts=5, ran=ran))
    found = amounts(run.statement, "bucket")
    assert found[Bucket.UNKNOWN,] == 1_000 * 1_200_000
    assert found[Bucket.RESTART,] == 1_000 * 2_400_000
    words = said(run, "ml/crash")
    assert "CrashLoopBackOff" in words
    assert "5 restarts, the last ended with exit code 1 (Error)" in words


def test_a_gang_does_not_work_while_a_container_of_it_is_in_a_crash_loop():
    """One of two pods ended at 1200 s and waits: from then on neither works."""
    owner = ("kubeflow.org/v1", "PyTorchJob", "gang")
    ran = ("2026-11-02T08:00:00Z", "2026-11-02T08:20:00Z")
    pods = [pod(f"gang-{i}", 4, on="n0", created=0, bound=0, owner=owner) for i in range(2)]
    waiting(pods[1], "CrashLoopBackOff", restarts=1, ran=ran)
    run = kept(node("n0"), pytorch_job("gang", 2, 4), *pods)
    found = amounts(run.statement, "bucket")
    assert found[Bucket.UNKNOWN,] == 8_000 * 1_200_000
    assert found[Bucket.RESTART,] == 8_000 * 2_400_000
    assert "CrashLoopBackOff" in said(run, "ml/gang")


def test_a_container_that_is_about_to_start_is_not_stuck():
    """`ContainerCreating` is how every pod begins."""
    held = waiting(pod("new", 1, on="n0", created=0, bound=600), "ContainerCreating")
    run = kept(node("n0"), held)
    assert "its own cluster says" not in said(run, "ml/new")


def evicted(reason: str) -> Object:
    """A pod of 2 GPUs that was bound at 0 s and ended at 1800 s, without container statuses."""
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": moment(1800)}
    one = pod("ev", 2, on="n0", phase="Failed", conditions=[ready])
    del one["status"]["containerStatuses"]
    one["status"]["reason"] = reason
    return one


def test_whether_a_pod_ran_that_says_nothing_of_its_containers_is_unknown():
    """Half an hour of 2 GPUs; where its node refused the pod it is known that it did not run."""
    found = amounts(kept(node("n0"), evicted("Evicted")).statement, "bucket")
    assert found[Bucket.UNKNOWN,] == 2_000 * 1_800_000
    assert (Bucket.STARTING,) not in found
    refused = amounts(kept(node("n0"), evicted("UnexpectedAdmissionError")).statement, "bucket")
    assert refused[Bucket.STARTING,] == 2_000 * 1_800_000
