"""Kueue on the rig: quota for the whole cluster, admission of Jobs, and its webhooks over TLS.

The program and its manifests are what ``tools/kubernetes.sh`` makes from Kueue's module
archive. No kubelet and no service network are here, so two things are done in their place: the
certificate that Kueue writes into a Secret is laid into its folder, and the service of its webhooks
is an external name for this machine. The API server checks the certificate as it would elsewhere.
Left out: the on-demand view of queues (an API server of its own), metrics, and the election of a
leader.
"""

import base64
import http.client
import json
from collections.abc import Sequence
from pathlib import Path

from tests.rigs.kubernetes.cluster import FOLDER, Cluster
from tests.rigs.kubernetes.traffic import Object, Sent, Unit
from tests.rigs.kubernetes.wanted import GPU
from tests.rigs.slurm.cluster import free_ports

MANIFESTS = FOLDER / "kueue.yaml"
SYSTEM = "kueue-system"
QUEUE = "bench"
_LABEL = "kueue.x-k8s.io/queue-name"
_KEPT = (
    "Namespace", "CustomResourceDefinition", "Secret", "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)  # fmt: skip
"""What is taken of the manifests; the rest is for a Deployment and its rights."""
_SECRET = f"/api/v1/namespaces/{SYSTEM}/secrets/kueue-webhook-server-cert"
_API = "/apis/kueue.x-k8s.io/v1beta2"


def missing() -> str:
    """Why Kueue cannot be started here; empty where it can."""
    is_here = (FOLDER / "bin" / "kueue").exists() and MANIFESTS.exists()
    return "" if is_here else f"no kueue in {FOLDER}; hint: make test-live builds it"


def install(rig: Cluster) -> None:
    """Its kinds and webhooks, and how it is to run."""
    webhook_port, health_port = free_ports(2)
    for one in _manifests(rig):
        if one["kind"] in _KEPT:
            _point_to(one, webhook_port)
            rig.ask("POST", _PATHS[one["kind"]], one)
    service = {"type": "ExternalName", "externalName": "localhost"}
    told = {"metadata": {"name": "kueue-webhook-service"}, "spec": service}
    rig.ask("POST", f"/api/v1/namespaces/{SYSTEM}/services", told)
    config = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": SYSTEM,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(_certificates(rig))},
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 5000, "burst": 5000},
        "integrations": {"frameworks": ["batch/job", "pod"]},
    }
    _certificates(rig).mkdir()
    _config(rig).write_text(json.dumps(config))


def start(rig: Cluster, namespace: str = "") -> None:
    """Start it (again); returns when it serves its webhooks and, where a namespace is to have one,
    has a queue.
    """
    rig.daemon(
        "kueue", f"--config={_config(rig)}", f"--kubeconfig={rig.kubeconfig}",
        "--feature-gates=VisibilityOnDemand=false", "--zap-log-level=2",
    )  # fmt: skip
    rig.wait_for("Kueue has a certificate", lambda: _lay_certificate(rig), 60)
    rig.wait_for("Kueue is ready", lambda: _is_ready(rig), 60)
    if namespace and rig.try_to("GET", f"{_API}/clusterqueues/{QUEUE}")[0] == 404:
        _add_queue(rig, namespace)  # after the start: a webhook looks at it


def _add_queue(rig: Cluster, namespace: str) -> None:
    """One queue for everything, with quota for the GPUs of all nodes and any CPU and memory."""
    nodes = rig.items("/api/v1/nodes")
    gpus = sum(int(one["status"]["allocatable"].get(GPU, 0)) for one in nodes)
    quota = {"cpu": "1000000", "memory": "10000000Gi", GPU: str(gpus)}
    resources = [{"name": name, "nominalQuota": much} for name, much in quota.items()]
    flavors = [{"name": "any", "resources": resources}]
    groups = [{"coveredResources": [*quota], "flavors": flavors}]
    cluster_queue = {"namespaceSelector": {}, "resourceGroups": groups}
    make(rig, "resourceflavors", "any", {})
    make(rig, "clusterqueues", QUEUE, cluster_queue)
    make(rig, f"namespaces/{namespace}/localqueues", QUEUE, {"clusterQueue": QUEUE})


def make(rig: Cluster, path: str, name: str, spec: Object) -> None:
    """One of its objects; its kind is that of the path."""
    wanted = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": _KINDS[path.rpartition("/")[2]]}
    rig.ask("POST", f"{_API}/{path}", wanted | {"metadata": {"name": name}, "spec": spec})


_KINDS = {
    "resourceflavors": "ResourceFlavor", "clusterqueues": "ClusterQueue", "cohorts": "Cohort",
    "localqueues": "LocalQueue",
}  # fmt: skip


def single(name: str, wanted: Object) -> Unit:
    """A plain pod, which Kueue gates until it is admitted."""
    namespace = wanted["metadata"]["namespace"]
    return Unit(name, 1, (Sent(name, f"/api/v1/namespaces/{namespace}/pods", _queued(wanted)),))


def job(name: str, pods: Sequence[Object]) -> Unit:
    """An indexed Job with as many pods, all of them like the first; Kueue keeps it suspended."""
    first = pods[0]
    namespace, labels = first["metadata"]["namespace"], first["metadata"]["labels"]
    spec = {
        "completionMode": "Indexed",
        "parallelism": len(pods),
        "completions": len(pods),
        "suspend": True,
        "template": {"metadata": {"labels": labels}, "spec": first["spec"]},
    }
    metadata = {"name": name, "namespace": namespace}
    wanted = _queued({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    return Unit(
        name, len(pods), (Sent(name, f"/apis/batch/v1/namespaces/{namespace}/jobs", wanted),)
    )


_REGISTERED = "/apis/admissionregistration.k8s.io/v1"
_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Secret": f"/api/v1/namespaces/{SYSTEM}/secrets",
    "MutatingWebhookConfiguration": f"{_REGISTERED}/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": f"{_REGISTERED}/validatingwebhookconfigurations",
}


def _queued(wanted: Object) -> Object:
    metadata = wanted["metadata"]
    labels = metadata.get("labels", {}) | {_LABEL: QUEUE}
    return wanted | {"metadata": metadata | {"labels": labels}}


def _manifests(rig: Cluster) -> list[Object]:
    """The objects of the manifests, as kubectl reads them."""
    told = rig.kubectl(
        "create", "--dry-run=client", "--validate=false", "-o", "json", "-f", str(MANIFESTS)
    )
    found, decoder = list[Object](), json.JSONDecoder()
    while told := told.lstrip():
        one, end = decoder.raw_decode(told)
        found += one["items"] if one["kind"] == "List" else [one]
        told = told[end:]
    order = {kind: i for i, kind in enumerate(_KEPT)}
    return sorted(found, key=lambda one: order.get(one["kind"], len(order)))


def _point_to(one: object, port: int) -> None:
    """Every webhook in an object: to the port that Kueue will listen on."""
    if isinstance(one, dict):
        if "service" in one and "path" in one["service"]:
            one["service"]["port"] = port
        for value in one.values():
            _point_to(value, port)
    elif isinstance(one, list):
        for value in one:
            _point_to(value, port)


def _lay_certificate(rig: Cluster) -> bool:
    """What a kubelet does: the Secret of a pod as files."""
    data = rig.ask("GET", _SECRET).get("data") or {}
    for name, told in data.items():
        (_certificates(rig) / name).write_bytes(base64.b64decode(told))
    return "tls.crt" in data


def _is_ready(rig: Cluster) -> bool:
    host = json.loads(_config(rig).read_text())["health"]["healthProbeBindAddress"]
    connection = http.client.HTTPConnection(host, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _config(rig: Cluster) -> Path:
    return rig.folder / "kueue.json"


def _certificates(rig: Cluster) -> Path:
    return rig.folder / "kueue-certificates"
