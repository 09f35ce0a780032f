"""Parts of GPUs that KAI-Scheduler gives out: several share a GPU, and reservations are no jobs."""

from typing import Any

import pytest

from tests.ledger.sums import amounts
from tests.live.kubernetes import made
from tests.live.kubernetes.made import BEGIN_MS, Object, node, pod
from tests.live.kubernetes.watched import WatchedCluster
from tidemill import api, explain
from tidemill.api import Run
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.live.history import events
from tidemill.live.kubernetes.translate import translate
from tidemill.model.policy import Policy

GROUP = "runai-gpu-group"


def run_of(*objects: Object) -> Run:
    """The books of an import of these objects, of 300 seconds."""
    past = translate(made.taken(*objects))
    history = events.build(past.attempts, past.nodes, until_ms=BEGIN_MS + 300_000,
                           shapes=past.shapes)  # fmt: skip
    return api.keep_history(history)


def part(name: str, gpu: str = "", *, on: str = "n0", **annotations: str) -> Object:
    """A pod that shares a GPU, named by its group; annotations with `_` for `-`."""
    told = {key.replace("_", "-"): value for key, value in annotations.items()}
    labels = {GROUP: gpu} if gpu else {}
    spec = {"schedulerName": "kai-scheduler"}
    return pod(name, 0, on=on, labels=labels, annotations=told, spec=spec)


def reservation(gpu: str, on: str = "n0") -> Object:
    """The pod by which KAI holds a GPU that others share."""
    return pod(f"gpu-reservation-{on}-{gpu}", 1, on=on, namespace="kai-resource-reservation",
               labels={"app": "kai-resource-reservation", GROUP: gpu})  # fmt: skip


def busy_seconds(run: Run) -> int:
    """GPU-milliseconds that jobs held, in thousandths of seconds."""
    total = amounts(run.statement, "bucket")
    return sum(total[b,] for b in ALLOCATED if (b,) in total) // 1_000_000


def test_pods_that_share_a_gpu_have_a_part_of_it_each():
    """A half and a quarter of one GPU, and a whole one beside: 1.75 of 8 are held for 300 s."""
    run = run_of(
        node("n0"), reservation("g"), part("a", "g", gpu_fraction="0.5"),
        part("b", "g", gpu_fraction="0.25"), pod("whole", 1, on="n0"),
    )  # fmt: skip
    assert sorted(run.world.job_names) == ["ml/a", "ml/b", "ml/whole"]
    assert busy_seconds(run) == 525
    placed = {run.world.job_names[j]: rows for j, rows in run.world.placements.items()}
    assert placed["ml/a"][0].devices == placed["ml/b"][0].devices == 1 << 7
    assert placed["ml/whole"][0].devices == 1


def test_pods_of_two_groups_are_on_two_gpus():
    """Each has a half, and would fit beside the other: KAI put them apart."""
    run = run_of(node("n0"), reservation("g"), reservation("h"),
                 part("a", "g", gpu_fraction="0.5"), part("b", "h", gpu_fraction=".5"))  # fmt: skip
    masks = {rows[0].devices for rows in run.world.placements.values()}
    assert masks == {1 << 6, 1 << 7}
    assert explain.board(run.world, Policy()).free_milli == 7000


def test_memory_is_a_part_of_what_a_gpu_of_the_node_has():
    """20,000 MiB of 80,000; of a pod that waits, of the smallest GPUs; without a label, unknown."""
    nodes = [node("n0", labels={"nvidia.com/gpu.memory": "80000"}),
             node("n1", labels={"nvidia.com/gpu.memory": "40000"})]  # fmt: skip
    some = (part("a", "g", gpu_memory="20000"), part("w", on="", gpu_memory="20000"))
    run = run_of(*nodes, *some)
    shapes = {name: run.world.shape_of(j) for name, j in run.world.job_number.items()}
    assert {name: shape.total_milli for name, shape in shapes.items()} == {
        "ml/a": 250, "ml/w": 500,
    }  # fmt: skip
    past = translate(made.taken(node("n0"), *some))
    assert any(note.startswith("2 pods request gpu-memory, of which nobody") for note in past.notes)
    assert past.attempts.is_empty()


def test_a_pod_may_have_parts_of_several_gpus():
    """Half of each of two: one GPU in all, on two devices."""
    one = part("a", gpu_fraction="0.5", gpu_fraction_num_devices="2")
    one["metadata"]["labels"] = {f"{GROUP}/g": "g", f"{GROUP}/h": "h"}
    run = run_of(node("n0"), reservation("g"), reservation("h"), one)
    assert run.world.shape_of(0).total_milli == 1000
    assert sorted(row.devices for row in run.world.placements[0]) == [1 << 6, 1 << 7]


@pytest.mark.parametrize("told", ["0", "-1", "half", "1.5", "nan"])
def test_what_is_no_part_is_no_request(told: str):
    """KAI heeds only more than 0, and at most 1."""
    assert translate(made.taken(node("n0"), part("a", gpu_fraction=told))).attempts.is_empty()


def test_a_part_that_waits_is_a_part_of_the_demand():
    """Half a GPU is wanted, and the node has 8 that nobody holds."""
    run = run_of(node("n0"), part("a", on="", gpu_fraction="0.5"))
    found = explain.why(run.world, Policy(), 0)
    assert (found.cause, explain.board(run.world, Policy()).asked_milli) == ("none", 500)


def test_an_observer_books_parts_as_they_come_and_go():
    """A half for 100 seconds, and another on the same GPU for 50 of them."""
    rest: dict[str, Any] = {"labels": {GROUP: "g"}, "annotations": {"gpu-fraction": "0.5"}}
    cluster = WatchedCluster(node("n0", at=0), reservation("g"), pod("a", 0, on="n0", **rest))
    cluster.look(70)
    cluster.told(80, pod("b", 0, on="n0", created=50, **rest))
    cluster.look(130)
    cluster.told(135, pod("a", 0, on="n0", end=100, **rest))
    cluster.told(136, pod("b", 0, on="n0", created=50, end=100, **rest))
    cluster.look(200)
    sums = amounts(cluster.observer.books(), "bucket")
    assert sums[Bucket.UNKNOWN,] == (500 * 100 + 500 * 50) * 1000
    assert sums[Bucket.NO_DEMAND,] == 140 * 8 * 1_000_000 - sums[Bucket.UNKNOWN,]


def test_annotations_that_say_no_part_of_a_gpu_are_counted_and_named():
    """More than a whole one, less than none, and a word: none is booked, and none is silent."""
    bad = [pod(name, 0, on="n0", annotations={"gpu-fraction": told})
           for name, told in (("a", "1.5"), ("b", "-1"), ("c", "half"))]  # fmt: skip
    past = translate(made.taken(node("n0"), pod("ok", 1, on="n0"), *bad))
    (note,) = past.notes
    assert note.startswith(
        "3 pods of KAI's with an annotation that is no part of a GPU: not booked"
    )
    assert "ml/a: gpu-fraction `1.5`, ml/b: gpu-fraction `-1`, ml/c: gpu-fraction `half`" in note
