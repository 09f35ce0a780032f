"""What the guide says of the scheduler is so: each of its lines is run on a real cluster."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.rigs.kubernetes.cluster import FOLDER, Cluster
from tests.rigs.kubernetes.scheduled import OURS, live, scheduling, wrong
from tests.rigs.kubernetes.wanted import node, pod
from tidemill.cli.job_names import GANG_OF_POD

PAGES = ("guides/schedule-kubernetes", "reference/kubernetes-jobs", "reference/kubernetes-reasons")
GUIDE = "\n".join((ROOT / "docs" / f"{page}.md").read_text() for page in PAGES)
"""The guide, and what it sends its readers to."""


def block(language: str, begins: str) -> str:
    """A block of the guide."""
    found = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    return next(text for text in found if text.startswith(begins))


def test_the_job_and_the_gang_of_the_guide_are_placed(rig: Cluster, tmp_path: Path):
    """16 pods of 8 GPUs on 16 nodes; a gang by the guide's annotations in one rack."""
    policy = tmp_path / "policy.toml"
    policy.write_text("\n".join([block("toml", "[policy]"), block("toml", "[[tier]]")]))
    zone = {"topology.kubernetes.io/zone": "z"}
    rig.add_nodes(*(node(f"n{i}", rack=f"r{i // 4}", labels=zone) for i in range(20)))
    pairs = re.findall(r"(tidemill/[a-z-]+): \"?([\w-]+)", block("yaml", "metadata:"))
    annotations = dict(pairs) | {"tidemill/gang-size": "4"}
    told = {"annotations": annotations}
    assert set(annotations) == {"tidemill/gang", "tidemill/gang-size", "tidemill/required-topology"}
    with scheduling(rig, tmp_path, "--policy", str(policy)) as ours:
        for i in range(4):
            rig.create("/api/v1/namespaces/ml/pods",
                       pod(f"tied-{i}", 8, schedulerName=OURS, metadata=told))  # fmt: skip
        rig.wait_until_running("ml", 4)
        rig.kubectl("apply", "-n", "ml", "-f", "-", told=block("yaml", "apiVersion: batch/v1"))
        rig.wait_until_running("ml", 20)
        assert ours.stop() == 0
    tied = [one for one in live(rig) if one["metadata"]["name"].startswith("tied")]
    assert len({int(one["spec"]["nodeName"][1:]) // 4 for one in tied}) == 1
    assert wrong(rig, ours.journal) == []


OBSERVING = (ROOT / "docs" / "guides" / "observe-kubernetes.md").read_text()
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def shell_blocks(guide: str) -> list[str]:
    """Blocks that begin with, or have, a line for kubectl."""
    found = re.findall(r"```text\n(.*?)```", guide, re.DOTALL)
    return [text for text in found if "kubectl" in text]


def inline(guide: str) -> list[str]:
    """Lines for kubectl within sentences."""
    outside = re.sub(r"```.*?```", "", guide, flags=re.DOTALL)
    return re.findall(r"`(kubectl [^`]+)`", outside)


class Reader:
    """Types what the guides say, in a folder with the repository's files, as an administrator."""

    def __init__(self, rig: Cluster, folder: Path) -> None:
        self._rig, self._folder, self.typed = rig, folder, list[str]()
        (folder / "deploy").symlink_to(ROOT / "deploy")
        path = [FOLDER / "bin", Path(sys.executable).parent, "/usr/local/bin", "/usr/bin", "/bin"]
        self._env = {"KUBECONFIG": str(rig.kubeconfig), "HOME": str(folder), "PYTHONPATH":
                     str(ROOT / "src"), "PATH": os.pathsep.join(map(str, path))}  # fmt: skip

    def types(self, text: str, *, more: str = "") -> str:
        """Run a text of the guide; ``more``: what the reader adds."""
        self.typed.append(text)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text.rstrip() + more], cwd=self._folder, text=True,
            env=self._env, capture_output=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def reader(rig: Cluster, tmp_path: Path) -> Iterator[Reader]:
    """One at the beginning of the guide; afterwards the cluster is as other tests want it."""
    yield Reader(rig, tmp_path)
    for name in ("observe", "schedule"):
        rig.kubectl("apply", "-f", str(ROOT / "deploy" / "kubernetes" / f"{name}.yaml"))


def test_the_line_that_shows_what_a_pod_belongs_to(rig: Cluster, reader: Reader):
    """`why` names it for pods of gangs, which are no jobs: namespace, owner and gang are there."""
    notes = {"name": "worker-3", "namespace": "ml", "annotations": {"tidemill/gang": "pretrain"}}
    rig.create("/api/v1/namespaces/ml/pods", pod("worker-3", 1, schedulerName=OURS, metadata=notes))
    told = reader.types(GANG_OF_POD.format(pod="worker-3")).splitlines()
    assert [line.split() for line in told] == [
        ["NAMESPACE", "OWNER", "GANG"], ["ml", "<none>", "pretrain"]]  # fmt: skip


def remains(rig: Cluster) -> list[str]:
    """What there is of the scheduler, whatever kind it is."""
    kinds = "deployments,configmaps,secrets,networkpolicies,poddisruptionbudgets,leases,roles"
    some = rig.kubectl("get", kinds, "-n", "tidemill", "-o", "name").split()
    wide = "clusterroles,clusterrolebindings,customresourcedefinitions"
    some += rig.kubectl("get", wide, "-o", "name").split()
    some += rig.kubectl(
        "get", "serviceaccounts,rolebindings", "-n", "tidemill", "-o", "name"
    ).split()
    ours = ("tidemill-scheduler", "/scheduler", "/policy", "journal", "tidemill.dev")
    return [one for one in some if any(part in one for part in ours)]


def test_every_line_for_kubectl_is_run_and_the_way_back_leaves_nothing(
    rig: Cluster, reader: Reader, tmp_path: Path
):
    """From an observer to a scheduler with all of its rights, and back to no trace of it.

    What the guide names in sentences is run too; a line that this test does not know fails it.
    """
    policy = block("toml", "[policy]")
    (tmp_path / "policy.toml").write_text(policy)
    (tmp_path / "fleet-policy.yaml").write_text(block("yaml", "apiVersion: tidemill.dev"))
    rig.add_nodes(node("n0"))
    (tmp_path / "kustomization.yaml").write_text(block("yaml", "apiVersion: kustomize"))
    rig.create("/api/v1/namespaces/ml/pods", pod("p", 16, schedulerName=OURS))
    blocks = {text.split("\n")[0]: text for text in shell_blocks(GUIDE)}
    shadow, apply, login, crd, label, everywhere, before, back = (
        next(text for text in shell_blocks(GUIDE) if words in text)
        for words in ("--shadow", "schedule.yaml\n", "server=$(", "schedule crd", "gpu-pods=true",
                      "patch mutating", "gpu-pods-", "delete -k")
    )  # fmt: skip
    (observer,) = [text for text in shell_blocks(OBSERVING) if "observer" in text]
    reader.types(observer)
    assert "no" in reader.types("kubectl --kubeconfig observer.yaml auth can-i create pods"
                                " --subresource=binding -A || true")  # fmt: skip
    reader.typed.append(shadow)  # its first line is the observer's; tests/…/test_shadow runs it
    reader.types(apply)
    reader.types(login)
    checked = reader.types(
        block(
            "text",
            "tidemill schedule kubernetes --kubeconfig scheduler.yaml"
            " --policy policy.toml --list-prices \\\n    -j scheduler.sqlite",
        )
    )
    assert "all " in checked
    assert "beside reading" in checked
    reader.types("".join(line + "\n" for line in crd.splitlines() if "kubectl" in line))
    assert "fleet" in reader.types("kubectl get schedulingpolicy")
    lines = inline(GUIDE)
    for line in (one for one in lines if one.startswith("kubectl apply")):
        reader.types(line)
    reader.types(label)
    reader.types(everywhere)
    (secret,) = (one for one in lines if "create secret" in one)
    reader.types(secret.replace("…", "host/db"))
    assert "Name:" in reader.types("kubectl describe pod", more=" p -n ml")
    told = re.findall(r"`(-o jsonpath=[^`]+)` to `kubectl get pod`", " ".join(GUIDE.split()))
    reader.types("kubectl get pod", more=f" p -n ml {told[0]}")
    (suspend,) = (one for one in lines if one.startswith("kubectl patch job"))
    reader.typed.append(suspend)  # test_deploying suspends a Job so
    rig.kubectl("cordon", "n0")
    assert "n0 uncordoned" in reader.types("kubectl uncordon", more=" n0")
    assert {"deployment.apps/scheduler", "secret/journal"} <= {*remains(rig)}
    assert "p " in reader.types(before)
    reader.types(back)
    rig.wait_for("nothing is left of it", lambda: not remains(rig))
    reader.types("kubectl delete -f deploy/kubernetes/observe.yaml --ignore-not-found")
    assert rig.try_to("GET", f"{ROLES}/tidemill-observer")[0] == 404
    rig.wait_for("the namespace is gone",
                 lambda: rig.try_to("GET", "/api/v1/namespaces/tidemill")[0] == 404)  # fmt: skip
    run = {one.replace("host/db", "…") for one in reader.typed}
    assert [one for one in lines if one not in run] == []
    lacking = [text for text in blocks.values() if text not in run]
    assert [one for one in lacking if one != crd] == []
