"""`nvidia.com/gpu` that a DeviceClass gives out: in the books by the claim that is made for it."""

from collections import Counter

import pytest

from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, pod, taken, with_own_claim
from tests.live.kubernetes.test_import import kept
from tests.rigs.kubernetes.wanted import device, device_class, resource_slice
from tidemill.live.kubernetes import extended, translate
from tidemill.live.kubernetes.dra import DeviceClass
from tidemill.live.kubernetes.extended import IMPLICIT

GPU = "nvidia.com/gpu"
GPUS = device_class("gpus", extended=GPU)


def machine(name: str = "d0", gpus: int = 4) -> list[Object]:
    """A node whose GPUs are given out by claim alone."""
    bare = made.node(name, amounts={GPU: None})
    return [bare, resource_slice(name, [device(f"gpu-{i}") for i in range(gpus)])]


def reason_of(name: str, *objects: Object) -> str:
    """Why a job waits, as an import says it."""
    rows = translate.translate(taken(*objects)).attempts.iter_rows(named=True)
    (found,) = [row["reason"] for row in rows if row["job"] == name]
    return str(found)


def test_the_claim_of_such_a_pod_is_its_own():
    """Three GPUs of an hour, once: the second, third and fourth of the machine."""
    holds = with_own_claim(pod("x", 3, on="d0"), "gpu-1", "gpu-2", "gpu-3")
    run = kept(*machine(), GPUS, *holds)
    found = Counter[str]()
    for (j,), amount in amounts(run.statement, "job").items():
        found[run.world.job_names[j] if j >= 0 else ""] += amount // 1_000_000
    assert found == {"ml/x": 3 * 3_600, "": 3_600}
    assert run.world.placements[0][0].devices == 0b1110


def test_one_whose_claim_is_gone_held_as_much():
    """Claims of pods that have ended are deleted; the pod says what it had by one."""
    ended, _ = with_own_claim(pod("x", 3, on="d0", end=600), "gpu-0", "gpu-1", "gpu-2")
    run = kept(*machine(), GPUS, ended)
    held = sum(amount for (j,), amount in amounts(run.statement, "job").items() if j >= 0)
    assert held == 3 * 600 * 1_000_000


@pytest.mark.parametrize("resource", [GPU, f"{IMPLICIT}gpus"])
def test_one_that_waits_is_held_against_the_devices(resource: str):
    """One of four is free on each machine; nobody says that no node has the resource."""
    some = [*machine("d0"), *machine("d1"), GPUS]
    for on in ("d0", "d1"):
        some += with_own_claim(pod(f"on-{on}", 3, on=on), "gpu-0", "gpu-1", "gpu-2")
    said = "0/2 nodes are available: 2 cannot allocate all claims"
    found = reason_of("ml/w", *some, pod("w", {resource: 2}, message=said))
    assert "no node has" not in found
    assert "GPUs by claim" in found
    larger = reason_of("ml/w", *some, pod("w", {resource: 5}, message=said))
    assert "requests 5 GPUs by claim on one node; the largest node has 4" in larger


def test_a_job_wants_as_many_as_its_template_says():
    """Two pods of two GPUs: those that exist are those that it wants."""
    owner = made.pytorch_job("j", 2, 2)
    by = ("kubeflow.org/v1", "PyTorchJob", "j")
    first = with_own_claim(pod("j-0", 2, on="d0", owner=by), "gpu-0", "gpu-1")
    world = kept(*machine(), GPUS, owner, *first, pod("j-1", 2, owner=by)).world
    assert world.shape_of(world.job_number["ml/j"]).total_milli == 4_000


def test_where_a_plugin_has_it_too_a_pod_may_have_either():
    """Four by claim are free, two of a plug-in are taken: there is room for a pod of three."""
    plugin = made.node("p0", 2)
    fits = [*machine(), plugin, GPUS, pod("a", 2, on="p0"), pod("w", 3)]
    world = kept(*fits).world
    assert world.shape_of(world.job_number["ml/w"]).roles[0].rules.affinity == ()
    found = reason_of("ml/w", *fits[:-1], pod("w", 3, message="Insufficient nvidia.com/gpu"))
    assert "largest node has 2" not in found
    larger = reason_of("ml/w", *fits[:-1], pod("w", 5, message="Insufficient nvidia.com/gpu"))
    assert "requests 5" in larger
    by = ("kubeflow.org/v1", "PyTorchJob", "j")
    gang = [made.pytorch_job("j", 2, 2), pod("j-0", 2, on="p0", owner=by),
            *with_own_claim(pod("j-1", 2, on="d0", owner=by), "gpu-0", "gpu-1")]  # fmt: skip
    world = kept(*machine(), plugin, GPUS, *gang).world
    assert world.shape_of(world.job_number["ml/j"]).total_milli == 4_000


def test_of_several_classes_of_one_resource_the_youngest_counts():
    """Then the first by name; the implicit name is always of its own class."""
    some = [DeviceClass(name, (), (), GPU, ms) for name, ms in (("a", 1), ("c", 2), ("b", 2))]
    found = extended.by_resource(some)
    assert found[GPU] == "b"
    assert found[f"{IMPLICIT}a"] == "a"


def test_without_the_class_nobody_knows_what_it_is():
    """The implicit name of a class that is in no file: a note, and no job of nobody knows what."""
    past = translate.translate(taken(*machine(), pod("w", {f"{IMPLICIT}gold": 1})))
    assert any("DeviceClass `gold`, which nobody shows" in note for note in past.notes)
    assert not len(past.attempts)
