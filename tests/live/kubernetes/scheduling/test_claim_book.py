"""What claims ask for is counted as the loop can place it, and who holds devices is known."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.rigs.kubernetes import wanted
from tidemill.live.kubernetes import dra, nodes, pods
from tidemill.live.kubernetes.parts import MachinePart
from tidemill.live.kubernetes.pods import KubePod
from tidemill.live.kubernetes.resources import CLAIMED, GpuRequest
from tidemill.live.kubernetes.scheduling.claims import LONGEST_FORM, DeviceForm
from tidemill.live.kubernetes.scheduling.view import ClusterView
from tidemill.live.kubernetes.watching import kinds

KIND = kinds.PODS
ROOT = "resource.kubernetes.io__pcieRoot"


def view(*machines: list[dict[str, Any]], **claims: dict[str, Any]) -> ClusterView:
    """A cluster whose machines `n0`, `n1` … publish these devices, with claims by name."""
    found = ClusterView("tidemill")
    found.take(KIND, ("", "all"), dra.read_class(wanted.device_class()), False)
    for i, some in enumerate(machines):
        name = f"n{i}"
        node = made.node(name, amounts={"nvidia.com/gpu": None})
        found.take(KIND, ("", name), nodes.read(node), False)
        row = dra.read_slice(wanted.resource_slice(name, some))
        found.take(KIND, ("", name), row, False)
    for name, spec in claims.items():
        found.take(KIND, ("ml", name), dra.read_claim(wanted.claim(name, spec)), False)
    return found


def pod(found: ClusterView, claim: str) -> KubePod:
    """A pod of ours that names a claim, as the view has it."""
    spec = {"schedulerName": "tidemill",
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}  # fmt: skip
    found.take(KIND, ("ml", "p"), pods.read(made.pod("p", {}, spec=spec)), False)
    return found.pods["ml", "p"]


def gpus(count: int, **rest: Any) -> list[dict[str, Any]]:
    """So many equal devices."""
    return [wanted.device(f"gpu-{i}", **rest) for i in range(count)]


def test_a_claim_is_so_many_accelerators_of_machines_that_have_such():
    """The pod requests them by a label that the machine was given, and no other."""
    large = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("100Gi")) >= 0'
    found = view(gpus(2), gpus(2, memory="141Gi"), mine=wanted.claim_spec(2, large))
    request = pod(found, "mine").request
    assert request.gpu == GpuRequest(CLAIMED, 2)
    able = [name for name, node in found.nodes.items() if request.selects(node.labels)]
    assert able == ["n1"]


def test_devices_that_match_different_claims_are_different_parts():
    """Of a machine with two GPUs and an instance, each form is a part with its own devices."""
    some = [*gpus(2), wanted.device("mig-0", type="mig", profile="1g.10gb", memory="10Gi")]
    found = view(some)
    parts = {name: node for name, node in found.nodes.items() if isinstance(node, MachinePart)}
    assert {name: (part.gpu_type, part.devices) for name, part in parts.items()} == {
        "n0": ("H100", 2), "n0/1g.10gb": ("1g.10gb of H100", 1),
    }  # fmt: skip


def test_all_devices_of_a_machine_are_as_many_as_every_machine_has():
    """`allocationMode: All` is a number where machines are alike, and refused where they differ."""
    every = wanted.claim_spec(exactly={"allocationMode": "All"})
    assert pod(view(gpus(4), gpus(4), every=every), "every").request.gpu == GpuRequest(CLAIMED, 4)
    assert "All" in pod(view(gpus(4), gpus(2), every=every), "every").request.unkept[0]


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (wanted.claim_spec(exactly={"adminAccess": True}), "adminAccess"),
        (wanted.claim_spec(1, 'device.driver.find("a") != ""'), ".find()"),
        (wanted.claim_spec(device_class="other"), "DeviceClass `other` is not there"),
        (wanted.claim_spec(constraints=[{"distinctAttribute": "a/b"}]), "constraints"),
        (
            {
                "devices": {
                    "requests": [
                        {"name": "a", "firstAvailable": [{"name": "b", "deviceClassName": "none"}]}
                    ]
                }
            },
            "DeviceClass `none`",
        ),
    ],
)
def test_what_is_not_understood_is_named(spec: dict[str, Any], named: str):
    """Such a pod is not placed, and says why."""
    assert named in pod(view(gpus(1), odd=spec), "odd").request.unkept[0]


def test_a_machine_serves_a_claim_if_enough_devices_have_an_attribute_in_common():
    """`matchAttribute`: of four devices under two roots, two are of the same, and three are not."""
    some = [wanted.device(f"gpu-{i}", **{ROOT: f"pci{i % 2}"}) for i in range(4)]
    alike = wanted.claim_spec(2, constraints=[{"matchAttribute": ROOT.replace("__", "/")}])
    three = wanted.claim_spec(3, constraints=[{"matchAttribute": ROOT.replace("__", "/")}])
    found = view(some, two=alike, three=three)
    machine = found.nodes["n0"]
    assert pod(found, "two").request.selects(found.nodes["n0"].labels)
    assert not pod(found, "three").request.selects(found.nodes["n0"].labels)
    assert isinstance(machine, MachinePart)
    book = found.claimed.book
    assert book.form_of(book.claims["ml", "two"], "gpu")[1] == 2


def test_a_pod_sits_on_the_part_that_its_devices_are_of():
    """A claim of others with a GPU and an instance is two pods, one on each part."""
    some = [*gpus(1), wanted.device("mig-0", type="mig", profile="1g.10gb")]
    found = view(some)
    claim = wanted.claim("both", wanted.claim_spec(2))
    results = [{"request": "gpu", "driver": wanted.DRIVER, "pool": "n0", "device": one["name"]}
               for one in some]  # fmt: skip
    claim["status"] = {"allocation": {"devices": {"results": results}}}
    found.take(KIND, ("ml", "both"), dra.read_claim(claim), False)
    assert [found.place_of(pod) for pod in found.pods.values()] == ["n0", "n0/1g.10gb"]
    assert [found.mask_of(pod) for pod in found.pods.values()] == [1, 1]


def test_a_claim_of_others_holds_its_partition_and_the_rest_is_cut_alike():
    """A partition that another scheduler gave out keeps its whole device from everybody else."""
    found = view([])
    for told in wanted.partitioned("n0", 2):
        found.take(KIND, ("", told["metadata"]["name"]), dra.read_slice(told), False)
    claim = wanted.claim("theirs", wanted.claim_spec())
    given = {"request": "gpu", "driver": wanted.DRIVER, "pool": "n0", "device": "gpu-0-2g-0"}
    claim["status"] = {"allocation": {"devices": {"results": [given]}}}
    found.take(KIND, ("ml", "theirs"), dra.read_claim(claim), False)
    found.claimed.look()
    standing = found.pods["ml", "claim:theirs"]
    assert found.place_of(standing) == "n0/2g.20gb"
    assert found.mask_of(standing).bit_count() == 1
    assert standing.request.gpu == GpuRequest(CLAIMED, 1)
    assert {name: part.devices for name, part in found.nodes.items()} == {
        "n0": 1, "n0/2g.20gb": 3,
    }  # fmt: skip
    found.take(KIND, ("ml", "theirs"), dra.read_claim(claim), True)
    assert not found.pods


def test_long_selectors_that_differ_at_the_end_are_two_labels():
    """Both are longer than a label is: machines with one sort are not taken for the other's."""
    long = " && ".join(["device.driver == 'gpu.nvidia.com'"] * 6)
    forms = [DeviceForm("gpu", (long, f"device.attributes['x'].profile == '{n}g'")) for n in (2, 3)]
    labels = {form.label for form in forms}
    assert len(labels) == 2
    assert all(len(label) <= LONGEST_FORM for label in labels)
