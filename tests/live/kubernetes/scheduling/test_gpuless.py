"""Pods without GPUs go to nodes without GPUs that have room; gangs wait for such a part of them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.scheduling.pretended import Scheduler
from tests.live.kubernetes.scheduling.test_draining import Hands
from tests.live.kubernetes.scheduling.test_from_zero import drop, put
from tests.live.kubernetes.scheduling.test_reading import Read
from tidemill.live.kubernetes import notices
from tidemill.live.kubernetes.scheduling import saying
from tidemill.live.kubernetes.scheduling.differ import FleetRules
from tidemill.live.kubernetes.scheduling.draining import Drains
from tidemill.model.topology import Tier, Topology

MPI = ("kubeflow.org/v2beta1", "MPIJob", "mpi")
CPU_POOL: dict[str, Any] = {"nodeSelector": {"pool": "cpu"}}
ALONE = "nodes without GPUs (`cpu0`) alone could carry it, and none has room now"


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


def resize(read: Read, name: str, **amounts: str) -> None:
    """A node has so much of what is named from now on."""
    one = json.loads(json.dumps(read.server.nodes[name]))
    for part in ("allocatable", "capacity"):
        one["status"][part] |= amounts
    read.server.nodes[name] = one
    read.server.news.append(("Node", ("", name), one, False))


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


def test_a_launcher_goes_to_the_pool_that_it_selects_and_its_workers_to_gpus(story: Read):
    """An MPIJob whose launcher selects nodes without GPUs: all of it begins. What is there is in no
    books, and nothing is paid for there; a scheduler that begins anew finds it as it is.
    """
    launch(story, CPU_POOL)
    assert where(story) == {"mpi-launcher": "cpu0", "mpi-worker-0": "n0", "mpi-worker-1": "n0"}
    world = story.scheduler.loop.world
    assert world.job_names == ["ml/mpi"]
    assert [row.name for row in world.node_rows] == ["n0"]
    again = Scheduler(story.server, story.journal)
    story.scheduler = again
    story.rest()
    assert story.server.asked.count(("mpi-launcher", "binding")) == 1


def test_a_gang_that_has_to_be_in_one_place_with_such_a_launcher_is_held(tmp_path: Path):
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
    assert "in one place is placed on nodes with GPUs only" in story.told("g0")[1]
    assert set(where(story).values()) == {""}
    story.journal.close()


@pytest.mark.parametrize("launcher", [{}, CPU_POOL | {"schedulerName": "default-scheduler"}])
def test_a_launcher_that_may_be_anywhere_or_is_anothers_keeps_nothing_back(
    launcher: dict[str, Any], story: Read
):
    """It selects nothing: it leaves the cores beside GPUs to others. Or another one places it."""
    launch(story, launcher)
    found = where(story)
    assert (found["mpi-worker-0"], found["mpi-worker-1"]) == ("n0", "n0")
    assert found["mpi-launcher"] == ("" if launcher else "cpu0")


def test_a_launcher_that_was_placed_by_hand_keeps_nothing_back(story: Read):
    """Somebody bound it to its pool: the workers begin."""
    launch(story, CPU_POOL, nodeName="cpu0")
    story.server.annotate("mpi-worker-0", note="look again")
    story.rest()
    assert (where(story)["mpi-worker-0"], where(story)["mpi-worker-1"]) == ("n0", "n0")


def test_a_gang_waits_as_long_as_its_launcher_finds_no_room(story: Read):
    """Another pod fills the pool: no GPUs are held for nothing. `why` and `pending` say so, and a
    node is ordered for the launcher alone. When the other ends, all of it begins.
    """
    story.server.make("other", 0, on="cpu0", cpu="191.5")
    launch(story, CPU_POOL)
    assert where(story) == {
        "other": "cpu0", "mpi-launcher": "", "mpi-worker-0": "", "mpi-worker-1": "",
    }  # fmt: skip
    left = "node `cpu0` has 0.5 cores left, and 1 are requested"
    assert story.told("mpi-launcher") == ("Unschedulable", f"{ALONE}: {left}")
    reason, words = story.told("mpi-worker-1")
    assert (reason, words.endswith(ALONE)) == ("Waiting", True)
    assert words.startswith("a part of its gang (`mpi-launcher`) could not begin")
    assert ALONE in story.asked("why", "ml/mpi")
    assert left in story.asked("why", "ml/mpi-launcher")
    assert "ml/mpi-launcher" in story.asked("pending")
    story.server.finish(("ml", "other"))
    story.rest()
    assert where(story) == {"mpi-launcher": "cpu0", "mpi-worker-0": "n0", "mpi-worker-1": "n0"}


@pytest.mark.parametrize(
    ("amounts", "asked", "fit"),
    [({"cpu": "8"}, {"cpu": "3"}, 2), ({"memory": "8Gi"}, {"memory": "3Gi"}, 2),
     ({"pods": "4"}, {}, 3), ({"ephemeral-storage": "10Gi"}, {"ephemeral-storage": "3Gi"}, 3)],
)  # fmt: skip
def test_no_more_of_a_node_is_given_out_than_it_has(
    amounts: dict[str, str], asked: dict[str, str], fit: int, story: Read
):
    """Of CPU, memory, places for pods and disk, with what pods of others there request; of pods
    that come together, too. One node more takes one more.
    """
    resize(story, "cpu0", **amounts)
    story.server.make("theirs", 0, on="cpu0", cpu="1", memory="1Gi")
    for i in range(5):
        request(story, f"p{i}", CPU_POOL, asked)
    story.rest()
    assert sorted(where(story).values()) == [*[""] * (5 - fit), *["cpu0"] * (fit + 1)]
    waiting = next(name for name, node in where(story).items() if not node)
    assert story.told(waiting)[0] == "Unschedulable"
    put(story, "cpu1", 0, {"pool": "cpu"})
    resize(story, "cpu1", **{"ephemeral-storage": "20Gi"})
    story.rest()
    assert set(where(story).values()) == {"cpu0", "cpu1"}


def test_of_two_gangs_the_one_whose_coordinator_has_the_last_place_begins(story: Read):
    """JobSets of a coordinator in the pool and two workers, all there at once: a pool with room for
    one coordinator starts one of them, and the other when that has ended.
    """
    resize(story, "cpu0", cpu="1")
    for name in ("a", "b"):
        job_set(story, name)
    story.rest()
    found = where(story)
    assert {found[f"a-{part}"] for part in ("head", "work-0", "work-1")} == {"cpu0", "n0"}
    assert {found[f"b-{part}"] for part in ("head", "work-0", "work-1")} == {""}
    assert "a part of its gang (`b-head`) could not begin" in story.told("b-work-1")[1]
    for part in ("head", "work-0", "work-1"):
        story.server.finish(("ml", f"a-{part}"))
    story.rest()
    assert set(where(story).values()) == {"cpu0", "n0"}


def job_set(story: Read, name: str) -> None:
    """Two Jobs: a head without GPUs, and two workers with two each."""
    jobset, job = ("jobset.x-k8s.io/v1alpha2", "JobSet"), ("batch/v1", "Job")
    above = {"apiVersion": jobset[0], "kind": jobset[1], "name": name, "uid": "u"}
    of, ours = {"jobset.sigs.k8s.io/jobset-name": name}, {"schedulerName": "tidemill"}
    parts = list[dict[str, Any]]()
    for part, count, gpus, more in (("head", 1, 0, CPU_POOL), ("work", 2, 2, {})):
        spec = {"parallelism": count, "completions": count,
                "template": made.template(gpus, **(ours | more))}  # fmt: skip
        parts.append({"name": part, "template": {"spec": spec}})
        owners = [above | {"controller": True}]
        story.server.put(made.owner(*job, f"{name}-{part}-0", {}, owners=owners))
    story.server.put(made.owner(*jobset, name, {"replicatedJobs": parts}))
    for i in range(2):
        owner = (*job, f"{name}-work-0")
        story.server.make(f"{name}-work-{i}", 2, owner=owner, labels=of)
    head = (*job, f"{name}-head-0")
    story.server.make(f"{name}-head", 0, spec=CPU_POOL, owner=head, labels=of)


def request(story: Read, name: str, spec: dict[str, Any], asked: dict[str, str]) -> None:
    """A pod without GPUs that requests so much."""
    story.server.make(name, 0, spec=spec, cpu=asked.get("cpu", "1"))
    story.server.resize(("ml", name), **asked)


def test_pods_without_gpus_get_seats_by_priority_and_age(story: Read):
    """Room for one: the important one gets it, and then the oldest."""
    resize(story, "cpu0", cpu="1")
    story.server.make("first", 0, spec=CPU_POOL)
    story.server.make("second", 0, spec=CPU_POOL)
    story.server.make("important", 0, spec=CPU_POOL | {"priority": 10})
    story.rest()
    assert where(story) == {"first": "", "second": "", "important": "cpu0"}
    story.server.finish(("ml", "important"))
    story.rest()
    assert where(story) == {"first": "cpu0", "second": ""}


@pytest.mark.parametrize("state", ["cordoned", "not ready", "tainted"])
def test_a_node_without_gpus_that_takes_no_work_gets_none(state: str, story: Read):
    """Cordoned, not Ready, or with a taint that is not tolerated; then it takes work again."""
    one = json.loads(json.dumps(story.server.nodes["cpu0"]))
    if state == "cordoned":
        one["spec"] = {"unschedulable": True}
    if state == "tainted":
        one["spec"] = {"taints": [{"key": "only", "value": "web", "effect": "NoSchedule"}]}
    if state == "not ready":
        one["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "Gone"}]
    story.server.news.append(("Node", ("", "cpu0"), one, False))
    story.server.make("p", 0, spec=CPU_POOL)
    story.rest()
    assert where(story) == {"p": ""}
    told = {"cordoned": "node `cpu0` is cordoned", "not ready": "node `cpu0` is not Ready"}
    assert told.get(state, "`pool` = `cpu`" if state != "tainted" else "") in story.told("p")[1]
    story.server.news.append(("Node", ("", "cpu0"), story.server.nodes["cpu0"], False))
    story.rest()
    assert where(story) == {"p": "cpu0"}


def test_a_node_without_gpus_that_is_going_to_be_taken_gets_no_pod(story: Read):
    """Its maintenance has begun, and nobody has cordoned it yet: the pod says so, and waits."""
    clock, told = Hands(), json.loads(json.dumps(story.server.nodes["cpu0"]))
    begun = datetime.fromtimestamp(clock.now / 1000 - 60, UTC)
    told["metadata"]["annotations"] = {notices.DRAIN_BY: begun.isoformat()}
    scheduler = story.scheduler
    scheduler.differ.let_drain(
        Drains(
            scheduler.loop.world, scheduler.view, story.server, clock, 0,  # type: ignore[arg-type]
            may_evict=lambda _: True, log=lambda *_, **__: None,
        )
    )  # fmt: skip
    story.server.news.append(("Node", ("", "cpu0"), told, False))
    story.server.make("p", 0, spec=CPU_POOL)
    story.rest()
    assert where(story) == {"p": ""}
    assert "node `cpu0` is going to be taken" in story.told("p")[1]


def test_a_pod_that_no_kubelet_takes_where_gpus_are_goes_where_there_are_none(story: Read):
    """200 cores, where nodes have 192, and one without GPUs has 256."""
    resize(story, "cpu0", cpu="256")
    story.server.make("wide", 0, cpu="200")
    story.server.make("wider", 0, cpu="300")
    story.rest()
    assert where(story) == {"wide": "cpu0", "wider": ""}
    assert story.told("wider")[0] == "NoSuchNode"


def test_a_pod_goes_beside_gpus_where_no_node_without_has_room_and_else_orders_one(story: Read):
    """The first is where no GPUs are, the second beside them; the third waits for either."""
    for name in ("first", "second", "third"):
        story.server.make(name, 0, cpu="150")
        story.rest()
    assert where(story) == {"first": "cpu0", "second": "n0", "third": ""}
    reason, words = story.told("third")
    assert reason == "Unschedulable"
    assert "nodes without GPUs (`cpu0`) could carry it too, and none of these has room" in words
    story.server.finish(("ml", "first"))
    story.rest()
    assert where(story) == {"second": "n0", "third": "cpu0"}
    assert not story.scheduler.loop.world.queued


def test_pods_that_have_to_be_apart_are_so_on_nodes_without_gpus(story: Read):
    """By host name: one on each, and the third waits; another pod's rule counts as well."""
    put(story, "cpu1", 0, {"pool": "cpu"})
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    ]}}  # fmt: skip
    for i in range(3):
        story.server.make(f"p{i}", 0, labels={"app": "x"}, spec=CPU_POOL | {"affinity": apart})
    story.rest()
    assert sorted(where(story).values()) == ["", "cpu0", "cpu1"]
    assert "by its podAntiAffinity" in story.told("p2")[1]


def test_a_bind_that_is_forbidden_holds_a_pod_without_gpus_too(story: Read):
    """The right to bind is missing: it says so, and nothing is tried for ever."""
    story.server.forbidden = "binding"
    story.server.make("p", 0, spec=CPU_POOL)
    story.rest()
    assert story.told("p")[0] == "BindForbidden"
    assert story.server.asked == [("p", "binding")]


def test_a_launcher_waits_in_the_queue_where_a_pool_with_gpus_is_empty_for_now(story: Read):
    """Nodes that are gone count: the workers order them, and a launcher that may be there waits for
    them, too, where no other node has room.
    """
    drop(story, "n0")
    resize(story, "cpu0", cpu="1")
    story.server.make("other", 0, on="cpu0")
    launch(story, {})
    assert story.told("mpi-worker-0")[0] == "Unschedulable"
    assert story.told("mpi-launcher")[0] == "Unschedulable"
    story.server.put_node("n1", 8)
    story.rest()
    assert {name: node for name, node in where(story).items() if name != "other"} == {
        "mpi-launcher": "n1", "mpi-worker-0": "n1", "mpi-worker-1": "n1",
    }  # fmt: skip


def test_nodes_without_gpus_cost_nothing_where_no_pod_without_gpus_is_ours(story: Read):
    """Nobody looks at them: nothing is remembered of any."""
    for i in range(20):
        put(story, f"web{i}", 0, {})
        story.server.make(f"site{i}", 0, on=f"web{i}")
    story.server.make("p", 1)
    story.rest()
    seats = story.scheduler.differ.gpuless.seats
    assert (seats._able, seats._full, seats.waiting) == ({}, {}, {})


def test_a_gang_waits_for_a_launcher_that_no_node_could_carry_and_for_its_pool_to_come(
    tmp_path: Path,
):
    """The pool of the launcher is at zero: the workers hold no GPUs for nothing. When a node of it
    comes all of it begins.
    """
    story = Read(tmp_path / "live.sqlite", 8)
    launch(story, CPU_POOL)
    assert set(where(story).values()) == {""}
    assert story.told("mpi-launcher")[0] == "NoSuchNode"
    reason, words = story.told("mpi-worker-0")
    assert reason == "Waiting"
    assert words.endswith("no node, with GPUs or without, could carry it, even if it were empty")
    put(story, "cpu0", 0, {"pool": "cpu"})
    story.rest()
    assert where(story) == {"mpi-launcher": "cpu0", "mpi-worker-0": "n0", "mpi-worker-1": "n0"}
    story.journal.close()


def test_what_no_node_could_carry_is_told_with_nodes_without_gpus(story: Read):
    """300 cores, where nodes with GPUs have 192 and one without has 256; and 300 cores of the pool,
    which nodes without GPUs have as a label. When a node with so many comes it is placed.
    """
    resize(story, "cpu0", cpu="256")
    story.server.make("wide", 0, cpu="300")
    story.server.make("pool", 0, cpu="300", spec=CPU_POOL)
    story.server.make("mars", 0, spec={"nodeSelector": {"pool": "mars"}})
    story.rest()
    for name in ("wide", "pool", "mars"):
        assert story.told(name)[0] == "NoSuchNode"
    for name in ("wide", "pool"):
        said = f"{story.told(name)[1]} {story.asked('why', f'ml/{name}')}"
        assert "it requests 300 cores" in said
        assert "at most 256 cores" in said
        assert "192" not in said
        assert "no node has a label" not in said
    assert "affinity keep it off all of them" in story.told("mars")[1]
    put(story, "cpu1", 0, {"pool": "cpu"})
    resize(story, "cpu1", cpu="700")
    story.rest()
    assert where(story) == {"wide": "cpu1", "pool": "cpu1", "mars": ""}


def test_a_port_that_is_taken_on_all_nodes_with_gpus_is_waited_for(story: Read):
    """The node without GPUs has the port free, and no room: nothing is said of labels, the pod
    waits for the port or the room, and gets either.
    """
    port = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}},
                            "ports": [{"containerPort": 4000, "hostPort": 4000}]}]}  # fmt: skip
    story.server.make("theirs", 0, on="cpu0", cpu="192")
    story.server.make("first", 0, spec=port)
    story.rest()
    story.server.make("second", 0, spec=port)
    story.rest()
    assert (where(story)["first"], where(story)["second"]) == ("n0", "")
    reason, words = story.told("second")
    assert reason == "Unschedulable"
    assert "port 4000/TCP of node `n0` (ml/first)" in words
    assert "(`cpu0`) could carry it too, and none of these has room now" in words
    assert "never, as it is" not in story.asked("pending")
    story.server.finish(("ml", "first"))
    story.rest()
    assert where(story)["second"] == "n0"
