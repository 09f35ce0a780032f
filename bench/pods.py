"""A hundred thousand pods of a Kubernetes cluster onto the books: `tidemill import kubernetes`.

Files as `kubectl get … -o json` prints them: 1,000 nodes of 8 GPUs, pods of Jobs (one each), gangs
of PyTorchJobs (8 pods of 8 GPUs) and Deployments' replicas, over two days, a twentieth of the pods
still waiting. CPU-seconds are of all threads of the command, from its start to its end; memory is
the most that it had resident.
"""

import json
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.slurm_import import JOURNAL, command
from bench.spine import reference_per_cpu_s
from tests.live.kubernetes import made
from tidemill.journal import open_journal

GPUS, GANG = 8, 8
SPAN_S = 172_800
BESIDE: dict[str, Any] = {
    "volumes": [{"name": "token", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
    ]}}],
    "tolerations": [
        {"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists",
         "tolerationSeconds": 300},
        {"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists",
         "tolerationSeconds": 300},
        {"key": "nvidia.com/gpu", "operator": "Exists"},
    ],
    "dnsPolicy": "ClusterFirst", "restartPolicy": "Never", "securityContext": {},
    "serviceAccountName": "default", "terminationGracePeriodSeconds": 30, "priority": 0,
    "enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority",
}  # fmt: skip
"""What stands beside in every pod, and is read over."""


def run(pods: int = 100_000, nodes: int = 1_000) -> dict[str, Any]:
    """So many pods on so many nodes."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        _imported(place, 500, nodes)
        return {"reference_per_cpu_s": round(reference_per_cpu_s()),
                **_imported(place, pods, nodes)}  # fmt: skip


def _imported(place: Path, pods: int, nodes: int) -> dict[str, Any]:
    files = write(place, pods, nodes)
    journal = place / JOURNAL
    took = command(place, "import", "kubernetes", *files, "--usd-per-hour", "2.5", "--force",
                   "-j", journal)  # fmt: skip
    with open_journal(str(journal)) as opened:
        events, told = len(opened), sha256()
        for event in opened.read():
            told.update(repr(event).encode())
    return {
        "pods": pods, "bytes": sum(file.stat().st_size for file in files), "events": events,
        "events_sha256": told.hexdigest()[:16], "import": took,
        "pods_per_cpu_s": round(pods / took["cpu_s"]),
    }  # fmt: skip


def write(place: Path, pods: int, nodes: int) -> list[Path]:
    """The files of such a cluster."""
    owners, found = list[made.Object](), list[made.Object]()
    while len(found) < pods:
        i = len(found)
        if i % 10 == 0:
            owners.append(made.pytorch_job(f"gang-{i}", GANG, GPUS, created=_at(i, pods)))
            found += _gang(i, pods, nodes)
        elif i % 10 < 9:
            job = f"job-{i}"
            owners.append(_job(job, _at(i, pods)))
            found.append(_pod(f"{job}-0", i, pods, nodes, 1 + i % 4, ("batch/v1", "Job", job)))
        else:
            found.append(_pod(f"web-{i}", i, pods, nodes, 1, ("apps/v1", "ReplicaSet", f"web-{i}")))
    machines = [made.node(f"n{n}", GPUS, at=SPAN_S, since=-86_400) for n in range(nodes)]
    files = {"nodes.json": machines, "pods.json": found[:pods], "owners.json": owners}
    for name, objects in files.items():
        (place / name).write_text(json.dumps(made.listed(*objects)))
    return [place / name for name in files]


def _at(i: int, pods: int) -> int:
    return i * SPAN_S // pods


def _job(name: str, created: int) -> made.Object:
    spec = {"parallelism": 1, "completions": 1, "template": made.template(1)}
    return made.owner("batch/v1", "Job", name, spec, created=created)


def _gang(i: int, pods: int, nodes: int) -> list[made.Object]:
    of = ("kubeflow.org/v1", "PyTorchJob", f"gang-{i}")
    return [_pod(f"gang-{i}-worker-{w}", i, pods, nodes, GPUS, of, seat=i + w) for w in range(GANG)]


def _pod(  # noqa: PLR0917 - all of them are needed, in this order
    name: str, i: int, pods: int, nodes: int, gpus: int, owner: tuple[str, str, str],
    seat: int | None = None,
) -> made.Object:  # fmt: skip
    """Submitted evenly over the time, started within minutes, for up to three hours."""
    created = _at(i, pods)
    labels = {"app": name.partition("-")[0], "team": f"t{i % 20}"}
    rest: dict[str, Any] = {"owner": owner, "created": created, "spec": BESIDE, "labels": labels}
    if i % 20 == 7:
        return made.pod(name, gpus, message="0/1000 nodes are available: 1000 Insufficient"
                        " nvidia.com/gpu.", **rest)  # fmt: skip
    bound, lasts = created + i % 300, 60 + i * 7919 % 10_800
    end = bound + 20 + lasts
    over = {"end": end, "phase": "Failed" if i % 9 == 4 else "Succeeded"} if end < SPAN_S else {}
    return made.pod(name, gpus, on=f"n{(i if seat is None else seat) % nodes}", bound=bound,
                    up=bound + 20, **over, **rest)  # fmt: skip
