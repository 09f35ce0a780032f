"""Who may decide, and over whom: one leader at a time, and work of less worth by eviction."""

from pathlib import Path

from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, Process, live, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang, node

PODS = "/api/v1/namespaces/ml/pods"
JOBS = "/apis/batch/v1/namespaces/ml/jobs"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/tidemill/leases/scheduler"
POLICY = """
[policy]
min_run = "0s"
preempt_gain_ppm = 0
"""


def priorities(rig: Cluster) -> None:
    """Two classes of priority, as a cluster has them."""
    for name, value in (("low", 1), ("high", 1000)):
        rig.try_to(
            "POST", "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": name}, "value": value},
        )  # fmt: skip


def where(rig: Cluster, job: str) -> list[str]:
    """The nodes of the pods of a job that are bound."""
    return sorted(
        one["spec"].get("nodeName", "-")
        for one in live(rig)
        if one["metadata"]["name"].startswith(f"{job}-")
        and "deletionTimestamp" not in one["metadata"]
    )


def test_a_gang_of_higher_priority_evicts_a_whole_one_of_lower(rig: Cluster, tmp_path: Path):
    """Two nodes of 8 are full of a gang of 2 × 8; a better one comes: the first leaves, whole.

    Its pods, made anew by its Job, wait, and start when the better one has ended.
    """
    priorities(rig)
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.add_nodes(node("n0"), node("n1"))
    rig.create(JOBS, gang("worse", 2, 8, schedulerName=OURS, priorityClassName="low"))
    with scheduling(rig, tmp_path, "--policy", str(policy), "--usd-per-hour", "2") as ours:
        rig.wait_until_running("ml", 2)
        rig.create(JOBS, gang("better", 2, 8, schedulerName=OURS, priorityClassName="high"))
        rig.wait_for("the better one runs", lambda: where(rig, "better") == ["n0", "n1"], 90)
        rig.wait_for("the other waits", lambda: where(rig, "worse") == ["-", "-"])
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        rig.ask("DELETE", f"{JOBS}/better?propagationPolicy=Background")
        rig.wait_for("it runs again", lambda: where(rig, "worse") == ["n0", "n1"], 90)
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert ours.stop() == 0
    assert wrong(rig, ours.journal) == []


def test_a_disruption_budget_is_waited_for(rig: Cluster, tmp_path: Path):
    """A gang that a PodDisruptionBudget keeps is not evicted for a better one."""
    priorities(rig)
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.add_nodes(node("n0"))
    budgets = "/apis/policy/v1/namespaces/ml/poddisruptionbudgets"
    rig.create(budgets, {
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"job-name": "worse"}}},
    })  # fmt: skip
    try:
        rig.create(JOBS, gang("worse", 1, 8, schedulerName=OURS, priorityClassName="low"))
        with scheduling(rig, tmp_path, "--policy", str(policy), "--usd-per-hour", "2") as ours:
            rig.wait_until_running("ml", 1)
            rig.create(JOBS, gang("better", 1, 8, schedulerName=OURS, priorityClassName="high"))
            ours.stop()
            ours.start("--once")
            assert ours.process is not None
            ours.process.wait(60)
        assert where(rig, "worse") == ["n0"]
        assert where(rig, "better") == ["-"]
    finally:
        rig.ask("DELETE", budgets)


def test_of_two_replicas_one_decides_and_the_other_takes_over(rig: Cluster, tmp_path: Path):
    """The standby does nothing while the leader lives; killed, it is followed within the Lease."""
    rig.try_to("DELETE", LEASE)
    rig.add_nodes(node("n0"), node("n1"))
    lease = ("--lease", "tidemill/scheduler")
    with scheduling(rig, tmp_path, *lease) as first:
        first.wait_for("began")
        second = Process(rig, tmp_path, *lease)
        second.said = tmp_path / "second.log"
        second.start()
        try:
            second.wait_for("standing by")
            rig.create(JOBS, gang("a", 2, 4, schedulerName=OURS))
            rig.wait_until_running("ml", 2)
            assert not [line for line in second.lines() if line["event"] == "leading"]
            first.kill()
            rig.create(JOBS, gang("b", 2, 4, schedulerName=OURS))
            second.wait_for("leading")
            rig.wait_until_running("ml", 4)
            rig.wait_for("all is told", lambda: not wrong(rig, second.journal))
            assert second.stop() == 0
        finally:
            if second.process is not None and second.process.poll() is None:
                second.kill()
    assert rig.ask("GET", LEASE)["spec"].get("holderIdentity", "") == ""
    assert wrong(rig, first.journal) == []
