"""What the selectors of a waiting claim mean for it: by the devices that slices show."""

import pytest

from tests.live.kubernetes.made import Object, node, pod
from tests.live.kubernetes.test_claims_of_all import BARE, claimed, machine, world_of
from tests.rigs.kubernetes import wanted
from tidemill import explain
from tidemill.explain.answers import Answer
from tidemill.model.policy import Policy

PRODUCT = 'device.attributes["gpu.nvidia.com"].productName == "NVIDIA A100-SXM4-80GB"'
NEAR = 'device.attributes["gpu.nvidia.com"].side == "near"'
ODD = 'device.attributes["gpu.nvidia.com"].productName.matches("A100")'


def of_type(name: str, gpus: int, product: str) -> list[Object]:
    """A node, and the slice with its GPUs of a type."""
    devices = [wanted.device(f"gpu-{i}", productName=product) for i in range(gpus)]
    return [node(name, **BARE), wanted.resource_slice(name, devices)]


def why(expression: str, *objects: Object, count: int = 1) -> Answer:
    """What is said of a pod whose claim selects by an expression."""
    template = wanted.claim_template("t", wanted.claim_spec(count, expression))
    classes = wanted.device_class("gpu.nvidia.com")
    world = world_of(*objects, classes, template, claimed("a", "t"))
    return explain.why(world, Policy(), world.job_number["ml/a"])


H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA A100-SXM4-80GB"


def test_a_claim_for_devices_that_no_node_publishes_does_not_fit():
    """All GPUs are H100, and it selects A100: nothing that is free is what it requests."""
    found = why(PRODUCT, *of_type("n0", 4, H100))
    assert found.cause == "impossible_label"
    assert "its claim wants 1 of the devices for which device.attributes" in found.words
    assert "no node publishes so many" in found.words
    assert "what it requests is free" not in found.words


def test_a_claim_for_more_devices_than_a_node_has_of_them_does_not_fit():
    """It wants four, and each node has two that it selects."""
    found = why(NEAR, *machine("n0", 4), *machine("n1", 4), count=4)
    assert found.cause == "impossible_label"


def test_a_selector_that_tells_types_apart_is_one_of_types():
    """Of one node with H100 and one with A100, the second counts for it, and that is full."""
    full = [
        pod("b", 0, on="n1", spec={"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]})
    ]
    results = [{"driver": "gpu.nvidia.com", "pool": "n1", "device": f"gpu-{i}"} for i in range(4)]
    held = {"allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "b"}]}  # fmt: skip
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
             "metadata": {"name": "c", "namespace": "ml"}, "spec": wanted.claim_spec(4),
             "status": held}  # fmt: skip
    found = why(PRODUCT, *of_type("n0", 4, H100), *of_type("n1", 4, A100), claim, *full)
    assert found.cause == "busy"
    assert "needs 1 GPU by claim, and 0 are free" in found.words


def test_a_selector_of_some_devices_of_a_node_is_unknown_to_the_books():
    """Half of the GPUs of each node are near: how many of those are free nodes do not say."""
    found = why(NEAR, *machine("n0", 4))
    assert f"devices for which {NEAR[:20]}" in found.words
    assert "what it requests is free" not in found.words


def test_a_selector_that_is_not_understood_is_named():
    """Nobody can say which devices it selects."""
    found = why(ODD, *of_type("n0", 4, H100))
    assert "productName.matches" in found.words
    assert "what it requests is free" not in found.words


@pytest.mark.parametrize("expression", ['device.driver == "gpu.nvidia.com"', "true"])
def test_a_selector_that_holds_of_all_devices_changes_nothing(expression: str):
    """What is free is what it requests."""
    found = why(expression, *of_type("n0", 4, H100))
    assert "devices for which" not in found.words
