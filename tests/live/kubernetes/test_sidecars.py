"""Whether a pod works is told by the containers that have its GPUs, not by those beside them."""

from typing import Any

import pytest

from tests.ledger.sums import amounts
from tests.live.kubernetes.made import moment, node, pod, pytorch_job
from tests.live.kubernetes.test_containers import said, waiting
from tests.live.kubernetes.test_import import kept
from tidemill.ledger.buckets import Bucket
from tidemill.model.states import JobState

Object = dict[str, Any]
PROXY: Object = {"name": "istio-proxy", "resources": {"requests": {"cpu": "100m"}}}
HOUR_MS = 3_600_000


def beside(one: Object, since: int = 60, end: int | None = None) -> Object:
    """The same pod with a proxy that runs since a second, until the end."""
    one["spec"]["containers"].append(PROXY)
    state: Object = {"running": {"startedAt": moment(since)}}
    if end is not None:
        state = {"terminated": {"startedAt": moment(since), "finishedAt": moment(end),
                                "exitCode": 0, "reason": "Completed"}}  # fmt: skip
    one["status"].setdefault("containerStatuses", []).append(
        {"name": "istio-proxy", "restartCount": 0, "state": state}
    )
    return one


def natively(one: Object, since: int = 60) -> Object:
    """The same pod with a proxy that is an init container which is restarted always."""
    one["spec"]["initContainers"] = [{**PROXY, "restartPolicy": "Always"}]
    running = {"running": {"startedAt": moment(since)}}
    one["status"]["initContainerStatuses"] = [
        {"name": "istio-proxy", "restartCount": 0, "state": running}
    ]
    return one


def over(one: Object, end: int, code: int = 0) -> Object:
    """The same pod with its own container over since a second."""
    one["status"]["containerStatuses"][0]["state"] = {"terminated": {
        "startedAt": moment(0), "finishedAt": moment(end), "exitCode": code, "reason": "Completed",
    }}  # fmt: skip
    return one


def ran(*, until: int) -> tuple[str, str]:
    """When a container ran last."""
    return moment(0), moment(until)


@pytest.mark.parametrize("put", [beside, natively])
def test_a_crash_loop_beside_a_proxy_is_lost(put: Any):
    """8 GPUs, ended at 1200 s of 3600: two thirds are lost to the restart, and it is said why."""
    held = waiting(pod("c", 8, on="n0"), "CrashLoopBackOff", restarts=5, ran=ran(until=1200))
    run = kept(node("n0"), put(held))
    found = amounts(run.statement, "bucket")
    assert found[Bucket.UNKNOWN,] == 8_000 * 1_200_000
    assert found[Bucket.RESTART,] == 8_000 * 2_400_000
    assert "its containers end soon after they start" in said(run, "ml/c")


@pytest.mark.parametrize("put", [beside, natively])
def test_an_image_that_cannot_be_pulled_beside_a_proxy_is_said(put: Any):
    """The proxy came up after a minute, what needs the GPUs never did."""
    run = kept(node("n0"), put(waiting(pod("i", 8, on="n0"), "ImagePullBackOff")))
    assert amounts(run.statement, "bucket")[Bucket.STARTING,] == 8_000 * HOUR_MS
    assert "its image cannot be pulled" in said(run, "ml/i")


@pytest.mark.parametrize("put", [beside, natively])
def test_what_a_proxy_keeps_on_its_node_works_no_more(put: Any):
    """The work ended well at 1200 s; the pod holds its 8 GPUs for the rest of the hour."""
    run = kept(node("n0"), put(over(pod("d", 8, on="n0"), 1200)))
    found = amounts(run.statement, "bucket")
    assert found[Bucket.UNKNOWN,] == 8_000 * 1_200_000
    assert found[Bucket.RESTART,] == 8_000 * 2_400_000
    words = said(run, "ml/d")
    assert "what ran on its GPUs ended with exit code 0, and istio-proxy runs on" in words
    assert "kubectl describe pod -n ml d" in words


def test_a_pod_that_ended_long_after_its_work_worked_until_then():
    """The work ended at 1200 s, the proxy at 3000: the job is done, and the rest is no work."""
    ended = beside(over(pod("d", 8, on="n0", end=3000), 1200), end=3000)
    run = kept(node("n0"), ended)
    found = amounts(run.statement, "bucket")
    assert found[Bucket.UNKNOWN,] == 8_000 * 1_200_001  # what is done was at work at its end
    assert found[Bucket.RESTART,] == 8_000 * 1_799_999
    assert run.world.jobs.state[0] == JobState.DONE


def test_the_grace_period_of_a_proxy_is_no_stretch_of_its_own():
    """It ends 20 s after the work, as most do: one attempt, as without it."""
    run = kept(node("n0"), beside(over(pod("d", 8, on="n0", end=1220), 1200), end=1220))
    assert amounts(run.statement, "bucket")[Bucket.UNKNOWN,] == 8_000 * 1_220_000
    assert run.world.jobs.attempt[0] == 1


def test_a_proxy_that_does_not_start_stops_nothing():
    """The work runs since 60 s; the image of its proxy cannot be pulled."""
    one = beside(pod("a", 8, on="n0", up=60))
    one["status"]["containerStatuses"][1]["state"] = {"waiting": {"reason": "ImagePullBackOff"}}
    run = kept(node("n0"), one)
    assert amounts(run.statement, "bucket")[Bucket.UNKNOWN,] == 8_000 * 3_540_000
    assert "does not wait" in said(run, "ml/a")


def test_with_claims_the_containers_count_that_name_one():
    """The GPUs come by a claim that `main` names: its crash counts, the proxy does not."""
    one = waiting(pod("c", 8, on="n0"), "CrashLoopBackOff", restarts=2, ran=ran(until=1200))
    one["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpus"}]
    run = kept(node("n0"), beside(one))
    assert "CrashLoopBackOff" in said(run, "ml/c")


def test_of_several_containers_with_gpus_one_is_enough():
    """Both have 4 GPUs, one is in a crash loop: the other works."""
    one = waiting(pod("c", 4, on="n0"), "CrashLoopBackOff", restarts=2, ran=ran(until=1200))
    one["spec"]["containers"].append({**one["spec"]["containers"][0], "name": "other"})
    running = {"running": {"startedAt": moment(0)}}
    one["status"]["containerStatuses"].append(
        {"name": "other", "restartCount": 0, "state": running}
    )
    run = kept(node("n0"), one)
    assert Bucket.RESTART not in {bucket for (bucket,) in amounts(run.statement, "bucket")}


def test_a_gang_does_not_work_on_after_what_ran_in_one_of_its_pods_failed():
    """Of two pods one ended with exit code 1 at 1200 s, and its proxy runs on."""
    owner = ("kubeflow.org/v1", "PyTorchJob", "gang")
    pods = [beside(pod(f"gang-{i}", 4, on="n0", owner=owner)) for i in range(2)]
    run = kept(node("n0"), pytorch_job("gang", 2, 4), over(pods[0], 1200, code=1), pods[1])
    found = amounts(run.statement, "bucket")
    assert found[Bucket.RESTART,] == 8_000 * 2_400_000
    assert "ended with exit code 1" in said(run, "ml/gang")


def initializing(since: int) -> Object:
    """A pod whose init container runs since a second."""
    one = waiting(pod("a", 8, on="n0", up=-1), "PodInitializing")
    one["spec"]["initContainers"] = [{"name": "fetch"}]
    running = {"running": {"startedAt": moment(since)}}
    one["status"]["initContainerStatuses"] = [{"name": "fetch", "state": running}]
    return one


def test_an_init_container_that_runs_for_long_is_named():
    """It runs for 50 minutes, and the GPUs wait for it; one of a minute ago is as usual."""
    words = said(kept(node("n0"), initializing(600)), "ml/a")
    assert "its init container `fetch` still runs, and the others wait for it" in words
    assert "kubectl logs -n ml a -c fetch" in words
    assert "its own cluster says" not in said(kept(node("n0"), initializing(3540)), "ml/a")


def failed_mount(at: int) -> Object:
    """What a kubelet says of a pod whose volume is not there."""
    return {
        "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "FailedMount",
        "metadata": {"name": "a.1", "namespace": "ml"},
        "message": 'MountVolume.SetUp failed for volume "data": secret "s3" not found',
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "a"},
        "firstTimestamp": moment(60), "lastTimestamp": moment(at),
    }  # fmt: skip


def test_a_volume_that_cannot_be_mounted_is_the_reason():
    """Said again two minutes ago; what was said for the last time half an hour ago is over."""
    creating = waiting(pod("a", 8, on="n0", up=-1), "ContainerCreating")
    words = said(kept(node("n0"), creating, failed_mount(3480)), "ml/a")
    assert (
        'FailedMount "MountVolume.SetUp failed for volume "data": secret "s3" not found"' in words
    )
    assert "a volume of it cannot be mounted; it holds its GPUs" in words
    assert "kubectl describe pod -n ml a" in words
    assert "its own cluster says" not in said(
        kept(node("n0"), creating, failed_mount(1800)), "ml/a"
    )
