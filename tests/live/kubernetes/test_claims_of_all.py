"""A claim for all devices of a node (`allocationMode: All`) wants as many as a node has."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.made import BEGIN_MS, Object, node, pod
from tests.live.kubernetes.watched import WatchedCluster
from tests.rigs.kubernetes import wanted
from tidemill import api, explain
from tidemill.live.history import events
from tidemill.live.kubernetes.translate import translate
from tidemill.model.policy import Policy
from tidemill.model.states import JobState
from tidemill.model.world import World

NEAR = 'device.attributes["gpu.nvidia.com"].side == "near"'
ALL: Object = {"allocationMode": "All"}
BARE: dict[str, Any] = {
    "labels": {"nvidia.com/gpu.product": ""}, "amounts": {"nvidia.com/gpu": None},
}  # fmt: skip


def claimed(name: str, template: str, **rest: Any) -> Object:
    """A pod with a claim of its own."""
    spec = {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": template}]}
    return pod(name, 0, spec=spec, **rest)


def machine(name: str, gpus: int) -> list[Object]:
    """A node, and the slice with its GPUs, the first half of them on one side of it."""
    devices = [wanted.device(f"gpu-{i}", side="near" if i < gpus // 2 else "far")
               for i in range(gpus)]  # fmt: skip
    return [node(name, **BARE), wanted.resource_slice(name, devices)]


def world_of(*objects: Object) -> World:
    """What an import of these objects keeps."""
    past = translate(made.taken(*objects))
    history = events.build(past.attempts, past.nodes, until_ms=BEGIN_MS + 300_000,
                           shapes=past.shapes)  # fmt: skip
    return api.keep_history(history).world


def asked(world: World, name: str) -> int:
    """How many GPUs a job requests."""
    return world.shape_of(world.job_number[name]).total_milli // 1000


@pytest.mark.parametrize(
    ("exact", "expressions", "gpus"),
    [(ALL, (), 8), (ALL, (NEAR,), 4), ({"count": 3}, (), 3)],
)
def test_it_wants_all_that_match_of_a_node(exact: Object, expressions: tuple[str, ...], gpus: int):
    """8 of a node, or the half of them that its selector names; another claim says a number."""
    spec = wanted.claim_spec(3, *expressions, exactly=exact)
    world = world_of(*machine("n0", 8), *machine("n1", 8), wanted.claim_template("t", spec),
                     claimed("a", "t"))  # fmt: skip
    assert asked(world, "ml/a") == gpus


def test_one_that_is_held_elsewhere_keeps_it_out():
    """A pod has one of the 8 of the only node: seven are free, and it wants all of them."""
    results = [{"driver": "gpu.nvidia.com", "pool": "n0", "device": "gpu-0"}]
    one = made.owner(
        "resource.k8s.io/v1", "ResourceClaim", "c", wanted.claim_spec(1),
        status={"allocation": {"devices": {"results": results}},
                "reservedFor": [{"resource": "pods", "name": "b"}]},
    )  # fmt: skip
    by_name = {"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}
    every = wanted.claim_template("t", wanted.claim_spec(exactly=ALL))
    world = world_of(*machine("n0", 8), one, pod("b", 0, on="n0", spec=by_name), every,
                     claimed("a", "t"))  # fmt: skip
    found = explain.why(world, Policy(), world.job_number["ml/a"])
    assert (found.cause, explain.board(world, Policy()).free_milli) == ("busy", 7000)
    assert "needs 8 GPUs by claim, and 7 are free" in found.words


def test_where_nodes_differ_nobody_says_how_many():
    """Of 8 or of 4: at least 4, and the books alone do not say that it would fit."""
    every = wanted.claim_template("t", wanted.claim_spec(exactly=ALL))
    world = world_of(*machine("n0", 8), *machine("n1", 4), every, claimed("a", "t"))
    assert asked(world, "ml/a") == 4
    found = explain.why(world, Policy(), world.job_number["ml/a"])
    assert "allocationMode All on machines that have different numbers of them" in found.words
    assert "what it requests is free" not in found.words


def choosing(*counts: int) -> Object:
    """A claim of so many GPUs, or else so many."""
    choices = [
        {"name": f"c{n}", "deviceClassName": "gpu.nvidia.com", "count": n} for n in counts
    ]  # fmt: skip
    return {"devices": {"requests": [{"name": "gpu", "firstAvailable": choices}]}}


@pytest.mark.parametrize("classes", [(), (wanted.device_class("gpu.nvidia.com"),)])
@pytest.mark.parametrize(("counts", "wants"), [((4, 2), 4), ((16, 8), 8), ((32, 16), 32)])
def test_the_first_of_several_requests_that_a_node_holds_counts_while_it_waits(
    counts: tuple[int, ...], wants: int, classes: tuple[Object, ...]
):
    """`firstAvailable`, of a node with 8: 4, or else 2; 16, or else 8; 32 or 16 are never there."""
    template = wanted.claim_template("t", choosing(*counts))
    world = world_of(*machine("n0", 8), *classes, template, claimed("a", "t"))
    assert asked(world, "ml/a") == wants


def test_one_that_waits_for_its_second_choice_waits_for_what_is_held():
    """8 or else 4 on a node of 4, of which another pod has one: it waits, and not for ever."""
    results = [{"driver": "gpu.nvidia.com", "pool": "n0", "device": "gpu-0"}]
    one = made.owner(
        "resource.k8s.io/v1", "ResourceClaim", "c", wanted.claim_spec(1),
        status={"allocation": {"devices": {"results": results}},
                "reservedFor": [{"resource": "pods", "name": "b"}]},
    )  # fmt: skip
    by_name = {"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}
    template = wanted.claim_template("t", choosing(8, 4))
    world = world_of(*machine("n0", 4), one, pod("b", 0, on="n0", spec=by_name), template,
                     claimed("a", "t"))  # fmt: skip
    found = explain.why(world, Policy(), world.job_number["ml/a"])
    assert found.cause == "busy"
    assert "needs 4 GPUs by claim, and 3 are free" in found.words


def given(count: int, at: str = "n0", choice: str = "c8") -> Object:
    """The status of a claim that was given the first devices of a node."""
    results = [{"request": f"gpu/{choice}", "driver": "gpu.nvidia.com", "pool": at,
                "device": f"gpu-{i}"} for i in range(count)]  # fmt: skip
    return {"allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "a"}]}  # fmt: skip


def choice_claim(status: Object | None = None) -> Object:
    """A claim of 8 GPUs, or else 4."""
    return made.owner(
        "resource.k8s.io/v1", "ResourceClaim", "c", choosing(8, 4), status=status or {}
    )


def lives(cluster: WatchedCluster) -> dict[str, tuple[int, JobState]]:
    """Each job of the journal: how many GPUs it requests, and how it is."""
    world = cluster.observer.world
    return {
        name: (world.shape_of(j).total_milli // 1000, JobState(world.jobs.state.item(j)))
        for name, j in world.job_number.items()
    }


@pytest.mark.parametrize("is_deleted_at_once", [True, False])
def test_a_watched_pod_that_is_given_its_second_choice_is_one_job(is_deleted_at_once: bool):
    """It waits for 8, runs with 4, and is deleted, with its claim or before that: one job of 4."""
    by_name = {"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}
    waits = pod("a", 0, spec=by_name, created=10)
    cluster = WatchedCluster(*machine("n0", 8), lateness=5)
    cluster.told(10, choice_claim(), waits)
    cluster.look(20, 40)
    assert lives(cluster) == {"ml/a": (8, JobState.WAITING)}
    runs = pod("a", 0, spec=by_name, created=10, on="n0", bound=50, up=50)
    cluster.told(50, choice_claim(given(4, choice="c4")), runs)
    cluster.look(60, 80)
    assert lives(cluster) == {"ml/a": (4, JobState.RUNNING)}
    cluster.told(100, choice_claim())
    if is_deleted_at_once:
        cluster.deleted(100, choice_claim())
    cluster.look(101)
    cluster.deleted(100, runs)
    cluster.look(103, 110, 130)
    assert lives(cluster) == {"ml/a": (4, JobState.CANCELLED)}
    assert cluster.seconds("ml/a")["UNKNOWN"] == 4 * 50
