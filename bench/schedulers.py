"""The schedulers that are put side by side on a real cluster: how each is started, and fed.

One row of the table for each: what it needs in the cluster, the processes that it consists of, and
what has to be created for a pod and for a gang. All of them act as the administrator and none is
held back by a limit on requests of its own client (kube-scheduler's is 50 per second, the job
controller's 20, Kueue's 300): the API server is what they share.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import tidemill
from bench import kueue
from tests.rigs.kubernetes.cluster import ALONE, Cluster
from tests.rigs.kubernetes.traffic import UNIT, Object, Sent, Unit
from tests.rigs.kubernetes.wanted import GPU, pod

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
POD_GROUPS = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups"
GATES = "GenericWorkload=true,GangScheduling=true"
JOURNAL = "scheduler.sqlite"
"""Of our own scheduler, among the files of a rig."""
API_FLAGS = (
    f"--feature-gates={GATES}", "--runtime-config=scheduling.k8s.io/v1alpha2=true",
    "--disable-admission-plugins=TaintNodesByCondition",
)  # fmt: skip
"""The same API server for all: it knows pod groups, and takes nodes that say they are Ready."""


class Scheduler(NamedTuple):
    """One that can be started on a rig."""

    name: str
    programs: tuple[str, ...]
    """The processes that it consists of."""
    start: Callable[[Cluster], None]
    """Start its processes (again)."""
    single: Callable[[str, Object], Unit]
    """A pod by itself."""
    gang: Callable[[str, Sequence[Object]], Unit]
    """Pods that have to start together, as far as this scheduler can be told so."""
    install: Callable[[Cluster], None] = lambda _: None
    """What it needs in the cluster, once."""
    missing: Callable[[], str] = lambda: ""
    """Why it cannot be started here; empty where it can."""
    may_be_stopped: bool = True
    """Pods are taken while it stands still: it has no webhooks."""
    fewer_singles: int = 1
    """So many times fewer pods by themselves are put to it, to end in time."""


def pod_of(unit: str, name: str, gpus: int = 1) -> Object:
    """A pod of a unit of work."""
    return pod(name, gpus, namespace=NAMESPACE, metadata={"labels": {UNIT: unit}})


def plain_single(name: str, wanted: Object) -> Unit:
    """A pod as it is."""
    return Unit(name, 1, (Sent(name, PODS, wanted),))


def loose_gang(name: str, pods: Sequence[Object]) -> Unit:
    """Pods of which nobody is told that they belong together."""
    return Unit(name, len(pods), tuple(Sent(name, PODS, one) for one in pods))


def grouped(name: str, pods: Sequence[Object]) -> Unit:
    """Pods of a PodGroup, which Kubernetes itself knows since 1.36."""
    policy = {"gang": {"minCount": len(pods)}}
    group = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}
    told = [
        one | {"spec": one["spec"] | {"schedulingGroup": {"podGroupName": name}}} for one in pods
    ]
    sent = (Sent(name, POD_GROUPS, group), *(Sent(name, PODS, one) for one in told))
    return Unit(name, len(pods), sent)


def start_kube_scheduler(rig: Cluster, *flags: str, profiles: Sequence[Object] = ()) -> None:
    """The scheduler of the release, without a limit on its requests."""
    path = rig.folder / "kube-scheduler.json"
    told = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(rig.kubeconfig), "qps": 5000, "burst": 5000},
    }
    path.write_text(json.dumps(told | ({"profiles": [*profiles]} if profiles else {})))
    rig.daemon("kube-scheduler", f"--config={path}", "--secure-port=0", *flags)


def _start_native(rig: Cluster) -> None:
    start_kube_scheduler(rig, f"--feature-gates={GATES}")


def _start_packing(rig: Cluster) -> None:
    """Fullest node first, by GPUs alone: what its documentation names for packing."""
    strategy = {"type": "MostAllocated", "resources": [{"name": GPU, "weight": 1}]}
    arguments = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    others = ("NodeResourcesBalancedAllocation", "PodTopologySpread", "ImageLocality")
    plugins = {"score": {"disabled": [{"name": name} for name in others]}}
    profile = {"schedulerName": "default-scheduler", "pluginConfig": [arguments]}
    start_kube_scheduler(rig, profiles=[profile | {"plugins": plugins}])


def _start_kueue(rig: Cluster) -> None:
    rig.daemon(
        "kube-controller-manager", f"--kubeconfig={rig.kubeconfig}", *ALONE,
        "--controllers=job-controller", "--kube-api-qps=5000", "--kube-api-burst=5000",
    )  # fmt: skip
    start_kube_scheduler(rig)
    kueue.start(rig, NAMESPACE)


def _start_ours(rig: Cluster) -> None:
    """Tidemill as it is beside this file, with its journal beside the files of the rig."""
    source = f"PYTHONPATH={Path(tidemill.__file__).parents[1]}"
    rig.daemon(
        "tidemill", "schedule", "kubernetes", "-j", str(rig.folder / JOURNAL),
        "--kubeconfig", str(rig.kubeconfig),
        command=("/usr/bin/env", source, sys.executable, "-m", "tidemill"),
    )  # fmt: skip


def _ours(wanted: Object, **annotations: str) -> Object:
    told = {f"tidemill/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = wanted["metadata"] | {"annotations": told}
    return wanted | {"metadata": metadata, "spec": wanted["spec"] | {"schedulerName": "tidemill"}}


def _our_single(name: str, wanted: Object) -> Unit:
    return plain_single(name, _ours(wanted))


def _our_gang(name: str, pods: Sequence[Object]) -> Unit:
    return loose_gang(name, [_ours(one, gang=name, gang_size=str(len(pods))) for one in pods])


KUBE = Scheduler(
    "kube-scheduler", ("kube-scheduler",), start_kube_scheduler, plain_single, loose_gang
)
NATIVE = Scheduler(
    "kube-scheduler, native gangs", ("kube-scheduler",), _start_native, plain_single, grouped
)
KUEUE = Scheduler(
    "Kueue, job controller, kube-scheduler",
    ("kueue", "kube-controller-manager", "kube-scheduler"),
    _start_kueue, kueue.single, kueue.job, kueue.install, kueue.missing,
    may_be_stopped=False, fewer_singles=10,
)  # fmt: skip
KUBE_PACKING = KUBE._replace(name="kube-scheduler, MostAllocated GPUs", start=_start_packing)
OURS = Scheduler("tidemill", ("tidemill",), _start_ours, _our_single, _our_gang)
SCHEDULERS = (KUBE, NATIVE, KUEUE, OURS)
PACKERS = (KUBE, KUBE_PACKING, OURS)
"""Those whose choice of nodes is their own: Kueue leaves it to kube-scheduler."""
