"""What pods without GPUs hold of nodes with GPUs is not free, though no event tells of them."""

from typing import Any

from tests.live.kubernetes import made
from tests.live.kubernetes.made import BEGIN_MS, Object, node, pod
from tests.live.kubernetes.watched import WatchedCluster
from tidemill import api, explain
from tidemill.explain import inventory
from tidemill.explain.answers import Answer
from tidemill.journal import node_limits, node_reasons
from tidemill.live.history import events
from tidemill.live.kubernetes.translate import translate
from tidemill.model.policy import Policy
from tidemill.model.world import World


def helper(name: str, on: str, cpu: str = "1", memory: str = "1Gi", **rest: Any) -> Object:
    """A pod without GPUs."""
    return pod(name, 0, on=on, cpu=cpu, memory=memory, **rest)


def imported(*objects: Object) -> World:
    """The state at the end of an import, as who asks is told it."""
    past = translate(made.taken(*objects))
    history = events.build(past.attempts, past.nodes, until_ms=BEGIN_MS + 300_000,
                           shapes=past.shapes)  # fmt: skip
    world = api.keep_history(history).world
    node_reasons.put_back(world, node_reasons.facts(history.node_reasons), "journal")
    kept = node_limits.facts({}, history.node_limits, history.length_ms, "journal")
    return node_limits.put_back(world, kept, "journal")


def why(world: World, job: str) -> Answer:
    """What `why` says."""
    return explain.why(world, Policy(), world.job_number[job])


def test_cpu_and_memory_of_pods_without_gpus_are_not_free():
    """n1 has 8 GPUs free, and 2 of 192 cores: who wants 8 cores and a GPU waits for CPU."""
    full, system = pod("full", 8, on="n0"), helper("system", "n1", "190", "4Gi")
    over = helper("over", "n1", "50", end=100)
    world = imported(node("n0"), node("n1"), full, system, over, pod("wants", 1))
    rows = {row.node: row for row in inventory.nodes(world)}
    assert (rows["n0"].cpu_free_milli, rows["n1"].cpu_free_milli) == (184_000, 2_000)
    assert rows["n1"].memory_free_mib == (2113929216 >> 10) - 4096
    found = why(world, "ml/wants")
    assert found.cause == "cpu_binds"
    assert "held by work without GPUs (190 cores)" in found.words
    (verdict,) = [v for v in explain.verdicts(world, world.job_number["ml/wants"]) if v.hosts == 0
                  and v.node == "n1"]  # fmt: skip
    assert verdict.words == "CPU: 2 of 8 cores free"


def test_a_node_with_as_many_pods_as_it_takes_has_room_for_nobody():
    """The kubelet of n1 takes two pods and has two: 8 GPUs are free there, and nobody gets them."""
    n1, full = node("n1", amounts={"pods": "2"}), pod("full", 8, on="n0")
    two = [helper("a", "n1"), helper("b", "n1"), helper("c", "n1", end=9)]
    world = imported(node("n0"), n1, full, *two, pod("wants", 1))
    found = why(world, "ml/wants")
    assert found.cause == "busy"
    assert "8 full on 1 node (`n1`: takes no more pods: 2 of 2 are there)" in found.words
    assert "let work without GPUs on `n1` end or go elsewhere" in found.words
    assert "uncordon" not in found.words
    rows = {row.node: row for row in inventory.nodes(world)}
    assert (rows["n1"].state, rows["n1"].free_milli, rows["n1"].usable_milli) == ("ready", 8000, 0)
    one = imported(node("n0"), n1, full, *two[1:], pod("wants", 1))
    assert why(one, "ml/wants").cause == "none"


def test_a_node_full_of_pods_is_ready_and_its_job_waits_for_room():
    """Nothing else could hold it: the scheduler owns that, as its own scheduler's word has it."""
    n0 = node("n0", amounts={"pods": "1"})
    world = imported(n0, helper("a", "n0"), pod("wants", 4, message="0/1 nodes are available"))
    found = why(world, "ml/wants")
    assert (found.cause, found.owner) == ("busy", "scheduling")
    assert "not enough is free; 8 are free on nodes that take no more pods" in found.words
    assert found.questions[1].words == "8 accelerators Ready, 8 on nodes that take no more pods"
    assert "let work without GPUs on `n0` end or go elsewhere" in found.fix.words
    assert "that are busy become free" not in found.words
    assert [(row.cause, row.owner) for row in explain.board(world, Policy()).rows] == [
        ("busy", "scheduling")
    ]


def test_a_cordon_and_a_taint_are_two_places_with_two_ways_out():
    """n0 is cordoned and n1 under memory pressure: nobody is told to uncordon n1."""
    pressure = {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}
    world = imported(node("n0", unschedulable=True), node("n1", taints=[pressure]), pod("wants", 8))
    found = why(world, "ml/wants")
    assert {row.place: row.nodes for row in found.withheld} == {"cordoned": 1, "tainted": 1}
    fixes = [fix.words for fix in (found.fix, *found.other_fixes)]
    assert "uncordon `n0`: 8 accelerators are free there" in fixes
    assert any(words.startswith("mend what `n1` is tainted for") for words in fixes)
    rows = {row.node: row.state for row in inventory.nodes(world)}
    assert rows == {"n0": "cordoned", "n1": "tainted"}
    assert sorted(row.verdict for row in found.nodes) == ["cordoned", "tainted"]


def test_a_cordoned_node_is_offered_where_cpu_binds():
    """Work without GPUs has the CPU of n0, and n1 is cordoned and empty: to uncordon it helps."""
    n1 = node("n1", unschedulable=True)
    found = why(imported(node("n0"), n1, helper("system", "n0", "190"), pod("w", 1)), "ml/w")
    assert found.cause == "cpu_binds"
    assert found.fix.words == "uncordon `n1`: 8 accelerators are free there"


def test_a_node_that_is_cordoned_and_full_of_pods_starts_nobody_when_uncordoned():
    """The kubelet of c0 takes one pod and has it: uncordoned it takes none, and that is said."""
    c0 = node("c0", unschedulable=True, amounts={"pods": "1"})
    held = [pod("b", 8, on="n0"), helper("x", "c0")]
    found = why(imported(node("n0"), c0, *held, pod("w", 8)), "ml/w")
    fixes = [fix.words for fix in (found.fix, *found.other_fixes)]
    offers = [words for words in fixes if words.startswith("uncordon")]
    assert all(words.endswith("that alone does not start it") for words in offers)
    assert found.fix.words.startswith("wait until")
    assert "`c0`: cordoned (spec.unschedulable); takes no more pods: 1 of 1 are there" in (
        found.words
    )


def test_of_cordoned_nodes_the_fewest_that_start_it_are_named():
    """8 GPUs are asked for, and 8 are free on one of three: c1, for c0 is full of pods, c2 busy."""
    c0 = node("c0", unschedulable=True, amounts={"pods": "1"})
    others = [node("c1", unschedulable=True), node("c2", unschedulable=True)]
    held = [helper("x", "c0"), pod("b", 4, on="c2")]
    found = why(imported(c0, *others, *held, pod("w", 8)), "ml/w")
    assert found.fix.words == "uncordon `c1`: 8 accelerators are free there"


def test_a_gang_that_lacks_gpus_and_more_hears_of_both():
    """20 GPUs are asked for and 16 are free, on a node without CPU and one without memory."""
    held = [
        pod("runs", 8, on="n2"), helper("a", "n0", "191"), helper("b", "n1", memory="2000Gi"),
    ]  # fmt: skip
    gang = [
        pod(f"g{i}", 4, cpu="2", memory="30Gi", message="0/3 nodes are available",
            owner=("kubeflow.org/v1", "PyTorchJob", "g"))
        for i in range(5)
    ]  # fmt: skip
    world = imported(*(node(f"n{i}") for i in range(3)), *held, *gang)
    found = why(world, "ml/g")
    assert found.cause == "busy"
    assert "of what is free it cannot have: 8 on 1 node with at most 1 of 2 cores free" in (
        found.words
    )
    assert "8 on 1 node with at most 16 of 30 GiB free" in found.words
    assert "become free, and CPU and memory beside the free ones" in found.words
    by_facts = "not the CPU beside them on 1 node, not the memory beside them on 1 node"
    assert f"needs 20 nvidia.com/gpu, and 16 are free, but {by_facts}" in found.words


def test_a_job_on_a_node_that_is_not_ready_is_not_called_well():
    """Its pod is shown as running there, and nobody hears of the node any more."""
    out = node("n0", ready=False, turned=60)
    world = imported(out, pod("runs", 8, on="n0", created=0, bound=0, up=10))
    said = why(world, "ml/runs").words
    assert "; `n0` is out for 4m" in said
    assert said.endswith("whether it still works is not known")


def test_a_part_of_a_node_has_its_share_of_what_is_taken():
    """A machine with a whole GPU and seven instances of another: each part has half of its host."""
    some = {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "7"}
    world = imported(node("n0", amounts=some), helper("system", "n0", "100"),
                     pod("runs", 1, on="n0", cpu="0", memory="0"))  # fmt: skip
    rows = inventory.nodes(world)
    assert len(rows) == 2
    free = [row.cpu_free_milli for row in rows if row.cpu_free_milli is not None]
    assert sum(free) == 92_000


def test_an_observer_is_told_of_pods_without_gpus_by_a_fact_alone():
    """Such pods come and go: no event tells it, and a taint is known since when it was first."""
    taint = {"key": "gpu", "value": "kept", "effect": "NoSchedule"}
    cluster = WatchedCluster(node("n0"), pod("runs", 2, on="n0"), pod("waits", 5))
    cluster.look(70, 100)
    cluster.told(110, node("n0", taints=[taint]))
    cluster.look(200)
    before = len([*cluster.observer.journal.read()])
    kept = cluster.kept({})
    for at in (210, 310, 410):
        cluster.told(at, helper(f"h{at}", "n0", "60"))
        cluster.look(at + 50)
        kept = cluster.kept(kept)
    news = [*cluster.observer.journal.read()][before:]
    assert {type(one).__name__ for one in news} <= {"Woke"}
    assert inventory.nodes(cluster.now_known())[0].cpu_free_milli == 4_000
    world = cluster.observer.world
    world.now_ms -= 150_000
    found = inventory.nodes(node_limits.put_back(world, kept, "journal"))
    assert found[0].cpu_free_milli == 184_000
    assert ("gpu", "kept") in world.node_rows[0].taints


def test_pods_whose_gpus_are_on_no_books_hold_their_cpus():
    """A pod with a vGPU, of which nobody says how large it is, has 100 of 192 cores."""
    other = pod("other", {"nvidia.com/vgpu": 1}, on="n0", cpu="100")
    world = imported(node("n0"), other, pod("runs", 1, on="n0", cpu="0"))
    assert inventory.nodes(world)[0].cpu_free_milli == 92_000
