"""Pods without GPUs where nodes without GPUs are: they go to nodes with GPUs, or are told so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.test_from_zero import drop, put
from tests.live.kubernetes.scheduling.test_reading import Read
from tidemill.live.kubernetes.scheduling import saying
from tidemill.live.kubernetes.scheduling.differ import FleetRules
from tidemill.model.topology import Tier, Topology

MPI = ("kubeflow.org/v2beta1", "MPIJob", "mpi")
CPU_POOL: dict[str, Any] = {"nodeSelector": {"pool": "cpu"}}
ONLY = "this scheduler places pods on nodes with GPUs only: let another one place it"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pods are told at once."""
    monkeypatch.setattr(saying, "PER_SECOND", 1_000_000)


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Read]:
    """A node with 8 GPUs, and one of a pool without."""
    read = Read(tmp_path / "live.sqlite", 8)
    put(read, "cpu0", 0, {"pool": "cpu"})
    read.rest()
    yield read
    read.journal.close()


def where(read: Read) -> dict[str, str]:
    return {key[1]: one["spec"].get("nodeName", "") for key, one in read.server.pods.items()}


def launch(read: Read, launcher: dict[str, Any], **spec: Any) -> None:
    """An MPIJob of two workers with 4 GPUs each; its launcher has none."""
    ours = {"schedulerName": "tidemill"}
    replicas = {
        "Launcher": {"replicas": 1, "template": made.template(0, **(ours | launcher))},
        "Worker": {"replicas": 2, "template": made.template(4, **ours)},
    }
    read.server.put(made.owner(*MPI, {"mpiReplicaSpecs": replicas}))
    for i in range(2):
        read.server.make(f"mpi-worker-{i}", 4, owner=MPI,
                         labels={"training.kubeflow.org/replica-type": "worker"})  # fmt: skip
    read.rest()
    read.server.make("mpi-launcher", 0, owner=MPI, spec=launcher | spec,
                     labels={"training.kubeflow.org/replica-type": "launcher"})  # fmt: skip
    read.rest()


def test_a_gang_whose_launcher_may_be_on_nodes_without_gpus_only_holds_no_gpus(story: Read):
    """Both are told why; what is said is so of the launcher before it is there. Once nodes of that
    pool have GPUs, all of it starts.
    """
    launch(story, CPU_POOL)
    assert set(where(story).values()) == {""}
    alone = f"nodes without GPUs (`cpu0`) alone could carry it, and {ONLY}"
    assert story.told("mpi-launcher") == ("NotSupported", alone)
    reason, words = story.told("mpi-worker-1")
    assert (reason, words.endswith(alone)) == ("NotSupported", True)
    assert words.startswith("a part of its gang (`launcher`) could not begin")
    told = story.asked("why", "ml/mpi-launcher")
    assert alone in told
    assert "no node has a label" not in told
    put(story, "n1", 1, {"pool": "cpu"})
    story.rest()
    assert where(story) == {"mpi-launcher": "n1", "mpi-worker-0": "n0", "mpi-worker-1": "n0"}


def test_so_is_a_gang_that_has_to_be_in_one_place_with_its_launcher(tmp_path: Path):
    """All in one zone, and the launcher in the pool without GPUs: none of it is placed."""
    rules = FleetRules(topology=Topology((Tier("zone", "topology.kubernetes.io/zone"),)))
    story = Read(tmp_path / "live.sqlite", rules=rules)
    put(story, "n0", 8, {"topology.kubernetes.io/zone": "a"})
    put(story, "cpu0", 0, {"topology.kubernetes.io/zone": "a", "pool": "cpu"})
    tied = {"tidemill/required-topology": "zone"}
    for i in range(2):
        story.server.make(f"g{i}", 4, gang="g", size=3, annotations=tied)
    story.server.make("g-host", 0, gang="g", size=3, annotations=tied, spec=CPU_POOL)
    story.rest()
    assert {story.told(name)[0] for name in ("g0", "g1", "g-host")} == {"NotSupported"}
    assert "(`g-host`) could not begin" in story.told("g0")[1]
    assert set(where(story).values()) == {""}
    story.journal.close()


@pytest.mark.parametrize("launcher", [{}, CPU_POOL | {"schedulerName": "default-scheduler"}])
def test_a_launcher_that_may_be_with_gpus_or_is_anothers_keeps_nothing_back(
    launcher: dict[str, Any], story: Read
):
    """It selects nothing; or another scheduler places it."""
    launch(story, launcher)
    found = where(story)
    assert (found["mpi-worker-0"], found["mpi-worker-1"]) == ("n0", "n0")
    assert found["mpi-launcher"] == ("" if launcher else "n0")


def test_a_launcher_that_was_placed_by_hand_keeps_nothing_back(story: Read):
    """Somebody bound it to its pool: the workers begin."""
    launch(story, CPU_POOL, nodeName="cpu0")
    story.server.annotate("mpi-worker-0", note="look again")
    story.rest()
    assert (where(story)["mpi-worker-0"], where(story)["mpi-worker-1"]) == ("n0", "n0")


def test_a_pod_that_is_larger_than_nodes_with_gpus_is_told_who_could_carry_it(story: Read):
    """200 cores, where nodes have 192, and one without GPUs has 256."""
    story.server.nodes["cpu0"]["status"]["allocatable"]["cpu"] = "256"
    story.server.nodes["cpu0"]["status"]["capacity"]["cpu"] = "256"
    story.server.news.append(("Node", ("", "cpu0"), story.server.nodes["cpu0"], False))
    story.server.make("wide", 0, cpu="200")
    story.server.make("wider", 0, cpu="300")
    story.rest()
    assert story.told("wide")[0] == "NotSupported"
    assert story.told("wider")[0] == "NoSuchNode"


def test_a_pod_that_waits_beside_an_empty_node_without_gpus_is_told_of_it(story: Read):
    """Its cores are in use where GPUs are; it waits for those, is told who else, and nothing is
    ordered.
    """
    for name in ("first", "second"):
        story.server.make(name, 0, cpu="150")
        story.rest()
    assert where(story) == {"first": "n0", "second": ""}
    beside = f"nodes without GPUs (`cpu0`) could carry it, but {ONLY}"
    assert story.told("second") == ("Waiting", f"accelerators are free, CPU is not; {beside}")


def test_a_launcher_waits_in_the_queue_where_a_pool_with_gpus_is_empty_for_now(story: Read):
    """Nodes that are gone count: the workers order them, and the launcher goes there too."""
    drop(story, "n0")
    launch(story, {})
    assert story.told("mpi-worker-0")[0] == "Unschedulable"
    assert story.told("mpi-launcher")[0] == "NoSuchNode"
    story.server.put_node("n1", 8)
    story.rest()
    assert set(where(story).values()) == {"n1"}
