"""What changes on a real cluster under a scheduler that runs: labels that are asked for, pods that
are gone, another policy.
"""

from pathlib import Path
from typing import Any

from tests.live.kubernetes.scheduling.test_placing import nodes_of
from tests.live.kubernetes.scheduling.test_saying import JOBS, MERGE, PODS, replace, told
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.interposer import Interposer
from tests.rigs.kubernetes.scheduled import OURS, Process, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang, gang_notes, node, pod, replica_set
from tidemill.journal import open_journal
from tidemill.journal.replay import rebuild
from tidemill.live.kubernetes.scheduling.differ import SEAT_GRACE_MS
from tidemill.model import events as ev

ZONE = "topology.kubernetes.io/zone"
SETS = "/apis/apps/v1/namespaces/ml/replicasets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
POLICY = """
[policy]
min_run = "{min_run}"
preempt_gain_ppm = 0
[[tier]]
name = "zone"
label = "topology.kubernetes.io/zone"
"""
RACK = """
[[tier]]
name = "rack"
label = "topology.kubernetes.io/rack"
"""


def test_a_label_that_is_first_selected_leaves_nodes_who_they_are(rig: Cluster, tmp_path: Path):
    """A pod runs; another selects nodes by a label that nobody asked for: there is no `h0#2`."""
    rig.add_nodes(node("h0", labels={"pace": "slow"}), node("h1", labels={"pace": "quick"}))
    rig.create(PODS, pod("first", 8, schedulerName=OURS))
    with scheduling(rig, tmp_path) as ours:
        rig.wait_until_running("ml", 1)
        (there,) = nodes_of(rig, "first").values()
        pace = {"h0": "quick", "h1": "slow"}[there]
        rig.create(PODS, pod("second", 4, schedulerName=OURS, nodeSelector={"pace": pace}))
        rig.wait_until_running("ml", 2)
        assert ours.stop() == 0
    assert nodes_of(rig, "second") == {"second": {"h0": "h1", "h1": "h0"}[there]}
    with open_journal(ours.journal) as journal:
        assert [row.name for row in rebuild(journal).node_rows] == ["h0", "h1"]
        assert not any(isinstance(one, ev.PlacementSeen) for one in journal.read())
    assert wrong(rig, ours.journal) == []


def test_the_seat_of_a_bare_pod_that_is_gone_is_free_after_a_minute(rig: Cluster, tmp_path: Path):
    """One of two pods of a gang is deleted: within the minute another job waits, then it runs.

    The pod that is made again later hears why it waits; who does what that says has a whole gang.
    """

    def member(name: str) -> dict[str, Any]:
        return pod(name, 8, schedulerName=OURS, metadata={"annotations": gang_notes("k", 2)})

    rig.add_nodes(node("n0"), node("n1"))
    rig.create(PODS, member("k0"), member("k1"))
    with Interposer(rig) as way, scheduling(rig, tmp_path, port=way.port) as ours:
        rig.wait_until_running("ml", 2)
        rig.ask("DELETE", f"{PODS}/k0?gracePeriodSeconds=0")
        rig.create(PODS, pod("next", 8, schedulerName=OURS))
        rig.wait_for("it is told", lambda: told(rig, "next")[0] != "")
        assert nodes_of(rig, "next") == {"next": ""}
        way.ahead_s = SEAT_GRACE_MS // 1000
        way.drop()  # watches that begin anew hear what time it is
        rig.wait_for("it runs", lambda: rig.phases("ml")["next"] == "Running")
        rig.create(PODS, member("k0"))
        rig.wait_for("it is told", lambda: told(rig, "k0")[0] == "PartialGang")
        assert "delete the gang's other pods too" in told(rig, "k0")[1]
        for name in ("next", "k1"):
            rig.ask("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
        rig.create(PODS, member("k1"))
        rig.wait_until_running("ml", 2)
        assert ours.stop() == 0
    assert ours.has_logged("gang lacks pods")
    assert wrong(rig, ours.journal) == []


def times(ours: Process, event: str) -> int:
    """How often it has logged an event."""
    return sum(line["event"] == event for line in ours.lines())


def test_a_job_that_is_made_smaller_gives_its_node_away(rig: Cluster, tmp_path: Path):
    """A gang of two nodes is to have one: another pod runs on the other. A node that joins without
    whole GPUs gets nobody who waits for some.
    """
    rig.add_nodes(node("n0"), node("n1"))
    rig.create(JOBS, gang("wide", 2, 8, schedulerName=OURS))
    with scheduling(rig, tmp_path) as ours:
        rig.wait_until_running("ml", 2)
        rig.create(PODS, pod("next", 8, schedulerName=OURS), pod("small", 1, schedulerName=OURS))
        rig.wait_for(
            "both are told", lambda: "" not in (told(rig, "next")[0], told(rig, "small")[0])
        )
        rig.add_nodes(node("cut", 1, advertised=0, more={"nvidia.com/mig-1g.10gb": 7}))
        size = {"parallelism": 1, "completions": 1}
        rig.ask("PATCH", f"{JOBS}/wide", {"spec": size}, kind=MERGE)
        rig.wait_for("it runs", lambda: rig.phases("ml").get("next") == "Running")
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert ours.stop() == 0
    assert nodes_of(rig, "small") == {"small": ""}


def test_a_policy_that_is_changed_is_tried_on_those_who_wait(rig: Cluster, tmp_path: Path):
    """Nobody is stopped in the first hour; the file says at once, and room is made at once.

    Nothing else happens in the cluster by then that would have the scheduler look again. There are
    tiers, and one more is declared: nodes that are known are sorted by it.
    """
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY.format(min_run="1h"))
    for name, value in (("low", 1), ("high", 1000)):
        rig.try_to("POST", CLASSES, {"metadata": {"name": name}, "value": value})
    rig.add_nodes(node("n0"))
    rig.create(SETS, replica_set("low", 1, 8, schedulerName=OURS, priorityClassName="low"))
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        rig.wait_until_running("ml", 1)
        rig.create(PODS, pod("high", 8, schedulerName=OURS, priorityClassName="high"))
        rig.wait_for("it is told", lambda: told(rig, "high")[0] != "")
        replace(policy, POLICY.format(min_run="0s"))
        rig.wait_for("it runs", lambda: rig.phases("ml")["high"] == "Running")
        replace(policy, POLICY.format(min_run="0s") + RACK)
        rig.wait_for("it is taken", lambda: times(ours, "policy changed") == 2)
        assert ours.stop() == 0
    assert wrong(rig, ours.journal) == []


def test_tiers_in_the_wrong_order_are_logged_and_a_gang_starts_when_they_are_swapped(
    rig: Cluster, tmp_path: Path
):
    """Racks before zones: a zone is cut along its racks, so a gang that needs two of them waits."""
    rig.add_nodes(*(node(f"n{i}", rack=f"r{i}", labels={ZONE: "z1"}) for i in range(2)))
    policy = tmp_path / "policy.toml"
    zone = POLICY.format(min_run="0s").partition("[[tier]]")[2]
    policy.write_text(f"{RACK}[[tier]]{zone}")
    notes = {"annotations": gang_notes("wide", 2, required_topology="zone")}
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        for i in range(2):
            rig.create(PODS, pod(f"wide-{i}", 8, schedulerName=OURS, metadata=notes))
        ours.wait_for("tiers in the wrong order")
        rig.wait_for("it waits, and says so", lambda: told(rig, "wide-0")[0] != "")
        replace(policy, f"[[tier]]{zone}{RACK}")
        rig.wait_until_running("ml", 2)
        assert ours.stop() == 0
    (line,) = (one for one in ours.lines() if one["event"] == "tiers in the wrong order")
    assert "put `zone` before `rack`" in line["hint"]
