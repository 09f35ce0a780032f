"""A real cluster observed while pods come, end, are preempted and deleted; then counted by hand.

Observers are killed and started again. The count by hand is made of a watch of its own, which
shares nothing with the product: what every pod held, by the times in the pod.
"""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.ledger.sums import amounts
from tests.rigs.kubernetes.cluster import ADMIN, Cluster, Object
from tests.rigs.kubernetes.wanted import GPU, gang, node, pod
from tidemill import api
from tidemill.journal import open_journal
from tidemill.journal.moments import Calendar
from tidemill.ledger.buckets import ALLOCATED, Bucket
from tidemill.ledger.statement import Statement
from tidemill.model.events import JobFailed, JobSubmitted, Why
from tidemill.model.measures import WHOLE_MILLI
from tidemill.model.states import JobState

PODS = "/api/v1/namespaces/ml/pods"
PATIENCE_S = 60
SEEN_LATER_MS = 10_000


class Recorder:
    """The last word on every pod, by a watch of its own."""

    def __init__(self, rig: Cluster) -> None:
        self.pods: dict[str, Object] = {}
        self.deleted: set[str] = set()
        trusted = ssl.create_default_context(cafile=str(rig.authority))
        self._connection = http.client.HTTPSConnection("127.0.0.1", rig.port, context=trusted)
        self._connection.request(
            "GET", "/api/v1/pods?watch=true", headers={"Authorization": f"Bearer {ADMIN}"}
        )
        answer = self._connection.getresponse()
        self._thread = threading.Thread(target=self._read, args=(answer,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the watch."""
        self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _read(self, answer: http.client.HTTPResponse) -> None:
        try:
            for line in answer:
                told = json.loads(line)
                uid = told["object"]["metadata"]["uid"]
                self.pods[uid] = told["object"]
                if told["type"] == "DELETED":
                    self.deleted.add(uid)
        except (OSError, ValueError, http.client.HTTPException):
            pass  # the test is over
        finally:
            answer.close()
            self._connection.close()

    def held_ms(self, begins_ms: int, until_ms: int) -> Counter[str]:
        """GPU-milliseconds by the job that a pod says it is of, between two moments.

        One that was deleted while it ran held its GPUs until somebody asked for that: kwok lets go
        at once.
        """
        found = Counter[str]()
        for uid, one in self.pods.items():
            start_ms = _condition_ms(one, "PodScheduled")
            if "nodeName" not in one["spec"] or start_ms is None:
                continue
            ends = [
                _ms(status["state"]["terminated"]["finishedAt"])
                for status in one["status"].get("containerStatuses", ())
                if "terminated" in status["state"]
            ]
            if not ends and uid in self.deleted:
                ends = [_ms(one["metadata"]["deletionTimestamp"])]
            end_ms = min(max(ends, default=until_ms), until_ms)
            gpus = int(one["spec"]["containers"][0]["resources"]["limits"][GPU])
            found[_job(one)] += gpus * max(0, end_ms - max(start_ms, begins_ms))
        return found

    def cut_short(self) -> set[str]:
        """The jobs of pods that were deleted while they ran: by seconds nobody knows when."""
        return {
            _job(one) for uid, one in self.pods.items()
            if uid in self.deleted and one["status"]["phase"] == "Running"
        }  # fmt: skip

    def preempted(self) -> set[str]:
        """The jobs of pods that say that the scheduler preempted them."""
        return {
            _job(one)
            for one in self.pods.values()
            for condition in one["status"].get("conditions", ())
            if condition.get("reason") == "PreemptionByScheduler"
        }


def _job(one: Object) -> str:
    labels = one["metadata"].get("labels", {})
    name = labels.get("batch.kubernetes.io/job-name") or labels.get("scheduling.x-k8s.io/pod-group")
    return f"{one['metadata']['namespace']}/{name or one['metadata']['name']}"


def _condition_ms(one: Object, kind: str) -> int | None:
    for condition in one["status"].get("conditions", ()):
        if condition["type"] == kind and condition["status"] == "True":
            return _ms(condition["lastTransitionTime"])
    return None


def _ms(told: str) -> int:
    return int(datetime.fromisoformat(told).timestamp()) * 1000


class Watching:
    """One observer after the other, as people start it, on one journal."""

    def __init__(self, rig: Cluster, journal: Path) -> None:
        self._rig, self.journal = rig, journal
        self._said = journal.with_suffix(".jsonl")
        self.start()

    def start(self) -> None:
        """Another observer goes on."""
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidemill", "observe", "kubernetes", "--json",
                 "--kubeconfig", str(self._rig.kubeconfig), "-j", str(self.journal),
                 "--usd-per-hour", "2.50", "--every", "1s", "--lateness", "3s"],
                stdout=said, env=os.environ | {"PYTHONFAULTHANDLER": "1"},
            )  # fmt: skip

    def tell(self) -> None:
        """Wait until everything that was so before this is told."""
        now_ms = _now_ms(self._rig) + 1000
        self._rig.wait_for("it is told", lambda: self.told_ms() >= now_ms, PATIENCE_S)

    def told_ms(self) -> int:
        """Up to when the journal tells."""
        lines = self._said.read_bytes().splitlines()
        return int(json.loads(lines[-1])["told_up_to_ms"]) if lines else 0

    def kill(self) -> None:
        """SIGKILL, wherever it is."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)

    def stop(self) -> None:
        """SIGTERM; if it does not end it shows where it stands."""
        self._process.send_signal(signal.SIGTERM)
        try:
            assert self._process.wait(PATIENCE_S) == 0
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)
            self._process.wait(10)
            raise


def _now_ms(rig: Cluster) -> int:
    """The cluster's clock, by a thing that is made now."""
    made = rig.ask("POST", "/api/v1/namespaces/web/events", EVENT)
    return _ms(made["metadata"]["creationTimestamp"])


EVENT: Object = {
    "metadata": {"generateName": "now-"},
    "involvedObject": {"kind": "Pod", "name": "none", "namespace": "web"},
    "reason": "Asked",
}


class Observed(NamedTuple):
    """What observers wrote, and what was counted beside them."""

    journal: Path
    held_ms: Counter[str]
    begins_ms: int
    blind_ms: int
    """Up to when the journal told when a pod was deleted that nobody saw."""
    preempted: set[str]
    """The jobs of pods that the scheduler preempted."""
    cut_short: set[str]
    """The jobs of pods that were deleted while they ran."""


@pytest.fixture(scope="module")
def observed(started: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """A story of some seconds with three observers, two of which are killed."""
    rig, journal = started, tmp_path_factory.mktemp("observed") / "fleet.sqlite"
    rig.add_nodes(*(node(f"n{i}") for i in range(3)))
    rig.kubectl("create", "priorityclass", "above", "--value=1000")
    recorder, watching = Recorder(rig), Watching(rig, journal)
    watching.tell()
    rig.create("/apis/batch/v1/namespaces/ml/jobs", gang("gang", 2, 8))
    rig.create(PODS, pod("ends", 2), pod("fails", 2), pod("deleted", 2), pod("unseen", 2))
    rig.wait_until_running("ml", 6)
    watching.tell()
    watching.kill()  # and what ends meanwhile is still there to be read
    for name, end in (("ends", "Succeeded"), ("fails", "Failed")):
        rig.annotate("ml", name, ends=end)
    rig.wait_for("both have ended", lambda: {*rig.phases("ml").values()} >= {"Succeeded", "Failed"})
    rig.create(PODS, pod("born-unwatched", 4))
    rig.wait_until_running("ml", 5)
    watching.start()
    watching.tell()
    rig.delete_pod("ml", "deleted")
    first = next(name for name in rig.pods("ml") if name.startswith("gang-"))
    rig.delete_pod("ml", first)  # the Job makes another one
    rig.wait_until_running("ml", 4)
    watching.tell()
    watching.kill()
    blind_ms = watching.told_ms()
    rig.delete_pod("ml", "unseen")
    watching.start()
    watching.tell()
    there = rig.pods("ml")["born-unwatched"]["spec"]["nodeName"]
    here = {"kubernetes.io/hostname": there}
    rig.create(PODS, pod("urgent", 8, priorityClassName="above", nodeSelector=here))
    rig.wait_for("it runs", lambda: rig.phases("ml").get("urgent") == "Running")
    interleaved = [f"{one}-{i}" for i in range(4) for one in ("left", "right")]
    watching.tell()
    rig.clear()
    watching.tell()
    rig.add_nodes(*(node(f"m{i}") for i in range(3)))
    for name in interleaved:
        label = {"labels": {"scheduling.x-k8s.io/pod-group": name[:-2]}}
        rig.create(PODS, pod(name, 4, metadata=label))
    rig.wait_until_running("ml", 6)
    watching.tell()
    watching.stop()
    begins_ms = _begins_ms(journal)
    held_ms = recorder.held_ms(begins_ms, watching.told_ms())
    recorder.close()
    yield Observed(
        journal, held_ms, begins_ms, blind_ms, recorder.preempted(), recorder.cut_short()
    )
    rig.clear()


def _begins_ms(journal: Path) -> int:
    with open_journal(str(journal)) as opened:
        begins = Calendar.of(opened.facts()).begins
    assert begins is not None
    return round(begins.timestamp() * 1000)


def allocated(statement: Statement) -> Counter[str]:
    """GPU-milliseconds that a journal has as held, by the name that the cluster has for a job."""
    found = Counter[str]()
    for (bucket, j), amount in amounts(statement, "bucket", "job").items():
        if bucket in ALLOCATED:
            found[statement.world.job_names[j].partition("#")[0]] += amount
    return Counter({name: amount // WHOLE_MILLI for name, amount in found.items()})


def test_what_was_observed_is_what_pods_say(observed: Observed):
    """GPU-time by job against a count by hand, exactly; but for what was deleted unobserved."""
    found = allocated(api.read_statement(str(observed.journal)))
    by_hand = +observed.held_ms
    lost = by_hand.pop("ml/unseen") - found.pop("ml/unseen")
    assert found == by_hand
    assert lost >= 0


def test_what_was_deleted_unobserved_ends_at_the_watermark(observed: Observed):
    """Nobody saw when it was deleted: it is booked up to what was told before, and no more."""
    world = api.read_statement(str(observed.journal)).world
    j = world.job_number["ml/unseen"]
    assert JobState(world.jobs.state.item(j)) not in (JobState.RUNNING, JobState.WAITING)
    ended_ms = observed.begins_ms + world.jobs.since_ms.item(j)
    assert observed.begins_ms < ended_ms <= observed.blind_ms + 2000


def test_paid_is_the_sum_of_the_buckets(observed: Observed):
    """In integers, over nodes that came and went."""
    statement = api.read_statement(str(observed.journal))
    total = statement.total().paid_milli_ms
    assert sum(amounts(statement, "bucket").values()) == total > 0


def states(observed: Observed) -> dict[str, str]:
    """How jobs stand in the journal, by name."""
    world = api.read_statement(str(observed.journal)).world
    return {
        name: JobState(world.jobs.state.item(j)).name
        for j, name in enumerate(world.job_names[: world.job_count])
    }


def test_jobs_end_as_their_pods_ended(observed: Observed):
    """Done, failed, deleted, and one that the scheduler preempted for a more urgent one."""
    found = states(observed)
    assert found["ml/ends"] == "DONE"
    assert found["ml/fails"] == "FAILED"
    assert found["ml/deleted"] == "CANCELLED"
    assert not [name for name in found if "#" in name], found


def test_a_preempted_job_is_told_so(observed: Observed):
    """What the scheduler preempted for a more urgent pod is told as preempted, and nothing else."""
    with open_journal(str(observed.journal)) as opened:
        told = [*opened.read()]
    names = [one.job.name for one in told if isinstance(one, JobSubmitted)]
    why = {names[one.job]: one.why for one in told if isinstance(one, JobFailed)}
    assert observed.preempted == {"ml/born-unwatched"}
    assert {name for name, one in why.items() if one is Why.PREEMPTED} == observed.preempted


def printed(*arguments: str) -> dict[str, Any]:
    """What a command answers as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "tidemill", *arguments, "--json"], capture_output=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_mutual_deadlock_is_found(observed: Observed):
    """Two gangs of 16 GPUs hold 12 each of 24, placed by the real scheduler: both are named."""
    found = printed("pending", str(observed.journal))
    partial = {one["job"]: one for one in found["partial_gangs"]}
    assert set(partial) == {"ml/left", "ml/right"}
    (deadlock,) = found["deadlocks"]
    assert {"ml/left", "ml/right"} <= set(deadlock["jobs"])
    stopped = re.match(r"stop `ml/(left|right)` and start it again later: ", deadlock["way_out"])
    assert stopped, deadlock["way_out"]
    other = {"left": "right", "right": "left"}[stopped[1]]
    assert deadlock["way_out"].count(f"`ml/{other}`") == 1


def test_a_partial_gang_counts_as_not_started(observed: Observed):
    """What the two hold is paid and does no work: in the bucket of starting, all of it."""
    statement = api.read_statement(str(observed.journal))
    world = statement.world
    numbers = {world.job_number[f"ml/{name}"] for name in ("left", "right")}
    held = {
        Bucket(bucket)
        for (bucket, j), amount in amounts(statement, "bucket", "job").items()
        if j in numbers and amount and bucket in ALLOCATED
    }
    assert held == {Bucket.STARTING}
