"""Whatever breaks, at rest nothing is over-committed, in part or lost, and all of it is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.kubernetes.scheduling.test_saying import http
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.faults import FAULTS
from tests.rigs.kubernetes.forwarder import Forwarder
from tests.rigs.kubernetes.interposer import Interposer
from tests.rigs.kubernetes.kills import METRICS, kill_often
from tests.rigs.kubernetes.moving_kills import BUDGETS, Killer, drain_often
from tests.rigs.kubernetes.scheduled import OURS, Process, gang_of, live, scheduling, wrong
from tests.rigs.kubernetes.story import Story
from tests.rigs.kubernetes.wanted import GPU, gang, node, pod
from tidemill.journal import open_journal
from tidemill.model import events as ev

PODS = "/api/v1/namespaces/ml/pods"
JOBS = "/apis/batch/v1/namespaces/ml/jobs"
MERGE = "application/merge-patch+json"


def bound(rig: Cluster, *names: str) -> int:
    """How many pods of these jobs are bound, and not about to go."""
    return sum(
        bool(one["spec"].get("nodeName")) and "deletionTimestamp" not in one["metadata"]
        for one in live(rig)
        if not names or gang_of(one).removeprefix("ml/") in names
    )


def nodes(rig: Cluster) -> set[str]:
    """Where pods are bound."""
    return {one["spec"].get("nodeName") for one in live(rig)}


def at_rest(rig: Cluster, journal: str) -> Callable[[], bool]:
    """Whether all is right now."""
    return lambda: not wrong(rig, journal)


def sizes(journal: str) -> set[int]:
    """How large jobs were taken to be, whenever they were told."""
    with open_journal(journal) as opened:
        told = (one for one in opened.read() if isinstance(one, ev.JobSubmitted))
        return {role.count for one in told for role in one.job.shape.roles}


def test_killed_in_the_middle_of_gangs_it_completes_them(rig: Cluster, tmp_path: Path):
    """Six times killed at random instants, five gangs of 16 are bound whole, once."""
    fell = kill_often(rig, Process(rig, tmp_path, *METRICS), 6, seed=7)
    assert sum(fell.values()) == 6


def test_an_api_server_that_stands_still_is_told_and_nothing_is_planned(
    rig: Cluster, tmp_path: Path
):
    """Stopped (`SIGSTOP`) it keeps its connections: the log, `/readyz` and the metrics say within
    half a minute that nothing is watched, and all goes on by itself when it answers again.
    """
    rig.add_nodes(node("n0"))
    with scheduling(rig, tmp_path, *METRICS) as ours:
        ours.wait_for("began")
        (serving,) = (line for line in ours.lines() if line["event"] == "serving metrics")
        with rig.frozen("kube-apiserver"):
            rig.wait_for("it is noticed", lambda: ours.has_logged("not watching"), 30)
            status, said = http(serving["port"], "/readyz")
            watching = "tidemill_scheduler_watching 0" in http(serving["port"], "/metrics")[1]
        assert status == 503
        assert "the API server has said nothing for" in said
        assert watching
        ours.wait_for("watching again")
        rig.create(PODS, pod("p", 1, schedulerName=OURS))
        rig.wait_until_running("ml", 1)
        assert http(serving["port"], "/readyz") == (200, "ok\n")
        assert ours.stop() == 0


def test_an_api_server_that_is_restarted_and_a_watch_that_is_cut(rig: Cluster, tmp_path: Path):
    """Gangs that come before, while and after the API server is down are all bound, once."""
    rig.add_nodes(*(node(f"n{i}") for i in range(4)))
    with (
        Forwarder(rig.port) as way,
        scheduling(rig, tmp_path, port=way.port) as ours,
    ):
        rig.create(JOBS, gang("before", 8, 1, schedulerName=OURS))
        rig.wait_for("it is bound", lambda: bound(rig, "before") == 8)
        way.cut()
        rig.create(JOBS, gang("while", 8, 1, schedulerName=OURS))
        rig.ask("DELETE", f"{JOBS}/before?propagationPolicy=Background")
        rig.wait_for("it is gone", lambda: not bound(rig, "before"))
        way.mend()
        rig.wait_for("it is bound", lambda: bound(rig, "while") == 8)
        rig.stop_api()
        rig.start_api()
        rig.create(JOBS, gang("after", 16, 1, schedulerName=OURS))
        rig.wait_for("it is bound", lambda: bound(rig, "after") == 16, 90)
        rig.wait_for("all is told", at_rest(rig, ours.journal))
        assert ours.stop() == 0
    assert wrong(rig, ours.journal) == []
    assert sizes(ours.journal) == {8, 16}, "no part of a gang was ever taken for the whole"


def test_pods_deleted_while_they_are_bound_come_back_to_their_gang(rig: Cluster, tmp_path: Path):
    """Of two gangs of 16 a pod each is deleted while they are bound; both come to be whole."""
    rig.add_nodes(*(node(f"n{i}") for i in range(4)))
    rig.create(JOBS, *(gang(f"g{i}", 16, 1, schedulerName=OURS) for i in range(2)))
    with scheduling(rig, tmp_path) as ours:
        rig.wait_for("one is bound", lambda: bound(rig) > 0)
        for name in ("ml/g0", "ml/g1"):  # more: the Job waits longer and longer to make others
            one = next(one for one in live(rig) if gang_of(one) == name)
            path = f"{PODS}/{one['metadata']['name']}"
            rig.try_to("DELETE", path, {"gracePeriodSeconds": 0})
        rig.wait_for("both are whole", lambda: bound(rig, "g0") == bound(rig, "g1") == 16)
        rig.wait_for("all is told", at_rest(rig, ours.journal))
        assert ours.stop() == 0
    assert wrong(rig, ours.journal) == []


def test_nodes_that_are_resized_cordoned_and_removed(rig: Cluster, tmp_path: Path):
    """A node that grows from 4 GPUs to 8 takes a gang that did not fit; its pod goes on.

    A cordoned one takes nothing. One that is removed takes its pod along: the gang is bound anew.
    """
    rig.add_nodes(node("n0", 4), node("n1", 8), node("n2", 8), node("n3", 8))
    rig.ask("PATCH", "/api/v1/nodes/n3", {"spec": {"unschedulable": True}}, kind=MERGE)
    rig.create(PODS, pod("stays", 2, schedulerName=OURS, nodeSelector={"tidy/name": "n0"}))
    rig.ask("PATCH", "/api/v1/nodes/n0", {"metadata": {"labels": {"tidy/name": "n0"}}}, kind=MERGE)
    with scheduling(rig, tmp_path) as ours:
        rig.wait_until_running("ml", 1)
        rig.create(JOBS, gang("wide", 3, 6, schedulerName=OURS))
        more = {GPU: "8"}
        labels = {"metadata": {"labels": {"nvidia.com/gpu.count": "8"}}}
        rig.ask("PATCH", "/api/v1/nodes/n0", labels, kind=MERGE)
        rig.ask("PATCH", "/api/v1/nodes/n0/status",
                {"status": {"capacity": more, "allocatable": more}}, kind=MERGE)  # fmt: skip
        rig.wait_for("the gang is bound", lambda: bound(rig, "wide") == 3)
        assert nodes(rig) == {"n0", "n1", "n2"}
        rig.wait_for("all is told", at_rest(rig, ours.journal))
        rig.ask("PATCH", "/api/v1/nodes/n3", {"spec": {"unschedulable": False}}, kind=MERGE)
        rig.ask("DELETE", "/api/v1/nodes/n1")
        lost = next(p for p in live(rig) if p["spec"].get("nodeName") == "n1")
        at_once = {"gracePeriodSeconds": 0}  # as the cluster's own collector of lost pods does
        rig.try_to("DELETE", f"{PODS}/{lost['metadata']['name']}", at_once)
        rig.wait_for("it is bound anew", lambda: nodes(rig) == {"n0", "n2", "n3"}, 90)
        rig.wait_for("all is told", at_rest(rig, ours.journal))
        assert ours.stop() == 0
    assert bound(rig, "wide") == 3
    assert wrong(rig, ours.journal) == []


@pytest.mark.usefixtures("may_drain")
def test_kills_while_nodes_are_drained(rig: Cluster, tmp_path: Path):
    """A node is to be taken; killed four times meanwhile, every gang is whole, and where it may be.

    More of it, and of gangs that are resized: `python -m tests.rigs.kubernetes.moving_kills`.
    """
    ours = Process(rig, tmp_path, "--may-drain")
    try:
        drain_often(Killer(rig, ours, 5, seed=1))
    finally:
        rig.ask("DELETE", BUDGETS)


def test_faults_that_are_mixed_by_a_seed(rig: Cluster, tmp_path: Path):
    """Refusals, lost answers, a clock that is set, watches that end, deleted pods, nodes that flap.

    The rest of them, and many more, are played by `python -m tests.rigs.kubernetes.faults`.
    """
    quick = ("409 storm", "429 storm", "answers lost", "clock set", "watches dropped",
             "pods deleted", "nodes flap", "etcd paused")  # fmt: skip
    with Interposer(rig) as way:
        story = Story(rig, tmp_path, way, seed=3)
        story.play({name: FAULTS[name] for name in quick}, rounds=2, per_round=4)
    assert all(story.done[name] for name in quick)


def test_a_second_scheduler_that_races_for_the_same_nodes(rig: Cluster, tmp_path: Path):
    """kube-scheduler and ours bind to the same 4 nodes at once: at rest no node has too much."""
    rig.add_nodes(*(node(f"n{i}") for i in range(4)))
    with scheduling(rig, tmp_path) as ours:
        ours.wait_for("began")
        for i in range(4):
            theirs = gang(f"theirs{i}", 4, 1)
            rig.create(JOBS, gang(f"ours{i}", 4, 1, schedulerName=OURS), theirs)
        rig.wait_for("all are bound", lambda: bound(rig) == 32, 90)
        rig.wait_for("all is right", at_rest(rig, ours.journal), 90)
        assert ours.stop() == 0
    assert wrong(rig, ours.journal) == []
