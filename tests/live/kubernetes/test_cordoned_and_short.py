"""Cordoned nodes that would not take the job if they were opened: what is not there is not counted,
and what other pods have there is not known.
"""

import pytest

from tests.live.kubernetes.made import Object, node, pod
from tests.live.kubernetes.test_import import world_of
from tidemill import explain
from tidemill.explain.answers import Answer
from tidemill.model.policy import Policy


def with_port(gpus: int) -> Object:
    """What a pod with a port of its node is, beside its GPUs."""
    requests = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    port = {"containerPort": 29500, "hostPort": 29500}
    return {"containers": [{"name": "main", "resources": {"requests": requests}, "ports": [port]}]}


def why(waits: Object, *objects: Object) -> Answer:
    world = world_of(node("n0"), pod("runs", 8, on="n0"), waits, *objects)
    return explain.why(world, Policy(), world.job_number["ml/x"])


@pytest.mark.parametrize(("advertised", "first"), [(8, "uncordon `n1`: 8 "), (7, "wait until ")])
def test_to_uncordon_is_advised_for_what_a_node_advertises(advertised: int, first: str):
    """Seven of eight GPUs are advertised on a cordoned node: eight do not fit there either way."""
    n1 = node("n1", advertised, capacity={"nvidia.com/gpu": "8"}, unschedulable=True)
    answer = why(pod("x", 8), n1)
    assert answer.fix.words.startswith(first)
    told = [fix.words for fix in answer.other_fixes if "uncordon" in fix.words]
    alone = "uncordon `n1`: 7 accelerators are free there; that alone does not start it"
    assert told == ([] if advertised == 8 else [alone])
    world = world_of(node("n0"), n1, pod("x", 8))
    assert world.nodes.failed[world.node_number["n1"]] == 8 - advertised


def test_to_uncordon_is_said_to_be_uncertain_for_a_job_with_a_port_of_its_node():
    """Another pod has the port there: the books know of no ports, and the answer says so."""
    answer = why(pod("x", 8, spec=with_port(8)), node("n1", unschedulable=True),
                 pod("port", 0, on="n1", spec=with_port(0)))  # fmt: skip
    assert answer.fix.words == (
        "uncordon `n1`: 8 accelerators are free there; whether it may be there, nobody here can"
        " tell: rules about other pods (hostPort)"
    )
