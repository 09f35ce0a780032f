"""Extended resources by claim: pods of others hold their devices once, ours are held or placed.

And devices of which several claims have parts: they are held once, and given to nobody.
"""

import asyncio
from typing import Any

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import CLAIMED, MIG, results_of
from tests.live.kubernetes.scheduling.test_holding import Story
from tests.rigs.kubernetes.wanted import claim, claim_spec, device_class
from tidemill.live.kubernetes.extended import IMPLICIT
from tidemill.model.columns import JOB

GPU = "nvidia.com/gpu"


class ByClass(Story):
    """A pretended cluster with machines of DRA devices, and a class that gives out all GPUs."""

    def __init__(self, **machines: int) -> None:
        super().__init__()
        for name, count in machines.items():
            self.server.put_node(name, count)
        self.tell("DeviceClass", "", device_class("gpus", extended=GPU))

    def tell(
        self, kind: str, namespace: str, one: dict[str, Any], *, is_gone: bool = False
    ) -> None:
        """An object of another scheduler's, or of the cluster's owner."""
        self.server.news.append((kind, (namespace, one["metadata"]["name"]), one, is_gone))

    def theirs(self, name: str, *devices: str, on: str = "d0", is_gone: bool = False) -> None:
        """A pod of another scheduler's on a machine, and the claim that was made for it."""
        told = made.pod(name, len(devices), on=on)
        for one in made.with_own_claim(told, *devices):
            self.tell(one["kind"], "ml", one, is_gone=is_gone)

    def rest(self) -> None:
        """Until there is nothing to do."""
        self.server.deliver(self.scheduler.view, len(self.server.news))
        asyncio.run(self.scheduler.rest())

    def held_by(self) -> dict[str, int]:
        """By job that is active in the books: how many of the devices of `d0` it holds, by bits."""
        world = self.scheduler.differ.world
        return {
            world.job_names[j]: sum(piece.devices for piece in pieces)
            for j, pieces in world.placements.items()
        }

    def over(self) -> int:
        """By how much nodes are over-committed in the books."""
        return int(self.scheduler.differ.world.matrices.jobs[:, JOB.OVER_MILLI].sum())


def test_a_pod_of_others_holds_what_its_own_claim_was_given():
    """Nothing else stands for it; the one device that is free is given to a pod of ours."""
    story = ByClass(d0=4)
    story.theirs("x", "gpu-0", "gpu-1", "gpu-3")
    story.server.make("mine", 1, resource=CLAIMED)
    story.rest()
    assert story.held_by() == {"ml/x": 0b1011, "ml/mine": 0b0100}
    assert story.over() == 0
    assert [row["device"] for row in results_of(story.server.claims["ml", "c-mine"])] == ["gpu-2"]
    story.theirs("x", "gpu-0", "gpu-1", "gpu-3", is_gone=True)
    story.server.make("next", 3, resource=CLAIMED)
    story.rest()
    assert story.bound()["next"] == "d0"


def test_a_claim_is_shown_by_itself_until_its_pod_is_there():
    """Whichever is told first, in the end the pod has the devices, once."""
    told = made.pod("x", 2, on="d0")
    both = made.with_own_claim(told, "gpu-0", "gpu-1")
    for order in (both, both[::-1]):
        story = ByClass(d0=4)
        for one in order:
            story.tell(one["kind"], "ml", one)
            story.rest()
        assert story.held_by() == {"ml/x": 0b11}
        assert story.over() == 0


def test_one_of_ours_is_held_and_says_what_would_do():
    """Where DRA devices alone are that resource; where a plug-in has it, the pod is placed."""
    story = ByClass(d0=4)
    story.server.make("mine", 2)
    story.server.make("odd", 0, resource="", requests={f"{IMPLICIT}gpus": 1})
    story.rest()
    reason, words = story.held()["ml/mine"]
    assert reason == "NotSupported"
    assert words.startswith("`nvidia.com/gpu` is given out by claims of DeviceClass `gpus` (DRA)")
    assert "let its pods name a claim of that class (resourceClaims)" in words
    assert "`deviceclass.resource.kubernetes.io/gpus`" in story.held()["ml/odd"][1]
    story.server.put_node("n0", 2)
    story.rest()
    assert story.bound() == {"mine": "n0"}
    assert {*story.held()} == {"ml/odd"}


def test_a_class_that_comes_later_tells_why():
    """Without it no node has the resource, and nobody says that a claim would do."""
    story = ByClass(d0=4)
    story.server.make("mine", 1, resource=MIG)
    story.rest()
    assert "ml/mine" not in story.held()
    story.tell("DeviceClass", "", device_class("small", extended=MIG))
    story.rest()
    assert story.held()["ml/mine"][0] == "NotSupported"


def part(name: str, share: str) -> dict[str, Any]:
    """A claim of others that has a part of a device."""
    one = claim(name, claim_spec())
    row = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "d0", "device": "gpu-0",
           "shareID": share, "consumedCapacity": {"memory": "40Gi"}}  # fmt: skip
    one["status"] = {"allocation": {"devices": {"results": [row]}}}
    return one


def test_a_device_of_which_others_have_parts_is_held_once_as_long_as_one_has():
    """Two claims have parts of it; the first goes, then the second: then it is given away."""
    story = ByClass(d0=2)
    for name in ("a", "b"):
        story.tell("ResourceClaim", "ml", part(name, f"share-{name}"))
    story.server.make("mine", 2, resource=CLAIMED)
    story.rest()
    assert story.held_by() == {"ml/claim:a": 0b1}
    assert (story.over(), story.bound()) == (0, {})
    story.tell("ResourceClaim", "ml", part("a", "share-a"), is_gone=True)
    story.rest()
    assert story.held_by() == {"ml/claim:b": 0b1}
    assert (story.over(), story.bound()) == (0, {})
    story.tell("ResourceClaim", "ml", part("b", "share-b"), is_gone=True)
    story.rest()
    assert story.bound() == {"mine": "d0"}


def test_a_device_that_may_be_shared_is_given_out_whole():
    """Its claim says that nothing of its capacity is left for others."""
    story = ByClass(d0=1)
    (told,) = story.server.slices["d0"]["spec"]["devices"]
    told["allowMultipleAllocations"] = True
    story.server.make("mine", 1, resource=CLAIMED)
    story.rest()
    (row,) = results_of(story.server.claims["ml", "c-mine"])
    assert row["consumedCapacity"] == {"memory": "80Gi"}
    assert len(row["shareID"]) == 36
    assert story.held_by() == {"ml/mine": 0b1}
