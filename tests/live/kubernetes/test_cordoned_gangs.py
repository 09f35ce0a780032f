"""Cordoned nodes beside partial gangs: which of them would complete one, and which cannot."""

from typing import Any

from tests.live.kubernetes.made import node, pod, pytorch_job, workers
from tests.live.kubernetes.test_gangs import two_halves
from tests.live.kubernetes.test_import import Object, world_of
from tidemill import explain
from tidemill.explain.partial_gangs import partial_gangs
from tidemill.model.policy import Policy
from tidemill.model.world import World


def test_a_deadlock_that_a_cordon_keeps_up_names_the_node():
    """Two halves block each other while a cordoned node has what one lacks: that comes first."""
    world = world_of(*two_halves(), node("n3", unschedulable=True))
    (found,) = partial_gangs(world).deadlocks
    assert found.words.endswith("none of them could be completed on nodes that take work")
    assert found.way_out.startswith(
        "uncordon `n3`: what is free there is enough for `ml/a` and `ml/b`; or stop `ml/"
    )


def blocked(*objects: Object, cpu: str = "8") -> World:
    """Two gangs of three nodes hold two each of four, beside what else there is."""
    return world_of(
        *(node(f"n{i}") for i in range(4)), pytorch_job("a", 3, 8), pytorch_job("b", 3, 8),
        *workers("a", 3, 8, ["n0", "n1"], cpu=cpu), *workers("b", 3, 8, ["n2", "n3"], cpu=cpu),
        *objects,
    )  # fmt: skip


def cordoned(*names: str, **rest: Any) -> list[Object]:
    return [node(name, unschedulable=True, **rest) for name in names]


def test_a_cordoned_node_that_cannot_complete_a_gang_is_not_named():
    """All of it busy; half of it free, which is too little for a replica, on one node or on each of
    two; as many GPUs as are missing, and 4 cores where a replica wants 60: only a stop helps.
    """
    half = [pod("y0", 4, on="c0"), pod("y1", 4, on="c1")]
    for world in (
        blocked(*cordoned("c0"), pod("x", 8, on="c0")),
        blocked(*cordoned("c0"), half[0]),
        blocked(*cordoned("c0", "c1"), *half),
        blocked(*cordoned("c0", "c1", amounts={"cpu": "4"}), cpu="60"),
    ):
        (found,) = partial_gangs(world).deadlocks
        assert found.way_out.startswith("stop `ml/b` and start it again later")


def test_cordoned_nodes_are_said_to_be_enough_for_those_that_they_complete():
    """One free node completes either gang and not both; of two, one is named, for it is enough."""
    for names in (["c0"], ["c0", "c1"]):
        (found,) = partial_gangs(blocked(*cordoned(*names))).deadlocks
        assert found.way_out.startswith(
            "uncordon `c0`: what is free there is enough for one of `ml/a` and `ml/b`; or stop"
        )


def test_a_gang_alone_hears_of_the_cordoned_node_that_completes_it():
    """Nobody blocks it; a cordoned node has what it lacks, and one that is busy has not."""
    gang = [pytorch_job("a", 2, 8), *workers("a", 2, 8, ["n0"])]
    world = world_of(node("n0"), *cordoned("c0", "c1"), pod("x", 8, on="c0"), *gang)
    answer = explain.why(world, Policy(), world.job_number["ml/a"])
    assert answer.fix.words == (
        "uncordon `c1`: what is free there is enough for `ml/a`; or wait for the rest of it, or"
        " stop it so that others can use what it holds"
    )
    busy = world_of(node("n0"), *cordoned("c0"), pod("x", 8, on="c0"), *gang)
    assert explain.why(busy, Policy(), busy.job_number["ml/a"]).fix.words.startswith("wait for")
