"""Lines for kubectl about objects of other projects, run on a real API server that has their kinds.

Kueue's queues as evidence of a quota, those that own pods which do not exist, claims, pod groups,
namespaces' quotas and clocks.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.live.kubernetes.beside import shown
from tests.rigs.kubernetes.cluster import Cluster, Object
from tests.rigs.kubernetes.definitions import POD_GROUP, TRAINING, kind
from tests.rigs.kubernetes.wanted import GPU, claim_spec, claim_template, node, pod
from tidemill.explain import commands
from tidemill.live.kubernetes.api import kubeconfig
from tidemill.live.kubernetes.watching.source import KubernetesSource

KUEUE = ("kueue.x-k8s.io", "v1beta1")
TRAINER, JOB_SET = ("trainer.kubeflow.org", "v1alpha1"), ("jobset.x-k8s.io", "v1alpha2")
VOLCANO = ("batch.volcano.sh", "v1alpha1")
ROOT = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KINDS = (
    kind(*KUEUE, "ClusterQueue", "clusterqueues", scope="Cluster"),
    kind(*KUEUE, "ResourceFlavor", "resourceflavors", scope="Cluster"),
    kind(*KUEUE, "LocalQueue", "localqueues"),
    kind(*TRAINER, "TrainJob", "trainjobs"),
    kind(*JOB_SET, "JobSet", "jobsets"),
    TRAINING,
    POD_GROUP,
    kind(*VOLCANO, "Job", "jobs"),
)
NAMED = [one["metadata"]["name"] for one in KINDS]


@pytest.fixture(scope="module")
def served(started: Cluster) -> Iterator[Cluster]:
    """A real Kubernetes with kinds of Kueue and of trainers."""
    started.create(ROOT, *KINDS)
    for one in KINDS:
        spec = one["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        started.wait_for("it is served", partial(_is_served, started, path))
    started.add_nodes(node("n0"))
    started.create("/api/v1/namespaces/ml/pods", pod("busy", 1))
    started.wait_for("it runs", lambda: started.phases("ml").get("busy") == "Running")
    yield started
    started.clear()
    for name in NAMED:
        started.ask("DELETE", f"{ROOT}/{name}")


def _is_served(rig: Cluster, path: str) -> bool:
    return rig.try_to("GET", path)[0] == 200


def made(rig: Cluster, path: str, version: str, name: str, spec: Object, *above: Object) -> Object:
    """An object of the cluster; what is above it owns it."""
    metadata: Object = {"name": name} | (
        {"ownerReferences": [*map(owning, above)]} if above else {}
    )
    of = {"apiVersion": version, "kind": OF_PLURAL[path.rpartition("/")[2]]}
    found: Object = rig.ask("POST", path, of | {"metadata": metadata, "spec": spec})
    return found


OF_PLURAL = {one["spec"]["names"]["plural"]: one["spec"]["names"]["kind"] for one in KINDS}


def owning(one: Object) -> Object:
    """As what it owns names an object."""
    found = {key: one["metadata"][key] for key in ("name", "uid")}
    return {"apiVersion": one["apiVersion"], "kind": one["kind"], "controller": True} | found


def test_quotas_of_kueue_are_shown_by_the_lines_beside_them(served: Cluster, tmp_path: Path):
    """What a ClusterQueue guarantees at most, and what all of them lend, once imported."""
    rig, api = served, "/".join(KUEUE)
    resources = [{"name": GPU, "nominalQuota": 4, "lendingLimit": 1}]
    flavors = {"coveredResources": [GPU], "flavors": [{"name": "any", "resources": resources}]}
    made(rig, f"/apis/{api}/resourceflavors", api, "any", {"nodeLabels": {}})
    made(rig, f"/apis/{api}/clusterqueues", api, "research", {"resourceGroups": [flavors]})
    queues = f"/apis/{api}/namespaces/ml/localqueues"
    made(rig, queues, api, "lq", {"clusterQueue": "research"})
    label = {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    rig.create("/api/v1/namespaces/ml/pods", pod("runs", 4))
    rig.wait_for("it runs", lambda: rig.phases("ml").get("runs") == "Running")
    rig.create("/api/v1/namespaces/ml/pods", pod("wide", 6, metadata=label))
    kinds = ",".join(("nodes", "pods", *(name for name in NAMED if "kueue" in name)))
    (tmp_path / "all.json").write_text(rig.kubectl("get", kinds, "-A", "-o", "json"))
    journal = str(tmp_path / "j.sqlite")
    done = tidemill("import", "kubernetes", str(tmp_path / "all.json"), "--team-by", "queue",
                    "-j", journal)  # fmt: skip
    assert done.code == 0, done.err
    facts = json.loads(tidemill("why", "ml/wide", "-j", journal, "--json").out)["answer"]
    (fact,) = (one for one in facts["evidence"] if one["name"] == "limit")
    assert "the maximum quota of team `research` is 4" in fact["words"]
    (line,) = (one["line"] for one in fact["shown_by"] if one["on"] == "kubernetes")
    assert line == "kubectl describe clusterqueues.kueue.x-k8s.io research"
    assert "Nominal Quota: 4" in shown(rig, line)
    assert f"  {line}\n" in tidemill("why", "ml/wide", "-j", journal).out
    (line,) = (one.line for one in commands.lending() if one.on == "kubernetes")
    assert "lendingLimit: 1" in shown(rig, line)


def reason(rig: Cluster, job: str) -> str:
    """What an observer says of a job that waits."""
    with KubernetesSource(kubeconfig.find(rig.kubeconfig)) as source:
        rows = source.poll(0).attempts.iter_rows(named=True)
        (found,) = {row["reason"] for row in rows if row["job"] == job and row["reason"]}
    return str(found)


def template(gpus: int) -> Object:
    return {"spec": pod("x", gpus)["spec"]}


def test_the_line_of_a_gang_that_lacks_pods_shows_who_is_to_make_them(served: Cluster):
    """A PyTorchJob, and a TrainJob above a JobSet: one of two pods exists."""
    rig, pair = served, ("torch-worker-0", "train-node-0-0")
    spec: Object = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template(1)}}}
    path = "/apis/kubeflow.org/v1/namespaces/ml/pytorchjobs"
    torch = made(rig, path, "kubeflow.org/v1", "torch", spec)
    trainer, job_set = "/".join(TRAINER), "/".join(JOB_SET)
    path = f"/apis/{trainer}/namespaces/ml/trainjobs"
    train = made(rig, path, trainer, "train", {"runtimeRef": {"name": "torch-distributed"}})
    pods: Object = {"parallelism": 2, "completions": 2, "template": template(1)}
    spec = {"replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": pods}}]}
    path = f"/apis/{job_set}/namespaces/ml/jobsets"
    below = made(rig, path, job_set, "train", spec, train)
    for name, above in zip(pair, (torch, below), strict=True):
        rig.create("/api/v1/namespaces/ml/pods",
                   pod(name, 1, metadata={"ownerReferences": [owning(above)]}))  # fmt: skip
    rig.wait_for("both run", lambda: {rig.phases("ml").get(one) for one in pair} == {"Running"})
    for job, words in (
        ("ml/torch", ("Name: torch", "Kind: PyTorchJob", "Replicas: 2")),
        ("ml/train", ("Name: train", "Kind: TrainJob", "torch-distributed")),
    ):
        (line,) = re.findall(r"\((kubectl describe [^)]*)\)$", reason(rig, job))
        for word in words:
            assert word in shown(rig, line), (line, word)


def test_the_line_about_claims_that_nobody_shows_lists_those_there_are(served: Cluster):
    """A pod names a template that is not there; another one is."""
    rig, claims = served, "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaimtemplates"
    rig.create(claims, claim_template("there", claim_spec()))
    lost = {"name": "gpu", "resourceClaimTemplateName": "lost"}
    rig.create("/api/v1/namespaces/ml/pods", pod("claims", 0, resourceClaims=[lost]))
    with KubernetesSource(kubeconfig.find(rig.kubeconfig)) as source:
        (note,) = (one for one in source.poll(0).notes if "nobody shows" in one)
    (line,) = re.findall(r"\((kubectl get [^)]*)\)", note)
    found = shown(rig, line)
    assert "resourceclaimtemplate.resource.k8s.io/there" in found
    assert "lost" not in found


def notes(rig: Cluster) -> tuple[str, ...]:
    """What an observer says of the cluster as a whole."""
    with KubernetesSource(kubeconfig.find(rig.kubeconfig)) as source:
        return tuple(source.poll(0).notes)


def imported(rig: Cluster, folder: Path, kinds: str) -> str:
    """What an import says of these kinds of the cluster."""
    return taken(rig.kubectl("get", kinds, "-A", "-o", "json"), folder)


def taken(printed: str, folder: Path) -> str:
    """What an import says of something that kubectl printed."""
    (folder / "all.json").write_text(printed)
    journal = str(folder / "j.sqlite")
    done = tidemill("import", "kubernetes", str(folder / "all.json"), "-j", journal)
    assert done.code == 0, done.err
    return " ".join((done.out + done.err).split())


def test_the_line_about_classes_that_nobody_shows_lists_those_there_are(served: Cluster):
    """A claim of a class that is not there; another one is."""
    rig, resources = served, "/apis/resource.k8s.io/v1"
    rig.create(f"{resources}/deviceclasses", {"metadata": {"name": "there"}, "spec": {}})
    claims = f"{resources}/namespaces/ml/resourceclaimtemplates"
    rig.create(claims, claim_template("lost-class", claim_spec(device_class="lost")))
    wanted = {"name": "gpu", "resourceClaimTemplateName": "lost-class"}
    rig.create("/api/v1/namespaces/ml/pods", pod("classless", 0, resourceClaims=[wanted]))
    (note,) = (one for one in notes(rig) if "deviceclasses" in one)
    (line,) = re.findall(r"\((kubectl get [^)]*)\)", note)
    found = shown(rig, line)
    assert "there" in found.split()
    assert "lost" not in found
    rig.ask("DELETE", f"{resources}/deviceclasses/there")


def test_the_line_about_pod_groups_that_nobody_shows_lists_those_there_are(
    served: Cluster, tmp_path: Path
):
    """A pod that runs names a group that is not there; another one is."""
    rig, api = served, "scheduling.x-k8s.io/v1alpha1"
    made(rig, f"/apis/{api}/namespaces/ml/podgroups", api, "there", {"minMember": 2})
    label = {"labels": {"scheduling.x-k8s.io/pod-group": "lost"}}
    rig.create("/api/v1/namespaces/ml/pods", pod("grouped", 1, metadata=label))
    rig.wait_for("it runs", lambda: rig.phases("ml").get("grouped") == "Running")
    said = imported(rig, tmp_path, "nodes,pods")
    (line,) = re.findall(r"pod groups that nobody shows.*?\((kubectl get [^)]*)\)", said)
    found = json.loads(rig.kubectl(*line.split()[1:]))["items"]
    assert [one["metadata"]["name"] for one in found] == ["there"]


def test_the_line_of_what_a_namespace_has_left_shows_it(served: Cluster, tmp_path: Path):
    """A quota that counts cores refuses pods that request none: `fit` names the quota, and what may
    give them some.
    """
    rig, here = served, "/api/v1/namespaces/web"
    rig.add_nodes(node("free"))
    told = {"metadata": {"name": "cores"}, "spec": {"hard": {"requests.cpu": "12"}}}
    rig.create(f"{here}/resourcequotas", told)
    rig.wait_for("it counts", lambda: "hard" in rig.items(f"{here}/resourcequotas")[0]["status"])
    imported(rig, tmp_path, "nodes,pods,resourcequotas,namespaces")
    said = tidemill("fit", "--gpus", "2", "--team", "web", "-j", str(tmp_path / "j.sqlite"))
    (line,) = re.findall(r"\((kubectl describe [^)]*)\)", " ".join((said.out + said.err).split()))
    found = shown(rig, line)
    assert "Name: cores" in found
    assert "requests.cpu 0 12" in found


def test_the_line_of_a_clock_that_is_ahead_shows_that_object(served: Cluster, tmp_path: Path):
    """A Volcano Job that says it was made in two days: kubectl knows another kind of that name."""
    rig, api = served, "/".join(VOLCANO)
    made(rig, f"/apis/{api}/namespaces/ml/jobs", api, "tomorrow", {"minAvailable": 1})
    told = json.loads(rig.kubectl("get", "nodes,pods,jobs.batch.volcano.sh", "-A", "-o", "json"))
    (one,) = (one for one in told["items"] if one["metadata"]["name"] == "tomorrow")
    began = datetime.fromisoformat(one["metadata"]["creationTimestamp"])
    one["metadata"]["creationTimestamp"] = f"{began + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"
    said = taken(json.dumps(told), tmp_path)
    (line,) = re.findall(r"Job ml/tomorrow says \S+ \((kubectl get [^)]*)\)", said)
    found = shown(rig, line)
    assert f"apiVersion: {api} kind: Job" in found
    assert "name: tomorrow" in found


def test_the_line_about_labels_of_places_shows_them(served: Cluster, tmp_path: Path):
    """Of a cluster that is looked on no tiers are known: `fit --within` says where nodes are."""
    imported(served, tmp_path, "nodes,pods")
    asked = ("--gpus", "1", "--within", "rack", "-j", str(tmp_path / "j.sqlite"))
    told = tidemill("fit", *asked)
    said = " ".join((told.out + told.err).split())
    (line,) = re.findall(r"Kubernetes: (kubectl get nodes [^)]*)\)", said)
    assert re.search(r"ZONE RACK .*n0 Ready \S+ \S+ \S+ z1 a", shown(served, line))
