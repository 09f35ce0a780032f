"""The files of deploy/ are taken by a real API server, and give no more rights than they say."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tests.rigs import postgres
from tests.rigs.kubernetes.cluster import DIE_WITH_US, Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling, token, wrong
from tests.rigs.kubernetes.takeovers import LEASE_PATH
from tests.rigs.kubernetes.wanted import gang, node, pod
from tidemill.live.kubernetes import resources

WHO = "system:serviceaccount:tidemill:scheduler"
DEPLOY = ROOT / "deploy"


@pytest.mark.parametrize(
    ("verb", "what", "is_allowed"),
    [
        ("create", "pods/binding", True), ("create", "pods/eviction", True),
        ("patch", "pods/status", True), ("create", "events.events.k8s.io", True),
        ("watch", "pods", True), ("list", "nodes", True),
        ("patch", "resourceclaims.resource.k8s.io", True), ("watch", "persistentvolumes", True),
        ("create", "resourceclaims.resource.k8s.io", False), ("patch", "persistentvolumes", False),
        ("create", "pods", False), ("delete", "pods", False), ("patch", "pods", False),
        ("patch", "nodes", False), ("get", "secrets", False), ("list", "configmaps", False),
        ("update", "jobs.batch", False), ("create", "leases.coordination.k8s.io", False),
    ],
)  # fmt: skip
def test_rights_are_those_that_it_needs(
    allowed: Cluster, verb: str, what: str, is_allowed: bool
):  # fmt: skip
    """Bind, evict, say why, and read; in the cluster at large nothing else."""
    resource, _, sub = what.partition("/")
    name, _, group = resource.partition(".")
    review = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": WHO, "groups": ["system:authenticated"], "resourceAttributes": {
            "namespace": "ml", "verb": verb, "resource": name, "group": group, "subresource": sub,
        }},
    }  # fmt: skip
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert allowed.ask("POST", path, review)["status"]["allowed"] is is_allowed


def test_the_manifests_of_the_deployment_are_taken(allowed: Cluster):
    """`kubectl apply -k`, and nothing else before it: all that the scheduler is and may do."""
    folder = DEPLOY / "kubernetes"
    found = rendered(allowed, folder)
    kinds = {one["kind"] for one in found}
    assert kinds >= {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role",
                     "RoleBinding", "Deployment", "ConfigMap"}  # fmt: skip
    accounts = {one["metadata"]["name"] for one in found if one["kind"] == "ServiceAccount"}
    (made,) = (one for one in found if one["kind"] == "Deployment")
    assert made["spec"]["template"]["spec"]["serviceAccountName"] in accounts
    told = allowed.kubectl("apply", "-k", str(folder))
    allowed.kubectl("delete", "-k", str(folder / "scheduler"))
    assert "configmap/policy-" in told
    for kind in ("deployment.apps/scheduler", "networkpolicy.networking.k8s.io/scheduler",
                 "poddisruptionbudget.policy/scheduler"):  # fmt: skip
        assert kind in told


def rendered(rig: Cluster, folder: Path) -> list[dict[str, Any]]:
    """What kustomize makes of a folder."""
    return [
        msgspec.yaml.decode(one) for one in rig.kubectl("kustomize", str(folder)).split("---\n")
    ]


@pytest.mark.parametrize(("verb", "name", "is_allowed"), [
    ("get", "scheduler", True), ("update", "scheduler", True), ("update", "another", False),
    ("get", "", False), ("create", "", True), ("delete", "scheduler", False),
])  # fmt: skip
def test_it_holds_its_own_lease_alone(allowed: Cluster, verb: str, name: str, is_allowed: bool):
    """Of other Leases in its namespace nothing is read or changed."""
    review = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": WHO, "groups": ["system:authenticated"], "resourceAttributes": {
            "namespace": "tidemill", "verb": verb, "resource": "leases", "name": name,
            "group": "coordination.k8s.io",
        }},
    }  # fmt: skip
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert allowed.ask("POST", path, review)["status"]["allowed"] is is_allowed


def test_a_journal_on_a_volume_has_one_writer(allowed: Cluster):
    """One replica, replaced and not doubled, with the journal on the claim and no Secret needed;
    and what was compiled, for nobody else plans while it is compiled again.
    """
    folder = DEPLOY / "kubernetes" / "scheduler-on-a-volume"
    found = {one["kind"]: one for one in rendered(allowed, folder)}
    assert {*found} == {"ConfigMap", "Deployment", "NetworkPolicy", "PersistentVolumeClaim"}
    spec = found["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    (container,) = spec["template"]["spec"]["containers"]
    env, cache = container["env"]
    places = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert (env["name"], cache["name"]) == ("TIDEMILL_JOURNAL", "XDG_CACHE_HOME")
    assert env["value"].startswith(places["journal"] + "/")
    assert cache["value"] == places["journal"]
    assert "valueFrom" not in env
    told = allowed.kubectl("apply", "-k", str(folder), "--dry-run=server")
    assert "persistentvolumeclaim/journal" in told


def test_the_overlay_of_the_guide_changes_the_image_and_the_policy_alone(
    allowed: Cluster, tmp_path: Path
):
    """Rendered and compared with the base; and the API server takes it, in a dry run."""
    guide = (ROOT / "docs" / "guides" / "schedule-kubernetes.md").read_text()
    (overlay,) = re.findall(r"```yaml\n(apiVersion: kustomize.*?)```", guide, re.DOTALL)
    (tmp_path / "kustomization.yaml").write_text(overlay)
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (tmp_path / "policy.toml").write_text('[policy]\norder = "shortest"\n')
    base, mine = (rendered(allowed, one)
                  for one in (DEPLOY / "kubernetes", tmp_path))  # fmt: skip
    before, after = map(json.dumps, (base, mine))
    (image,) = re.findall(r'"image": "(\S+?)"', before)
    (given,) = re.findall(r'"image": "(\S+?)"', after)
    assert (image, given) == ("registry.example/tidemill:0.1.0",
                              "registry.yours.example/tidemill:0.1.0")  # fmt: skip
    maps = [next(one for one in some if one["kind"] == "ConfigMap") for some in (base, mine)]
    assert maps[1]["data"] == {"policy.toml": '[policy]\norder = "shortest"\n'}
    was, now = (one["metadata"]["name"] for one in maps)
    assert was != now, "so that pods are made anew when the policy changes"
    for one in maps:
        one["data"] = {}
    swapped = json.dumps(base).replace(was, now).replace(image, given)
    assert json.loads(swapped) == mine
    assert "deployment.apps/scheduler" in allowed.kubectl(
        "apply", "-k", str(tmp_path), "--dry-run=server"
    )


def test_a_policy_that_is_an_object_needs_two_lines_and_a_file(
    allowed: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The guide's component adds the option to the Deployment and changes nothing else; with
    policy.yaml applied nothing lacks, by the scheduler's own word, and without it that is said.
    """
    guide = (ROOT / "docs" / "guides" / "schedule-kubernetes.md").read_text()
    (overlay,) = re.findall(r"```yaml\n(apiVersion: kustomize.*?)```", guide, re.DOTALL)
    (component,) = re.findall(r"```yaml\n(components:.*?)```", guide, re.DOTALL)
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (tmp_path / "policy.toml").write_text('[policy]\norder = "shortest"\n')
    (tmp_path / "kustomization.yaml").write_text(overlay)
    base = rendered(allowed, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(overlay + component)
    mine = rendered(allowed, tmp_path)
    (args,) = (_args(one) for one in mine if one["kind"] == "Deployment")
    assert args[-2:] == ["--policy-object", "fleet"]
    for one in mine:
        if one["kind"] == "Deployment":
            _args(one)[-2:] = []
    assert mine == base
    told = allowed.kubectl("apply", "-k", str(tmp_path), "--dry-run=server")
    assert "deployment.apps/scheduler" in told
    config, policy = tmp_path / "kubeconfig", str(tmp_path / "policy.toml")
    config.write_text(json.dumps(allowed.config({"token": token(allowed)})))
    monkeypatch.setenv("KUBECONFIG", str(config))
    words = [policy if word == "/etc/tidemill/policy.toml" else word for word in args]
    file = str(DEPLOY / "kubernetes" / "policy.yaml")
    check = partial(tidemill, *words, "--policy-object", "fleet", "--check", "-j", ":memory:")
    allowed.kubectl("delete", "--ignore-not-found", "-f", file)
    assert "schedulingpolicies" in check().out
    allowed.kubectl("apply", "-f", file)
    try:
        allowed.wait_for("nothing lacks", lambda: "may not" not in check().out)
    finally:
        allowed.kubectl("delete", "-f", file)


def _args(deployment: dict[str, Any]) -> list[str]:
    """The arguments of its container."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found: list[str] = container["args"]
    return found


def test_the_command_line_of_the_deployment_schedules(rig: Cluster, tmp_path: Path):
    """Its arguments and variables, as its service account, in a folder that cannot be written: the
    journal is where the Secret says, and no password of it is in the log.
    """
    if reason := postgres.missing():
        pytest.skip(f"this test starts a real PostgreSQL, and cannot: {reason}")
    (one,) = (x for x in rendered(rig, DEPLOY / "kubernetes" / "scheduler")
              if x["kind"] == "Deployment")  # fmt: skip
    (container,) = one["spec"]["template"]["spec"]["containers"]
    assert [env["name"] for env in container["env"]] == ["TIDEMILL_JOURNAL"]
    (tmp_path / "policy.toml").write_text((DEPLOY / "kubernetes/scheduler/policy.toml").read_text())
    given = {"/etc/tidemill/policy.toml": str(tmp_path / "policy.toml"), "0.0.0.0:9100": "0"}
    config, log = tmp_path / "kubeconfig", tmp_path / "log"
    config.write_text(json.dumps(rig.config({"token": token(rig)})))
    rig.try_to("DELETE", LEASE_PATH)
    rig.add_nodes(node("n0"))
    rig.create("/api/v1/namespaces/ml/pods", pod("p", 1, schedulerName=OURS))
    with postgres.running() as server, log.open("w") as opened:
        journal = server.address("live", password="hidden-42")
        running = subprocess.Popen(
            [*DIE_WITH_US, sys.executable, "-m", "tidemill",
             *(given.get(word, word) for word in container["args"])],
            env=os.environ | {"TIDEMILL_JOURNAL": journal, "KUBECONFIG": str(config)},
            cwd="/proc", stdout=opened, stderr=opened,
        )  # fmt: skip
        try:
            rig.wait_until_running("ml", 1)
            rig.wait_for("the journal has it", lambda: not wrong(rig, server.address("live")))
            running.terminate()
            assert running.wait(30) == 0, log.read_text()
        finally:
            running.kill()
    assert '"event":"began"' in log.read_text()
    assert "hidden-42" not in log.read_text()


def test_probes_are_answered_while_a_new_pod_compiles(tmp_path: Path):
    """Nothing of what decides is compiled yet: it is alive, within the time of the manifest's
    probe, and not ready until it can plan.
    """
    shutil.copytree(ROOT / "src" / "tidemill", tmp_path / "tidemill",
                    ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    config, log = tmp_path / "kubeconfig", tmp_path / "log"
    config.write_text(json.dumps({
        "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:9"}}]}))  # fmt: skip
    manifest = (DEPLOY / "kubernetes" / "scheduler" / "deployment.yaml").read_text()
    (probe_s,) = re.findall(r"timeoutSeconds: (\d+)", manifest)
    own = {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with log.open("w") as opened:
        running = subprocess.Popen(
            [*DIE_WITH_US, sys.executable, "-m", "tidemill", "schedule", "kubernetes", "--metrics",
             "0", "--lease", "tidemill/none", "--kubeconfig", str(config), "-j", ":memory:"],
            env=os.environ | own, cwd=tmp_path, stdout=opened, stderr=opened,
        )  # fmt: skip
    try:
        told, found = "", list[tuple[str, int, str]]()
        while "ready to plan" not in told:
            assert running.poll() is None, told
            told = log.read_text()
            for port in re.findall(r'"serving metrics".*"port":(\d+)', told):
                for path in ("/livez", "/readyz"):
                    asked = HTTPConnection("127.0.0.1", int(port), timeout=float(probe_s))
                    asked.request("GET", path)
                    answer = asked.getresponse()
                    found.append((path, answer.status, answer.read().decode()))
            Event().wait(0.2)
    finally:
        running.kill()
        running.wait(10)
    assert found[:2] == [
        ("/livez", 200, "ok\n"), ("/readyz", 503, "what decides is being compiled\n")
    ]  # fmt: skip
    assert all(status == 200 for path, status, _ in found if path == "/livez")


def scheduler_of(rig: Cluster, one: dict[str, Any], namespace: str = "ml") -> str:
    """Whom the API server would let a pod be placed by; nothing is created."""
    one["metadata"]["namespace"] = namespace
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    found: str = rig.ask("POST", path, one)["spec"]["schedulerName"]
    return found


@pytest.fixture
def gpu_pods(rig: Cluster) -> Iterator[Cluster]:
    """The admission policy holds in the namespace `ml`; taken away as the guide says."""
    file = str(DEPLOY / "kubernetes" / "default.yaml")
    rig.kubectl("apply", "-f", file)
    rig.kubectl("label", "namespace", "ml", "tidemill/gpu-pods=true")
    rig.wait_for("it holds", lambda: scheduler_of(rig, pod("p", 1)) == OURS)
    yield rig
    rig.kubectl("delete", "-f", file, "--ignore-not-found")
    rig.kubectl("label", "namespace", "--all", "tidemill/gpu-pods-")
    for name in ("ml", "web"):  # else it is there for pods of the next test
        rig.wait_for("it does not hold", partial(_is_free, rig, name))


def _is_free(rig: Cluster, namespace: str) -> bool:
    return scheduler_of(rig, pod("p", 1), namespace) != OURS


def test_new_gpu_pods_of_a_labelled_namespace_name_us(gpu_pods: Cluster):
    """Pods with any resource that is counted as accelerators, and no others: those without, with
    none of it, with a part that nobody can count, of DaemonSets, with a node, of other schedulers.
    """
    rig = gpu_pods
    mig = ("nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.10gb.me", "nvidia.com/mig-3g.40gb.shared")
    shared = tuple(f"{name}{resources.SHARED}" for name in resources.WHOLE)
    other = (*resources.UNCOUNTED, "nvidia.com/gpumem", "nvidia.com/mig", "rdma/hca")
    for name in (*resources.WHOLE, *shared, *mig, *other):
        is_ours = resources.is_accelerator(name)
        assert (scheduler_of(rig, pod("p", 1, resource=name)) == OURS) is is_ours, name
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}
    owned = pod("p", 1, metadata={"ownerReferences": [owner]})
    for one in (pod("p", 0), pod("p", 1, nodeName="n0"), owned):
        assert scheduler_of(rig, one) == "default-scheduler"
    assert scheduler_of(rig, pod("p", 1, schedulerName="volcano")) == "volcano"
    assert scheduler_of(rig, pod("p", 1), "web") == "default-scheduler"


def test_all_namespaces_but_some_and_the_way_back(gpu_pods: Cluster, tmp_path: Path):
    """By the lines of the guide. Then a Job that waits is suspended and goes on with the cluster's
    own scheduler, and none of its pods counts as failed; deleted ones would.
    """
    rig, guide = gpu_pods, (ROOT / "docs" / "guides" / "schedule-kubernetes.md").read_text()
    (patch,) = re.findall(r"```text\n(kubectl patch mutating.*?)```", guide, re.DOTALL)
    rig.kubectl(*shlex.split(patch)[1:])
    rig.wait_for("it holds everywhere", lambda: scheduler_of(rig, pod("p", 1), "web") == OURS)
    rig.kubectl("label", "namespace", "web", "tidemill/gpu-pods=false")
    rig.wait_for("not there", lambda: scheduler_of(rig, pod("p", 1), "web") != OURS)
    rig.add_nodes(node("n0"), node("n1"))
    rig.create("/apis/batch/v1/namespaces/ml/jobs", gang("g", 2, 8))
    with scheduling(rig, tmp_path) as ours:
        rig.wait_until_running("ml", 2)
        assert ours.stop() == 0
    rig.create("/apis/batch/v1/namespaces/ml/jobs", gang("late", 2, 4))
    rig.add_nodes(node("n2"))
    (lines,) = re.findall(r"```text\n(kubectl delete -f \S+default.yaml.*?)```", guide, re.DOTALL)
    waits = [one for one in lines.splitlines() if " get pods " in one]
    rig.wait_for("both wait", lambda: rig.kubectl(*waits[0].split()[1:]).count("late-") == 2)
    for line in lines.replace("deploy/", f"{DEPLOY}/").splitlines():
        rig.kubectl(*shlex.split(line)[1:])
    rig.wait_for("new ones do not", lambda: scheduler_of(rig, pod("p", 1)) != OURS)
    (suspend,) = re.findall(r"`(kubectl patch job NAME -p .*?)`", " ".join(guide.split()))
    for word in ("true", "false"):
        line = suspend.replace("NAME", "late -n ml").replace("true", word)
        rig.kubectl(*shlex.split(line)[1:])
        if word == "true":
            rig.wait_for("its pods are gone", lambda: not any("late-" in n for n in rig.pods("ml")))
    rig.wait_until_running("ml", 4)
    status = rig.ask("GET", "/apis/batch/v1/namespaces/ml/jobs/late")["status"]
    assert status.get("failed", 0) == 0


def test_the_container_file_pins_runs_without_root_and_copies_what_there_is():
    """Each instruction is known, what is copied exists, dependencies come with their hashes."""
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert {line[0] for line in lines} <= {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER",
                                           "ENTRYPOINT"}  # fmt: skip
    copied = [line[1] for line in lines if line[0] == "COPY" and "--from" not in line[1]]
    assert all((ROOT / name).exists() for name in copied)
    for line in lines:
        for command in " ".join(line[1:]).split("&&") if line[0] == "RUN" else ():
            own = command.split()[-1] == "." and "--no-deps" in command  # the project itself
            assert "pip install" not in command or own or "--require-hashes" in command, command
    named = [word for line in lines for word in line if word.startswith("requirements/")]
    for name in {*named}:
        rows = (ROOT / name).read_text().replace("\\\n", " ").splitlines()
        rows = [row for row in rows if row.strip() and not row.lstrip().startswith("#")]
        assert all("--hash=sha256:" in row for row in rows), name
    assert "psycopg-binary==" in "".join((ROOT / name).read_text() for name in {*named})
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "out"} <= {*ignored}
    assert not any((ROOT / name).is_relative_to(ROOT / one) for name in copied
                   for one in ignored if name != ".")  # fmt: skip
    assert [line[1] for line in lines if line[0] == "USER"] == ["10001"]
    assert json.loads(text[text.index("ENTRYPOINT") + 10 :]) == ["tidemill"]


def test_numbers_and_probes_are_served_on_loopback(rig: Cluster, tmp_path: Path):
    """`/metrics` counts a bind by name and help, `/readyz` is well, other paths and verbs are not
    answered.
    """
    rig.add_nodes(node("n0"))
    rig.create("/api/v1/namespaces/ml/pods", pod("p", 1, schedulerName=OURS))
    with scheduling(rig, tmp_path, "--metrics", "0") as ours:
        rig.wait_until_running("ml", 1)
        (told,) = [line for line in ours.lines() if line["event"] == "serving metrics"]
        assert told["host"] == "127.0.0.1"

        def ask(path: str, method: str = "GET") -> tuple[int, str]:
            connection = HTTPConnection("127.0.0.1", told["port"], timeout=10)
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        rig.wait_for(
            "the bind is counted",
            lambda: "\ntidemill_scheduler_binds_total 1\n" in ask("/metrics")[1],
        )
        assert ask("/readyz") == (200, "ok\n")
        assert ask("/livez") == (200, "ok\n")
        assert ask("/secrets")[0] == 404
        assert ask("/metrics", "POST")[0] == 405
        lines = ask("/metrics")[1].splitlines()
        names = [line.split()[0] for line in lines if not line.startswith("#")]
        assert len(names) == sum(line.startswith("# HELP") for line in lines) > 8
        checked = _by_promtool(ask("/metrics")[1])
        assert ours.stop() == 0
    assert checked == (0, "")
    secret = json.loads((tmp_path / "kubeconfig-scheduler").read_text())["users"][0]["user"][
        "token"
    ]
    assert all(json.loads(line)["event"] for line in ours.said.read_text().splitlines())
    assert secret not in ours.said.read_text()


def _by_promtool(text: str) -> tuple[int, str]:
    """What Prometheus' own linter makes of metrics; nothing to complain of where it is not here."""
    found = shutil.which("promtool")
    if found is None:
        return 0, ""
    done = subprocess.run(
        [found, "check", "metrics"], input=text, text=True, capture_output=True, check=False
    )
    return done.returncode, done.stdout + done.stderr
