"""What watching a Kubernetes cluster costs: answers of a large one, and each change of a pod.

A real API server with kwok's nodes and pods, as ``tools/kubernetes.sh build`` makes it. Only what
the observer spends is counted; the server and whoever changes pods are other processes. etcd does
not wait for the disk.
"""

import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.spine import reference_per_cpu_s
from tests.rigs.kubernetes import cluster
from tests.rigs.kubernetes.wanted import node, pod
from tests.rigs.slurm.cluster import quick_folder
from tidemill.live.kubernetes.api import kubeconfig
from tidemill.live.kubernetes.watching import kinds
from tidemill.live.kubernetes.watching.source import KubernetesSource
from tidemill.live.observing.observer import Observer, ObserverTerms
from tidemill.live.prices.rules import flat

CHANGING = """
import http.client, json, ssl, sys
port, authority, token, count, pods = sys.argv[1:]
trusted = ssl.create_default_context(cafile=authority)
connection = http.client.HTTPSConnection("127.0.0.1", int(port), context=trusted)
kind = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
for i in range(int(count)):
    path = f"/api/v1/namespaces/default/pods/p{i % int(pods)}"
    change = json.dumps({"metadata": {"annotations": {"i": str(i)}}})
    connection.request("PATCH", path, change, kind)
    assert connection.getresponse().read()
"""


def run(nodes: int = 1000, pods: int = 5000, changes: int = 3000) -> dict[str, Any]:
    """All figures; none where no Kubernetes was built."""
    if reason := cluster.missing():
        return {"skipped": reason}
    with (
        tempfile.TemporaryDirectory(prefix="tidemill-", dir=quick_folder()) as folder,
        cluster.running(Path(folder)) as rig,
    ):
        _fill(rig, nodes, pods)
        before_mib = _memory_mib()
        with KubernetesSource(kubeconfig.find(rig.kubeconfig)) as source:
            first_s = _cpu_s(source)
            copy_mib = _memory_mib() - before_mib
            next_s = min(_cpu_s(source) for _ in range(3))
            change_us = _change_us(rig, source, changes, pods)
        return {
            "reference_per_cpu_s": round(reference_per_cpu_s()),
            "nodes": nodes,
            "pods": pods,
            "first_answer_cpu_s": round(first_s, 2),
            "next_answer_cpu_s": round(next_s, 2),
            "copy_mib": round(copy_mib),
            "change_us": round(change_us),
            "told_cpu_s": _told_cpu_s(rig, f"{folder}/fleet.sqlite"),
            "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        }


def _fill(rig: cluster.Cluster, nodes: int, pods: int) -> None:
    """Nodes of 8, and pods of one GPU that were bound by somebody."""
    with ThreadPoolExecutor(8) as pool:
        all_nodes = [node(f"n{i}") for i in range(nodes)]
        list(pool.map(lambda one: rig.create("/api/v1/nodes", one), all_nodes))
        bound = (pod(f"p{i}", namespace="default", nodeName=f"n{i % nodes}") for i in range(pods))
        list(pool.map(lambda one: rig.create("/api/v1/namespaces/default/pods", one), bound))
    pending = "/api/v1/pods?fieldSelector=status.phase%3DPending&limit=1"
    rig.wait_for("all pods run", lambda: not rig.items(pending), 600)


def _cpu_s(source: KubernetesSource) -> float:
    begun = time.process_time()
    source.poll(0)
    return time.process_time() - begun


def _change_us(rig: cluster.Cluster, source: KubernetesSource, count: int, pods: int) -> float:
    """CPU time for each change of a pod that is watched."""
    assert source.copy is not None
    watched = source.copy.copies[kinds.PODS]
    seen, begun = watched.changes, time.process_time()
    subprocess.run(
        [sys.executable, "-c", CHANGING, str(rig.port), str(rig.authority), cluster.ADMIN,
         str(count), str(pods)], check=True,
    )  # fmt: skip
    while watched.changes < seen + count:
        time.sleep(0.01)
    return (time.process_time() - begun) * 1e6 / count


def _told_cpu_s(rig: cluster.Cluster, journal: str) -> list[float]:
    """Whole answers of an observer, with the journal: the first, and the next ones."""
    terms, found = ObserverTerms(flat({"": 2_000_000}), lateness_ms=1000), list[float]()
    with (
        KubernetesSource(kubeconfig.find(rig.kubeconfig)) as source,
        Observer.open(journal, source, terms) as observer,
    ):
        for _ in range(3):
            time.sleep(1.5)
            begun = time.process_time()
            observer.ask()
            found.append(round(time.process_time() - begun, 2))
    return found


def _memory_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    told = next(line for line in lines if line.startswith("VmRSS"))
    return int(told.split()[1]) / 1024
