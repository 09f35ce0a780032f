"""Jobs that Kueue has not let in, without any pod: where their pods would have to be is known."""

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, node, pod
from tests.live.kubernetes.test_import import world_of
from tidemill import explain
from tidemill.model.policy import Policy

BLOCK = "cloud.google.com/gce-topology-block"
SAID = {
    "type": "QuotaReserved", "status": "False", "reason": "Pending",
    "message": 'couldn\'t assign flavors to pod set w: topology "t" allows to fit only 1 out of 2'
    " pod(s)",
    "lastTransitionTime": made.moment(60),
}  # fmt: skip


def template(tie: str) -> Object:
    spec = {"containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "8"}}}]}
    told = {f"kueue.x-k8s.io/podset-{tie}-topology": BLOCK} if tie else {}
    return {"metadata": {"annotations": told}, "spec": spec}


def unmade(tie: str, asked: Object) -> list[Object]:
    """A Job of two pods that is suspended, and its Workload, with what the latter asks."""
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "suspend": True,
            "template": template(tie)}  # fmt: skip
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    pods = {"name": "w", "count": 2, "template": template(""), "topologyRequest": asked}
    return [
        made.owner("batch/v1", "Job", "j", spec),
        made.owner("kueue.x-k8s.io/v1beta1", "Workload", "job-j-1",
                   {"queueName": "q", "podSets": [pods]}, owners=[owner],
                   status={"conditions": [SAID]}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tie", "asked", "fits"),
    [("required", {}, "unknown"), ("", {"required": BLOCK}, "unknown"),
     ("preferred", {"preferred": BLOCK}, "yes"), ("", {}, "yes")],
)  # fmt: skip
def test_whether_it_fits_is_unknown_where_its_pods_must_be_in_one_place(
    tie: str, asked: Object, fits: str
):
    """Two nodes are free, in two blocks: by the annotation of its template, or by the topology
    request of its Workload, they have to be in one; what is preferred keeps nothing out.
    """
    nodes = [node(f"n{i}", labels={BLOCK: f"b{i}"}) for i in range(3)]
    world = world_of(*nodes, pod("runs", 8, on="n2"), *unmade(tie, asked))
    answer = explain.why(world, Policy(), world.job_number["ml/j"])
    assert answer.questions[-1].answer == fits, answer.words
    assert (f"nobody here can tell: all pods in one `{BLOCK}`" in answer.words) == (
        fits == "unknown"
    )
