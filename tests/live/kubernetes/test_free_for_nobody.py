"""GPUs that look free and are not: of nodes that advertise fewer, and of nodes that have left."""

from typing import Any

import pytest

from tests.live.kubernetes import made
from tests.live.kubernetes.made import BEGIN_MS, Object, node, pod
from tests.live.kubernetes.test_watched_lives import PLUGINS, group
from tests.live.kubernetes.watched import WatchedCluster
from tidemill import api, explain
from tidemill.cli import pending
from tidemill.engine.fold import earlier
from tidemill.explain import inventory
from tidemill.explain.answers import Board
from tidemill.ledger.buckets import Bucket
from tidemill.live.history import events
from tidemill.live.kubernetes.translate import translate
from tidemill.model.policy import Policy


def board(*objects: Object) -> Board:
    """What waits by an import of these objects."""
    past = translate(made.taken(*objects))
    history = events.build(past.attempts, past.nodes, until_ms=BEGIN_MS + 300_000,
                           shapes=past.shapes)  # fmt: skip
    return explain.board(api.keep_history(history).world, Policy())


def gang(name: str, *nodes: str) -> list[Object]:
    """Three pods of 4 GPUs of a group, the first on these nodes."""
    told: dict[str, Any] = {"labels": {f"{PLUGINS}/pod-group": name}}
    places = (*nodes, *[""] * (3 - len(nodes)))
    one = group(3)
    one["metadata"]["name"] = name
    return [one, *(pod(f"{name}-{i}", 4, on=on, **told) for i, on in enumerate(places))]


@pytest.mark.parametrize(("advertised", "deadlocks"), [(8, 0), (6, 1)])
def test_gpus_that_are_not_advertised_end_no_deadlock(advertised: int, deadlocks: int):
    """Two gangs of three lack a pod each, and n1 has 4 GPUs that nobody holds, or advertises 2."""
    n1 = node("n1", advertised, capacity={"nvidia.com/gpu": "8"})
    found = board(node("n0"), n1, *gang("a", "n0", "n1"), *gang("b", "n0"))
    assert found.free_milli == (advertised - 4) * 1000
    assert len(found.partial_gangs) == 2
    assert len(found.deadlocks) == deadlocks


@pytest.mark.parametrize(("advertised", "known"), [(8, "measured"), (6, "inferred")])
def test_what_was_free_of_a_node_that_advertises_a_part_is_inferred(advertised: int, known: str):
    """Since when two of eight are not shown nobody says: how long they were free is no count."""
    past = translate(made.taken(node("n0", advertised, capacity={"nvidia.com/gpu": "8"}),
                                pod("runs", 1, on="n0")))  # fmt: skip
    history = events.build(past.attempts, past.nodes, until_ms=BEGIN_MS + 300_000,
                           shapes=past.shapes)  # fmt: skip
    statement = api.keep_history(history).statement
    assert statement.unadvertised == 8 - advertised
    assert statement.confidence(Bucket.NO_DEMAND) == known


def test_a_node_that_is_not_listed_any_more_has_nothing_free():
    """A pod ended on z, which is no node by now: only the 5 GPUs of n0 are free."""
    ended, runs = pod("ended", 8, on="z", end=100), pod("runs", 3, on="n0")
    found = board(node("n0"), ended, runs, pod("waits", 8, created=150))
    assert (found.free_milli, found.words.startswith("1 job waiting")) == (5000, True)


def test_a_word_with_two_owners_counts_each_job_once(capsys: pytest.CaptureFixture[str]):
    """Two pods would fit, and their scheduler says one word for two things of two layers: what is
    shown is what each is.
    """
    taken = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    held = "0/1 nodes are available: 1 node(s) had volume node affinity conflict."
    runs = pod("runs", 1, on="n0")
    waits = pod("x", 1, message=taken), pod("y", 2, message=held)
    past = translate(made.taken(node("n0"), runs, *waits))
    history = events.build(past.attempts, past.nodes, until_ms=BEGIN_MS + 300_000,
                           shapes=past.shapes)  # fmt: skip
    found = explain.board(api.keep_history(history).world, Policy())
    assert {row.says for row in found.rows} == {"hostPort", "volume"}
    assert {(row.owner, row.jobs) for row in found.rows} == {("scheduling", 1), ("workload", 1)}
    assert {(job.job, job.owner) for job in found.waiting} == {
        ("ml/x", "scheduling"), ("ml/y", "workload"),
    }  # fmt: skip
    pending._print_causes(found, found.waiting, lambda _, says: says, is_all=True)
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert {line[0]: line[2] for line in told[1:]} == {"hostPort": "1", "volume": "1"}


def test_an_observer_knows_gpus_that_a_node_under_work_does_not_advertise_any_more():
    """n0 has 8, a pod holds 2 of them; then it advertises 6: nobody has room for 5."""
    cluster = WatchedCluster(node("n0"), pod("runs", 2, on="n0"), pod("waits", 5))
    cluster.look(70, 100)
    assert cluster.why("ml/waits").cause == "none"
    cluster.told(110, node("n0", 6, capacity={"nvidia.com/gpu": "8"}), pod("small", 4))
    cluster.look(200)
    found = cluster.why("ml/waits")
    assert found.cause == "busy"
    assert "advertises 6 of 8 GPUs" in found.words
    assert cluster.why("ml/small").cause == "none"
    assert explain.board(cluster.now_known(), Policy()).free_milli == 4000


def test_an_observer_knows_a_taint_that_a_node_under_work_has_got():
    """n0 has 6 GPUs free behind a taint that the pod does not tolerate, and then without it."""
    taint = {"key": "gpu", "value": "kept", "effect": "NoSchedule"}
    cluster = WatchedCluster(node("n0"), pod("runs", 2, on="n0"), pod("waits", 5))
    cluster.look(70, 100)
    cluster.told(110, node("n0", taints=[taint]))
    cluster.look(200)
    found = cluster.why("ml/waits")
    assert found.cause != "none"
    assert "a taint that it does not tolerate: `gpu=kept`" in found.words
    cluster.told(210, node("n0"))
    cluster.look(300)
    assert cluster.why("ml/waits").cause == "none"


def test_a_node_that_is_not_ready_is_unhealthy_with_work_on_it_too():
    """Both are unreachable; the books have the one with a pod as closed, and show it as it is."""
    a, b = (node(name, ready=False, turned=100) for name in "ab")
    past = translate(made.taken(a, b, pod("lost", 2, on="a"), pod("waits", 8)))
    history = events.build(past.attempts, past.nodes, until_ms=BEGIN_MS + 300_000,
                           shapes=past.shapes)  # fmt: skip
    world = api.keep_history(history).world
    earlier.said_of_nodes(world, {one.node: one.words for one in history.node_reasons})
    assert [row.state for row in inventory.nodes(world)] == ["unhealthy"] * 2
    found = explain.why(world, Policy(), world.job_number["ml/waits"])
    assert "14 unhealthy on 2 nodes (`b`: not Ready, `a`: not Ready)" in found.words
    assert "uncordon" not in found.words
