"""Free GPUs beside cores that others hold: with the end of those that are named the job starts."""

from tests.live.kubernetes.made import Object, node, pod
from tests.live.kubernetes.test_import import world_of
from tidemill import explain
from tidemill.model.policy import Policy


def fix(*objects: Object) -> str:
    world = world_of(*objects)
    return explain.why(world, Policy(), world.job_number["ml/x"]).fix.words


def holder(i: int, cpu: str, on: str = "n0") -> Object:
    return pod(f"h{i}", 1, on=on, cpu=cpu, created=i)


def test_as_many_are_named_as_it_takes():
    """16 of 96 cores are free and 40 requested: the end of one that holds 20 leaves 36, of two 56.
    Without the first of them one more is enough.
    """
    n0, x = node("n0", amounts={"cpu": "96"}), pod("x", 4, cpu="40")
    held = [holder(i, "20") for i in range(4)]
    assert fix(n0, x, *held) == (
        "wait until `ml/h0` and `ml/h1` end: together they hold 40 cores where GPUs are free"
    )
    assert fix(n0, x, *held[1:]) == (
        "wait until `ml/h1` ends (no estimate of its end): it holds 20 cores where GPUs are free"
    )


def test_the_node_on_which_the_fewest_have_to_end_is_named():
    """On n0 two hold 40 cores each, and both would have to end; on n1 one that holds 30 is enough,
    though it is the smallest.
    """
    nodes = [node("n0", amounts={"cpu": "84"}), node("n1", amounts={"cpu": "40"})]
    held = [holder(0, "40"), holder(1, "40"), holder(2, "30", on="n1")]
    assert fix(*nodes, *held, pod("x", 4, cpu="38")).startswith("wait until `ml/h2` ends")
    assert fix(nodes[0], *held[:2], pod("x", 4, cpu="60")).startswith(
        "wait until `ml/h0` and `ml/h1` end"
    )


def test_memory_that_is_short_as_well_is_freed_too():
    """The end of one would leave cores enough and not memory: both are named."""
    n0 = node("n0", amounts={"cpu": "64", "memory": "256Gi"})
    held = [pod("h0", 1, on="n0", cpu="50", memory="16Gi"),
            pod("h1", 1, on="n0", cpu="10", memory="200Gi")]  # fmt: skip
    assert "`ml/h0` and `ml/h1` end" in fix(n0, *held, pod("x", 4, cpu="40", memory="128Gi"))
