"""What pods that wait are told: an order for a node only where a node would help."""

from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.rigs import postgres
from tests.rigs.kubernetes import takeovers
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling
from tests.rigs.kubernetes.wanted import gang, node, pod
from tidemill import explain
from tidemill.api import read_statement, world_of
from tidemill.cli.main import app
from tidemill.explain import phrasing
from tidemill.journal import open_journal
from tidemill.journal.moments import Calendar
from tidemill.live.kubernetes.scheduling import saying
from tidemill.live.kubernetes.scheduling.keeping import LATE_MS
from tidemill.model.reasons import Cause

PODS = "/api/v1/namespaces/ml/pods"
JOBS = "/apis/batch/v1/namespaces/ml/jobs"
MERGE = "application/merge-patch+json"


def told(rig: Cluster, begins: str) -> tuple[str, str]:
    """Reason and message of the condition of the pods whose names begin so; both are "" while not
    all of them say the same: they are told one after the other.
    """
    found = set[tuple[str, str]]()
    for name, one in rig.pods("ml").items():
        if name.startswith(begins):
            conditions: list[dict[str, Any]] = one["status"].get("conditions", [])
            said = (c for c in conditions if c["type"] == "PodScheduled")
            found |= {next(((c.get("reason", ""), c.get("message", "")) for c in said), ("", ""))}
    return found.pop() if len(found) == 1 else ("", "")


def events(rig: Cluster) -> list[dict[str, Any]]:
    """What we said of pods that wait."""
    found = rig.items("/apis/events.k8s.io/v1/namespaces/ml/events")
    return [one for one in found
            if one.get("reportingController") == OURS
            and one["reason"] == "FailedScheduling"]  # fmt: skip


def test_only_what_a_node_would_help_is_an_order_for_one(rig: Cluster, tmp_path: Path):
    """Full: Unschedulable, on every pod of the gang. Over a quota, tied to pods, or in need of a
    tier that nobody declared: another reason. Each with the cause in words, and an Event.
    """
    policy = tmp_path / "policy.toml"
    policy.write_text('[[team]]\nname = "web"\nmaximum = { H100 = 2 }\n')
    rig.add_nodes(node("n0"))
    chosen = {"matchLabels": {"a": "b"}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": chosen,
         "namespaceSelector": chosen}
    ]}}  # fmt: skip
    rig.create(PODS, pod("first", 4, schedulerName=OURS))
    rig.create(JOBS, gang("full", 2, 8, schedulerName=OURS))
    rig.create(PODS, pod("apart", 1, schedulerName=OURS, affinity=anti))
    tied = {"annotations": {"tidemill/required-topology": "rack"}}
    rig.create(PODS, pod("tied", 1, schedulerName=OURS, metadata=tied))
    rig.create("/api/v1/namespaces/web/pods", pod("quota", 3, namespace="web", schedulerName=OURS))
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        rig.wait_for("the gang is told", lambda: told(rig, "full")[0] == "Unschedulable", 120)
        rig.wait_for("the rest is told", lambda: all(told(rig, n)[0] for n in ("apart", "tied")))
        web = lambda: rig.pods("web")["quota"]["status"].get("conditions", [{}])[0]  # noqa: E731
        rig.wait_for("the other team is told", lambda: web().get("reason", "") != "")
        about = lambda: {one["regarding"]["name"].partition("-")[0] for one in events(rig)}  # noqa: E731
        rig.wait_for("there are Events", lambda: about() >= {"full", "apart"})
        assert ours.stop() == 0
    assert told(rig, "apart") == (
        "NotSupported",
        "affinity.podAntiAffinity with namespaceSelector: not placed by Tidemill's scheduler yet",
    )
    assert told(rig, "tied")[0] == "UnknownTopology"
    assert web()["reason"] == "OverQuota"
    assert all(one["note"] for one in events(rig))


def test_the_condition_follows_a_cause_that_changed_though_nothing_came_free(
    rig: Cluster, tmp_path: Path
):
    """One of two nodes is free for a gang that needs both; others take that one, and it says so."""
    rig.add_nodes(node("n0"), node("n1"))
    rig.create(PODS, pod("theirs", 8, nodeName="n1"))
    rig.create(JOBS, gang("wide", 2, 8, schedulerName=OURS))
    with scheduling(rig, tmp_path) as ours:
        rig.wait_for("the gang is told", lambda: "part of the gang" in told(rig, "wide")[1], 120)
        before = told(rig, "wide")[1]
        rig.create(PODS, pod("more", 8, nodeName="n0"))
        rig.wait_for("it is another cause", lambda: told(rig, "wide")[1] not in ("", before), 60)
        with open_journal(str(ours.journal)) as journal:
            world, policy = world_of(journal)
        found = explain.why(world, policy, world.job_number["ml/wide"])
        assert found.cause == "busy"
        assert told(rig, "wide")[1] == phrasing.cause(world, Cause.BUSY)
        assert ours.stop() == 0


def test_whoever_waits_is_told_whoever_decided_it_before(rig: Cluster, tmp_path: Path):
    """Also by a run for once. What the pod says already is not written again by the next
    scheduler; what it lacks is, although the journal has the cause: one may die in between.
    """
    rig.add_nodes(node("n0"))
    rig.create(PODS, pod("solo", 16, schedulerName=OURS))
    with scheduling(rig, tmp_path, "--once") as ours:
        assert ours.process is not None
        assert ours.process.wait(120) == 0
    assert told(rig, "solo")[0] == "NoSuchNode"
    version, said = rig.pods("ml")["solo"]["metadata"]["resourceVersion"], len(events(rig))
    with scheduling(rig, tmp_path, "--once") as again:
        assert again.process is not None
        assert again.process.wait(120) == 0
    assert rig.pods("ml")["solo"]["metadata"]["resourceVersion"] == version
    assert len(events(rig)) == said
    rig.ask("PATCH", f"{PODS}/solo/status", {"status": {"conditions": None}}, kind=MERGE)
    assert told(rig, "solo") == ("", "")
    with scheduling(rig, tmp_path) as last:
        rig.wait_for("it is told again", lambda: told(rig, "solo")[0] == "NoSuchNode", 60)
        assert last.stop() == 0


def test_a_pool_that_an_autoscaler_emptied_is_ordered_also_after_a_restart(
    rig: Cluster, tmp_path: Path
):
    """The last node with GPUs is deleted: the scheduler knows it, and the next by its journal."""
    rig.add_nodes(node("n0"), node("c0", gpus=0))
    with scheduling(rig, tmp_path) as ours:
        rig.create(PODS, pod("first", 8, schedulerName=OURS))
        rig.wait_for("it is bound", lambda: "nodeName" in rig.pods("ml")["first"]["spec"], 60)
        rig.delete_pod("ml", "first")
        rig.ask("DELETE", "/api/v1/nodes/n0")
        rig.create(PODS, pod("next", 8, schedulerName=OURS))
        rig.wait_for("it is told", lambda: told(rig, "next")[0] == "Unschedulable", 60)
        assert "nodes like `n0` (8 `" in told(rig, "next")[1]
        assert ours.stop() == 0
    rig.create(PODS, pod("later", 8, schedulerName=OURS), pod("wide", 16, schedulerName=OURS))
    with scheduling(rig, tmp_path, "--once") as again:
        assert again.process is not None
        assert again.process.wait(120) == 0
    assert (told(rig, "later")[0], told(rig, "wide")[0]) == ("Unschedulable", "NoSuchNode")


def test_a_takeover_tells_whoever_waits_and_was_not_told(rig: Cluster, tmp_path: Path):
    """The leader is killed. The other tells a pod whose word is missing, one that came meanwhile
    and one that is held; what a pod says already it does not write again. So does whoever stands
    by: it writes nothing.
    """
    if reason := postgres.missing():
        pytest.skip(f"this test starts a real PostgreSQL, and cannot: {reason}")
    rig.try_to("DELETE", takeovers.LEASE_PATH)
    rig.add_nodes(node("n0"))
    half = {"annotations": {"tidemill/gang": "half", "tidemill/gang-size": "2"}}
    with takeovers.two_replicas(rig, tmp_path) as (leader, other):
        leader.start()
        leader.wait_for("leading")
        rig.create(PODS, *(pod(name, 16, schedulerName=OURS) for name in ("kept", "lost")))
        rig.wait_for("both are told", lambda: {told(rig, n)[0] for n in ("kept", "lost")}
                     == {"NoSuchNode"}, 120)  # fmt: skip
        other.start()
        other.wait_for("standing by")
        rig.ask("PATCH", f"{PODS}/lost/status", {"status": {"conditions": None}}, kind=MERGE)
        version = rig.pods("ml")["kept"]["metadata"]["resourceVersion"]
        leader.kill()
        assert told(rig, "lost") == ("", ""), "who told it does not tell it again"
        rig.create(PODS, pod("late", 16, schedulerName=OURS),
                   pod("half", 1, schedulerName=OURS, metadata=half))  # fmt: skip
        other.wait_for("began")
        rig.wait_for("those that had no word have one", lambda: (
            told(rig, "lost")[0], told(rig, "late")[0], told(rig, "half")[0]
        ) == ("NoSuchNode", "NoSuchNode", "WaitingForGang"), 60)  # fmt: skip
        assert rig.pods("ml")["kept"]["metadata"]["resourceVersion"] == version
        written = {name: one["metadata"]["resourceVersion"] for name, one in rig.pods("ml").items()}
        leader.said.unlink()
        leader.start()
        leader.wait_for("standing by")
        rig.create(PODS, pod("last", 16, schedulerName=OURS))
        rig.wait_for("the leader says on", lambda: told(rig, "last")[0] == "NoSuchNode", 60)
        now = rig.pods("ml")
        assert {name: now[name]["metadata"]["resourceVersion"] for name in written} == written


def test_waits_begin_when_a_pod_was_created_whoever_was_there_to_see_it(
    rig: Cluster, tmp_path: Path
):
    """Before the journal began, and while no scheduler ran: `why` and `ledger` count all of it."""
    rig.add_nodes(node("n0"))
    for name in ("before", "between"):
        rig.create(PODS, pod(name, 16, schedulerName=OURS))
        rig.wait_for("it was created a while ago", partial(_is_late, rig, name), 10)
        with scheduling(rig, tmp_path, "--once") as ours:
            assert ours.process is not None
            assert ours.process.wait(120) == 0
    with open_journal(ours.journal) as opened:
        world, begins = world_of(opened)[0], Calendar.of(opened.facts()).begins
    assert begins is not None
    for name in ("before", "between"):
        at_ms = round((_created(rig, name) - begins).total_seconds() * 1000)
        j = world.job_number[f"ml/{name}"]
        assert (world.jobs.since_ms.item(j), world.jobs.submit_ms.item(j)) == (at_ms, at_ms)
    assert world.jobs.since_ms.item(world.job_number["ml/before"]) < 0
    told = read_statement(ours.journal).world
    assert told.jobs.submit_ms[:2].tolist() == world.jobs.submit_ms[:2].tolist()


def _is_late(rig: Cluster, name: str) -> bool:
    return datetime.now(UTC) - _created(rig, name) > timedelta(milliseconds=LATE_MS)


def _created(rig: Cluster, name: str) -> datetime:
    return datetime.fromisoformat(rig.pods("ml")[name]["metadata"]["creationTimestamp"])


def replace(path: Path, text: str) -> None:
    """Another text at once: nobody who reads the file just now finds an empty one."""
    made = path.with_suffix(".new")
    made.write_text(text)
    made.replace(path)


def test_a_policy_that_changes_is_taken_and_a_bad_one_is_refused(rig: Cluster, tmp_path: Path):
    """A quota that is raised lets a pod start, without a restart; a file that cannot be used is
    refused in words, and the rules before it stay.
    """
    policy = tmp_path / "policy.toml"
    policy.write_text('[[team]]\nname = "ml"\nmaximum = { H100 = 2 }\n')
    rig.add_nodes(node("n0"))
    rig.create(PODS, pod("wide", 4, schedulerName=OURS))
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        rig.wait_for("it is told", lambda: told(rig, "wide")[0] == "OverQuota", 120)
        replace(policy, '[policy]\norder = "nonsense"\n')
        ours.wait_for("policy refused")
        assert not rig.pods("ml")["wide"]["spec"].get("nodeName")
        replace(policy, '[[team]]\nname = "ml"\nmaximum = { H100 = 4 }\n')
        rig.wait_until_running("ml", 1)
        assert ours.stop() == 0
    refused = [line for line in ours.lines() if line["event"] == "policy refused"]
    assert "nonsense" in refused[0]["said"]


def test_a_bind_that_is_forbidden_is_said_everywhere(rig: Cluster, tmp_path: Path):
    """Without the right to bind: the pod's condition, an Event, the log, /readyz, metrics, `why`
    and `pending` say so and name the rule; with it again the pod is bound. Nothing is tried in
    vain meanwhile.
    """
    rig.add_nodes(node("n0"))
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tidemill-scheduler"
    rules = rig.ask("GET", role)["rules"]
    less = [{**rule, "resources": [r for r in rule["resources"] if r != "pods/binding"]}
            for rule in rules]  # fmt: skip
    rig.ask("PATCH", role, {"rules": less}, kind=MERGE)
    try:
        with scheduling(rig, tmp_path, "--metrics", "0") as ours:
            ours.wait_for("began")
            rig.create(PODS, pod("p", 1, schedulerName=OURS))
            rig.wait_for("it is told", lambda: told(rig, "p")[0] == "BindForbidden", 90)
            rig.wait_for("there is an Event", lambda: len(events(rig)) >= 1)
            port = next(line["port"] for line in ours.lines() if line["event"] == "serving metrics")
            status, said = http(port, "/readyz")
            _, numbers = http(port, "/metrics")
            rig.wait_for("it is kept", lambda: "BindForbidden" in asked(ours.journal, "pending"))
            why = asked(ours.journal, "why", "ml/p")
            rig.ask("PATCH", role, {"rules": rules}, kind=MERGE)
            rig.wait_until_running("ml", 1)
            rig.wait_for("it is well", lambda: http(port, "/readyz") == (200, "ok\n"))
            assert ours.stop() == 0
    finally:
        rig.ask("PATCH", role, {"rules": rules}, kind=MERGE)
    assert status == 503
    assert 'resources: ["pods/binding"], verbs: ["create"]' in said
    assert "tidemill_scheduler_jobs_bind_forbidden 1" in numbers
    assert "pods/binding" in why
    refused = [line for line in ours.lines() if line["event"] == "bind refused"]
    assert [line["reason"] for line in refused] == ["BindForbidden"]
    assert "pods/binding" in refused[0]["missing_rule"]


def http(port: int, path: str) -> tuple[int, str]:
    """What the scheduler's own port answers."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def asked(journal: str, *words: str) -> str:
    """What a command says of a journal that is being written."""
    return CliRunner().invoke(app, [*words, "-j", journal]).output


def test_what_can_never_start_has_one_reason():
    """Whichever proof there is of it: no such label, size, gang or rack."""
    never = [cause for cause in Cause if cause.name.startswith("IMPOSSIBLE")]
    assert {saying.OTHER_REASONS[cause] for cause in never} == {"NoSuchNode"}
