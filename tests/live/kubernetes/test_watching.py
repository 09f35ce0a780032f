"""A real API server, listed and watched: nothing is missed, and nothing but reading is asked."""

import json
import re
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.shell import tidemill
from tests.conftest import ROOT
from tests.live.kubernetes.conftest import ROLE, Source
from tests.rigs.kubernetes.cluster import FOLDER, Cluster
from tests.rigs.kubernetes.forwarder import Forwarder
from tests.rigs.kubernetes.wanted import gang, node, pod
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.kubernetes import autoscaler
from tidemill.live.kubernetes.api import kubeconfig
from tidemill.live.kubernetes.watching import kinds
from tidemill.live.kubernetes.watching.source import KubernetesSource
from tidemill.live.observing.observer import Observer, ObserverTerms
from tidemill.live.prices.rules import flat
from tidemill.model.errors import BackendError, JournalError

Row = dict[str, Any]


def jobs(answer: SourceAnswer) -> dict[str, Row]:
    """The last row of each job."""
    return {row["job"]: row for row in answer.attempts.iter_rows(named=True)}


def copies(source: KubernetesSource) -> Any:
    """What the source holds of pods."""
    assert source.copy is not None
    return source.copy.copies[kinds.PODS]


def test_pages_of_two_are_all_objects(rig: Cluster, watcher: Source):
    """With pages of two, 7 pods and 3 nodes are found in one answer, as with one page."""
    rig.add_nodes(*(node(f"n{i}") for i in range(3)))
    rig.create("/api/v1/namespaces/ml/pods", *(pod(f"p{i}", 2) for i in range(7)))
    rig.wait_until_running("ml", 7)
    paged, whole = watcher(limit=2).poll(0), watcher().poll(0)
    assert jobs(paged) == jobs(whole)
    assert set(jobs(paged)) == {f"ml/p{i}" for i in range(7)}
    assert [one.name for one in paged.nodes] == ["n0", "n1", "n2"]
    assert {row["outcome"] for row in jobs(paged).values()} == {"running"}
    bound = rig.pods("ml")
    assert all(row["nodes"] == [bound[name[3:]]["spec"]["nodeName"]]
               for name, row in jobs(paged).items())  # fmt: skip


def test_what_ends_and_is_deleted_between_two_questions_is_told(rig: Cluster, watcher: Source):
    """A pod that ended well, one deleted while it ran and one that was made and deleted meanwhile.

    What was deleted is told until its time was told, and then forgotten.
    """
    rig.add_nodes(node("n0"))
    rig.create("/api/v1/namespaces/ml/pods", pod("done", 2), pod("killed", 2))
    rig.wait_until_running("ml", 2)
    source = watcher()
    first = source.poll(0)
    rig.annotate("ml", "done", ends="Succeeded")
    rig.wait_for("it ends", lambda: rig.phases("ml")["done"] == "Succeeded")
    rig.create("/api/v1/namespaces/ml/pods", pod("short", 4))
    rig.wait_until_running("ml", 2)
    for name in ("done", "killed", "short"):
        rig.delete_pod("ml", name)
    rig.wait_for("it is seen", lambda: len(copies(source).gone) == 3)
    found = jobs(source.poll(0))
    assert {name: row["outcome"] for name, row in found.items()} == {
        "ml/done": "done", "ml/killed": "cancelled", "ml/short": "cancelled",
    }  # fmt: skip
    assert all(row["end_ms"] >= row["start_ms"] for row in found.values())
    assert found["ml/killed"]["end_ms"] >= first.now_ms
    assert jobs(source.poll(source.now_ms() + 60_000)) == {}


def test_a_server_that_was_restarted_is_watched_on(rig: Cluster, watcher: Source):
    """While it is down that is an error in words; afterwards changes are seen again."""
    rig.add_nodes(node("n0"))
    rig.create("/api/v1/namespaces/ml/pods", pod("before"))
    rig.wait_until_running("ml", 1)
    source = watcher()
    assert set(jobs(source.poll(0))) == {"ml/before"}
    rig.stop_api()
    with pytest.raises(BackendError, match=r"127\.0\.0\.1:\d+ \(context `rig`\)"):
        source.poll(0)
    rig.start_api()
    rig.create("/api/v1/namespaces/ml/pods", pod("after"))
    rig.wait_until_running("ml", 2)
    rig.wait_for("it is seen", lambda: set(jobs(source.poll(0))) == {"ml/before", "ml/after"})


def test_a_server_that_stands_still_is_no_answer_and_ends_nothing(rig: Cluster, watcher: Source):
    """It keeps its connections and says nothing: an error in time; then everything as before."""
    rig.add_nodes(node("n0"))
    rig.create("/api/v1/namespaces/ml/pods", pod("before"))
    rig.wait_until_running("ml", 1)
    source = watcher(timeout_s=2)
    assert set(jobs(source.poll(0))) == {"ml/before"}
    with rig.frozen("kube-apiserver"):
        begun_s = time.monotonic()
        with pytest.raises(BackendError, match="no answer in time"):
            source.poll(0)
        assert time.monotonic() - begun_s < 20

    def is_seen() -> bool:
        try:
            found = source.poll(0)
        except BackendError:
            return False
        assert jobs(found)["ml/before"]["outcome"] == "running"
        return True

    rig.wait_for("it answers again", is_seen)


def test_what_the_server_forgot_is_listed_again(rig: Cluster, watcher: Source):
    """Cut off, while pods go and come and etcd is compacted: 410, a new list, and both are told."""
    rig.add_nodes(node("n0"))
    rig.create("/api/v1/namespaces/ml/pods", pod("goes", 4), pod("stays", 2))
    rig.wait_until_running("ml", 2)
    with Forwarder(rig.port) as way:
        source = watcher(port=way.port)
        source.poll(0)
        before = copies(source).lists
        way.cut()
        rig.delete_pod("ml", "goes")
        rig.create("/api/v1/namespaces/ml/pods", pod("comes", 4))
        rig.wait_until_running("ml", 2)
        rig.stop_api()
        rig.compact()
        rig.start_api()  # its cache begins now: it knows no older version
        way.mend()
        rig.wait_for(
            "it is listed again", lambda: _polled(source) and copies(source).lists > before
        )
        answer = source.poll(0)
        found = jobs(answer)
    assert {name: row["outcome"] for name, row in found.items()} == {
        "ml/goes": "cancelled", "ml/stays": "running", "ml/comes": "running",
    }  # fmt: skip
    assert "1 pod deleted while the connection was lost" in " ".join(answer.notes)


def _polled(source: KubernetesSource) -> bool:
    try:
        source.poll(0)
    except BackendError:
        return False
    return True


def role_of(user: str, *rules: tuple[str, str], verbs: tuple[str, ...] = ("list", "watch")) -> Row:
    """A role that lets somebody do so with these, and nothing else."""
    return {
        "metadata": {"name": user},
        "rules": [
            {"apiGroups": [group], "resources": [plural], "verbs": [*verbs]}
            for group, plural in rules
        ],
    }


def allow(
    rig: Cluster, user: str, *rules: tuple[str, str], verbs: tuple[str, ...] = ("list", "watch")
) -> None:
    """Let a user list and watch these, and nothing else."""
    role = role_of(user, *rules, verbs=verbs)
    whom = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    of = {"kind": "ClusterRole", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    root = "/apis/rbac.authorization.k8s.io/v1"
    rig.create(f"{root}/clusterroles", role)
    bound = {"metadata": {"name": user}, "subjects": [whom], "roleRef": of}
    rig.create(f"{root}/clusterrolebindings", bound)
    heeded(rig, user, rules[0])


def heeded(rig: Cluster, user: str, rule: tuple[str, str], *, is_allowed: bool = True) -> None:
    """Wait until the server gives a right, or does not any more."""
    group, plural = rule
    asked = {"verb": "list", "group": group, "resource": plural}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
              "spec": {"user": user, "resourceAttributes": asked}}  # fmt: skip
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    rig.wait_for(
        "it holds", lambda: rig.ask("POST", path, review)["status"]["allowed"] is is_allowed
    )


def as_user(
    rig: Cluster, user: str, folder: Path, port: int | None = None
) -> KubernetesSource:  # fmt: skip
    """A source of somebody with a client certificate."""
    made, key = rig.client_certificate(user)
    path = folder / "kubeconfig"
    told = {"client-certificate": str(made), "client-key": str(key)}
    path.write_text(json.dumps(rig.config(told, port=port)))
    return KubernetesSource(kubeconfig.find(path), timeout_s=20)


def test_what_may_not_be_read_is_unknown_and_said(rig: Cluster, tmp_path: Path):
    """Without nodes and jobs the pods are told; each missing right is said, and the rule for it."""
    rig.add_nodes(node("n0"))
    rig.create("/api/v1/namespaces/ml/pods", pod("a", 2))
    rig.wait_until_running("ml", 1)
    allow(rig, "half", ("", "pods"), ("", "events"))
    with as_user(rig, "half", tmp_path) as source:
        answer = source.poll(0)
    assert set(jobs(answer)) == {"ml/a"}
    assert not answer.nodes
    said = {note.partition(":")[0]: note for note in answer.notes}
    assert "nodes are those that pods name" in said["may not read nodes"]
    rule = 'apiGroups: ["batch"], resources: ["jobs"], verbs: ["list", "watch"]'
    assert said["may not read jobs.batch"].endswith(rule)
    assert "may not read pods" not in said
    assert not any("configmaps" in note for note in answer.notes)  # most clusters have none
    (remedy,) = (note for note in answer.notes if note.startswith("deploy/"))
    kubectl, *words = remedy.rpartition(": ")[2].split()
    assert kubectl == "kubectl"
    rig.kubectl(*words[:-1], str(ROOT / words[-1]))
    may = ("auth", "can-i", "list", "--as=system:serviceaccount:tidemill:observer", "-A")
    for note in answer.notes:  # every rule that it prints is one that the server takes
        if note is not remedy:
            told = msgspec.yaml.decode("{" + note.partition("ClusterRole: ")[2] + "}")
            assert told["verbs"] == ["list", "watch"]
            kind = ".".join(filter(None, (told["resources"][0], told["apiGroups"][0])))
            assert rig.kubectl(*may, kind) == "yes\n"


ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BOTH = (("", "pods"), ("", "nodes"))


def test_what_may_be_listed_alone_is_listed_at_every_question(rig: Cluster, tmp_path: Path):
    """Nodes and pods that come are in the next answer, and the rule that lacks is said."""
    rig.add_nodes(node("n0"))
    allow(rig, "lister", *BOTH, verbs=("get", "list"))
    with as_user(rig, "lister", tmp_path) as source:
        began_s = time.monotonic()
        assert [one.name for one in source.poll(0).nodes] == ["n0"]
        rig.add_nodes(node("n1"))
        rig.create("/api/v1/namespaces/ml/pods", pod("a", 2))
        rig.wait_until_running("ml", 1)
        answer = source.poll(0)
        assert time.monotonic() - began_s < 20, "less than one answer may take"
        assert [one.name for one in answer.nodes] == ["n0", "n1"]
        assert jobs(answer)["ml/a"]["outcome"] == "running"
        for plural in ("pods", "nodes"):
            (said,) = (one for one in answer.notes if one.startswith(f"may not watch {plural}"))
            assert said.endswith(f'resources: ["{plural}"], verbs: ["list", "watch"]')
        rig.ask("PUT", f"{ROLES}/lister", role_of("lister", *BOTH))
        rig.wait_for("it is watched", lambda: not any("may not watch" in one
                                                      for one in source.poll(0).notes))  # fmt: skip


def test_a_right_that_is_taken_away_and_given_back(rig: Cluster, tmp_path: Path):
    """Nodes stay on the books and are not observed meanwhile; without pods nothing is told."""
    rig.add_nodes(node("n0"))
    rig.create("/api/v1/namespaces/ml/pods", pod("a", 2))
    rig.wait_until_running("ml", 1)
    allow(rig, "loser", *BOTH)
    with Forwarder(rig.port) as way, as_user(rig, "loser", tmp_path, way.port) as source:

        def given(*rules: tuple[str, str]) -> None:
            rig.ask("PUT", f"{ROLES}/loser", role_of("loser", *rules))
            for rule in BOTH:
                heeded(rig, "loser", rule, is_allowed=rule in rules)
            way.cut()  # a watch that was begun goes on whatever is allowed
            way.mend()

        assert source.poll(0).nodes[0].unseen == ()
        given(("", "pods"))
        rig.wait_for("it is seen", lambda: any("any more" in one for one in source.poll(0).notes))
        answer = source.poll(0)
        assert [(one.name, len(one.unseen)) for one in answer.nodes] == [("n0", 1)]
        (said,) = (one for one in answer.notes if one.startswith("may not read nodes any more"))
        assert said.endswith('resources: ["nodes"], verbs: ["list", "watch"]')
        given(("", "nodes"))
        rig.wait_for("it is seen", lambda: not _polled(source))
        with pytest.raises(BackendError, match="403") as refused:
            source.poll(0)
        assert 'resources: ["pods"]' in refused.value.hint
        given(*BOTH)
        answer = source.poll(0)
        assert not any("any more" in one for one in answer.notes)
        assert jobs(answer)["ml/a"]["outcome"] == "running"
        (span,) = answer.nodes[0].unseen
        assert span[0] < span[1] < answer.now_ms + 1000


def test_without_pods_there_is_nothing_to_tell(rig: Cluster, tmp_path: Path):
    """Who may read nodes alone is told what has to be allowed."""
    allow(rig, "blind", ("", "nodes"))
    with (
        as_user(rig, "blind", tmp_path) as source,
        pytest.raises(BackendError, match="403") as refused,
    ):
        source.poll(0)
    assert 'resources: ["pods"]' in refused.value.hint
    assert "kubectl apply -f deploy/kubernetes/observe.yaml" in refused.value.hint


def test_only_reading_is_asked_for(rig: Cluster, watcher: Source):
    """The server's own audit of the observer: get, list and watch, and none of them refused."""
    rig.add_nodes(node("n0"))
    rig.create("/apis/batch/v1/namespaces/ml/jobs", gang("g", 2, 2))
    rig.wait_until_running("ml", 2)
    before = len(rig.audit.read_text())

    def asked() -> list[Row]:
        text = rig.audit.read_text()[before:]
        lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        return [one for one in lines if one["user"]["username"].endswith(":tidemill:observer")]

    answer = watcher().poll(0)
    assert set(jobs(answer)) == {"ml/g"}
    assert answer.notes == ()
    rig.wait_for("it watches", lambda: "watch" in {one["verb"] for one in asked()})
    mine = asked()
    assert {one["verb"] for one in mine} == {"get", "list", "watch"}
    assert {one["responseStatus"]["code"] for one in mine} == {200}
    assert {one["objectRef"]["resource"] for one in mine if "objectRef" in one} >= {
        "pods", "nodes", "jobs", "events", "replicasets", "resourceslices",
    }  # fmt: skip


def test_the_role_allows_what_is_read_and_nothing_else():
    """The file that people apply has every kind that is read, no other, and no verb that writes."""
    parts = map(msgspec.yaml.decode, ROLE.read_text().split("\n---\n"))
    (role,) = (one for one in parts if one["kind"] == "ClusterRole")
    allowed = {
        (group, plural)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    assert allowed == {(group, _plural(kind)) for group, kind in kinds.READERS}
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    (maps,) = (rule for rule in role["rules"] if "configmaps" in rule["resources"])
    assert (maps["resources"], maps["resourceNames"]) == (["configmaps"], [autoscaler.NAME])


def _plural(kind: str) -> str:
    return re.sub(r"s$", "se", kind.lower()) + "s"


def test_the_lines_of_the_guide_make_an_account(rig: Cluster, tmp_path: Path):
    """The guide's own block, run as it stands, makes a kubeconfig that the observer works with."""
    guide = (ROOT / "docs" / "guides" / "observe-kubernetes.md").read_text()
    (block,) = re.findall(r"```text\n(kubectl apply -f .*?)```", guide, re.DOTALL)
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    environment = {
        "KUBECONFIG": str(rig.kubeconfig), "HOME": str(tmp_path),
        "PATH": f"{FOLDER / 'bin'}:/usr/bin:/bin",
    }  # fmt: skip
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block], cwd=tmp_path, env=environment, check=True,
        capture_output=True, timeout=60,
    )  # fmt: skip
    rig.add_nodes(node("n0"))
    with KubernetesSource(kubeconfig.find(tmp_path / "observer.yaml")) as source:
        assert [one.name for one in source.poll(0).nodes] == ["n0"]


def test_tried_once_as_the_guide_says_the_books_tell_what_there_is(
    rig: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The first block of the guide, as it stands: who waits and which nodes there are."""
    guide = (ROOT / "docs" / "guides" / "observe-kubernetes.md").read_text()
    (lines,) = re.findall(r"```text\n(tidemill observe .*?--once.*?)```", guide, re.DOTALL)
    rig.add_nodes(node("n0"))
    rig.create("/api/v1/namespaces/ml/pods", pod("wide", 16))
    rig.wait_for("it is there", lambda: "wide" in rig.pods("ml"))
    monkeypatch.setenv("KUBECONFIG", str(rig.kubeconfig))
    monkeypatch.chdir(tmp_path)
    told = [tidemill(*shlex.split(line)[1:]) for line in lines.splitlines()]
    assert [one.code for one in told] == [0, 0, 0], told
    _, pending, fleet = (" ".join(one.out.split()) for one in told)
    assert "1 job waiting, 16 GPUs requested" in pending
    assert "nodes: 1 ready" in fleet


def test_a_journal_is_of_one_cluster(rig: Cluster, watcher: Source, tmp_path: Path):
    """An answer of another cluster is refused before anything of it is told."""
    rig.add_nodes(node("n0"))
    source, terms = watcher(), ObserverTerms(flat({"": 2_000_000}), lateness_ms=0)
    answer = source.poll(0)
    uid = rig.ask("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"]
    assert answer.cluster == uid
    later = answer._replace(now_ms=answer.now_ms + 60_000)
    where = str(tmp_path / "fleet.sqlite")
    with Observer.open(where, source, terms, answer.now_ms - 1000) as observer:
        observer.take(answer)
    with Observer.open(where, source, terms) as observer:
        before = observer.mark_ms
        with pytest.raises(JournalError, match=f"is of the cluster {uid}; this is another"):
            observer.take(later._replace(cluster="another"))
        assert observer.mark_ms == before
        assert observer.take(later).nodes == 1
