"""`schedule kubernetes --check`: says before anything is bound what would not work, and why."""

import json
import socket
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from typer.testing import CliRunner, Result

from tests.conftest import ROOT
from tests.live.kubernetes.scheduling.test_placing import PODS
from tests.rigs import postgres
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling, token
from tests.rigs.kubernetes.takeovers import LEASE_PATH
from tests.rigs.kubernetes.wanted import node, pod
from tests.rigs.slurm.cluster import free_ports
from tidemill.cli.main import app
from tidemill.live.kubernetes import dra
from tidemill.live.kubernetes.scheduling import rights
from tidemill.live.kubernetes.scheduling.rights import RightsAsked
from tidemill.live.kubernetes.watching.kinds import ServedKind
from tidemill.model.errors import SpecError

DEPLOY = ROOT / "deploy" / "kubernetes"
READING = {"get", "list", "watch"}
Rule = tuple[str, str, str]


def granted(name: str) -> set[Rule]:
    """Group, resource and verb of all that a file of deploy/kubernetes allows."""
    return {
        (group, resource, verb)
        for part in (DEPLOY / name).read_text().split("---\n")
        for one in [msgspec.yaml.decode(part) or {}]
        for rule in one.get("rules", ())
        for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]
    }  # fmt: skip


def test_what_is_asked_about_is_what_the_manifests_allow():
    """Each right is in the file that it names, and each change that a file allows is asked about.

    Only what is read is not asked about: it is read.
    """
    every = rights.needed(
        RightsAsked("tidemill/scheduler", may_drain=True, may_resize=True, has_policy_object=True),
        (*rights.SCALED, "batch", dra.GROUP),
    )
    asked = {file: {(r.group, r.resource, r.verb) for r in every if r.file == file}
             for file in {right.file for right in every}}  # fmt: skip
    assert {*asked} == {"schedule.yaml", "drain.yaml", "resize.yaml", "policy.yaml"}
    for file, some in asked.items():
        assert some <= granted(file)
        assert {one for one in granted(file) - some if one[2] not in READING} == set()


class Checked:
    """What one check found."""

    def __init__(self, rig: Cluster, folder: Path, *options: str, account: str = "") -> None:
        path = folder / "kubeconfig-check"
        path.write_text(json.dumps(rig.config({"token": account or token(rig)})))
        command = ["schedule", "kubernetes", "--kubeconfig", str(path), "--check", *options]
        if "-j" not in options:
            command += ["-j", str(folder / "new.sqlite")]
        self.text = " ".join(CliRunner().invoke(app, command).output.split())
        self.result = CliRunner().invoke(app, [*command, "--json"])
        assert self.result.exit_code in (0, 1), self.result.output
        self.found: list[dict[str, Any]] = json.loads(self.result.stdout)

    def of(self, what: str) -> list[dict[str, Any]]:
        """What was found of something."""
        return [one for one in self.found if one["what"] == what]

    def is_ok(self, what: str) -> bool:
        return all(one["is_ok"] for one in self.of(what)) and bool(self.of(what))


def test_where_all_is_right_it_says_so_and_changes_nothing(rig: Cluster, tmp_path: Path):
    """Rights, journal, policy, nodes and prices are found; no journal, Lease or bind is made."""
    rig.add_nodes(node("n0"), node("n1"))
    rig.create(PODS, pod("p", 1, schedulerName=OURS))
    rig.try_to("DELETE", LEASE_PATH)
    policy = tmp_path / "policy.toml"
    policy.write_text('[policy]\norder = "priority"\n[[team]]\nname = "ml"\nmaximum = {H100 = 8}\n')
    found = Checked(rig, tmp_path, "--policy", str(policy), "--usd-per-hour", "2",
                    "--lease", "tidemill/scheduler")  # fmt: skip
    assert found.result.exit_code == 0, found.text
    for what in ("API server", "reading", "rights", "journal", "policy", "nodes", "prices"):
        assert found.is_ok(what), found.of(what)
    assert found.of("nodes")[0]["found"] == "2 with GPUs take work; 16 H100"
    assert "0 run, 1 wait, 0 are held" in found.of("jobs")[0]["found"]
    assert found.of("policy")[0]["found"] == "order priority, 1 team, 0 tiers"
    assert "Kubernetes v1.36" in found.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kubeconfig-check", "policy.toml"]
    assert rig.try_to("GET", LEASE_PATH)[0] == 404
    assert not rig.pods("ml")["p"]["spec"].get("nodeName")


def test_what_is_missing_is_named_with_what_to_do(
    rig: Cluster, tmp_path: Path, observer_token: str
):
    """An account that only reads, a folder that is not there, no price, a type that no node has."""
    rig.add_nodes(node("n0"))
    rig.create(PODS, pod("odd", 1, schedulerName=OURS, metadata={
        "name": "odd", "namespace": "ml", "annotations": {"tidemill/gang": "half"}}))  # fmt: skip
    policy = tmp_path / "policy.toml"
    policy.write_text('[[team]]\nname = "ml"\nmaximum = {H200 = 8}\n')
    found = Checked(rig, tmp_path, "--policy", str(policy), "--may-drain", "-j",
                    str(tmp_path / "nowhere" / "live.sqlite"), account=observer_token)  # fmt: skip
    assert found.result.exit_code == 1
    lacking = {one["found"]: one["so"] for one in found.of("rights")}
    assert "pods/binding" in lacking["may not create pods/binding"]
    assert "deploy/kubernetes/schedule.yaml" in lacking["may not create pods/binding"]
    assert "deploy/kubernetes/drain.yaml" in lacking["may not patch nodes"]
    assert "is not there" in found.of("journal")[0]["found"]
    assert found.of("journal")[0]["is_fatal"]
    assert "1 node without one: n0" in found.of("prices")[0]["found"]
    assert "node.kubernetes.io/instance-type" in found.of("prices")[0]["so"]
    assert "did you mean `H100`?" in found.of("GPU types")[0]["so"]
    assert found.of("ml/half")[0]["found"] == "MalformedGang"


def test_a_token_that_is_not_taken_is_told_as_that(rig: Cluster, tmp_path: Path):
    """No manifest helps against a 401."""
    found = Checked(rig, tmp_path, account="nonsense")
    assert "401" in found.of("cluster")[0]["found"]
    assert "token" in found.of("cluster")[0]["so"]
    assert "schedule.yaml" not in found.text


@pytest.mark.parametrize(
    ("text", "words"),
    [("[policy]\norder = 3", "order"), ("[[contract]]\nname = 'x'", "contract")],
)
def test_a_policy_that_cannot_be_used_is_told_beside_the_rest(
    rig: Cluster, tmp_path: Path, text: str, words: str
):
    """A field, a table that does not belong: exit 1, and the rights are told all the same."""
    policy = tmp_path / "policy.toml"
    policy.write_text(text)
    found = Checked(rig, tmp_path, "--policy", str(policy))
    assert found.result.exit_code == 1
    assert words in found.of("policy")[0]["found"]
    assert found.is_ok("rights")


def test_a_journal_of_somebody_else_is_refused(rig: Cluster, tmp_path: Path):
    """One that is being written; one of another scheduler; its own is good when that has ended."""
    rig.add_nodes(node("n0"))
    rig.create(PODS, pod("p", 1, schedulerName=OURS))
    with scheduling(rig, tmp_path) as ours:
        rig.wait_until_running("ml", 1)
        busy = Checked(rig, tmp_path, "-j", ours.journal)
        assert "is being written by another process" in busy.of("journal")[0]["found"]
        assert busy.result.exit_code == 1
        assert ours.stop() == 0
    other = Checked(rig, tmp_path, "-j", ours.journal, "--scheduler-name", "another")
    assert "is not that of the scheduler `another`" in other.of("journal")[0]["found"]
    mine = Checked(rig, tmp_path, "-j", ours.journal)
    assert "1 job so far" in mine.of("journal")[0]["found"]
    assert "1 run, 0 wait" in mine.of("jobs")[0]["found"]


def test_a_journal_that_could_not_be_made_on_postgresql_is_told(rig: Cluster, tmp_path: Path):
    """By making it and taking that back: the server has no more schemas than before."""
    if reason := postgres.missing():
        pytest.skip(f"this test starts a real PostgreSQL, and cannot: {reason}")
    with (
        postgres.running() as server,
        psycopg.connect(server.address("x").partition("?")[0], autocommit=True) as admin,
    ):
        admin.execute("CREATE ROLE scheduler LOGIN")
        mine = server.address("live", user="scheduler")
        refused = Checked(rig, tmp_path, "-j", mine)
        assert refused.result.exit_code == 1
        assert "permission denied for database" in refused.of("journal")[0]["found"]
        assert "CREATE on the database" in refused.of("journal")[0]["so"]
        admin.execute("GRANT CREATE ON DATABASE postgres TO scheduler")
        good = Checked(rig, tmp_path, "-j", mine)
        assert good.result.exit_code == 0, good.text
        assert good.of("journal")[0]["found"] == f"a new one can be made: `{mine}`"
        made = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'tidemill%'"
        assert admin.execute(made).fetchall() == [(0,)]


def of_nobody(folder: Path, *options: str) -> Result:
    """A scheduler's command about a server that is not there."""
    path = folder / "kubeconfig"
    path.write_text(json.dumps({
        "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:9"}}]}))  # fmt: skip
    return CliRunner().invoke(app, ["schedule", "kubernetes", "--kubeconfig", str(path),
                                    "-j", str(folder / "j.sqlite"), *options])  # fmt: skip


def test_a_server_that_is_not_there_is_told(tmp_path: Path):
    """Exit 1, and how to ask the same server by hand."""
    found = of_nobody(tmp_path, "--check")
    assert found.exit_code == 1
    assert "kubectl get --raw /readyz" in " ".join(found.output.split())


def test_the_first_line_of_the_log_says_what_was_done(tmp_path: Path):
    """Nothing of the cluster yet: what decides was compiled. The last one says why it ended."""
    lines = [one for one in of_nobody(tmp_path, "--once").stderr.splitlines() if "{" in one]
    told, last = map(json.loads, lines)
    assert (told["event"], {*told}) == ("ready to plan", {"at", "event", "said"})
    assert "made-up fleet" in told["said"]
    assert last["event"] == "ended by an error"


def test_a_port_that_is_taken_is_told_with_its_address(tmp_path: Path):
    """By a run, which stops, and by --check, which looks at the rest as well."""
    (number,) = free_ports(1)  # none that a connection is given when it is free again
    port = str(number)
    with socket.create_server(("127.0.0.1", number)):
        run = of_nobody(tmp_path, "--metrics", port, "--once")
        checked = of_nobody(tmp_path, "--metrics", port, "--check", "--json")
    words = f"cannot serve metrics on 127.0.0.1:{port}: address already in use"
    assert isinstance(run.exception, SpecError)
    assert run.exception.message == words
    assert "--metrics" in run.exception.hint
    found = {one["what"]: one for one in json.loads(checked.stdout)}
    assert {*found} == {"metrics", "cluster"}
    assert (found["metrics"]["found"], found["metrics"]["is_fatal"]) == (words, True)
    free = json.loads(of_nobody(tmp_path, "--metrics", port, "--check", "--json").stdout)
    assert free[0]["is_ok"], free


def test_a_shadow_is_not_checked():
    """It needs no rights beyond reading."""
    found = CliRunner().invoke(app, ["schedule", "kubernetes", "--check", "--shadow"])
    assert "a shadow only reads" in str(found.exception)


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        (ServedKind("batch", "v1", "Job", "jobs"), "observe.yaml"),
        (ServedKind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices"), "observe.yaml"),
        (ServedKind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses"), "observe.yaml"),
        (ServedKind("", "v1", "PersistentVolume", "persistentvolumes"), "schedule.yaml"),
    ],
)
def test_what_may_not_be_read_is_allowed_by_the_file_that_is_named(kind: ServedKind, file: str):
    """The manifest of a kind has the rule by which it may be listed and watched."""
    assert kind.manifest == file
    allowed = granted(file)
    assert {(kind.group, kind.plural, verb) for verb in ("list", "watch")} <= allowed
