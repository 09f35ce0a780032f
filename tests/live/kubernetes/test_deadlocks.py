"""The way out of a mutual deadlock: whom to stop so that a gang is completed, which is tried."""

import re

import pytest

from tests.live.kubernetes.made import pod, pytorch_job, workers
from tests.live.kubernetes.test_gangs import NODES, two_halves
from tests.live.kubernetes.test_import import Object, world_of
from tidemill.explain.partial_gangs import partial_gangs
from tidemill.model.world import World


def beside_others(size: int, *held: int) -> list[Object]:
    """On 16 GPUs a gang holds 11 of 16, another 1 of so many, and others hold the rest."""
    others = [pod(f"hold-{i}", gpus, on="n1") for i, gpus in enumerate(held)]
    return [
        *NODES[:2], pytorch_job("a", 16, 1), pytorch_job("b", size, 1),
        *workers("a", 16, 1, ["n0"] * 8 + ["n1"] * 3), *workers("b", size, 1, ["n1"]), *others,
    ]  # fmt: skip


def without(objects: list[Object], *named: str) -> World:
    """The cluster without the pods of these jobs."""
    left = [one for one in objects if one["metadata"]["name"].split("-worker")[0] not in named]
    return world_of(*left)


@pytest.mark.parametrize(
    ("objects", "stops", "completes"),
    [(two_halves(), ("b",), "a"), (beside_others(12, 4), ("a",), "b"),
     (beside_others(16, 4), ("b", "hold-0"), "a"),
     (beside_others(16, 1, 3), ("b", "hold-1", "hold-0"), "a"),
     (beside_others(16, 2), ("b", "hold-0"), "a")],
    ids=["two halves", "beside another", "a third holds the rest", "two others do", "some is free"],
)  # fmt: skip
def test_the_way_out_of_a_deadlock_is_one(
    objects: list[Object], stops: tuple[str, ...], completes: str
):
    """Without those that are named to be stopped another one fits whole, beside all that is left:
    it was said that 1 GPU is what a gang needs of which 5 pods wait.
    """
    (found,) = partial_gangs(world_of(*objects)).deadlocks
    named = [name.strip("`") for name in re.findall(r"`ml/[^`]+`", found.way_out)]
    assert found.way_out.startswith(f"stop `ml/{stops[0]}` and start it again later: ")
    assert {f"ml/{name}" for name in (*stops, completes)} == set(named)
    after = without(objects, *stops)
    assert after.kind_free_milli[0] >= partial_gangs(after).gangs[0].missing_milli
    assert partial_gangs(after).gangs[0].job == f"ml/{completes}"
    assert partial_gangs(after).deadlocks == ()


def test_a_third_that_holds_what_a_deadlock_lacks_is_named_with_how_much():
    """5 are missing: 1 is held by the other gang, and 4 by a pod that may end."""
    (found,) = partial_gangs(world_of(*beside_others(16, 4))).deadlocks
    assert found.way_out == (
        "stop `ml/b` and start it again later: of the 5 GPUs that `ml/a` lacks it holds 1, and"
        " `ml/hold-0` 4 more: wait until `ml/hold-0` ends, or stop it too"
    )
