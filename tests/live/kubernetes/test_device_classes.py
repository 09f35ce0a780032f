"""What a claim asks for is told by its DeviceClass, however that is called."""

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, pod, taken
from tests.live.kubernetes.test_device_parts import SMALL, bare, instances, naming
from tests.live.kubernetes.test_import import kept
from tests.rigs.kubernetes.wanted import claim, claim_spec, device, device_class, resource_slice
from tidemill.live.kubernetes import translate

NIC = "dra.net"
UNSHOWN = "which nobody shows: whether they are of GPUs is unknown, and they are not booked"


def asking(device_class: str, *expressions: str, count: int = 2) -> list[Object]:
    """A pod that waits for devices of a class, and its claim."""
    spec = claim_spec(count, *expressions, device_class=device_class)
    return [claim("c", spec), pod("w", 0, spec=naming("c"))]


def published(*devices: Object) -> list[Object]:
    """A node with these devices."""
    return [bare(), resource_slice("n0", [*devices])]


def wanted(*objects: Object) -> tuple[int, tuple[str, ...]]:
    """How many thousandths of GPUs the pod wants, and of which types."""
    world = kept(*objects).world
    shape = world.shape_of(world.job_number["ml/w"])
    return shape.total_milli, shape.roles[0].kinds


GPUS = [device("gpu-0"), device("gpu-1")]


@pytest.mark.parametrize("is_published", [True, False])
def test_a_class_of_any_name_is_of_gpus(is_published: bool):
    """By the devices that its selectors match; without slices by the driver that they name."""
    some = published(*GPUS) if is_published else [made.node("n1")]
    assert wanted(*some, device_class("fast"), *asking("fast"))[0] == 2_000


def test_a_class_of_instances_wants_those():
    """Its selectors say the profile, and no claim has to."""
    some = published(*instances(p1g_10gb=4))
    profile = 'device.attributes["gpu.nvidia.com"].profile == "1g.10gb"'
    found = wanted(*some, device_class("small", profile), *asking("small"))
    assert found[1] == ("1G.10GB OF H100",)
    assert SMALL


def test_a_class_of_network_cards_wants_no_gpu():
    """Also if no slice shows any."""
    cards = device_class("cards", driver=NIC)
    for some in (published(*GPUS), [made.node("n1")]):
        past = translate.translate(taken(*some, cards, *asking("cards")))
        assert not len(past.attempts)
        assert not any("nobody shows" in note for note in past.notes)


def test_of_a_class_that_nobody_shows_it_is_unknown():
    """No zero: a note says how many pods that is about, and how to show it."""
    past = translate.translate(taken(*published(*GPUS), *asking("fast")))
    (note,) = [one for one in past.notes if UNSHOWN in one]
    assert note.startswith("1 pod has claims of devices of DeviceClass `fast`")
    assert note.endswith("(kubectl get deviceclasses)")
    assert not len(past.attempts)


def test_of_a_class_that_nobody_shows_the_claim_itself_may_say_it():
    """Its own selector matches GPUs that are published."""
    large = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'
    assert wanted(*published(*GPUS), *asking("fast", large))[0] == 2_000


def test_a_selector_that_is_not_understood_names_its_driver():
    """What of it cannot be read is no reason to take its claims for none."""
    odd = device_class("odd", 'device.attributes["gpu.nvidia.com"].productName.find("H") != ""')
    assert wanted(*published(*GPUS), odd, *asking("odd"))[0] == 2_000


def test_who_only_looks_on_wants_none():
    """`adminAccess`: it is given devices that others hold."""
    spec = claim_spec(1, exactly={"adminAccess": True})
    some = [claim("c", spec), pod("w", 0, spec=naming("c"))]
    assert not len(translate.translate(taken(*published(*GPUS), device_class(), *some)).attempts)
