"""Whose turn it is on a real cluster: teams by their shares, and who may pass a gang that waits."""

from pathlib import Path

from tests.live.kubernetes.scheduling.test_draining import SETS, told_of
from tests.live.kubernetes.scheduling.test_saying import JOBS, PODS, replace, told
from tests.live.kubernetes.scheduling.test_while_it_runs import times
from tests.rigs.kubernetes.cluster import Cluster, Object
from tests.rigs.kubernetes.scheduled import OURS, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang, gang_notes, node, pod, replica_set

POLICY = """
[policy]
fairness = "{fairness}"
[[team]]
name = "ml"
guaranteed = {{ H100 = {guaranteed} }}
[[team]]
name = "web"
"""
WEB = "/api/v1/namespaces/web/pods"


def half(name: str, team: str = "ml") -> Object:
    """A pod of ours with half of a node."""
    return pod(name, 4, namespace=team, schedulerName=OURS)


def runs(rig: Cluster, team: str, name: str) -> None:
    """Until a pod runs."""
    rig.wait_for(f"{name} runs", lambda: rig.phases(team)[name] == "Running")


def waits(rig: Cluster, team: str, name: str) -> bool:
    """Whether a pod has no node."""
    return not rig.pods(team)[name]["spec"].get("nodeName")


def test_teams_take_turns_by_their_shares_as_the_policy_says_now(rig: Cluster, tmp_path: Path):
    """Half of a node comes free three times, and each time `ml` holds the other half and has the
    older pod: it goes first where nothing is said; `web` does by fair shares; and `ml` again where
    it is guaranteed the node. The policy changes while the scheduler runs.
    """
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY.format(fairness="none", guaranteed=0))
    rig.add_nodes(node("n0"))
    rig.create(PODS, half("ends"), half("stays"))
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        rig.wait_until_running("ml", 2)
        rig.create(PODS, half("oldest"))
        rig.wait_for("it waits", lambda: told(rig, "oldest")[0] != "")
        rig.create(WEB, half("first", "web"))
        rig.annotate("ml", "ends", ends="Succeeded")
        runs(rig, "ml", "oldest")
        assert waits(rig, "web", "first")
        rig.create(PODS, half("older"))
        replace(policy, POLICY.format(fairness="drf", guaranteed=0))
        rig.wait_for("it is taken", lambda: times(ours, "policy changed") == 1)
        rig.wait_for("it waits", lambda: told(rig, "older")[0] != "")
        rig.annotate("ml", "stays", ends="Succeeded")
        runs(rig, "web", "first")
        assert waits(rig, "ml", "older")
        rig.create(WEB, half("second", "web"))
        replace(policy, POLICY.format(fairness="drf", guaranteed=8))
        rig.wait_for("it is taken", lambda: times(ours, "policy changed") == 2)
        rig.annotate("web", "first", ends="Succeeded")
        runs(rig, "ml", "older")
        assert waits(rig, "web", "second")
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert ours.stop() == 0


RECLAIMS = """
[policy]
min_run = "0s"
[[team]]
name = "ml"
[[team]]
name = "web"
guaranteed = { H100 = 8 }
"""


def test_a_guarantee_is_taken_back_from_a_gang_that_borrows_it_as_a_whole(
    rig: Cluster, tmp_path: Path
):
    """A gang of `ml` has both nodes, one of which is guaranteed to `web`: when a pod of that comes,
    both pods of the gang are evicted for it, and told so; it runs, and the gang that its set made
    anew waits whole, beside a node that is free.
    """
    policy = tmp_path / "policy.toml"
    policy.write_text(RECLAIMS)
    rig.add_nodes(node("n0"), node("n1"))
    rig.create(SETS, replica_set("borrows", 2, 8, gang_notes("borrows", 2), schedulerName=OURS))
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        rig.wait_until_running("ml", 2)
        before = {*rig.pods("ml")}
        rig.create(WEB, pod("owed", 8, namespace="web", schedulerName=OURS))
        runs(rig, "web", "owed")
        rig.wait_for("both left for it", lambda: told_of(rig, "Preempted") == before)
        rig.wait_for("two come back", lambda: len(rig.pods("ml").keys() - before) == 2)
        rig.wait_for("it is told", lambda: told(rig, min(rig.pods("ml")))[0] != "")
        assert before.isdisjoint(rig.pods("ml"))
        assert all(waits(rig, "ml", name) for name in rig.pods("ml"))
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert ours.stop() == 0
    rig.ask("DELETE", f"{SETS}/borrows")


def lasting(name: str, expected: str) -> Object:
    """A pod of ours with a whole node, and how long it should run."""
    notes = {"tidemill/expected-duration": expected}
    return pod(name, 8, schedulerName=OURS, metadata={"annotations": notes})


def test_a_short_job_passes_a_gang_that_waits_and_a_long_one_does_not(rig: Cluster, tmp_path: Path):
    """A node is free, and the gang of two waits for the other one, which is taken for an hour.

    A job of three hours that came before one of ten minutes waits, and that one runs. When both
    nodes are free, the gang has them.
    """
    rig.add_nodes(node("n0"), node("n1"))
    rig.create(PODS, lasting("hour", "1h"))
    with scheduling(rig, tmp_path) as ours:
        runs(rig, "ml", "hour")
        rig.create(JOBS, gang("wide", 2, 8, schedulerName=OURS))
        rig.wait_for("the gang is told", lambda: told(rig, "wide")[0] != "")
        rig.create(PODS, lasting("long", "3h"))
        rig.wait_for("it is told", lambda: told(rig, "long")[0] == "Waiting")
        rig.create(PODS, lasting("short", "10m"))
        runs(rig, "ml", "short")
        assert waits(rig, "ml", "long")
        for name in ("hour", "short"):
            rig.annotate("ml", name, ends="Succeeded")
        rig.wait_until_running("ml", 2)
        assert waits(rig, "ml", "long")
        rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
        assert ours.stop() == 0
