"""A real Kubernetes on this machine: etcd, API server, controllers, scheduler, and kwok for nodes.

Everything lives in one folder, on loopback and free ports, with TLS, tokens and RBAC, and is
stopped by process id. Nodes and pods are kwok's: the API server, the scheduler and the controllers
do not know that no machine is behind them. Needs what ``tools/kubernetes.sh build`` makes. etcd
does not wait for the disk.
"""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

from tests.rigs.slurm.cluster import free_ports

PROGRAMS = (
    "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok",
)  # fmt: skip
FOLDER = Path(
    os.environ.get("TIDEMILL_KUBERNETES")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    / "tidemill" / "kubernetes-1.36.3"
)  # fmt: skip
ENDS = Path(__file__).with_name("ends.yaml")
POLL_S = 0.02
_SETPRIV = shutil.which("setpriv")
DIE_WITH_US = [_SETPRIV, "--pdeathsig", "KILL"] if _SETPRIV else []
"""Nothing of the rig outlives whoever started it, even if that is killed."""
ADMIN = "admin-of-the-rig"
"""The token of somebody who may do everything."""
CONTROLLERS = (
    "namespace-controller", "node-lifecycle-controller", "job-controller", "replicaset-controller",
    "deployment-controller", "statefulset-controller", "resourcequota-controller",
    "garbage-collector-controller",
    "disruption-controller", "resourceclaim-controller",
)  # fmt: skip
ALONE = ("--leader-elect=false", "--secure-port=0")
"""Of a controller that has no second one, and serves nobody."""
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:masters"]},
        {"level": "Metadata"},
    ],
}
"""Who asked for what, of everybody but the rig itself."""

Object = dict[str, Any]


class RigError(RuntimeError):
    """The rig does not do what it should; the message holds what it said."""


def missing() -> str:
    """Why no real Kubernetes can be started here; empty where it can."""
    lacking = [name for name in PROGRAMS if not (FOLDER / "bin" / name).exists()]
    if lacking:
        return f"no {', '.join(lacking)} in {FOLDER}; hint: make test-live builds them"
    return "" if shutil.which("openssl") else "no openssl here; hint: apt-get install openssl"


_GATES = (
    "GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption", "DRAWorkloadResourceClaims",
)  # fmt: skip
GROUPS = (
    f"--feature-gates={','.join(f'{gate}=true' for gate in _GATES)}",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
)
"""Flags of an API server that has Workloads and PodGroups of its own, with all their fields."""


@contextmanager
def running(folder: Path, *api_flags: str) -> Iterator["Cluster"]:
    """Start all of it, and stop all of it afterwards, whatever happened."""
    cluster = Cluster(folder, *api_flags)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


class Cluster:
    """The processes of one rig, and a plain client of its own."""

    def __init__(self, folder: Path, *api_flags: str) -> None:
        self.folder, self._api_flags = folder, api_flags
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.etcd_port, self._peer_port, self.port = free_ports(3)
        self.kubeconfig = folder / "kubeconfig"
        """As the administrator."""
        self.authority = folder / "certs" / "apiserver.crt"
        self.audit = folder / "audit.log"

    def start(self) -> None:
        """Bring everything up; returns when the API server is ready, nodes can come later."""
        self.start_store_and_api()
        self.start_controllers()
        given = f"--kubeconfig={self.kubeconfig}"
        self.daemon("kube-scheduler", given, *ALONE)
        stages = [*sorted((FOLDER / "stages").glob("*.yaml")), ENDS]
        self.daemon(
            "kwok", given, "--manage-all-nodes=true", "--node-lease-duration-seconds=40",
            "--node-ip=127.0.0.1", *(f"--config={path}" for path in stages),
        )  # fmt: skip

    def start_controllers(self) -> None:
        """Start those who make pods for their owners, among others (again)."""
        self.daemon(
            "kube-controller-manager", f"--kubeconfig={self.kubeconfig}", *ALONE,
            f"--controllers={','.join(CONTROLLERS)}",
            "--kube-api-qps=1000", "--kube-api-burst=1000",  # by default it makes 20 pods a second
        )  # fmt: skip

    def start_store_and_api(self) -> None:
        """Bring up etcd and the API server, without anybody who acts on what they hold."""
        (self.folder / "log").mkdir(parents=True)
        self._secrets()
        self._etcd()
        self.start_api()
        self._write_kubeconfig()

    def start_api(self) -> None:
        """Start the API server (again); returns when it is ready."""
        at = self.folder
        self.daemon(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--bind-address=127.0.0.1", f"--secure-port={self.port}", f"--cert-dir={at / 'certs'}",
            f"--service-account-key-file={at / 'sa.pub'}",
            f"--service-account-signing-key-file={at / 'sa.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/16", "--authorization-mode=RBAC",
            f"--token-auth-file={at / 'tokens.csv'}", f"--client-ca-file={at / 'clients.crt'}",
            "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none",
            f"--audit-policy-file={at / 'audit.json'}", f"--audit-log-path={self.audit}",
            "--audit-log-mode=blocking", "--profiling=false", "--shutdown-send-retry-after=false",
            "--runtime-config=resource.k8s.io/v1=true", *self._api_flags,
        )  # fmt: skip
        self.wait_for("the API server is ready", self.is_answering, 60)

    def stop_api(self) -> None:
        """Stop the API server as hard as can be."""
        self.kill("kube-apiserver")

    def daemon(self, name: str, *arguments: str, command: Sequence[str] = ()) -> None:
        """Start one of the programs, or another command; runs until killed or the rig stops."""
        program = command or (str(FOLDER / "bin" / name),)
        with (self.folder / "log" / f"{name}.out").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*DIE_WITH_US, *program, *arguments],
                stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, cwd=self.folder,
                env={"HOME": str(self.folder), "PATH": ""},
            )  # fmt: skip

    def kill(self, name: str) -> None:
        """End one process at once."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(10)

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """One process stands still: it keeps its connections, and answers nobody."""
        process = self.processes[name]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End every process that was started, the last one first."""
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGKILL)  # nothing of it is kept
        for process in self.processes.values():
            process.wait(10)
        self.processes.clear()

    # --- a client that shares nothing with the product --------------------------------------------

    def ask(
        self, method: str, path: str, body: object = None, *, kind: str = "application/json"
    ) -> Object:
        """One request as the administrator; ``RigError`` unless it succeeds."""
        status, answer = self.try_to(method, path, body, kind=kind)
        if status >= 300:
            raise RigError(f"{method} {path}: {status} {answer.get('message', answer)}")
        return answer

    def try_to(
        self, method: str, path: str, body: object = None, *, kind: str = "application/json"
    ) -> tuple[int, Object]:
        """One request as the administrator, and what came of it."""
        trusted = ssl.create_default_context(cafile=str(self.authority))
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=20, context=trusted)
        try:
            headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind}
            told = None if body is None else json.dumps(body).encode()
            connection.request(method, path, told, headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith(b"{") else {}
        finally:
            connection.close()

    def create(self, path: str, *objects: Object) -> None:
        """Create objects of one kind."""
        for one in objects:
            self.ask("POST", path, one)

    def items(self, path: str) -> list[Object]:
        """All objects of a kind."""
        found: list[Object] = self.ask("GET", path)["items"]
        return found

    def pods(self, namespace: str) -> dict[str, Object]:
        """The pods of a namespace by name."""
        items = self.items(f"/api/v1/namespaces/{namespace}/pods")
        return {one["metadata"]["name"]: one for one in items}

    def add_nodes(self, *nodes: Object) -> None:
        """Create nodes; returns when the scheduler may use them."""
        self.create("/api/v1/nodes", *nodes)
        names = {node["metadata"]["name"] for node in nodes}
        self.wait_for(f"nodes {sorted(names)[:3]}… are Ready", lambda: self._are_ready(names), 60)

    def clear(self) -> None:
        """Remove all work, all nodes and what was said of them; returns when they are gone."""
        at_once = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        for namespace in ("default", "ml", "web"):
            for kind in ("/apis/batch/v1/namespaces/{}/jobs",
                         "/apis/apps/v1/namespaces/{}/deployments",
                         "/apis/apps/v1/namespaces/{}/statefulsets",
                         "/apis/apps/v1/namespaces/{}/replicasets", "/api/v1/namespaces/{}/pods",
                         "/api/v1/namespaces/{}/resourcequotas", "/api/v1/namespaces/{}/events",
                         "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates",
                         "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"):  # fmt: skip
                self.ask("DELETE", kind.format(namespace), at_once)
        devices = "/apis/resource.k8s.io/v1/"
        for kind in ("/api/v1/nodes", f"{devices}resourceslices", f"{devices}deviceclasses"):
            self.ask("DELETE", kind, at_once)
        kinds = ("/apis/batch/v1/jobs", "/api/v1/pods", "/api/v1/nodes", "/api/v1/resourcequotas",
                 f"{devices}resourceclaims")  # fmt: skip
        self.wait_for("all work is gone", lambda: not any(map(self.items, kinds)))

    def annotate(self, namespace: str, pod: str, **told: str) -> None:
        """Set annotations of a pod, such as `ends="Succeeded"`."""
        change = {"metadata": {"annotations": {f"rig/{key}": told[key] for key in told}}}
        self.ask(
            "PATCH", f"/api/v1/namespaces/{namespace}/pods/{pod}", change,
            kind="application/merge-patch+json",
        )  # fmt: skip

    def delete_pod(self, namespace: str, pod: str) -> None:
        """Delete a pod; returns when it is gone."""
        self.ask("DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod}")
        self.wait_for(f"{namespace}/{pod} is gone", lambda: pod not in self.pods(namespace))

    def phases(self, namespace: str) -> dict[str, str]:
        """How the pods of a namespace are."""
        return {name: pod["status"]["phase"] for name, pod in self.pods(namespace).items()}

    def wait_until_running(self, namespace: str, count: int) -> None:
        """Until so many pods of a namespace run."""
        self.wait_for(
            f"{count} pods of {namespace} run",
            lambda: [*self.phases(namespace).values()].count("Running") == count,
        )  # fmt: skip

    def kubectl(self, *arguments: str, told: str | None = None) -> str:
        """Run kubectl as the administrator; what it prints."""
        done = subprocess.run(
            [FOLDER / "bin" / "kubectl", *arguments], input=told, text=True, timeout=60,
            capture_output=True, check=False,
            env={"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder), "PATH": ""},
        )  # fmt: skip
        if done.returncode:
            raise RigError(f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def compact(self) -> None:
        """Make etcd forget all earlier versions of everything."""
        import http.client

        def post(path: str, body: object) -> Object:
            connection = http.client.HTTPConnection("127.0.0.1", self.etcd_port, timeout=10)
            connection.request("POST", path, json.dumps(body))
            found: Object = json.loads(connection.getresponse().read())
            connection.close()
            return found

        now = post("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        post("/v3/kv/compaction", {"revision": now, "physical": True})

    def wait_for(self, what: str, is_so: Callable[[], bool], timeout_s: float = 60) -> None:
        """Until something that the cluster does by itself has happened."""
        tick = threading.Event()  # never set: the world outside has no event to wait for
        for _ in range(int(timeout_s / POLL_S)):
            if is_so():
                return
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise RigError(f"{name} ended while waiting until {what}\n{self._log(name)}")
            tick.wait(POLL_S)
        raise RigError(f"not within {timeout_s} s: {what}")

    def is_answering(self) -> bool:
        """Whether the API server is ready, and etcd behind it."""
        try:
            return self.authority.exists() and self.try_to("GET", "/readyz")[0] == 200
        except (OSError, HTTPException, ValueError):
            return False

    # --- its parts --------------------------------------------------------------------------------

    def _secrets(self) -> None:
        at = self.folder
        self._openssl("genrsa", "-out", "sa.key", "2048")
        self._openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")
        self._openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "clients.key",
            "-out", "clients.crt", "-days", "2", "-subj", "/CN=clients of the rig",
        )  # fmt: skip
        (at / "tokens.csv").write_text(f'{ADMIN},admin,admin,"system:masters"\n')
        (at / "audit.json").write_text(json.dumps(AUDIT))

    def client_certificate(self, user: str, *groups: str) -> tuple[Path, Path]:
        """A certificate and its key, for a user of the API."""
        key, asked, made = (f"{user}.{end}" for end in ("key", "csr", "crt"))
        subject = f"/CN={user}" + "".join(f"/O={group}" for group in groups)
        self._openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", asked,
                      "-subj", subject)  # fmt: skip
        self._openssl("x509", "-req", "-in", asked, "-CA", "clients.crt", "-CAkey", "clients.key",
                      "-CAcreateserial", "-out", made, "-days", "1")  # fmt: skip
        return self.folder / made, self.folder / key

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def _etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{p}" for p in (self.etcd_port, self._peer_port))
        self.daemon(
            "etcd", f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}", "--log-level=warn",
        )  # fmt: skip
        self.wait_for("etcd listens", lambda: _listens(self.etcd_port))

    def _write_kubeconfig(self) -> None:
        self.kubeconfig.write_text(json.dumps(self.config({"token": ADMIN})))

    def config(self, user: Object, *, port: int | None = None) -> Object:
        """A kubeconfig with one user."""
        server = f"https://127.0.0.1:{port or self.port}"
        cluster = {"server": server, "certificate-authority": str(self.authority)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "rig", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "user"}}],
            "current-context": "rig",
        }

    def _are_ready(self, names: set[str]) -> bool:
        ready = {
            one["metadata"]["name"]
            for one in self.items("/api/v1/nodes")
            if not any(t["key"].endswith("/not-ready") for t in one["spec"].get("taints", ()))
            and _is_true(one, "Ready")
        }
        return names <= ready

    def _log(self, name: str) -> str:
        return (self.folder / "log" / f"{name}.out").read_text(errors="replace")[-3000:]


def _is_true(one: Object, condition: str) -> bool:
    conditions: Sequence[Object] = one["status"].get("conditions", ())
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
