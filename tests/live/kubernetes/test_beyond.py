"""Pods of a group beyond those that it needs to start: the gang is judged without them."""

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.made import BEGIN_MS, Object, node, pod
from tests.live.kubernetes.test_watched_lives import PLUGINS, group
from tidemill import api, explain
from tidemill.explain.answers import Answer
from tidemill.live.history import events
from tidemill.live.kubernetes.translate import translate
from tidemill.model.policy import Policy

FULL = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
TWO = node("n0"), node("n1")


def grouped(least: int, *sizes: int) -> list[Object]:
    """A group `g` and its pods, the first the oldest."""
    labels = {f"{PLUGINS}/pod-group": "g"}
    one = group(least)
    one["metadata"]["name"] = "g"
    pods = [pod(f"g-{i}", gpus, created=i, message=FULL, labels=labels)
            for i, gpus in enumerate(sizes)]  # fmt: skip
    return [one, *pods]


def answer(*objects: Object) -> Answer:
    """What `why` says of the group by an import of these objects."""
    past = translate(made.taken(*objects))
    history = events.build(past.attempts, past.nodes, until_ms=BEGIN_MS + 300_000,
                           shapes=past.shapes)  # fmt: skip
    world = api.keep_history(history).world
    return explain.why(world, Policy(), world.job_number["ml/g"])


def test_a_pod_more_than_all_nodes_hold_keeps_no_gang_out():
    """Two of three start, and both find a node: the third is told apart."""
    found = answer(*TWO, *grouped(2, 8, 8, 8))
    assert found.cause == "none"
    assert "16 nvidia.com/gpu are free, which is enough for it" in found.words
    told = "it starts with 2 of its 3 pods, and could never have all of them: a gang of 3 pods"
    assert told in found.words


def test_what_is_missing_is_counted_up_to_the_minimum():
    """One of the two that start finds no node now."""
    found = answer(*TWO, pod("x", 8, on="n0"), *grouped(2, 8, 8, 8))
    assert found.cause == "partial_gang"
    assert "only 1 of its 2 missing pods fit" in found.words


def test_a_larger_pod_that_fits_nowhere_is_no_part_of_the_gang():
    """Pods of 8, 8 and 16 on nodes of 8: the group needs two of them."""
    found = answer(*TWO, *grouped(2, 8, 8, 16))
    assert (found.cause, found.asks) == ("none", "2×8 accelerators of any type")
    assert "it starts without g-2, which its group does not need: it requests 16" in found.words


@pytest.mark.parametrize(
    ("least", "sizes", "cause"),
    [(3, (8, 8, 8), "impossible_gang"), (3, (8, 8, 16), "impossible_size")],
)
def test_a_gang_that_needs_all_of_its_pods_never_starts_without_one(
    least: int, sizes: tuple[int, ...], cause: str
):
    """The minimum is all three, and the nodes hold two."""
    assert answer(*TWO, *grouped(least, *sizes)).cause == cause
