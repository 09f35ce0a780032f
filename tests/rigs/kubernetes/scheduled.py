"""A scheduler of ours on a real cluster, as a process that can be killed; and what must be so.

What must be so is read from the API server and from the journal by plain loops that share nothing
with the product's comparison.
"""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.conftest import ROOT
from tests.rigs.kubernetes import cluster
from tests.rigs.kubernetes.cluster import DIE_WITH_US, Cluster
from tidemill.journal import open_journal
from tidemill.journal.replay import rebuild
from tidemill.model.states import ACTIVE, NodeState

Object = dict[str, Any]
OURS = "tidemill"
MOST_SAID = 20_000
ACCELERATORS = "nvidia.com/"
"""How the resources of the rig's nodes begin that count accelerators, or parts of them."""


class Child(Protocol):
    """A process that was started, as far as it is looked at here."""

    pid: int

    def poll(self) -> int | None:
        """How it ended; None: it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; how."""

    def kill(self) -> None:
        """End it in the middle of whatever it does."""

    def send_signal(self, number: int, /) -> None:
        """Send it a signal."""


class Process:
    """One scheduler that runs, under a service account with the rights of the manifest."""

    def __init__(
        self, rig: Cluster, folder: Path, *options: str, port: int | None = None,
        off: Path | None = None,
    ) -> None:  # fmt: skip
        """``off``: the file that says by how much its clock is off (``off_clock``)."""
        self.rig, self.folder, self._options, self._port = rig, folder, options, port
        self._before = ("tests.rigs.kubernetes.off_clock", str(off)) if off is not None else ()
        self.journal = str(folder / "scheduler.sqlite")
        self.process: Child | None = None
        self.said = folder / "scheduler.log"

    def start(self, *more: str) -> None:
        """Start it; it runs until killed."""
        path = self.folder / "kubeconfig-scheduler"
        path.write_text(json.dumps(self.rig.config({"token": token(self.rig)}, port=self._port)))
        command = ["schedule", "kubernetes", "-j", self.journal, "--kubeconfig", str(path)]
        self.process = self.launch([*command, *self._options, *more], self.said)

    def launch(self, command: list[str], log: Path) -> Child:
        """Start a command of Tidemill, as a process of its own."""
        with log.open("ab") as opened:
            return subprocess.Popen(
                [*DIE_WITH_US, sys.executable, "-m", *self._before, "tidemill", *command],
                stdin=subprocess.DEVNULL, stdout=opened, stderr=opened, cwd=ROOT,
            )  # fmt: skip

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        assert self.process is not None, "it was started"
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        """End it in good order."""
        assert self.process is not None, "it was started"
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def lines(self) -> list[Object]:
        """What it logged; a line that is being written is not read yet."""
        told = self.said.read_text() if self.said.exists() else ""
        whole = told.rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in whole if line.startswith("{")]

    def has_logged(self, event: str) -> bool:
        """Whether it has logged an event."""
        return any(line["event"] == event for line in self.lines())

    def wait_for(self, event: str) -> None:
        """Until it has logged an event since it was started last."""
        self.rig.wait_for(f"the scheduler says {event}", lambda: self._has_said(event), 120)

    def _has_said(self, event: str) -> bool:
        assert self.process is not None, "it was started"
        assert self.process.poll() is None, self.said.read_text()
        return self.has_logged(event)


def token(rig: Cluster) -> str:
    """A token of the scheduler's service account."""
    path = "/api/v1/namespaces/tidemill/serviceaccounts/scheduler/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    found: str = rig.ask("POST", path, asked)["status"]["token"]
    return found


@contextmanager
def ready_rig(folder: Path, *api_flags: str) -> Iterator[Cluster]:
    """A cluster of its own with a namespace and the roles of the manifests, stopped at the end."""
    with cluster.running(folder / "rig", *api_flags) as rig:
        rig.create("/api/v1/namespaces", {"metadata": {"name": "ml"}})
        for name in ("observe", "schedule"):
            rig.kubectl("apply", "-f", str(ROOT / "deploy" / "kubernetes" / f"{name}.yaml"))
        yield rig


@contextmanager
def scheduling(
    rig: Cluster, folder: Path, *options: str, port: int | None = None
) -> Iterator[Process]:
    """A scheduler that runs, stopped at the end whatever happened."""
    made = Process(rig, folder, *options, port=port)
    made.start()
    try:
        yield made
    except BaseException:
        print(made.said.read_text()[-MOST_SAID:])  # beside the failure
        raise
    finally:
        if made.process is not None and made.process.poll() is None:
            made.kill()


# What must be so --------------------------------------------------------------------------------


def accelerators(pod: Object) -> Counter[str]:
    """What a pod requests, by resource."""
    found = Counter[str]()
    for container in pod["spec"]["containers"]:
        for name, count in container["resources"].get("limits", {}).items():
            if name.startswith(ACCELERATORS):
                found[name] += int(count)
    return found


def gpus(pod: Object) -> int:
    """What a pod requests of whatever it requests."""
    return accelerators(pod).total()


def live(rig: Cluster) -> list[Object]:
    """Pods that have not ended."""
    pods = rig.items("/api/v1/pods")
    return [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]


def gang_of(pod: Object) -> str:
    """The Job or annotation that makes pods of ours a gang; "": none."""
    owners = pod["metadata"].get("ownerReferences", ())
    told = pod["metadata"].get("annotations", {}).get("tidemill/gang", "")
    is_indexed = "batch.kubernetes.io/job-completion-index" in pod["metadata"].get("labels", {})
    name = next((one["name"] for one in owners if is_indexed), told)
    return f"{pod['metadata']['namespace']}/{name}" if name else ""


def over_committed(rig: Cluster) -> dict[str, int]:
    """Nodes with more in use than they have (GPUs, milli-CPUs, MiB, pods), and by how much."""
    used = dict[str, Counter[str]]()
    for pod in live(rig):
        asked = used.setdefault(pod["spec"].get("nodeName", ""), Counter())
        asked.update(accelerators(pod) + Counter(pods=1))
        for container in pod["spec"]["containers"]:
            requests = container["resources"].get("requests", {})
            asked.update({key: _AMOUNTS[key](requests.get(key, "0")) for key in _AMOUNTS})
    found = dict[str, int]()
    for node in rig.items("/api/v1/nodes"):
        has = Counter({key: _AMOUNTS.get(key, int)(n)
                       for key, n in node["status"]["allocatable"].items()
                       if key.startswith((ACCELERATORS, *_AMOUNTS, "pods"))})  # fmt: skip
        if over := used.get(node["metadata"]["name"], Counter[str]()) - has:
            found[node["metadata"]["name"]] = over.total()
    return found


def _milli(cpus: str) -> int:
    """A quantity of CPUs in thousandths, as people write them."""
    return int(cpus[:-1]) if cpus.endswith("m") else round(1000 * float(cpus))


def _mib(memory: str) -> int:
    """A quantity of memory in MiB, as the rigs write it and the API server gives it back."""
    shift = {"Mi": 0, "Gi": 10, "Ti": 20}.get(memory[-2:])
    return int(memory) >> 20 if shift is None else int(memory[:-2]) << shift


_AMOUNTS: dict[str, Callable[[str], int]] = {"cpu": _milli, "memory": _mib}


def in_part(rig: Cluster) -> dict[str, tuple[int, int]]:
    """Gangs of ours of which some pods are bound and others are not."""
    bound, pods = Counter[str](), Counter[str]()
    for pod in live(rig):
        if pod["spec"].get("schedulerName") == OURS and (name := gang_of(pod)):
            pods[name] += 1
            bound[name] += bool(pod["spec"].get("nodeName"))
    return {name: (bound[name], pods[name]) for name in pods if bound[name] % pods[name]}


def held_in_cluster(rig: Cluster) -> Counter[tuple[str, int]]:
    """How many pods with how many GPUs each node carries, of those with GPUs."""
    return Counter(
        (pod["spec"]["nodeName"], gpus(pod))
        for pod in live(rig)
        if pod["spec"].get("nodeName") and gpus(pod)
    )


def held_in_journal(journal: str) -> Counter[tuple[str, int]]:
    """The same, as the journal alone tells it."""
    with open_journal(journal) as opened:
        world = rebuild(opened)
    found = Counter[tuple[str, int]]()
    for j, pieces in world.placements.items():
        assert world.jobs.state[j] in ACTIVE
        for piece in pieces:
            each = world.shape_of(j).roles[piece.role].accelerators
            if each:
                assert world.nodes.state[piece.node] != NodeState.GONE
                name = world.node_rows[piece.node].name.partition("#")[0].partition("/")[0]
                found[name, each] += piece.replicas
    return found


def placed_in_cluster(rig: Cluster) -> dict[str, Counter[str]]:
    """Where the pods of each gang of ours, and of each bare pod of ours with GPUs, are."""
    found = dict[str, Counter[str]]()
    for pod in live(rig):
        is_ours = pod["spec"].get("schedulerName") == OURS and gpus(pod)
        is_bare = not pod["metadata"].get("ownerReferences")
        name = gang_of(pod) or (_name(pod) if is_bare else "")
        if is_ours and name and pod["spec"].get("nodeName"):
            found.setdefault(name, Counter())[pod["spec"]["nodeName"]] += 1
    return found


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def placed_in_journal(journal: str) -> dict[str, Counter[str]]:
    """Where the replicas of each job are, as the journal alone tells it."""
    with open_journal(journal) as opened:
        world = rebuild(opened)
    found = dict[str, Counter[str]]()
    for j, pieces in world.placements.items():
        told = found.setdefault(world.job_names[j].partition("#")[0], Counter())
        for piece in pieces:
            node = world.node_rows[piece.node].name.partition("#")[0].partition("/")[0]
            told[node] += piece.replicas
    return found


def wrong(rig: Cluster, journal: str) -> list[str]:
    """Everything that must not be, in words; empty when all is as it must be."""
    placed = placed_in_journal(journal)
    found = [
        f"{name} is on {dict(where)}, the journal says {dict(placed.get(name, Counter()))}"
        for name, where in placed_in_cluster(rig).items()
        if placed.get(name) != where
    ]
    found += [f"{name} is over-committed by {over}" for name, over in over_committed(rig).items()]
    found += [f"{name} is bound in part: {of}" for name, of in in_part(rig).items()]
    here, told = held_in_cluster(rig), held_in_journal(journal)
    found += [f"only the cluster has {one}" for one in here - told]
    found += [f"only the journal has {one}" for one in told - here]
    return found
