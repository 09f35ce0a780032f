"""Rules about other pods, and causes that end when others leave, of pods that wait."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, node, pod
from tests.live.kubernetes.test_import import reason, world_of
from tidemill import explain
from tidemill.explain.answers import Answer
from tidemill.model.policy import Policy
from tidemill.model.reasons import Cause, Layer
from tidemill.model.world import World

BLOCKED = "do what its own scheduler's reason asks for: no GPU that comes free starts it"
FULL = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."


def answer_of(world: World) -> tuple[tuple[Layer, Cause, str], Answer]:
    """Why the pod waits, as it is kept, and what `why` makes of it."""
    return reason(world, "ml/x"), explain.why(world, Policy(), world.job_number["ml/x"])


def beside(**rule: object) -> Object:
    """A spec that must be with pods that have the label app=there, on one node."""
    told = {"topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "there"}}, **rule}  # fmt: skip
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [told]}}}


def spread(key: str) -> Object:
    """A spec that must be spread over the values of a label."""
    told = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}}}  # fmt: skip
    return {"topologySpreadConstraints": [told]}


def on_a_full_cluster(**rest: Any) -> World:
    """One node, held by a pod, and a pod that waits."""
    return world_of(node("n0"), pod("runs", 8, on="n0"), pod("x", 8, message=FULL, **rest))


def test_places_by_a_label_that_no_node_has_are_no_room_that_comes_free():
    """Beside a full node; by a label that the node has it is the room that is missing."""
    told, answer = answer_of(on_a_full_cluster(spec=spread("example.com/rack")))
    assert (told[1], answer.owner) == (Cause.IMPOSSIBLE_LABEL, "workload")
    assert "must be spread over `example.com/rack`, a label that no node" in told[2]
    assert BLOCKED in answer.fix.words
    told, answer = answer_of(on_a_full_cluster(spec=spread("kubernetes.io/hostname")))
    assert told[1] is Cause.BUSY
    told, _ = answer_of(on_a_full_cluster(spec=beside(topologyKey="example.com/rack")))
    assert "must be with other pods in one `example.com/rack`" in told[2]


@pytest.mark.parametrize(
    ("labels", "others", "is_said"),
    [({}, [], True), ({"app": "there"}, [], False), ({}, [pod("y", 0, labels={"app": "there"})],
     False)],
)  # fmt: skip
def test_that_no_pod_is_shown_beside_which_it_must_be_is_said(labels, others, is_said: bool):
    """The first of those that are to be together is placed anywhere."""
    world = world_of(node("n0"), pod("runs", 8, on="n0"), *others,
                     pod("x", 8, message=FULL, spec=beside(), labels=labels))  # fmt: skip
    assert (
        "beside pods (podAffinity) of which none is shown" in reason(world, "ml/x")[2]
    ) == is_said


def test_what_room_would_start_is_not_said_to_be_a_block():
    """A node is emptied for it; another one has GPUs, and too little CPU; pods keep it away."""
    leaves = pod("runs", 8, on="n0")
    leaves["metadata"]["deletionTimestamp"] = made.moment(900)
    chosen = pod("x", 8, message=FULL)
    chosen["status"]["nominatedNodeName"] = "n0"
    _, answer = answer_of(world_of(node("n0"), node("n1"), leaves, chosen))
    assert answer.fix.words == "wait until those that its own scheduler stops for it have ended"
    for sort, words in {
        "pod anti-affinity": "kept away from other pods",
        "pod affinity": "tied to other pods",
    }.items():
        text = f"0/1 nodes are available: 1 node(s) didn't match {sort} rules."
        told, answer = answer_of(world_of(node("n0"), pod("x", 1, message=text)))
        assert words in told[2]
        assert answer.fix.words == "do what its own scheduler's reason asks for"
        assert "where it must be, or must not be, keeps it from what is free" in answer.words


def test_amounts_beside_gpus_that_others_hold_are_no_block():
    """All cards of a node are taken, and its GPUs are not: who has them may end."""
    others = pod("other", 1, on="n0", requests={"x.io/nic": "1"})
    text = "0/1 nodes are available: 1 Insufficient x.io/nic."
    waits = pod("x", 1, message=text, requests={"x.io/nic": "1"})
    told, answer = answer_of(world_of(node("n0", amounts={"x.io/nic": "1"}), others, waits))
    assert "enough nvidia.com/gpu are free, but not the x.io/nic beside them" in told[2]
    assert answer.fix.words == "do what its own scheduler's reason asks for"
