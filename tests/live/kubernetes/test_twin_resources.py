"""Shares of GPUs of one type that nodes give out under different names are not each other's."""

from typing import Any

from tests.live.kubernetes.made import node, pod
from tests.live.kubernetes.test_import import kept
from tests.live.kubernetes.watched import WatchedCluster
from tidemill import explain
from tidemill.model.policy import Policy
from tidemill.model.states import JobState

SHARED = "nvidia.com/gpu.shared"


def sliced(name: str, resource: str) -> dict[str, Any]:
    """A node with four L4, each shared by four, that are given out as a resource."""
    amounts = {"nvidia.com/gpu": None, resource: "16"}
    labels = {"nvidia.com/gpu.product": "NVIDIA-L4-SHARED", "nvidia.com/gpu.count": "4",
              "nvidia.com/gpu.replicas": "4"}  # fmt: skip
    return node(name, amounts=amounts, labels=labels)


NODES = sliced("m1", SHARED), sliced("m2", "nvidia.com/gpu")


def test_what_is_free_under_another_name_is_not_free_for_it():
    """12 of m1's 16 are wanted, of which 11 are free, and 16 of m2's are no help."""
    world = kept(*NODES, pod("sh", {SHARED: 5}, on="m1"), pod("w", {SHARED: 12})).world
    found = explain.why(world, Policy(), world.job_number["ml/w"])
    assert found.cause == "busy"
    assert "scattered" not in found.words
    assert "move" not in str((found.fix, found.other_fixes))


def test_who_wants_them_by_the_other_name_waits_for_that():
    """Both nodes are free but for one share of m2: m1 does not advertise nvidia.com/gpu."""
    world = kept(*NODES, pod("sh", 1, on="m2"), pod("w", 16)).world
    found = explain.why(world, Policy(), world.job_number["ml/w"])
    assert found.cause == "busy"


def test_one_resource_of_a_type_needs_no_name():
    """Where all shares are given out under one name, requests say the type alone."""
    world = kept(sliced("m1", SHARED), pod("w", {SHARED: 12})).world
    (role,) = world.shape_of(world.job_number["ml/w"]).roles
    assert (role.kinds, role.labels) == (("1/4 OF L4",), ())


def test_a_watched_node_of_the_other_name_that_joins_later_changes_nothing_that_runs():
    """m2 joins while a pod holds shares of m1, and one for m2's waits before that."""
    cluster = WatchedCluster(NODES[0], pod("sh", {SHARED: 5}, on="m1"), lateness=5)
    cluster.look(20, 40)
    cluster.told(50, NODES[1], how="ADDED")
    cluster.told(60, pod("w", {SHARED: 12}, created=60))
    cluster.look(70, 90)
    world = cluster.observer.world
    states = {name: JobState(world.jobs.state.item(j)) for name, j in world.job_number.items()}
    assert states == {"ml/sh": JobState.RUNNING, "ml/w": JobState.WAITING}
    found = cluster.why("ml/w")
    assert found.cause == "busy"
