"""A node whose name another machine has by now, which joined while no observer ran."""

from typing import Any

import pytest

from tests.live.kubernetes.made import Object, node, pod
from tests.live.kubernetes.watched import WatchedCluster

A100: dict[str, Any] = {"labels": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}}


def told_again(*objects: Object, lateness: int = 60) -> WatchedCluster:
    """The books of n0 with 8 GPUs, of which `x` has 2, told up to second 70; then nobody looks,
    and at 600 another observer sees these objects.
    """
    before = WatchedCluster(node("n0", at=0), pod("x", 2, on="n0"))
    before.look(70, 130)
    before.observer.restart()
    found = WatchedCluster(*objects, lateness=lateness)
    found.observer = before.observer
    found.look(600, 700)
    return found


@pytest.mark.parametrize(("gpus", "rest"), [(8, {}), (4, {}), (8, A100), (16, {})])
def test_another_machine_begins_when_it_was_made(gpus: int, rest: dict[str, Any]):
    """Made at 300 with as many GPUs, fewer, of another type, or more: the old one ends then, and
    between 70 and 300 nobody saw it. Its job is over since 70.
    """
    cluster = told_again(node("n0", gpus, at=600, since=300, **rest))
    assert cluster.moves() == [
        (300, "n0", "GONE"), (300, "n0#2", "BOOTING"), (300, "n0#2", "READY"),
    ]  # fmt: skip
    assert cluster.seconds() == {
        "UNKNOWN": 2 * 70, "NO_DEMAND": 6 * 70 + gpus * 340, "NOT_OBSERVED": 8 * 230,
    }  # fmt: skip
    paid = cluster.observer.books().total().paid_milli_ms // 1_000_000
    assert paid == 8 * 300 + gpus * 340
    kinds = cluster.observer.world.kinds
    assert kinds[-1] == ("A100-80GB" if rest else "H100")


def test_work_on_the_new_machine_is_on_it():
    """A pod is bound there 20 seconds after it joined."""
    cluster = told_again(node("n0", at=600, since=300), pod("y", 4, on="n0", created=320))
    names = [row.name for row in cluster.observer.world.node_rows]
    j = cluster.observer.world.job_number["ml/y"]
    assert [names[piece.node] for piece in cluster.observer.world.placements[j]] == ["n0#2"]
    assert cluster.seconds("ml/y") == {"UNKNOWN": 4 * 320}


def test_a_machine_that_registered_again_is_the_same():
    """Its pod goes on: somebody deleted the Node object, and its kubelet made it anew."""
    cluster = told_again(node("n0", at=600, since=300), pod("x", 2, on="n0"))
    assert cluster.moves() == []
    assert cluster.seconds() == {"UNKNOWN": 2 * 640, "NO_DEMAND": 6 * 640}


def test_one_that_joins_after_what_is_told_comes_later():
    """Told up to 280 and 380: until then the old one is there, and nobody sees it."""
    cluster = told_again(node("n0", 4, at=600, since=300), lateness=320)
    assert cluster.moves()[0] == (300, "n0", "GONE")
    assert cluster.seconds()["NOT_OBSERVED"] == 8 * 230
    assert cluster.observer.books().total().paid_milli_ms // 1_000_000 == 8 * 300 + 4 * 80
