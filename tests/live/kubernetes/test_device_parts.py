"""MIG instances that are given out by claims (DRA), in the books of a cluster that is looked at."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, node, pod, taken
from tests.live.kubernetes.test_import import kept
from tests.rigs.kubernetes import wanted
from tidemill.explain import inventory
from tidemill.live.kubernetes import translate

HOUR_MS, DRIVER = 3_600_000, "gpu.nvidia.com"
SMALL, HALF = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"


def bare(**labels: str) -> Object:
    """A node without a device plugin."""
    told = {"nvidia.com/gpu.product": "", **labels}
    return node("n0", labels=told, amounts={"nvidia.com/gpu": None})


def instances(**profiles: int) -> list[Object]:
    """Instances that somebody has cut: so many of each, by profile (`_` is `.`)."""
    return [
        wanted.device(f"{profile}-{i}", type="mig", profile=profile.replace("_", ".").lstrip("p"))
        for profile, count in profiles.items() for i in range(count)
    ]  # fmt: skip


def holding(name: str, *devices: str, on: str = "n0") -> list[Object]:
    """A pod, and its claim that was given these devices."""
    rows = [{"driver": DRIVER, "pool": "n0", "device": one, "request": "g"} for one in devices]
    spec = {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": DRIVER}}]}}
    claim = made.owner(
        "resource.k8s.io/v1", "ResourceClaim", f"c-{name}", spec,
        status={"allocation": {"devices": {"results": rows}},
                "reservedFor": [{"resource": "pods", "name": name}]},
    )  # fmt: skip
    return [claim, pod(name, 0, on=on, spec=naming(f"c-{name}"))]


def naming(claim: str) -> Object:
    return {"resourceClaims": [{"name": "x", "resourceClaimName": claim}]}


def asking(name: str, expression: str, device_class: str = "mig.nvidia.com") -> list[Object]:
    """A pod that waits, and its claim."""
    one = wanted.claim(f"c-{name}", wanted.claim_spec(1, expression, device_class=device_class))
    return [one, pod(name, 0, spec=naming(f"c-{name}"))]


def in_use(*objects: Object) -> dict[str, tuple[int, int]]:
    """By GPU type: milli GPUs that are paid, and in use."""
    world = kept(*objects).world
    return {row.kind: (row.paid_milli, row.in_use_milli) for row in inventory.contracts(world)}


def test_instances_that_are_there_are_parts_of_their_gpu():
    """Four eighths and a half of one H100, one whole one beside it: as with the device plugin."""
    whole = [wanted.device("gpu-0")]
    published = wanted.resource_slice("n0", [*whole, *instances(p1g_10gb=4, p3g_40gb=1)])
    objects = [*holding("a", "p1g_10gb-2"), *holding("b", "gpu-0"), *holding("c", "p3g_40gb-0")]
    machine = bare(**{"nvidia.com/gpu.count": "2"})
    found = in_use(machine, published, *objects)
    assert found == {
        "H100": (1000, 1000), "1G.10GB OF H100": (500, 125), "3G.40GB OF H100": (500, 500),
    }  # fmt: skip
    plain = node("n0", labels={"nvidia.com/gpu.count": "2"},
                 amounts={"nvidia.com/gpu": "1", SMALL: "4", HALF: "1"})  # fmt: skip
    holders = [pod("a", {SMALL: 1}, on="n0"), pod("b", 1, on="n0"), pod("c", {HALF: 1}, on="n0")]
    assert found == in_use(plain, *holders)


def test_which_instance_a_pod_holds_is_known():
    """The third of four, by its name."""
    published = wanted.resource_slice("n0", instances(p1g_10gb=4))
    world = kept(bare(), published, *holding("a", "p1g_10gb-2")).world
    assert world.placements[0][0].devices == 0b100
    assert world.node_rows[world.placements[0][0].node].name == "n0"


def test_a_gpu_that_is_cut_when_somebody_asks_is_in_use_in_part():
    """Two eighths of one of two GPUs are held, and the other whole one is free."""
    objects = [*wanted.partitioned("n0", 2), *holding("a", "gpu-1-1g-0", "gpu-1-1g-1")]
    run = kept(bare(), *objects)
    assert run.world.kinds == ["H100"]
    (row,) = inventory.contracts(run.world)
    assert (row.paid_milli, row.in_use_milli) == (2000, 250)
    assert run.statement.total().paid_milli_ms == 2_000 * HOUR_MS


def test_whole_gpus_beside_those_that_are_cut_are_whole():
    """A pod with a whole GPU of such a machine holds one."""
    objects = [*wanted.partitioned("n0", 2), *holding("a", "gpu-0"), *holding("b", "gpu-1-3g-0")]
    assert in_use(bare(), *objects) == {"H100": (2000, 1500)}


@pytest.mark.parametrize("is_static", [True, False])
def test_a_claim_that_waits_asks_for_its_profile(is_static: bool):
    """By what its selector says of the devices that are published."""
    some = wanted.partitioned("n0", 1)
    if is_static:
        some = [wanted.resource_slice("n0", instances(p1g_10gb=4, p3g_40gb=1))]
    wants = asking("a", "device.attributes['gpu.nvidia.com'].profile == '3g.40gb'")
    world = kept(bare(), *some, *wants).world
    (role,) = world.shape_of(world.job_number["ml/a"]).roles
    if is_static:
        assert role.kinds == ("3G.40GB OF H100",)
    else:
        assert (role.profile, role.milli, role.kinds) == ("3g.40gb", 500, ("H100",))


def test_a_claim_for_any_instance_is_not_booked_and_said():
    """Which of two profiles it will get nobody knows."""
    published = wanted.resource_slice("n0", instances(p1g_10gb=4, p3g_40gb=1))
    wants: list[Any] = asking("a", "device.attributes['gpu.nvidia.com'].type == 'mig'")
    past = translate.translate(taken(bare(), published, *wants))
    assert any(
        "parts of GPUs by claim, of which nobody says how large" in note for note in past.notes
    )
    assert not len(past.attempts)


def test_an_instance_of_no_known_profile_is_not_booked_and_said():
    """A driver's own sort of part: no whole GPU is booked for it."""
    odd = wanted.device("odd-0", type="mig", profile="1c.3g.40gb")
    published = wanted.resource_slice("n0", [wanted.device("gpu-0"), odd])
    past = translate.translate(taken(bare(), published, *holding("a", "odd-0")))
    assert any(
        "parts of GPUs by claim, of which nobody says how large" in note for note in past.notes
    )
    assert not len(past.attempts)
