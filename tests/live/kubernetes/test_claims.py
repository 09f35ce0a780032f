"""What answers claim of a cluster that is looked at, done: who is told that something else would
run submits just that, and who is told what a node has requests it.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from msgspec.structs import replace

from tests.cli.shell import tidemill
from tests.live.kubernetes import made
from tests.live.kubernetes.made import Object, node, pod, workers
from tidemill import explain
from tidemill.cli.moment import world_at
from tidemill.explain.answers import Answer, Forecast
from tidemill.model.policy import Policy
from tidemill.model.rows import Job, Role, Shape
from tidemill.model.world import World

A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
CUT = {"cpu": "96", "nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-3g.40gb": "3"}
"""A machine of eight GPUs, of which five are whole."""


def imported(*objects: Object) -> World:
    """The state that whoever asks after an import is told."""
    with TemporaryDirectory() as where:
        exported, journal = Path(where) / "cluster.json", str(Path(where) / "fleet.sqlite")
        exported.write_text(json.dumps(made.listed(*objects)))
        ran = tidemill("import", "kubernetes", str(exported), "--usd-per-hour", "2", "-j", journal)
        assert ran.code == 0, ran.err
        return world_at(journal, None)[0]


def why(world: World, name: str) -> Answer:
    """What `why` says."""
    return explain.why(world, Policy(), world.job_number[name])


def fit(world: World, role: Role) -> Forecast:
    """What `fit` says of replicas like these."""
    return explain.fit(world, Policy(), Job("asked", Shape("ml", (role,))))


def of_two_types(*more: Object) -> World:
    """Two free nodes of H100, three of A100, one of which is held."""
    nodes = [node("h0"), node("h1"), *(node(f"a{i}", labels=A100) for i in range(3))]
    return imported(*nodes, pod("held", 8, on="a2"), *more)


@pytest.mark.parametrize("asked", [5, 6])
def test_what_would_run_instead_is_counted_over_all_types(asked: int):
    """Four nodes of two types are free: four replicas would run, not the two of either type; just
    that is told to run now, and one more is not.
    """
    world = of_two_types(*workers("gang", asked, 8, []))
    (offer,) = why(world, "ml/gang").certificate.fits_now  # type: ignore[union-attr]
    assert offer.words == "4 replicas of 8 GPUs"
    assert offer.shape is not None
    (role,) = offer.shape.roles
    assert fit(world, role).verdict == "now"
    assert fit(world, replace(role, count=5)).verdict != "now"


@pytest.mark.parametrize(("cpu", "memory", "cause", "what", "offer"), [
    ("30", "10Gi", "cpu_binds", "CPU is", "with 15 cores"),
    ("8", "300Gi", "memory_binds", "memory is", "with 9.3 GiB"),
    ("30", "300Gi", "host_binds", "CPU and memory are", "with 15 cores and 9.3 GiB"),
])  # fmt: skip
def test_cpu_and_memory_that_are_both_short_are_both_named(
    cpu: str, memory: str, cause: str, what: str, offer: str
):
    """Cause, fix and what would run instead name what is short, and all of it; so does what is said
    of the pod's own nodes.
    """
    amounts = {"cpu": "96", "memory": "512Gi"}
    holds = pod("holds", 4, on="n0", cpu="80", memory="500Gi")
    line = "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."
    asks = pod("asks", 2, cpu=cpu, memory=memory, message=line)
    world = imported(node("n0", amounts=amounts), holds, asks)
    found = why(world, "ml/asks")
    assert found.cause == cause
    assert f"{what} what is missing" in found.do_not
    held = " and ".join(["80 cores"] * ("CPU" in what) + ["500 GiB"] * ("memory" in what))
    assert f"it holds {held} where GPUs are free" in found.fix.words
    assert f"but not the {what.rpartition(' ')[0]} beside them" in found.reason
    assert found.certificate is not None
    assert found.certificate.fits_now[0].words == f"2 GPUs {offer} per replica"


def test_amounts_that_cannot_be_meant_are_written_as_people_read_them():
    """Above what the books count it is told so in words, without powers of ten."""
    line = "0/1 nodes are available: 1 Insufficient cpu."
    asks = pod("asks", 8, cpu="5e15", memory="1e25", message=line)
    words = why(imported(node("n0"), pod("held", 1, on="n0"), asks), "ml/asks").words
    assert "e+" not in words
    assert "requests at least 100 million CPUs on one node" in words
    assert "each replica requests at least 100 million" in words
    assert "each requests at least 97 million" in words
    assert "request at most 192 cores and 2,016 GiB per replica" in words


@pytest.mark.parametrize("beside", [[], [pod("helper", 0, on="n0", cpu="1", memory="1Gi")]])
def test_parts_of_a_machine_have_all_of_its_host_together(beside: list[Object]):
    """Its parts are 5, 1.1 and 1.9 GPUs large, which do not divide 96 cores evenly; who requests
    all that the machine has left fits, and one thousandth of a core more does not.
    """
    world = imported(node("n0", gpus=5, amounts=CUT), pod("held", 1, on="n0", cpu="1"), *beside)
    left = 95_000 - 1_000 * len(beside)
    assert set(world.nodes.cpu_free_milli[:3].tolist()) == {left}
    asks = Role(accelerators=4, cpu_milli=left, kinds=("H100",))
    assert fit(world, asks).verdict == "now"
    assert fit(world, replace(asks, cpu_milli=left + 1)).verdict != "now"


def test_whoever_requests_a_whole_machine_fits_it():
    """All GPUs, CPUs and bytes of a machine of which the memory is no whole number of MiB."""
    has: dict[str, Any] = {"cpu": "96", "memory": "2113929300Ki"}
    asks = pod("asks", 8, cpu="96", memory="2113929300Ki")
    world = imported(node("n0", amounts=has), node("n1"), pod("held", 8, on="n1"), asks)
    assert why(world, "ml/asks").detail == "none"


def test_work_on_a_node_that_was_not_ready_before_it_came_does_not_break_a_forecast():
    """A pod may be bound to a node that is not Ready: nobody repairs that before the pod has ended,
    and when others start can be asked.
    """
    down = node("n1", ready=False, turned=0)
    world = imported(node("n0"), down, pod("on-it", 2, on="n1", bound=100), pod("busy", 8, on="n0"))
    assert fit(world, Role(accelerators=8)).verdict == "unknown"


@pytest.mark.parametrize(("cpu", "hint"), [
    (10_000, "request 4 replicas of 4 GPUs instead of 2 of 8"),
    (60_000, "request at most 2 replicas of 4 GPUs"),
    (100_000, "request at most 96 cores per replica, and at most 2 replicas of 4 GPUs"),
])  # fmt: skip
def test_smaller_replicas_that_are_named_have_the_cores_for_it(cpu: int, hint: str):
    """Two nodes of four GPUs and 96 cores: what is said to fit them counts the cores too."""
    nodes = [node(f"n{i}", 4, amounts={"cpu": "96"}) for i in range(4 if cpu == 10_000 else 2)]
    world = imported(*nodes, pod("held", 1, on="n0"))
    proof = fit(world, Role(count=2, accelerators=8, cpu_milli=cpu)).certificate
    assert proof is not None
    assert proof.nearest == hint


@pytest.mark.parametrize(("asked", "verdict"), [(2, "now"), (3, "unknown"), (9, "unknown")])
def test_a_quota_of_gpus_of_all_types_together_is_counted(asked: int, verdict: str):
    """Two of eight are left of what counts both types: the API server makes no third pod."""
    amounts = {"requests.nvidia.com/gpu": "8"}
    quota: Object = {
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "ml", "uid": "q",
                     "creationTimestamp": made.moment(0)},
        "spec": {"hard": amounts},
        "status": {"hard": amounts, "used": {"requests.nvidia.com/gpu": "6"}},
    }  # fmt: skip
    world = imported(node("h0"), node("a0", labels=A100), pod("held", 6, on="h0"), quota)
    found = fit(world, Role(count=asked))
    assert found.verdict == verdict
    left = "has 2 of 8 nvidia.com/gpu left, and it requests 3: pods that wait"
    over = "is 8 nvidia.com/gpu in all, and it requests 9: until that is raised"
    assert verdict == "now" or (left if asked == 3 else over) in found.words


def test_a_repair_that_does_not_start_the_job_says_so():
    """A gang of two pods, a node of two that is not Ready and one that is held: when the first is
    mended there is room for one of them, and `why` says what keeps the gang out then.
    """
    down = node("n1", 2, ready=False, turned=0)
    busy = [node("n0", 2), pod("held", 2, on="n0")]
    found = why(imported(down, *busy, *workers("gang", 2, 2, [])), "ml/gang")
    assert found.fix.words == (
        "repair `n1`: unhealthy, 2 accelerators; then it still waits, because only part of the"
        " gang fits"
    )


def test_a_node_that_is_down_and_cordoned_is_to_be_uncordoned_too():
    """Whoever cordons a node that breaks has to uncordon it when it is mended: both are said."""
    down = node("n1", ready=False, turned=0, unschedulable=True)
    held = [node("n0"), pod("held", 8, on="n0")]
    found = why(imported(down, *held, *workers("gang", 2, 8, [])), "ml/gang")
    assert "`n1`: not Ready; cordoned (spec.unschedulable)" in found.words
    assert found.fix.words.startswith(
        "repair `n1`: unhealthy, 8 accelerators; `n1` is cordoned too: uncordon what is mended"
    )


def test_nodes_to_add_are_named_with_their_size():
    """Of nodes of two GPUs four are lacking, of larger ones fewer: how large is said."""
    small = [node("n0", 2), pod("held", 1, on="n0")]
    words = why(imported(*small, *workers("gang", 5, 2, [])), "ml/gang").words
    assert "or: add 4 nodes of 2×`H100` ($16.00 an hour)" in words
    assert "one GPU type" not in words
