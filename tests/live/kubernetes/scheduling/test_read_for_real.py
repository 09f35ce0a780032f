"""What is read of the journal that a scheduler of ours wrote on a real cluster: causes, and books.

Each cause with its layer, in the words that its pods were told and with lines for kubectl that
work; and each command's sums against plain counts of pods and of events.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from tests.live.kubernetes.beside import shown
from tests.live.kubernetes.test_causes import in_pool
from tests.live.kubernetes.test_observing import Recorder
from tests.rigs.kubernetes.cluster import Cluster, Object
from tests.rigs.kubernetes.scheduled import OURS, gpus, live, scheduling, wrong
from tests.rigs.kubernetes.wanted import gang, gang_notes, node, pod
from tidemill import api
from tidemill.cli.main import app
from tidemill.journal import open_journal
from tidemill.journal.moments import Calendar
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.model import events as ev
from tidemill.model.reasons import Cause, Layer

L1, L2, L3, L4 = Layer
POLICY = """
[policy]
backfill = "none"
[[team]]
name = "web"
maximum = { H100 = 2 }
[[tier]]
name = "rack"
label = "topology.kubernetes.io/rack"
"""
NODES = (
    node("a0", labels={"pool": "a"}, rack="r0"), node("a1", labels={"pool": "a"}, rack="r1"),
    node("b0", labels={"pool": "b"}, rack="r0"), node("c0", labels={"pool": "c"}, rack="r2"),
)  # fmt: skip
PODS, JOBS = "/api/v1/namespaces/{}/pods", "/apis/batch/v1/namespaces/ml/jobs"


def ours(name: str, gpus: int, pool: str, **spec: Any) -> Object:
    """A pod of ours that selects the nodes of a pool."""
    return in_pool(name, gpus, pool, schedulerName=OURS, **spec)


def tied(name: str, pods: int, gpus: int, **spec: Any) -> list[Object]:
    """A gang that has to be in one rack."""
    notes = {"annotations": gang_notes(name, pods, required_topology="rack")}
    return [pod(f"{name}-{i}", gpus, schedulerName=OURS, metadata=notes, **spec)
            for i in range(pods)]  # fmt: skip


RUNNING = (ours("held-0", 6, "a"), ours("held-1", 6, "a"), ours("done", 1, "b"),
           ours("first", 2, "b", namespace="web"))  # fmt: skip
WAITING: dict[str, tuple[list[Object], Layer, Cause]] = {
    "ml/sliced": ([pod("sliced", 1, schedulerName=OURS, resource="nvidia.com/mig-1g.10gb")],
                  L1, Cause.NOTHING_CLAIMED),
    "ml/cordoned": ([ours("cordoned", 1, "c")], L2, Cause.NOTHING_READY),
    "ml/wide": ([gang("wide", 4, 8, schedulerName=OURS)], L2, Cause.NOT_ENOUGH_READY),
    "ml/busy": ([ours("busy", 8, "a")], L3, Cause.BUSY),
    "ml/scattered": ([ours("scattered", 4, "a")], L3, Cause.SCATTERED),
    "ml/no-cpu": ([ours("no-cpu", 2, "a", cpu="96")], L3, Cause.CPU_BINDS),
    "ml/tied": (tied("tied", 2, 2, nodeSelector={"pool": "a"}), L3, Cause.TOPOLOGY),
    "web/second": ([ours("second", 2, "b", namespace="web")], L3, Cause.OVER_LIMIT),
    "web/over": ([ours("over", 3, "b", namespace="web")], L4, Cause.OVER_LIMIT_ALWAYS),
    "ml/large": ([pod("large", 16, schedulerName=OURS)], L4, Cause.IMPOSSIBLE_SIZE),
    "ml/label": ([ours("label", 1, "mars")], L4, Cause.IMPOSSIBLE_LABEL),
    "ml/fleet": ([gang("fleet", 6, 8, schedulerName=OURS)], L4, Cause.IMPOSSIBLE_GANG),
    "ml/far": (tied("far", 3, 8), L4, Cause.IMPOSSIBLE_TOPOLOGY),
}  # fmt: skip
"""By job: its objects, who owns its cause, and the cause."""
WHOLE_SECONDS_MS = 3_000
"""The cluster tells times in whole seconds, and a look takes time."""


class Written(NamedTuple):
    """A cluster as it was when the scheduler stopped, and the journal that it wrote."""

    rig: Cluster
    journal: str
    said: dict[str, str]
    """What the pods of each job that waits were told."""
    held_ms: Counter[str]
    """GPU-milliseconds by job, as the pods tell them."""
    why: dict[str, Any]
    """What `why` answers of each job that waits."""

    def asked(self, *words: str) -> Any:
        """What a command says in JSON."""
        done = CliRunner().invoke(app, [*words, "--json", "-j", self.journal])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def written(allowed: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """Every cause at once, beside what runs and what has ended."""
    rig, folder = allowed, tmp_path_factory.mktemp("read")
    (folder / "policy.toml").write_text(POLICY)
    rig.add_nodes(*NODES)
    rig.kubectl("cordon", "c0")
    recorder = Recorder(rig)
    _create(rig, RUNNING)
    options = ("--policy", str(folder / "policy.toml"), "--usd-per-hour", "2")
    with scheduling(rig, folder, *options) as scheduler:
        rig.wait_until_running("ml", 3)
        for objects, *_ in WAITING.values():
            _create(rig, objects)
        rig.wait_for("all are told", lambda: all(_said(rig, job) for job in WAITING))
        rig.annotate("ml", "done", ends="Succeeded")
        rig.wait_for("it is told", lambda: not wrong(rig, scheduler.journal))
        assert scheduler.stop() == 0
    recorder.close()
    begins_ms, until_ms = _window(scheduler.journal)
    held_ms = recorder.held_ms(begins_ms, until_ms)
    said = {job: _said(rig, job) for job in WAITING}
    found = Written(rig, scheduler.journal, said, held_ms, {})
    found.why.update({job: found.asked("why", job)["answer"] for job in WAITING})
    yield found
    rig.clear()


def _create(rig: Cluster, objects: Any) -> None:
    for one in objects:
        path = JOBS if one["kind"] == "Job" else PODS.format(one["metadata"]["namespace"])
        rig.create(path, one)


def _said(rig: Cluster, job: str) -> str:
    """What all pods of a job were told, if it is one text."""
    namespace, _, name = job.partition("/")
    found = set[str]()
    for one, made in rig.pods(namespace).items():
        if one == name or one.startswith(f"{name}-"):
            said = [c for c in made["status"].get("conditions", ()) if c["type"] == "PodScheduled"]
            found.add(said[0].get("message", "") if said else "")
    return found.pop() if len(found) == 1 else ""


def _window(journal: str) -> tuple[int, int]:
    """When a journal begins and ends."""
    with open_journal(journal) as opened:
        begins = Calendar.of(opened.facts()).begins
        assert begins is not None
        begins_ms = round(begins.timestamp() * 1000)
        return begins_ms, begins_ms + api.last_ms(opened)


def lines(answer: Any, on: str) -> set[str]:
    """The commands that an answer names, of those that speak to Tidemill or to Kubernetes."""
    facts = [*answer["evidence"], *(f for one in answer["questions"] for f in one["evidence"])]
    told = [command for fact in facts for command in fact["shown_by"]]
    return {command["line"] for command in told if command["on"] == on}


def test_each_cause_has_its_layer_and_the_words_that_its_pods_were_told(written: Written):
    """No contract, no node that takes work, too little free, a quota, and what can never be."""
    found, wanted = dict[str, tuple[int, str]](), dict[str, tuple[int, str]]()
    for job, (_, layer, cause) in WAITING.items():
        answer = written.why[job]
        found[job] = (answer["layer"], answer["cause"])
        wanted[job] = (int(layer), cause.name.lower())
        assert written.said[job] in answer["words"], job
        assert lines(answer, "tidemill"), job
    assert found == wanted
    assert {layer for layer, _ in found.values()} == {1, 2, 3, 4}


def test_the_lines_for_kubectl_show_the_pods_nodes_and_labels_they_are_about(written: Written):
    """Of all answers together: the nodes, the pool that nobody has, who waits and who runs."""
    named = set[str]().union(*(lines(answer, "kubernetes") for answer in written.why.values()))
    told = {line: shown(written.rig, line) for line in sorted(named)}
    assert all(told.values()), told
    for begins, words in {
        "kubectl describe nodes": ("Name: a0", "Name: c0", "Unschedulable: true"),
        "kubectl get nodes -L pool": ("POOL a0", "a b0", "b c0"),
        "kubectl get pods -n ml -o ": ("busy", "scattered"),
        "kubectl get pods -n web -o ": ("second", "over"),
    }.items():
        assert any(line.startswith(begins) for line in told), (begins, sorted(told))
        for line in (line for line in told if line.startswith(begins)):
            for word in words:
                assert word in told[line], (line, word)


def test_a_quota_of_a_policy_file_is_shown_by_no_line_and_the_file_is_named(written: Written):
    """The cluster does not know it."""
    for job, name in (("web/over", "limit"), ("web/second", "team use")):
        (fact,) = (one for one in written.why[job]["evidence"] if one["name"] == name)
        assert fact["words"].endswith("policy.toml`)"), fact["words"]
        assert fact["words"] in written.why[job]["words"]
        assert {one["on"] for one in fact["shown_by"]} == {"tidemill", "slurm"}


def test_pending_and_fleet_count_what_the_pods_are(written: Written):
    """Who waits, what each node has free, and what is in use, by plain counts of the pods."""
    pods = live(written.rig)
    bound = [one for one in pods if one["spec"].get("nodeName")]
    used = Counter[str]()
    for one in bound:
        used[one["spec"]["nodeName"]] += gpus(one)
    told = written.asked("pending")
    assert {one["job"] for one in told["waiting"]} == {*WAITING}
    asked = sum(gpus(one) for one in pods if not one["spec"].get("nodeName"))
    assert told["jobs"] == len(WAITING)
    assert sum(row["asked_milli"] for row in told["rows"]) == 1000 * asked
    listed = written.asked("fleet", "--nodes")["nodes"]
    assert {one["node"]: one["accelerators"] - one["free_milli"] // 1000 for one in listed} == {
        one["metadata"]["name"]: used[one["metadata"]["name"]] for one in NODES
    }
    (row,) = (one for one in written.asked("fleet")["contracts"] if one["kind"] == "H100")
    assert row["in_use_milli"] == 1000 * used.total()


def naive(journal: str) -> tuple[Counter[str], int, int]:
    """GPU-milli·ms by job and in all, and the end, by a plain loop over the events."""
    held, since, names = Counter[str](), dict[int, int](), list[tuple[str, int]]()
    paid, first = 0, dict[str, int]()
    with open_journal(journal) as opened:
        for one in opened.read():
            if isinstance(one, ev.NodeAdded):
                first[one.node.name] = one.at_ms
            elif isinstance(one, ev.JobSubmitted):
                each = sum(r.count * r.accelerators * r.milli for r in one.job.shape.roles)
                names.append((one.job.name, each))
            elif isinstance(one, ev.AskedPlace):
                since[one.job] = one.at_ms
            elif isinstance(one, ev.JobFinished):
                name, each = names[one.job]
                held[name] += each * (one.at_ms - since.pop(one.job))
        end_ms = api.last_ms(opened)
    for j, at_ms in since.items():
        name, each = names[j]
        held[name] += each * (end_ms - at_ms)
    paid = sum(8_000 * (end_ms - at_ms) for at_ms in first.values())
    return held, paid, end_ms


def test_ledger_and_efficiency_are_exact_and_tell_what_the_pods_tell(written: Written):
    """Every millisecond by the events, and the pods' own times to the second; nothing is left over.

    A ledger compared with itself has not changed.
    """
    held, paid, end_ms = naive(written.journal)
    ledger, told = written.asked("ledger"), written.asked("efficiency")
    assert ledger["window"]["end_ms"] == end_ms
    assert ledger["totals"]["milli_ms"] == told["paid_milli_ms"] == paid
    sums = {line["key"]: line["milli_ms"] for line in ledger["lines"]}
    assert sum(sums.values()) == paid
    assert sum(sums.get(Bucket(b).name.lower(), 0) for b in ALLOCATED) == held.total()
    assert {row["key"]: row["held_milli_ms"] for row in told["rows"]} == held
    assert all(
        sum(p["milli_ms"] or 0 for p in row["parts"]) == held[row["key"]] for row in told["rows"]
    )
    assert {*held} == {*written.held_ms}
    for one in RUNNING:
        job = f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        assert abs(held[job] - 1000 * written.held_ms[job]) <= 1000 * gpus(one) * WHOLE_SECONDS_MS
    done = CliRunner().invoke(app, ["diff", written.journal, written.journal, "--json"])
    changed = json.loads(done.stdout)
    both = {row["bucket"]: (row["before_milli_ms"], row["after_milli_ms"])
            for row in changed["buckets"] if row["after_milli_ms"] is not None}  # fmt: skip
    assert both == {bucket: (amount, amount) for bucket, amount in sums.items()}


def test_the_report_has_the_ledger_s_figures_and_all_who_wait(written: Written, tmp_path: Path):
    """One file that needs nothing else."""
    path = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["report", "-j", written.journal, "-o", str(path)])
    assert done.exit_code == 0, done.output
    text = path.read_text()
    for job in WAITING:
        assert job in text, job
    for line in written.asked("ledger")["lines"]:
        if line["milli_ms"]:
            assert line["title"] in text
