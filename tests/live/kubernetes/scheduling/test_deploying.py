"""The files of deploy/ are taken by a real API server, and give no more rights than they say."""

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.rigs.kubernetes.cluster import Cluster
from tests.rigs.kubernetes.scheduled import OURS, scheduling
from tests.rigs.kubernetes.wanted import node, pod

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
    """`kubectl apply -k` is taken by the API server, in a dry run of its own."""
    folder = str(DEPLOY / "kubernetes" / "scheduler")
    told = allowed.kubectl("apply", "-k", folder, "--dry-run=server")
    assert "configmap/policy-" in told
    for kind in ("deployment.apps/scheduler", "networkpolicy.networking.k8s.io/scheduler",
                 "poddisruptionbudget.policy/scheduler"):  # fmt: skip
        assert kind in told


def test_the_container_file_pins_runs_without_root_and_copies_what_there_is():
    """Each instruction is known, what is copied exists, dependencies come with their hashes."""
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert {line[0] for line in lines} <= {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER",
                                           "ENTRYPOINT"}  # fmt: skip
    copied = [line[1] for line in lines if line[0] == "COPY" and "--from" not in line[1]]
    assert all((ROOT / name).exists() for name in copied)
    assert "--require-hashes" in text
    assert [line[1] for line in lines if line[0] == "USER"] == ["10001"]
    assert json.loads(text[text.index("ENTRYPOINT") + 10 :]) == ["tidemill"]


def test_numbers_and_probes_are_served_on_loopback(rig: Cluster, tmp_path: Path):
    """`/metrics` counts a bind by name and help, `/readyz` is well, other paths and verbs are not
    answered.
    """
    import http.client

    rig.add_nodes(node("n0"))
    rig.create("/api/v1/namespaces/ml/pods", pod("p", 1, schedulerName=OURS))
    with scheduling(rig, tmp_path, "--metrics", "0") as ours:
        rig.wait_until_running("ml", 1)
        (told,) = [line for line in ours.lines() if line["event"] == "serving metrics"]
        assert told["host"] == "127.0.0.1"

        def ask(path: str, method: str = "GET") -> tuple[int, str]:
            connection = http.client.HTTPConnection("127.0.0.1", told["port"], timeout=10)
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
        assert ours.stop() == 0
