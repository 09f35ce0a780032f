"""Who may decide, and over whom: one leader at a time, and work of less worth by eviction."""

import signal
import urllib.error
import urllib.request
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.conftest import ROOT
from tests.live.kubernetes.scheduling.test_saying import told
from tests.rigs import postgres
from tests.rigs.kubernetes import takeovers
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.forwarder import Forwarder
from tests.rigs.kubernetes.scheduled import OURS, Process, live, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang, node
from tidemill.cli.main import app
from tidemill.live.kubernetes.scheduling.leadership import LASTS_S

PODS = "/api/v1/namespaces/ml/pods"
JOBS = "/apis/batch/v1/namespaces/ml/jobs"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/tidemill/leases/scheduler"
BUDGETS = "/apis/policy/v1/namespaces/ml/poddisruptionbudgets"
MERGE = "application/merge-patch+json"
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


def preempted(rig: Cluster) -> dict[str, str]:
    """The names of our Events of pods that were stopped for others, and what they say."""
    found = rig.items("/apis/events.k8s.io/v1/namespaces/ml/events")
    return {one["metadata"]["name"]: one["note"] for one in found
            if one["reason"] == "Preempted"
            and one.get("reportingController") == OURS}  # fmt: skip


def nominated(rig: Cluster, job: str) -> list[str]:
    """Where room is being made for the pods of a job."""
    return sorted(
        one["status"].get("nominatedNodeName", "-")
        for one in live(rig)
        if one["metadata"]["name"].startswith(f"{job}-")
    )


def test_a_gang_leaves_whole_or_not_at_all_whatever_its_budget_says(rig: Cluster, tmp_path: Path):
    """A budget that comes later, and lets one of two pods go: nobody is evicted.

    When it is gone both are, each with an Event that says for whom; the better gang is told the
    nodes that it will get, and not any more when it is bound. The other is the same job as before.
    """
    before = preempted(rig).keys()  # those of other tests
    priorities(rig)
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    rig.add_nodes(node("n0"), node("n1"))
    rig.create(JOBS, gang("worse", 2, 8, schedulerName=OURS, priorityClassName="low"))
    selector = {"matchLabels": {"job-name": "worse"}}
    try:
        with scheduling(rig, tmp_path, "--policy", str(policy), "--usd-per-hour", "2") as ours:
            rig.wait_until_running("ml", 2)
            rig.create(BUDGETS, {"metadata": {"name": "keep"},
                                 "spec": {"minAvailable": 1, "selector": selector}})  # fmt: skip
            status = lambda: rig.ask("GET", f"{BUDGETS}/keep").get("status", {})  # noqa: E731
            rig.wait_for("one may go", lambda: status().get("disruptionsAllowed") == 1)
            rig.create(JOBS, gang("better", 2, 8, schedulerName=OURS, priorityClassName="high"))
            rig.wait_for("it is told", lambda: told(rig, "better")[0] == "Unschedulable")
            assert where(rig, "worse") == ["n0", "n1"]
            assert nominated(rig, "better") == ["-", "-"]
            hold_back(rig, "worse")
            rig.ask("DELETE", f"{BUDGETS}/keep")
            rig.wait_for("both are evicted", lambda: where(rig, "worse")[:2] in ([], ["-", "-"]))
            rig.wait_for("room is made", lambda: nominated(rig, "better") == ["n0", "n1"])
            assert told(rig, "better")[0] == "Preempting"
            let_go(rig, "worse")
            rig.wait_for("it runs", lambda: where(rig, "better") == ["n0", "n1"], 90)
            rig.wait_for("the other waits", lambda: where(rig, "worse") == ["-", "-"])
            rig.wait_for("victims are told", lambda: len(preempted(rig).keys() - before) == 2)
            rig.wait_for("all is told", lambda: not wrong(rig, ours.journal))
            assert nominated(rig, "better") == ["-", "-"]
            why = ["why", "ml/worse", "-j", str(ours.journal)]
            waits = "job `ml/worse` of team `ml` requests"  # once both pods came
            rig.wait_for("it waits", lambda: waits in CliRunner().invoke(app, why).output)
            found = CliRunner().invoke(app, why)
            assert ours.stop() == 0
        note = next(said for name, said in preempted(rig).items() if name not in before)
        assert "to make room for job `ml/better`" in note
        assert "priority 1000 is above 1" in note
        assert "another scheduler" not in found.output
        assert "#2" not in found.output
    finally:
        rig.try_to("DELETE", BUDGETS)


def hold_back(rig: Cluster, job: str) -> None:
    """Let the pods of a job take their time to go: a finalizer is what a slow kubelet is."""
    _finalizers(rig, job, ["rig/slow"])


def let_go(rig: Cluster, job: str) -> None:
    """Let the pods of a job that are about to go be gone."""
    _finalizers(rig, job, None)


def _finalizers(rig: Cluster, job: str, names: list[str] | None) -> None:
    for one in live(rig):
        name = one["metadata"]["name"]
        if name.startswith(f"{job}-") and one["spec"].get("nodeName"):
            rig.wait_for(f"{name} has others", partial(_has_others, rig, name, names))


def _has_others(rig: Cluster, name: str, names: list[str] | None) -> bool:
    """Whether the finalizers of a pod could be changed; its Job may have done so just now."""
    status, one = rig.try_to("GET", f"{PODS}/{name}")
    if status == 404:
        return True
    keep = [f for f in one["metadata"].get("finalizers", []) if not f.startswith("rig/")]
    change = {"metadata": {"finalizers": [*keep, *(names or [])],
                           "resourceVersion": one["metadata"]["resourceVersion"]}}  # fmt: skip
    return rig.try_to("PATCH", f"{PODS}/{name}", change, kind=MERGE)[0] in (200, 404)


def moment(told: str) -> float:
    """Seconds, of a time that the API server shows."""
    return datetime.fromisoformat(told).timestamp()


def test_two_replicas_on_postgresql(rig: Cluster, tmp_path: Path):
    """One decides. While the API server is frozen nobody does, and nobody ends; then one goes on.

    Killed between the binds of a gang, it is followed by the other within 15 seconds, which
    completes it: no pod is bound twice, and the journal tells what the cluster shows.
    """
    if reason := postgres.missing():
        pytest.skip(f"this test starts a real PostgreSQL, and cannot: {reason}")
    rig.try_to("DELETE", LEASE)
    rig.add_nodes(*(node(f"n{i}") for i in range(4)))
    with postgres.running() as server:
        both = [Process(rig, tmp_path, "--lease", "tidemill/scheduler") for _ in range(2)]
        try:
            for i, one in enumerate(both):
                one.journal, one.said = server.address("live"), tmp_path / f"replica-{i}.log"
                one.start()
                one.wait_for("began" if i == 0 else "standing by")
            rig.create(JOBS, gang("a", 2, 4, schedulerName=OURS))
            rig.wait_until_running("ml", 2)
            assert not both[1].has_logged("leading")
            with rig.frozen("kube-apiserver"):
                both[0].wait_for("lost the Lease")
            rig.create(JOBS, gang("b", 16, 1, schedulerName=OURS))
            rig.wait_for("one is bound", lambda: any(n != "-" for n in where(rig, "b")), 90)
            holder = rig.ask("GET", LEASE)["spec"]["holderIdentity"]
            pids = [str(one.process.pid) for one in both if one.process is not None]
            leader = next(i for i, pid in enumerate(pids) if holder.endswith(f"-{pid}"))
            assert all(one.process is not None and one.process.poll() is None for one in both)
            both[leader].kill()
            renewed = moment(rig.ask("GET", LEASE)["spec"]["renewTime"])
            rig.create(JOBS, gang("c", 2, 4, schedulerName=OURS))
            lease = lambda: rig.ask("GET", LEASE)["spec"].get("holderIdentity", "")  # noqa: E731
            rig.wait_for("the other leads", lambda: lease() not in ("", holder))
            took_s = moment(rig.ask("GET", LEASE)["spec"]["acquireTime"]) - renewed
            rig.wait_until_running("ml", 20)
            rig.wait_for("all is told", lambda: not wrong(rig, server.address("live")))
            assert both[1 - leader].stop() == 0
        finally:
            for one in both:
                if one.process is not None and one.process.poll() is None:
                    one.kill()
        assert wrong(rig, server.address("live")) == []
    assert took_s < 15, f"{took_s:.1f} s; a Lease lasts {LASTS_S:.0f}"
    assert rig.ask("GET", LEASE)["spec"].get("holderIdentity", "") == ""


def test_etcd_that_stands_still_under_two_replicas(rig: Cluster, tmp_path: Path):
    """Stopped for longer than a Lease lasts while gangs are bound, and once for less.

    At rest all of them are bound whole, once, neither replica has ended, and the journal tells what
    the cluster shows. More of it: `python -m tests.rigs.kubernetes.takeovers COUNT SEED pause`.
    """
    if reason := postgres.missing():
        pytest.skip(f"this test starts a real PostgreSQL, and cannot: {reason}")
    rig.try_to("DELETE", LEASE)
    with takeovers.two_replicas(rig, tmp_path) as both:
        _, took = takeovers.pause_often(rig, both, 2, seed=1)
    assert took[0] > LASTS_S > took[1]


def test_a_leader_that_stands_still_is_followed_and_comes_back_as_the_other(
    rig: Cluster, tmp_path: Path
):
    """Stopped (`SIGSTOP`) it keeps its session on PostgreSQL, and with it the journal: whoever has
    the Lease now ends that session, and binds. The other goes on, writes nothing, and stands by.

    The Lease passes once, and nothing is bound twice or in part.
    """
    if reason := postgres.missing():
        pytest.skip(f"this test starts a real PostgreSQL, and cannot: {reason}")
    rig.try_to("DELETE", LEASE)
    rig.add_nodes(*(node(f"n{i}") for i in range(5)))
    with takeovers.two_replicas(rig, tmp_path) as (leader, other):
        leader.start()
        leader.wait_for("began")
        other.start()
        other.wait_for("standing by")
        rig.create(JOBS, gang("a", 2, 4, schedulerName=OURS))
        rig.wait_until_running("ml", 2)
        rig.create(JOBS, gang("b", 16, 1, schedulerName=OURS))
        rig.wait_for("one is bound", lambda: any(n != "-" for n in where(rig, "b")), 60)
        assert leader.process is not None
        leader.process.send_signal(signal.SIGSTOP)
        try:
            rig.create(JOBS, gang("c", 1, 8, schedulerName=OURS))
            rig.wait_until_running("ml", 19)
            assert rig.ask("GET", LEASE)["spec"]["leaseTransitions"] == 1
        finally:
            leader.process.send_signal(signal.SIGCONT)
        leader.wait_for("stands by again")
        assert sum(line["event"] == "leading" for line in leader.lines()) == 1
        rig.create(JOBS, gang("d", 2, 1, schedulerName=OURS))
        rig.wait_until_running("ml", 21)
        rig.wait_for("all is told", lambda: not wrong(rig, other.journal))
        assert rig.ask("GET", LEASE)["spec"]["leaseTransitions"] == 1
        assert other.stop() == 0
        rig.create(JOBS, gang("e", 2, 1, schedulerName=OURS))
        rig.wait_until_running("ml", 23)
        rig.wait_for("all is told", lambda: not wrong(rig, leader.journal))


def test_replicas_wait_for_a_server_of_the_journal_that_is_away(rig: Cluster, tmp_path: Path):
    """PostgreSQL is away for longer than a Lease lasts: neither replica ends, both answer whoever
    probes them and say why they are not ready, and one of them binds what came meanwhile.
    """
    if reason := postgres.missing():
        pytest.skip(f"this test starts a real PostgreSQL, and cannot: {reason}")
    rig.try_to("DELETE", LEASE)
    rig.add_nodes(node("n0"), node("n1"))
    with postgres.running() as server, takeovers.two_replicas(rig, tmp_path, server) as both:
        both[0].start()
        both[0].wait_for("began")
        both[1].start()
        both[1].wait_for("standing by")
        rig.create(JOBS, gang("a", 2, 4, schedulerName=OURS))
        rig.wait_until_running("ml", 2)
        server.stop()
        rig.create(JOBS, gang("b", 2, 4, schedulerName=OURS))
        both[1].wait_for("stands by again")
        for one, why in zip(both, ("does not answer", "cannot be used now"), strict=True):
            assert takeovers.asked(one, "/livez") == (200, "ok\n")
            status, said = takeovers.asked(one, "/readyz")
            assert status == 503
            assert why in said, said
            assert takeovers.asked(one, "/metrics")[0] == 200
        server.start()
        rig.wait_until_running("ml", 4)
        for one in both:
            assert one.process is not None
            assert one.process.poll() is None, one.said.read_text()
            rig.wait_for("it is ready", partial(_is_ready, one))
        rig.wait_for("all is told", lambda: not wrong(rig, both[0].journal))
    assert not any("Traceback" in one.said.read_text() for one in both)


def _is_ready(one: Process) -> bool:
    return takeovers.asked(one, "/readyz")[0] == 200


def test_replicas_whose_right_to_the_lease_is_taken_away_end_neither_of_them(
    rig: Cluster, tmp_path: Path
):
    """The leader says which rule lacks, and decides nothing once its Lease ran out; a restart of
    the API server meanwhile ends nobody either. Given back, one of them leads, and binds.
    """
    rig.try_to("DELETE", LEASE)
    rig.add_nodes(node("n0"))
    both = [Process(rig, tmp_path, "--lease", "tidemill/scheduler") for _ in range(2)]
    role = ["-n", "tidemill", "rolebinding", "scheduler-lease"]
    try:
        for i, one in enumerate(both):
            one.said = tmp_path / f"replica-{i}.log"
            one.start()
            one.wait_for("began" if i == 0 else "standing by")
        rig.kubectl("delete", *role)
        both[0].wait_for("lost the Lease")
        for one in both:
            one.wait_for("Lease not renewed")
        rig.stop_api()
        rig.start_api()
        rig.create(JOBS, gang("a", 2, 4, schedulerName=OURS))
        rig.kubectl("apply", "-f", str(ROOT / "deploy" / "kubernetes" / "schedule.yaml"))
        rig.wait_until_running("ml", 2)
        assert [one.process is not None and one.process.poll() for one in both] == [None, None]
        (line,) = [one for one in both[0].lines() if one["event"] == "Lease not renewed"][:1]
        assert 'verbs: ["get"] (Role in namespace tidemill)' in line["missing_rule"]
        assert [one.stop() for one in both] == [0, 0]
    finally:
        rig.kubectl("apply", "-f", str(ROOT / "deploy" / "kubernetes" / "schedule.yaml"))
        for one in both:
            if one.process is not None and one.process.poll() is None:
                one.kill()


def test_a_right_to_read_that_is_taken_away_stops_it_until_it_is_given_back(
    rig: Cluster, tmp_path: Path
):
    """It says which rules lack, also to who probes it, and places nothing by what it saw before;
    given back it goes on by itself.
    """
    rig.add_nodes(node("n0"))
    binding = ["clusterrolebinding", "tidemill-scheduler-reads"]
    try:
        with (
            Forwarder(rig.port) as way,
            scheduling(rig, tmp_path, "--metrics", "0", port=way.port) as ours,
        ):
            ours.wait_for("began")
            (serving,) = (one for one in ours.lines() if one["event"] == "serving metrics")
            rig.kubectl("delete", *binding)
            way.cut()  # a watch that was begun goes on whatever is allowed
            way.mend()
            rig.wait_for("it is said", lambda: any("missing_rules" in one for one in ours.lines()))
            rig.create(JOBS, gang("a", 2, 4, schedulerName=OURS))
            url = f"http://127.0.0.1:{serving['port']}/readyz"
            rig.wait_for("it is not ready", lambda: "missing rule" in _answer(url))
            assert {*where(rig, "a")} <= {"-"}
            rig.kubectl("apply", "-f", str(ROOT / "deploy" / "kubernetes" / "schedule.yaml"))
            rig.wait_until_running("ml", 2)
            assert ours.stop() == 0
    finally:
        rig.kubectl("apply", "-f", str(ROOT / "deploy" / "kubernetes" / "schedule.yaml"))
    told = [one for one in ours.lines() if one["event"] == "not watching"]
    rules = [rule for one in told for rule in one.get("missing_rules", [])]
    assert 'apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"]' in rules
    assert "deploy/kubernetes/observe.yaml" in told[-1]["hint"]


def _answer(url: str) -> str:
    """What somebody answers who may not be well."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            found: bytes = answer.read()
    except urllib.error.HTTPError as error:
        found = error.read()
    return found.decode()
